from otter.test_files import test_case

OK_FORMAT = False

name = "count"
points = None

@test_case(points=1, hidden=False)
def examples(recurrent_parameters):
    from autograder import checks
    checks.run('count.examples', 'same_values', {'name': 'recurrent_parameters', 'rule': 'recurrent_parameters', 'cases': ['an RNN, 4 inputs, 10 hidden units', 'a GRU, 4 inputs, 10 hidden units', 'an LSTM, 4 inputs, 10 hidden units', 'an RNN of 2 layers, 1 input, 32 hidden units'], 'seed': 115, 'tolerance': 0}, function=recurrent_parameters)

