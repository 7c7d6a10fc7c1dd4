from otter.test_files import test_case

OK_FORMAT = False

name = "pool_size"
points = None

@test_case(points=1, hidden=False)
def examples(pool_output_size):
    from autograder import checks
    checks.run('pool_size.examples', 'output_size', {'name': 'pool_output_size', 'rule': 'pooling', 'cases': 8, 'seed': 3}, function=pool_output_size)

