from otter.test_files import test_case

OK_FORMAT = False

name = "state_gradient"
points = None

@test_case(points=2, hidden=False)
def examples(state_gradient):
    from autograder import checks
    checks.run('state_gradient.examples', 'same_values', {'name': 'state_gradient', 'rule': 'state_gradient', 'cases': ['two sequences', 'a batch of one'], 'seed': 53, 'tolerance': 1e-09}, function=state_gradient)

