from otter.test_files import test_case

OK_FORMAT = False

name = "look"
points = None

@test_case(points=2, hidden=False)
def one_of_each(examples):
    from autograder import checks
    checks.run('look.one_of_each', 'class_examples', {'name': 'examples', 'dataset': 'trajectories', 'tolerance': 0.01, 'classes': ['ATTM', 'CTRW', 'FBM']}, figure=examples)

