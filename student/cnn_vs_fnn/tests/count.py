from otter.test_files import test_case

OK_FORMAT = False

name = "count"
points = None

@test_case(points=1, hidden=False)
def simple_models(count_parameters):
    from autograder import checks
    checks.run('count.simple_models', 'counter', {'name': 'count_parameters', 'models': ['a linear layer', 'a small CNN', 'batch norm (its running statistics are no parameters)']}, function=count_parameters)

