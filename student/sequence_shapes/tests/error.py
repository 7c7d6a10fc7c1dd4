from otter.test_files import test_case

OK_FORMAT = False

name = "error"
points = None

@test_case(points=0.5, hidden=False)
def naive(naive_forecast):
    from autograder import checks
    checks.run('error.naive', 'same_values', {'name': 'naive_forecast', 'rule': 'naive_forecast', 'cases': ['four windows of six values'], 'seed': 118, 'tolerance': 0}, function=naive_forecast)

@test_case(points=0.5, hidden=False)
def errors(rmse):
    from autograder import checks
    checks.run('error.errors', 'same_values', {'name': 'rmse', 'rule': 'rmse', 'cases': ['two columns', 'a column and a row of values'], 'seed': 118, 'tolerance': 1e-09}, function=rmse)

