from otter.test_files import test_case

OK_FORMAT = False

name = "roles"
points = None

@test_case(points=0.5, hidden=False)
def every_step(sequence_to_sequence):
    from autograder import checks
    checks.run('roles.every_step', 'same_values', {'name': 'sequence_to_sequence', 'rule': 'sequence_to_sequence', 'cases': ['a simple layer', 'a GRU of two layers'], 'seed': 111, 'tolerance': 1e-09}, function=sequence_to_sequence)

@test_case(points=0.5, hidden=False)
def last_step(sequence_to_vector):
    from autograder import checks
    checks.run('roles.last_step', 'same_values', {'name': 'sequence_to_vector', 'rule': 'sequence_to_vector', 'cases': ['a simple layer', 'a GRU of two layers'], 'seed': 111, 'tolerance': 1e-09}, function=sequence_to_vector)

@test_case(points=1, hidden=False)
def generated(vector_to_sequence):
    from autograder import checks
    checks.run('roles.generated', 'same_values', {'name': 'vector_to_sequence', 'rule': 'vector_to_sequence', 'cases': ['a simple layer', 'a GRU of two layers'], 'seed': 111, 'tolerance': 1e-09}, function=vector_to_sequence)

