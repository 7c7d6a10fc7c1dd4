from otter.test_files import test_case

OK_FORMAT = False

name = "transformer"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(Transformer):
    from autograder import checks
    checks.run('transformer.output_shape', 'output_shape', {'name': 'Transformer', 'input_shape': [25, 4], 'batches': [1, 2, 7], 'outputs': 3}, model=Transformer)

@test_case(points=0.5, hidden=False)
def parameter_budget(Transformer):
    from autograder import checks
    checks.run('transformer.parameter_budget', 'parameter_budget', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38, 'smallest': 16435, 'largest': 18165}, model=Transformer)

@test_case(points=0.5, hidden=False)
def match_rnn(RNN, Transformer):
    from autograder import checks
    checks.run('transformer.match_rnn', 'matched_parameters', {'names': ['RNN', 'Transformer'], 'input_shape': [25, 4], 'seed': 38, 'tolerance': 0.05}, first=RNN, second=Transformer)

@test_case(points=0.5, hidden=False)
def match_lstm(LSTM, Transformer):
    from autograder import checks
    checks.run('transformer.match_lstm', 'matched_parameters', {'names': ['LSTM', 'Transformer'], 'input_shape': [25, 4], 'seed': 38, 'tolerance': 0.05}, first=LSTM, second=Transformer)

@test_case(points=1, hidden=False)
def self_attention(Transformer):
    from autograder import checks
    checks.run('transformer.self_attention', 'self_attention', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38, 'steps': 25, 'smallest': 0.001}, model=Transformer)

@test_case(points=0.5, hidden=False)
def positions(Transformer):
    from autograder import checks
    checks.run('transformer.positions', 'positions', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38, 'steps': 25, 'smallest': 0.0001}, model=Transformer)

@test_case(points=0.5, hidden=False)
def sequence_order(Transformer):
    from autograder import checks
    checks.run('transformer.sequence_order', 'sequence_order', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38, 'smallest': 0.0001}, model=Transformer)

@test_case(points=0.5, hidden=False)
def sequence_reach(Transformer):
    from autograder import checks
    checks.run('transformer.sequence_reach', 'sequence_reach', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38}, model=Transformer)

@test_case(points=0.5, hidden=False)
def logits(Transformer):
    from autograder import checks
    checks.run('transformer.logits', 'logits', {'name': 'Transformer', 'input_shape': [25, 4], 'seed': 38, 'row_sum': 0.001}, model=Transformer)

@test_case(points=0.5, hidden=False)
def gradient_reach(Transformer):
    from autograder import checks
    checks.run('transformer.gradient_reach', 'gradient_reach', {'name': 'Transformer', 'input_shape': [25, 4], 'outputs': 3, 'seed': 38}, model=Transformer)

