from otter.test_files import test_case

OK_FORMAT = False

name = "lstm"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(LSTM):
    from autograder import checks
    checks.run('lstm.output_shape', 'output_shape', {'name': 'LSTM', 'input_shape': [25, 4], 'batches': [1, 2, 7], 'outputs': 3}, model=LSTM)

@test_case(points=0.5, hidden=False)
def parameter_budget(LSTM):
    from autograder import checks
    checks.run('lstm.parameter_budget', 'parameter_budget', {'name': 'LSTM', 'input_shape': [25, 4], 'seed': 37, 'smallest': 16435, 'largest': 18165}, model=LSTM)

@test_case(points=1, hidden=False)
def matched_parameters(RNN, LSTM):
    from autograder import checks
    checks.run('lstm.matched_parameters', 'matched_parameters', {'names': ['RNN', 'LSTM'], 'input_shape': [25, 4], 'seed': 37, 'tolerance': 0.05}, first=RNN, second=LSTM)

@test_case(points=1, hidden=False)
def gated_recurrence(LSTM):
    from autograder import checks
    checks.run('lstm.gated_recurrence', 'gated_recurrence', {'name': 'LSTM', 'input_shape': [25, 4], 'seed': 37, 'layers': 1}, model=LSTM)

@test_case(points=0.5, hidden=False)
def sequence_order(LSTM):
    from autograder import checks
    checks.run('lstm.sequence_order', 'sequence_order', {'name': 'LSTM', 'input_shape': [25, 4], 'seed': 37, 'smallest': 0.0001}, model=LSTM)

@test_case(points=1, hidden=False)
def sequence_reach(LSTM):
    from autograder import checks
    checks.run('lstm.sequence_reach', 'sequence_reach', {'name': 'LSTM', 'input_shape': [25, 4], 'seed': 37}, model=LSTM)

@test_case(points=0.5, hidden=False)
def logits(LSTM):
    from autograder import checks
    checks.run('lstm.logits', 'logits', {'name': 'LSTM', 'input_shape': [25, 4], 'seed': 37, 'row_sum': 0.001}, model=LSTM)

@test_case(points=0.5, hidden=False)
def gradient_reach(LSTM):
    from autograder import checks
    checks.run('lstm.gradient_reach', 'gradient_reach', {'name': 'LSTM', 'input_shape': [25, 4], 'outputs': 3, 'seed': 37}, model=LSTM)

