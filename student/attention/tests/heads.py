from otter.test_files import test_case

OK_FORMAT = False

name = "heads"
points = None

@test_case(points=1.5, hidden=False)
def examples(multi_head):
    from autograder import checks
    checks.run('heads.examples', 'same_values', {'name': 'multi_head', 'rule': 'multi_head', 'cases': ['two heads', 'four heads behind a causal mask'], 'seed': 98, 'tolerance': 1e-09}, function=multi_head)

