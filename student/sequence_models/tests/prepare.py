from otter.test_files import test_case

OK_FORMAT = False

name = "prepare"
points = None

@test_case(points=1, hidden=False)
def normalise_examples(normalise):
    from autograder import checks
    checks.run('prepare.normalise_examples', 'same_values', {'name': 'normalise', 'rule': 'normalise', 'cases': ['random walks', 'a trajectory that never moves among others'], 'seed': 31, 'tolerance': 0.006}, function=normalise)

@test_case(points=1, hidden=False)
def steps_examples(to_steps):
    from autograder import checks
    checks.run('prepare.steps_examples', 'same_values', {'name': 'to_steps', 'rule': 'to_steps', 'cases': ['6 positions in steps of 2', '100 positions in steps of 4'], 'seed': 33, 'tolerance': 0}, function=to_steps)

