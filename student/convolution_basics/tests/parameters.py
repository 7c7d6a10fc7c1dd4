from otter.test_files import test_case

OK_FORMAT = False

name = "parameters"
points = None

@test_case(points=0.5, hidden=False)
def convolutions(convolution_parameters):
    from autograder import checks
    checks.run('parameters.convolutions', 'same_values', {'name': 'convolution_parameters', 'rule': 'convolution_parameters', 'cases': ['1 to 8 channels, kernel 5, with bias', '3 to 16 channels, kernel 3, without bias'], 'seed': 76, 'tolerance': 0}, function=convolution_parameters)

@test_case(points=0.5, hidden=False)
def dense_layers(dense_parameters):
    from autograder import checks
    checks.run('parameters.dense_layers', 'same_values', {'name': 'dense_parameters', 'rule': 'dense_parameters', 'cases': ['1 map of 28 pixels to 8 of 24, with bias', '3 maps of 10 pixels to 2 of 5, without bias'], 'seed': 76, 'tolerance': 0}, function=dense_parameters)

