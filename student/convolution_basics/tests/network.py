from otter.test_files import test_case

OK_FORMAT = False

name = "network"
points = None

@test_case(points=1, hidden=False)
def sizes(map_sizes):
    from autograder import checks
    checks.run('network.sizes', 'same_values', {'name': 'map_sizes', 'rule': 'map_sizes', 'cases': ['a convolution and a pooling', 'LeNet on 28 pixels'], 'seed': 73, 'tolerance': 0}, function=map_sizes)

@test_case(points=1, hidden=False)
def fields(receptive_field):
    from autograder import checks
    checks.run('network.fields', 'same_values', {'name': 'receptive_field', 'rule': 'receptive_field', 'cases': ['one kernel of 5', 'two kernels of 3', 'convolution, pooling, convolution'], 'seed': 73, 'tolerance': 0}, function=receptive_field)

