from otter.test_files import test_case

OK_FORMAT = False

name = "cnn"
points = None

@test_case(points=1, hidden=False)
def output_shape(CNN):
    from autograder import checks
    checks.run('cnn.output_shape', 'output_shape', {'name': 'CNN', 'input_shape': [1, 28, 28], 'batches': [1, 2, 7], 'outputs': 10}, model=CNN)

@test_case(points=1, hidden=False)
def parameter_budget(CNN):
    from autograder import checks
    checks.run('cnn.parameter_budget', 'parameter_budget', {'name': 'CNN', 'input_shape': [1, 28, 28], 'seed': 7, 'smallest': 10000, 'largest': 25000}, model=CNN)

@test_case(points=1, hidden=False)
def convolution(CNN):
    from autograder import checks
    checks.run('cnn.convolution', 'convolution', {'name': 'CNN', 'input_shape': [1, 28, 28], 'seed': 7, 'smallest': 1}, model=CNN)

@test_case(points=1, hidden=False)
def nonlinearity(CNN):
    from autograder import checks
    checks.run('cnn.nonlinearity', 'nonlinearity', {'name': 'CNN', 'input_shape': [1, 28, 28], 'seed': 7, 'smallest': 0.001}, model=CNN)

@test_case(points=1, hidden=False)
def logits(CNN):
    from autograder import checks
    checks.run('cnn.logits', 'logits', {'name': 'CNN', 'input_shape': [1, 28, 28], 'seed': 7, 'row_sum': 0.001}, model=CNN)

@test_case(points=1, hidden=False)
def gradient_reach(CNN):
    from autograder import checks
    checks.run('cnn.gradient_reach', 'gradient_reach', {'name': 'CNN', 'input_shape': [1, 28, 28], 'outputs': 10, 'seed': 7}, model=CNN)

