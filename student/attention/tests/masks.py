from otter.test_files import test_case

OK_FORMAT = False

name = "masks"
points = None

@test_case(points=0.5, hidden=False)
def causal(causal_mask):
    from autograder import checks
    checks.run('masks.causal', 'same_values', {'name': 'causal_mask', 'rule': 'causal_mask', 'cases': ['4 steps', '5 steps'], 'seed': 94, 'tolerance': 0}, function=causal_mask)

@test_case(points=0.5, hidden=False)
def padding(padding_mask):
    from autograder import checks
    checks.run('masks.padding', 'same_values', {'name': 'padding_mask', 'rule': 'padding_mask', 'cases': ['lengths 2, 4 and 3', 'lengths 1 and 5, padded to 6'], 'seed': 94, 'tolerance': 0}, function=padding_mask)

