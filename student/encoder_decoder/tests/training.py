from otter.test_files import test_case

OK_FORMAT = False

name = "training"
points = None

@test_case(points=1, hidden=False)
def translations(model):
    from autograder import checks
    checks.run('training.translations', 'translation_accuracy', {'name': 'model', 'count': 300, 'length': 7, 'seed': 148, 'smallest': 0.5}, model=model)

@test_case(points=0.5, hidden=False)
def trained_no_look_ahead(model):
    from autograder import checks
    checks.run('training.trained_no_look_ahead', 'no_look_ahead', {'name': 'model', 'lengths': [7, 8], 'seed': 148, 'tolerance': 1e-05}, model=model)

@test_case(points=0.5, hidden=False)
def trained_reads_the_source(model):
    from autograder import checks
    checks.run('training.trained_reads_the_source', 'reads_the_source', {'name': 'model', 'lengths': [7, 8], 'seed': 148, 'smallest': 1e-05}, model=model)

