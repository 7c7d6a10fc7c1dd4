from otter.test_files import test_case

OK_FORMAT = False

name = "model"
points = None

@test_case(points=0.5, hidden=False)
def translation_shape(Seq2Seq):
    from autograder import checks
    checks.run('model.translation_shape', 'translation_shape', {'name': 'Seq2Seq', 'sizes': [[2, 7, 8], [1, 7, 1], [5, 3, 12], [4, 12, 4], [3, 1, 2]]}, model=Seq2Seq)

@test_case(points=1, hidden=False)
def no_look_ahead(Seq2Seq):
    from autograder import checks
    checks.run('model.no_look_ahead', 'no_look_ahead', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144, 'tolerance': 1e-05}, model=Seq2Seq)

@test_case(points=1, hidden=False)
def reads_the_past(Seq2Seq):
    from autograder import checks
    checks.run('model.reads_the_past', 'reads_the_past', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144, 'smallest': 1e-05}, model=Seq2Seq)

@test_case(points=1, hidden=False)
def reads_the_source(Seq2Seq):
    from autograder import checks
    checks.run('model.reads_the_source', 'reads_the_source', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144, 'smallest': 1e-05}, model=Seq2Seq)

@test_case(points=0.5, hidden=False)
def source_order(Seq2Seq):
    from autograder import checks
    checks.run('model.source_order', 'source_order', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144, 'smallest': 0.0001}, model=Seq2Seq)

@test_case(points=0.5, hidden=False)
def token_logits(Seq2Seq):
    from autograder import checks
    checks.run('model.token_logits', 'token_logits', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144, 'row_sum': 0.001}, model=Seq2Seq)

@test_case(points=0.5, hidden=False)
def token_gradients(Seq2Seq):
    from autograder import checks
    checks.run('model.token_gradients', 'token_gradients', {'name': 'Seq2Seq', 'lengths': [7, 8], 'seed': 144}, model=Seq2Seq)

