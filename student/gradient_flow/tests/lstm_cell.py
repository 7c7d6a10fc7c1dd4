from otter.test_files import test_case

OK_FORMAT = False

name = "lstm_cell"
points = None

@test_case(points=1, hidden=False)
def examples(lstm_step):
    from autograder import checks
    checks.run('lstm_cell.examples', 'same_values', {'name': 'lstm_step', 'rule': 'lstm_step', 'cases': ['three features'], 'seed': 54, 'tolerance': 1e-09}, function=lstm_step)

