from otter.test_files import test_case

OK_FORMAT = False

name = "gru_cell"
points = None

@test_case(points=1, hidden=False)
def examples(gru_step):
    from autograder import checks
    checks.run('gru_cell.examples', 'same_values', {'name': 'gru_step', 'rule': 'gru_step', 'cases': ['three features'], 'seed': 114, 'tolerance': 1e-09}, function=gru_step)

