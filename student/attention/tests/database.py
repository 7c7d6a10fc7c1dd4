from otter.test_files import test_case

OK_FORMAT = False

name = "database"
points = None

@test_case(points=1, hidden=False)
def examples(lookup):
    from autograder import checks
    checks.run('database.examples', 'same_values', {'name': 'lookup', 'rule': 'soft_lookup', 'cases': ['5 pairs at temperature 1', '4 pairs at temperature 0.1', '6 pairs at temperature 0'], 'seed': 96, 'tolerance': 1e-06}, function=lookup)

