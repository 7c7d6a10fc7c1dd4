from otter.test_files import test_case

OK_FORMAT = False

name = "shift"
points = None

@test_case(points=1, hidden=False)
def examples(shift_right):
    from autograder import checks
    checks.run('shift.examples', 'same_values', {'name': 'shift_right', 'rule': 'shift_right', 'cases': ['one answer of two digits', 'three answers'], 'seed': 142, 'tolerance': 0}, function=shift_right)

