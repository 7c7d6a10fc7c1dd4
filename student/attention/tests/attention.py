from otter.test_files import test_case

OK_FORMAT = False

name = "attention"
points = None

@test_case(points=1, hidden=False)
def examples(attention):
    from autograder import checks
    checks.run('attention.examples', 'same_values', {'name': 'attention', 'rule': 'attention', 'cases': ['no mask', 'a causal mask'], 'seed': 93, 'tolerance': 1e-09}, function=attention)

@test_case(points=0.5, hidden=False)
def by_hand(attention):
    from autograder import checks
    checks.run('attention.by_hand', 'by_hand', {'name': 'attention', 'rule': 'attention', 'cases': ['values as wide as keys'], 'seed': 93, 'tolerance': 1e-09, 'forbidden': 'attention'}, function=attention)

@test_case(points=1, hidden=False)
def gradient(attention):
    from autograder import checks
    checks.run('attention.gradient', 'same_values', {'name': 'attention', 'rule': 'attention_gradient', 'cases': ['a causal mask', 'queries that may see nothing'], 'seed': 93, 'tolerance': 1e-09}, function=attention)

