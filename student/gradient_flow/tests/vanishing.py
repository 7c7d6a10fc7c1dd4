from otter.test_files import test_case

OK_FORMAT = False

name = "vanishing"
points = None

@test_case(points=2, hidden=False)
def vanishing(gradient_norm):
    from autograder import checks
    checks.run('vanishing.vanishing', 'vanishing', {'name': 'gradient_norm', 'lengths': [2, 100], 'seeds': [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'largest': 0.01, 'largest_median': 1e-06, 'exceptions': 1}, function=gradient_norm)

@test_case(points=1, hidden=False)
def curve(vanishing_figure, gradient_norm):
    from autograder import checks
    checks.run('vanishing.curve', 'log_curves', {'names': ['vanishing_figure', 'gradient_norm'], 'lengths': [2, 5, 10, 25, 50, 75, 100], 'curves': [[50]], 'tolerance': 1e-06}, figure=vanishing_figure, function=gradient_norm)

