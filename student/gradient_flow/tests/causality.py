from otter.test_files import test_case

OK_FORMAT = False

name = "causality"
points = None

@test_case(points=1, hidden=False)
def some_layers(influence):
    from autograder import checks
    checks.run('causality.some_layers', 'same_values', {'name': 'influence', 'rule': 'influence', 'cases': ['an RNN', 'an encoder layer without a mask', 'an encoder layer with a causal mask'], 'seed': 58, 'tolerance': 1e-09}, function=influence)

@test_case(points=1, hidden=False)
def decisions(is_causal):
    from autograder import checks
    checks.run('causality.decisions', 'same_values', {'name': 'is_causal', 'rule': 'is_causal', 'cases': ['an RNN', 'a bidirectional RNN', 'an encoder layer without a mask', 'an encoder layer with a causal mask', 'an encoder layer with a hole in its mask'], 'seed': 58, 'tolerance': 1e-09}, function=is_causal)

