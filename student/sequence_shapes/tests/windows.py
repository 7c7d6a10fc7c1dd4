from otter.test_files import test_case

OK_FORMAT = False

name = "windows"
points = None

@test_case(points=1, hidden=False)
def examples(to_windows):
    from autograder import checks
    checks.run('windows.examples', 'same_values', {'name': 'to_windows', 'rule': 'to_windows', 'cases': ['6 values in windows of 2', '40 values in windows of 8'], 'seed': 116, 'tolerance': 0}, function=to_windows)

