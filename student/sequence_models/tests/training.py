from otter.test_files import test_case

OK_FORMAT = False

name = "training"
points = None

@test_case(points=0.5, hidden=False)
def rnn_recipe(rnn_history):
    from autograder import checks
    checks.run('training.rnn_recipe', 'recipe', {'name': 'rnn_history', 'epochs': 12, 'batch_size': 64, 'learning_rate': 0.0015, 'samples': 2400}, history=rnn_history)

@test_case(points=0.5, hidden=False)
def lstm_recipe(lstm_history):
    from autograder import checks
    checks.run('training.lstm_recipe', 'recipe', {'name': 'lstm_history', 'epochs': 12, 'batch_size': 64, 'learning_rate': 0.0015, 'samples': 2400}, history=lstm_history)

@test_case(points=0.5, hidden=False)
def transformer_recipe(transformer_history):
    from autograder import checks
    checks.run('training.transformer_recipe', 'recipe', {'name': 'transformer_history', 'epochs': 12, 'batch_size': 64, 'learning_rate': 0.0015, 'samples': 2400}, history=transformer_history)

@test_case(points=0.5, hidden=False)
def rnn_samples(rnn_history):
    from autograder import checks
    checks.run('training.rnn_samples', 'given_samples', {'name': 'rnn_history', 'dataset': 'trajectories'}, history=rnn_history)

@test_case(points=0.5, hidden=False)
def lstm_samples(lstm_history):
    from autograder import checks
    checks.run('training.lstm_samples', 'given_samples', {'name': 'lstm_history', 'dataset': 'trajectories'}, history=lstm_history)

@test_case(points=0.5, hidden=False)
def transformer_samples(transformer_history):
    from autograder import checks
    checks.run('training.transformer_samples', 'given_samples', {'name': 'transformer_history', 'dataset': 'trajectories'}, history=transformer_history)

@test_case(points=0.5, hidden=False)
def trained_rnn(rnn):
    from autograder import checks
    checks.run('training.trained_rnn', 'simple_recurrence', {'name': 'rnn', 'input_shape': [25, 4], 'seed': 39, 'layers': 1}, model=rnn)

@test_case(points=0.5, hidden=False)
def trained_lstm(lstm):
    from autograder import checks
    checks.run('training.trained_lstm', 'gated_recurrence', {'name': 'lstm', 'input_shape': [25, 4], 'seed': 39, 'layers': 1}, model=lstm)

@test_case(points=0.5, hidden=False)
def trained_transformer(transformer):
    from autograder import checks
    checks.run('training.trained_transformer', 'self_attention', {'name': 'transformer', 'input_shape': [25, 4], 'seed': 39, 'steps': 25, 'smallest': 0.001}, model=transformer)

@test_case(points=0.5, hidden=False)
def trained_match_lstm(rnn, lstm):
    from autograder import checks
    checks.run('training.trained_match_lstm', 'matched_parameters', {'names': ['rnn', 'lstm'], 'input_shape': [25, 4], 'seed': 39, 'tolerance': 0.05}, first=rnn, second=lstm)

@test_case(points=0.5, hidden=False)
def trained_match_transformer(rnn, transformer):
    from autograder import checks
    checks.run('training.trained_match_transformer', 'matched_parameters', {'names': ['rnn', 'transformer'], 'input_shape': [25, 4], 'seed': 39, 'tolerance': 0.05}, first=rnn, second=transformer)

@test_case(points=0.5, hidden=False)
def rnn_learned(rnn, rnn_history):
    from autograder import checks
    checks.run('training.rnn_learned', 'learned', {'model_name': 'rnn', 'history_name': 'rnn_history', 'dataset': 'trajectories', 'largest_loss_ratio': 0.78, 'tolerance': 0.01}, model=rnn, history=rnn_history)

@test_case(points=0.5, hidden=False)
def lstm_learned(lstm, lstm_history):
    from autograder import checks
    checks.run('training.lstm_learned', 'learned', {'model_name': 'lstm', 'history_name': 'lstm_history', 'dataset': 'trajectories', 'largest_loss_ratio': 0.78, 'tolerance': 0.01}, model=lstm, history=lstm_history)

@test_case(points=0.5, hidden=False)
def transformer_learned(transformer, transformer_history):
    from autograder import checks
    checks.run('training.transformer_learned', 'learned', {'model_name': 'transformer', 'history_name': 'transformer_history', 'dataset': 'trajectories', 'largest_loss_ratio': 0.78, 'tolerance': 0.01}, model=transformer, history=transformer_history)

