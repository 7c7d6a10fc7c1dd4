from otter.test_files import test_case

OK_FORMAT = False

name = "conv_size"
points = None

@test_case(points=1, hidden=False)
def examples(conv_output_size):
    from autograder import checks
    checks.run('conv_size.examples', 'output_size', {'name': 'conv_output_size', 'rule': 'convolution', 'cases': 8, 'seed': 1}, function=conv_output_size)

