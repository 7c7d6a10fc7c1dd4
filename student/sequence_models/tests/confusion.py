from otter.test_files import test_case

OK_FORMAT = False

name = "confusion"
points = None

@test_case(points=1, hidden=False)
def examples(confusion_matrix):
    from autograder import checks
    checks.run('confusion.examples', 'same_values', {'name': 'confusion_matrix', 'rule': 'confusion_matrix', 'cases': ['8 samples of 2 classes', '60 samples of 3 classes'], 'seed': 40, 'tolerance': 0}, function=confusion_matrix)

