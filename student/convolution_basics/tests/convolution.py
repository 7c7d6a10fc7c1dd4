from otter.test_files import test_case

OK_FORMAT = False

name = "convolution"
points = None

@test_case(points=0.5, hidden=False)
def one_channel(convolve):
    from autograder import checks
    checks.run('convolution.one_channel', 'same_values', {'name': 'convolve', 'rule': 'convolve', 'cases': ['one channel', 'several images'], 'seed': 71, 'tolerance': 1e-05}, function=convolve)

@test_case(points=1, hidden=False)
def channels(convolve):
    from autograder import checks
    checks.run('convolution.channels', 'same_values', {'name': 'convolve', 'rule': 'convolve', 'cases': ['three input channels', 'three input and four output channels'], 'seed': 71, 'tolerance': 1e-05}, function=convolve)

@test_case(points=1.5, hidden=False)
def by_hand(convolve):
    from autograder import checks
    checks.run('convolution.by_hand', 'by_hand', {'name': 'convolve', 'rule': 'convolve', 'cases': ['one channel'], 'seed': 71, 'tolerance': 1e-05, 'forbidden': 'conv'}, function=convolve)

