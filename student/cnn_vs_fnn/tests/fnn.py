from otter.test_files import test_case

OK_FORMAT = False

name = "fnn"
points = None

@test_case(points=1, hidden=False)
def output_shape(FNN):
    from autograder import checks
    checks.run('fnn.output_shape', 'output_shape', {'name': 'FNN', 'input_shape': [1, 28, 28], 'batches': [1, 2, 7], 'outputs': 10}, model=FNN)

@test_case(points=2, hidden=False)
def matched_parameters(CNN, FNN):
    from autograder import checks
    checks.run('fnn.matched_parameters', 'matched_parameters', {'names': ['CNN', 'FNN'], 'input_shape': [1, 28, 28], 'seed': 8, 'tolerance': 0.05}, first=CNN, second=FNN)

@test_case(points=1, hidden=False)
def no_convolution(FNN):
    from autograder import checks
    checks.run('fnn.no_convolution', 'no_convolution', {'name': 'FNN', 'input_shape': [1, 28, 28], 'seed': 8}, model=FNN)

@test_case(points=1, hidden=False)
def nonlinearity(FNN):
    from autograder import checks
    checks.run('fnn.nonlinearity', 'nonlinearity', {'name': 'FNN', 'input_shape': [1, 28, 28], 'seed': 8, 'smallest': 0.001}, model=FNN)

@test_case(points=1, hidden=False)
def logits(FNN):
    from autograder import checks
    checks.run('fnn.logits', 'logits', {'name': 'FNN', 'input_shape': [1, 28, 28], 'seed': 8, 'row_sum': 0.001}, model=FNN)

@test_case(points=1, hidden=False)
def gradient_reach(FNN):
    from autograder import checks
    checks.run('fnn.gradient_reach', 'gradient_reach', {'name': 'FNN', 'input_shape': [1, 28, 28], 'outputs': 10, 'seed': 8}, model=FNN)

