from otter.test_files import test_case

OK_FORMAT = False

name = "split"
points = None

@test_case(points=1, hidden=False)
def examples(split_windows):
    from autograder import checks
    checks.run('split.examples', 'same_values', {'name': 'split_windows', 'rule': 'split_windows', 'cases': ['12 values, windows of 3, 4 held out', '60 values, windows of 8, 20 held out'], 'seed': 117, 'tolerance': 0}, function=split_windows)

