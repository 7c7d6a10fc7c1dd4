from otter.test_files import test_case

OK_FORMAT = False

name = "translate"
points = None

@test_case(points=1, hidden=False)
def examples(translate):
    from autograder import checks
    checks.run('translate.examples', 'same_values', {'name': 'translate', 'rule': 'translate', 'cases': ['one source', 'three sources that end at different steps'], 'seed': 146, 'tolerance': 0}, function=translate)

@test_case(points=1, hidden=False)
def endings(translate):
    from autograder import checks
    checks.run('translate.endings', 'same_values', {'name': 'translate', 'rule': 'translate', 'cases': ['an answer that is longer than max_len', 'max_len 12, though all end early', 'a model that is in training mode'], 'seed': 146, 'tolerance': 0}, function=translate)

