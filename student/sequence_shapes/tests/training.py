from otter.test_files import test_case

OK_FORMAT = False

name = "training"
points = None

@test_case(points=1, hidden=False)
def past_only(history):
    from autograder import checks
    checks.run('training.past_only', 'past_only', {'name': 'history', 'seed': 120, 'first': 0, 'steps': 1000, 'width': 24, 'held_out': 200}, history=history)

@test_case(points=0.5, hidden=False)
def trained_layers(forecaster):
    from autograder import checks
    checks.run('training.trained_layers', 'recurrent_layers', {'name': 'forecaster', 'input_shape': [24, 1], 'seed': 120, 'layers': 2, 'units': 32}, model=forecaster)

@test_case(points=1, hidden=False)
def held_out(forecaster):
    from autograder import checks
    checks.run('training.held_out', 'forecast', {'name': 'forecaster', 'seed': 120, 'first': 0, 'steps': 1000, 'width': 24, 'held_out': 200, 'largest_ratio': 0.7}, model=forecaster)

