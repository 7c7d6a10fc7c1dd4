from otter.test_files import test_case

OK_FORMAT = False

name = "global_pool"
points = None

@test_case(points=1, hidden=False)
def shape_and_mean(global_average_pool):
    from autograder import checks
    checks.run('global_pool.shape_and_mean', 'global_pool', {'name': 'global_average_pool', 'shapes': [[4, 3, 6, 6], [1, 8, 5, 7]], 'seed': 5, 'tolerance': 1e-05}, function=global_average_pool)

