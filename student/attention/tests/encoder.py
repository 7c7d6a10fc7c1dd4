from otter.test_files import test_case

OK_FORMAT = False

name = "encoder"
points = None

@test_case(points=0.5, hidden=False)
def norm(add_and_norm):
    from autograder import checks
    checks.run('encoder.norm', 'same_values', {'name': 'add_and_norm', 'rule': 'add_and_norm', 'cases': ['6 features', 'features that hardly vary'], 'seed': 99, 'tolerance': 1e-09}, function=add_and_norm)

@test_case(points=1, hidden=False)
def block(encoder_block):
    from autograder import checks
    checks.run('encoder.block', 'same_values', {'name': 'encoder_block', 'rule': 'encoder_block', 'cases': ['two heads', 'a causal mask'], 'seed': 99, 'tolerance': 1e-09}, function=encoder_block)

