from otter.test_files import test_case

OK_FORMAT = False

name = "shapes"
points = None

@test_case(points=1, hidden=False)
def examples(recurrent_shapes):
    from autograder import checks
    checks.run('shapes.examples', 'same_values', {'name': 'recurrent_shapes', 'rule': 'recurrent_shapes', 'cases': ['one layer', 'two layers', 'both directions', 'time first'], 'seed': 52, 'tolerance': 0}, function=recurrent_shapes)

