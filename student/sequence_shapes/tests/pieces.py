from otter.test_files import test_case

OK_FORMAT = False

name = "pieces"
points = None

@test_case(points=1, hidden=False)
def examples(in_pieces):
    from autograder import checks
    checks.run('pieces.examples', 'same_values', {'name': 'in_pieces', 'rule': 'in_pieces', 'cases': ['9 steps in pieces of 3', '10 steps in pieces of 4, from h0'], 'seed': 113, 'tolerance': 1e-09}, function=in_pieces)

