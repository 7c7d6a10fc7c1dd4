from otter.test_files import test_case

OK_FORMAT = False

name = "leak"
points = None

@test_case(points=1, hidden=False)
def examples(leak):
    from autograder import checks
    checks.run('leak.examples', 'same_values', {'name': 'leak', 'rule': 'leak', 'cases': ['an encoder layer without a mask', 'an encoder layer with a causal mask', 'an encoder layer without a mask, projected on ones', 'an encoder layer with a hole in its mask'], 'seed': 91, 'tolerance': 1e-09}, function=leak)

