from otter.test_files import test_case

OK_FORMAT = False

name = "self_attention"
points = None

@test_case(points=1, hidden=False)
def examples(self_attention):
    from autograder import checks
    checks.run('self_attention.examples', 'same_values', {'name': 'self_attention', 'rule': 'self_attention', 'cases': ['as many features as before', 'queries and values of other sizes'], 'seed': 95, 'tolerance': 1e-09}, function=self_attention)

@test_case(points=0.5, hidden=False)
def mask(self_attention):
    from autograder import checks
    checks.run('self_attention.mask', 'same_values', {'name': 'self_attention', 'rule': 'self_attention', 'cases': ['a causal mask', 'sequences of different lengths'], 'seed': 95, 'tolerance': 1e-09}, function=self_attention)

@test_case(points=0.5, hidden=False)
def causality(self_attention):
    from autograder import checks
    checks.run('self_attention.causality', 'same_values', {'name': 'self_attention', 'rule': 'self_attention_gradient', 'cases': ['a causal mask over 5 steps', 'a batch of one behind a causal mask'], 'seed': 95, 'tolerance': 1e-09}, function=self_attention)

