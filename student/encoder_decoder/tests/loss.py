from otter.test_files import test_case

OK_FORMAT = False

name = "loss"
points = None

@test_case(points=1, hidden=False)
def examples(masked_loss):
    from autograder import checks
    checks.run('loss.examples', 'same_values', {'name': 'masked_loss', 'rule': 'masked_loss', 'cases': ['three answers of different lengths', 'answers with much padding'], 'seed': 143, 'tolerance': 1e-09}, function=masked_loss)

@test_case(points=0.5, hidden=False)
def gradient(masked_loss):
    from autograder import checks
    checks.run('loss.gradient', 'same_values', {'name': 'masked_loss', 'rule': 'masked_loss_gradient', 'cases': ['three answers of different lengths', 'answers with much padding'], 'seed': 143, 'tolerance': 1e-09}, function=masked_loss)

