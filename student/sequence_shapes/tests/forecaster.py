from otter.test_files import test_case

OK_FORMAT = False

name = "forecaster"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(Forecaster):
    from autograder import checks
    checks.run('forecaster.output_shape', 'output_shape', {'name': 'Forecaster', 'input_shape': [24, 1], 'batches': [1, 2, 7], 'outputs': 1}, model=Forecaster)

@test_case(points=0.5, hidden=False)
def parameter_budget(Forecaster):
    from autograder import checks
    checks.run('forecaster.parameter_budget', 'parameter_budget', {'name': 'Forecaster', 'input_shape': [24, 1], 'seed': 119, 'smallest': 3136, 'largest': 13089}, model=Forecaster)

@test_case(points=1, hidden=False)
def recurrent_layers(Forecaster):
    from autograder import checks
    checks.run('forecaster.recurrent_layers', 'recurrent_layers', {'name': 'Forecaster', 'input_shape': [24, 1], 'seed': 119, 'layers': 2, 'units': 32}, model=Forecaster)

@test_case(points=1, hidden=False)
def sequence_reach(Forecaster):
    from autograder import checks
    checks.run('forecaster.sequence_reach', 'sequence_reach', {'name': 'Forecaster', 'input_shape': [24, 1], 'seed': 119}, model=Forecaster)

@test_case(points=0.5, hidden=False)
def gradient_reach(Forecaster):
    from autograder import checks
    checks.run('forecaster.gradient_reach', 'gradient_reach', {'name': 'Forecaster', 'input_shape': [24, 1], 'outputs': 1, 'seed': 119}, model=Forecaster)

@test_case(points=0.5, hidden=False)
def unbounded(Forecaster):
    from autograder import checks
    checks.run('forecaster.unbounded', 'unbounded', {'name': 'Forecaster', 'input_shape': [24, 1], 'seed': 119, 'row_sum': 0.001}, model=Forecaster)

