from otter.test_files import test_case

OK_FORMAT = False

name = "rnn"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(RNN):
    from autograder import checks
    checks.run('rnn.output_shape', 'output_shape', {'name': 'RNN', 'input_shape': [25, 4], 'batches': [1, 2, 7], 'outputs': 3}, model=RNN)

@test_case(points=0.5, hidden=False)
def parameter_budget(RNN):
    from autograder import checks
    checks.run('rnn.parameter_budget', 'parameter_budget', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36, 'smallest': 16435, 'largest': 18165}, model=RNN)

@test_case(points=1, hidden=False)
def simple_recurrence(RNN):
    from autograder import checks
    checks.run('rnn.simple_recurrence', 'simple_recurrence', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36, 'layers': 1}, model=RNN)

@test_case(points=0.5, hidden=False)
def nonlinearity(RNN):
    from autograder import checks
    checks.run('rnn.nonlinearity', 'nonlinearity', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36, 'smallest': 0.05}, model=RNN)

@test_case(points=0.5, hidden=False)
def sequence_order(RNN):
    from autograder import checks
    checks.run('rnn.sequence_order', 'sequence_order', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36, 'smallest': 0.0001}, model=RNN)

@test_case(points=1, hidden=False)
def sequence_reach(RNN):
    from autograder import checks
    checks.run('rnn.sequence_reach', 'sequence_reach', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36}, model=RNN)

@test_case(points=0.5, hidden=False)
def logits(RNN):
    from autograder import checks
    checks.run('rnn.logits', 'logits', {'name': 'RNN', 'input_shape': [25, 4], 'seed': 36, 'row_sum': 0.001}, model=RNN)

@test_case(points=0.5, hidden=False)
def gradient_reach(RNN):
    from autograder import checks
    checks.run('rnn.gradient_reach', 'gradient_reach', {'name': 'RNN', 'input_shape': [25, 4], 'outputs': 3, 'seed': 36}, model=RNN)

