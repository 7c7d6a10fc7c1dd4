from otter.test_files import test_case

OK_FORMAT = False

name = "comparison"
points = None

@test_case(points=2, hidden=False)
def curves(figure, cnn_history, fnn_history):
    from autograder import checks
    checks.run('comparison.curves', 'curves', {'names': ['figure', 'cnn_history', 'fnn_history'], 'quantity': 'validation_accuracy', 'tolerance': 1e-06}, figure=figure, first=cnn_history, second=fnn_history)

