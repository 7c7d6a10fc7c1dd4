from otter.test_files import test_case

OK_FORMAT = False

name = "weights"
points = None

@test_case(points=1, hidden=False)
def examples(attention_weights):
    from autograder import checks
    checks.run('weights.examples', 'same_values', {'name': 'attention_weights', 'rule': 'attention_weights', 'cases': ['no mask', 'as many queries as keys'], 'seed': 92, 'tolerance': 1e-09}, function=attention_weights)

@test_case(points=1, hidden=False)
def masks(attention_weights):
    from autograder import checks
    checks.run('weights.masks', 'same_values', {'name': 'attention_weights', 'rule': 'attention_weights', 'cases': ['a mask for all samples', 'a mask for each sample'], 'seed': 92, 'tolerance': 1e-09}, function=attention_weights)

@test_case(points=1, hidden=False)
def nothing_to_see(attention_weights):
    from autograder import checks
    checks.run('weights.nothing_to_see', 'same_values', {'name': 'attention_weights', 'rule': 'attention_weights', 'cases': ['queries that may see nothing'], 'seed': 92, 'tolerance': 1e-09}, function=attention_weights)

