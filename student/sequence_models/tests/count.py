from otter.test_files import test_case

OK_FORMAT = False

name = "count"
points = None

@test_case(points=0.5, hidden=False)
def rnn_examples(rnn_parameters):
    from autograder import checks
    checks.run('count.rnn_examples', 'same_values', {'name': 'rnn_parameters', 'rule': 'rnn_parameters', 'cases': ['4 inputs and 10 hidden units', '1 input and 64 hidden units'], 'seed': 35, 'tolerance': 0}, function=rnn_parameters)

@test_case(points=0.5, hidden=False)
def lstm_examples(lstm_parameters):
    from autograder import checks
    checks.run('count.lstm_examples', 'same_values', {'name': 'lstm_parameters', 'rule': 'lstm_parameters', 'cases': ['4 inputs and 10 hidden units', '1 input and 64 hidden units'], 'seed': 35, 'tolerance': 0}, function=lstm_parameters)

@test_case(points=1, hidden=False)
def encoder_examples(encoder_layer_parameters):
    from autograder import checks
    checks.run('count.encoder_examples', 'same_values', {'name': 'encoder_layer_parameters', 'rule': 'encoder_layer_parameters', 'cases': ['width 8 and feed-forward width 16', 'width 64 and feed-forward width 32'], 'seed': 35, 'tolerance': 0}, function=encoder_layer_parameters)

