from otter.test_files import test_case

OK_FORMAT = False

name = "pooling"
points = None

@test_case(points=0.5, hidden=False)
def maximum(max_pool):
    from autograder import checks
    checks.run('pooling.maximum', 'same_values', {'name': 'max_pool', 'rule': 'max_pool', 'cases': ['windows side by side', 'windows that overlap', 'padding 1 around negative values'], 'seed': 74, 'tolerance': 1e-05}, function=max_pool)

@test_case(points=0.5, hidden=False)
def mean(average_pool):
    from autograder import checks
    checks.run('pooling.mean', 'same_values', {'name': 'average_pool', 'rule': 'average_pool', 'cases': ['windows side by side', 'windows that overlap'], 'seed': 74, 'tolerance': 1e-05}, function=average_pool)

@test_case(points=0.5, hidden=False)
def global_maximum(global_max_pool):
    from autograder import checks
    checks.run('pooling.global_maximum', 'same_values', {'name': 'global_max_pool', 'rule': 'global_max_pool', 'cases': ['two images of three channels', 'a batch of one'], 'seed': 74, 'tolerance': 1e-05}, function=global_max_pool)

@test_case(points=1, hidden=False)
def maximum_by_hand(max_pool):
    from autograder import checks
    checks.run('pooling.maximum_by_hand', 'by_hand', {'name': 'max_pool', 'rule': 'max_pool', 'cases': ['windows side by side'], 'seed': 74, 'tolerance': 1e-05, 'forbidden': 'pool'}, function=max_pool)

@test_case(points=0.5, hidden=False)
def mean_by_hand(average_pool):
    from autograder import checks
    checks.run('pooling.mean_by_hand', 'by_hand', {'name': 'average_pool', 'rule': 'average_pool', 'cases': ['windows side by side'], 'seed': 74, 'tolerance': 1e-05, 'forbidden': 'pool'}, function=average_pool)

