from otter.test_files import test_case

OK_FORMAT = False

name = "forget_bias"
points = None

@test_case(points=1, hidden=False)
def examples(add_forget_bias):
    from autograder import checks
    checks.run('forget_bias.examples', 'same_values', {'name': 'add_forget_bias', 'rule': 'forget_bias', 'cases': ['five hidden units'], 'seed': 55, 'tolerance': 1e-09}, function=add_forget_bias)

@test_case(points=0.5, hidden=False)
def values(memory_norm):
    from autograder import checks
    checks.run('forget_bias.values', 'same_values', {'name': 'memory_norm', 'rule': 'memory_norm', 'cases': ['2 steps, bias 0, seed 1', '10 steps, bias 1, seed 2', '100 steps, bias 2, seed 3'], 'seed': 60, 'tolerance': 1e-06}, function=memory_norm)

@test_case(points=0.5, hidden=False)
def remembering(memory_norm):
    from autograder import checks
    checks.run('forget_bias.remembering', 'remembering', {'name': 'memory_norm', 'lengths': [2, 100], 'biases': [0, 0.5, 1, 1.5, 2], 'seeds': [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'smallest_gain': 1000, 'needed': 8}, function=memory_norm)

@test_case(points=0.5, hidden=False)
def closed_gate(memory_norm):
    from autograder import checks
    checks.run('forget_bias.closed_gate', 'closed_gate', {'name': 'memory_norm', 'closing': -20, 'seeds': [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'largest': 1e-12}, function=memory_norm)

@test_case(points=1, hidden=False)
def curves(memory_figure, memory_norm):
    from autograder import checks
    checks.run('forget_bias.curves', 'log_curves', {'names': ['memory_figure', 'memory_norm'], 'lengths': [2, 9, 16, 23, 30, 37, 44, 51, 58, 65, 72, 79, 86, 93, 100], 'curves': [[0, 50], [0.5, 50], [1, 50], [1.5, 50], [2, 50]], 'tolerance': 1e-06}, figure=memory_figure, function=memory_norm)

