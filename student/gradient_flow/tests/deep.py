from otter.test_files import test_case

OK_FORMAT = False

name = "deep"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(DeepRNN):
    from autograder import checks
    checks.run('deep.output_shape', 'output_shape', {'name': 'DeepRNN', 'input_shape': [20, 1], 'batches': [1, 2, 7], 'outputs': 3}, model=DeepRNN)

@test_case(points=0.5, hidden=False)
def parameter_budget(DeepRNN):
    from autograder import checks
    checks.run('deep.parameter_budget', 'parameter_budget', {'name': 'DeepRNN', 'input_shape': [20, 1], 'seed': 56, 'smallest': 1344, 'largest': 1491}, model=DeepRNN)

@test_case(points=1, hidden=False)
def simple_recurrence(DeepRNN):
    from autograder import checks
    checks.run('deep.simple_recurrence', 'simple_recurrence', {'name': 'DeepRNN', 'input_shape': [20, 1], 'seed': 56, 'layers': 3}, model=DeepRNN)

@test_case(points=1, hidden=False)
def last_state(DeepRNN):
    from autograder import checks
    checks.run('deep.last_state', 'last_state', {'name': 'DeepRNN', 'input_shape': [20, 1], 'outputs': 3, 'seed': 56}, model=DeepRNN)

@test_case(points=0.5, hidden=False)
def gradient_reach(DeepRNN):
    from autograder import checks
    checks.run('deep.gradient_reach', 'gradient_reach', {'name': 'DeepRNN', 'input_shape': [20, 1], 'outputs': 3, 'seed': 56}, model=DeepRNN)

@test_case(points=0.5, hidden=False)
def sequence_reach(DeepRNN):
    from autograder import checks
    checks.run('deep.sequence_reach', 'sequence_reach', {'name': 'DeepRNN', 'input_shape': [20, 1], 'seed': 56}, model=DeepRNN)

@test_case(points=0.5, hidden=False)
def logits(DeepRNN):
    from autograder import checks
    checks.run('deep.logits', 'logits', {'name': 'DeepRNN', 'input_shape': [20, 1], 'seed': 56, 'row_sum': 0.001}, model=DeepRNN)

