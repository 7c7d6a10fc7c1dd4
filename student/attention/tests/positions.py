from otter.test_files import test_case

OK_FORMAT = False

name = "positions"
points = None

@test_case(points=1, hidden=False)
def encoding(positional_encoding):
    from autograder import checks
    checks.run('positions.encoding', 'same_values', {'name': 'positional_encoding', 'rule': 'positional_encoding', 'cases': ['20 steps of width 6', '100 steps of width 16', '7 steps of width 5'], 'seed': 97, 'tolerance': 1e-09}, function=positional_encoding)

@test_case(points=0.5, hidden=False)
def order(order_error):
    from autograder import checks
    checks.run('positions.order', 'same_values', {'name': 'order_error', 'rule': 'order_error', 'cases': ['an encoder layer without a mask', 'an encoder layer behind positions', 'an encoder layer with a causal mask'], 'seed': 97, 'tolerance': 1e-09}, function=order_error)

