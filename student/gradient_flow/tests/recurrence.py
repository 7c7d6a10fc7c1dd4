from otter.test_files import test_case

OK_FORMAT = False

name = "recurrence"
points = None

@test_case(points=1, hidden=False)
def examples(recurrence):
    from autograder import checks
    checks.run('recurrence.examples', 'same_values', {'name': 'recurrence', 'rule': 'recurrence', 'cases': ['three features', 'as many features as hidden units'], 'seed': 51, 'tolerance': 1e-09}, function=recurrence)

@test_case(points=1, hidden=False)
def gradient(recurrence):
    from autograder import checks
    checks.run('recurrence.gradient', 'same_values', {'name': 'recurrence', 'rule': 'recurrence_gradient', 'cases': ['8 steps', '30 steps'], 'seed': 51, 'tolerance': 1e-09}, function=recurrence)

