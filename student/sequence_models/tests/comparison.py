from otter.test_files import test_case

OK_FORMAT = False

name = "comparison"
points = None

@test_case(points=2, hidden=False)
def curves(figure, rnn_history, lstm_history, transformer_history):
    from autograder import checks
    checks.run('comparison.curves', 'three_curves', {'names': ['figure', 'rnn_history', 'lstm_history', 'transformer_history'], 'quantity': 'train_loss', 'tolerance': 1e-06}, figure=figure, first=rnn_history, second=lstm_history, third=transformer_history)

