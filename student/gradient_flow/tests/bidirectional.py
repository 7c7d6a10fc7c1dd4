from otter.test_files import test_case

OK_FORMAT = False

name = "bidirectional"
points = None

@test_case(points=0.5, hidden=False)
def output_shape(BiRNN):
    from autograder import checks
    checks.run('bidirectional.output_shape', 'output_shape', {'name': 'BiRNN', 'input_shape': [20, 1], 'batches': [1, 2, 7], 'outputs': 16}, model=BiRNN)

@test_case(points=0.5, hidden=False)
def parameter_budget(BiRNN):
    from autograder import checks
    checks.run('bidirectional.parameter_budget', 'parameter_budget', {'name': 'BiRNN', 'input_shape': [20, 1], 'seed': 57, 'smallest': 144, 'largest': 192}, model=BiRNN)

@test_case(points=1, hidden=False)
def both_directions(BiRNN):
    from autograder import checks
    checks.run('bidirectional.both_directions', 'both_directions', {'name': 'BiRNN', 'input_shape': [20, 1], 'seed': 57}, model=BiRNN)

@test_case(points=1, hidden=False)
def both_ends(BiRNN):
    from autograder import checks
    checks.run('bidirectional.both_ends', 'both_ends', {'name': 'BiRNN', 'input_shape': [20, 1], 'outputs': 16, 'seed': 57}, model=BiRNN)

@test_case(points=0.5, hidden=False)
def gradient_reach(BiRNN):
    from autograder import checks
    checks.run('bidirectional.gradient_reach', 'gradient_reach', {'name': 'BiRNN', 'input_shape': [20, 1], 'outputs': 16, 'seed': 57}, model=BiRNN)

