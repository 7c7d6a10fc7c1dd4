from otter.test_files import test_case

OK_FORMAT = False

name = "step"
points = None

@test_case(points=1.5, hidden=False)
def examples(training_step):
    from autograder import checks
    checks.run('step.examples', 'same_values', {'name': 'training_step', 'rule': 'training_step', 'cases': ['a batch of four', 'gradients left from another batch'], 'seed': 145, 'tolerance': 1e-07}, function=training_step)

