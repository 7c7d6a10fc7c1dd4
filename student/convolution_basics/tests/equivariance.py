from otter.test_files import test_case

OK_FORMAT = False

name = "equivariance"
points = None

@test_case(points=1, hidden=False)
def errors(shift_error):
    from autograder import checks
    checks.run('equivariance.errors', 'same_values', {'name': 'shift_error', 'rule': 'shift_error', 'cases': ['circular padding, shift 3', 'zero padding, shift 2', 'zero padding, shift 2, margin 3', 'max pooling, shift 2 expected as 1', 'max pooling, shift 1 expected as 0'], 'seed': 75, 'tolerance': 1e-05}, function=shift_error)

@test_case(points=1, hidden=False)
def steps(equivariance_step):
    from autograder import checks
    checks.run('equivariance.steps', 'same_values', {'name': 'equivariance_step', 'rule': 'equivariance_step', 'cases': ['a convolution with circular padding', 'a convolution with zero padding', 'max pooling', 'global pooling'], 'seed': 75, 'tolerance': 1e-05}, function=equivariance_step)

