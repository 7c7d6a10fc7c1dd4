from otter.test_files import test_case

OK_FORMAT = False

name = "stride"
points = None

@test_case(points=1, hidden=False)
def examples(convolve_with):
    from autograder import checks
    checks.run('stride.examples', 'same_values', {'name': 'convolve_with', 'rule': 'strided_convolve', 'cases': ['stride 1 without padding', 'stride 2', 'padding 1'], 'seed': 72, 'tolerance': 1e-05}, function=convolve_with)

@test_case(points=1, hidden=False)
def by_hand(convolve_with):
    from autograder import checks
    checks.run('stride.by_hand', 'by_hand', {'name': 'convolve_with', 'rule': 'strided_convolve', 'cases': ['stride 2'], 'seed': 72, 'tolerance': 1e-05, 'forbidden': 'conv'}, function=convolve_with)

