from otter.test_files import test_case

OK_FORMAT = False

name = "vanishing"
points = None

@test_case(points=1, hidden=False)
def values(gradient_norm):
    from autograder import checks
    checks.run('vanishing.values', 'same_values', {'name': 'gradient_norm', 'rule': 'gradient_norm', 'cases': ['2 steps, seed 1', '10 steps, seed 2', '100 steps, seed 3'], 'seed': 59, 'tolerance': 1e-06}, function=gradient_norm)

@test_case(points=0.5, hidden=False)
def vanishing(gradient_norm):
    from autograder import checks
    checks.run('vanishing.vanishing', 'vanishing', {'name': 'gradient_norm', 'lengths': [2, 100], 'seeds': [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 'largest': 0.01, 'largest_median': 1e-06, 'exceptions': 1}, function=gradient_norm)

@test_case(points=1, hidden=False)
def curve(vanishing_figure, gradient_norm):
    from autograder import checks
    checks.run('vanishing.curve', 'log_curves', {'names': ['vanishing_figure', 'gradient_norm'], 'lengths': [2, 3, 4, 5, 7, 10, 14, 19, 25, 32, 38, 44, 50, 57, 63, 69, 75, 82, 88, 94, 98, 99, 100], 'curves': [[50]], 'tolerance': 1e-06}, figure=vanishing_figure, function=gradient_norm)

