from otter.test_files import test_case

OK_FORMAT = False

name = "deep"
points = None

@test_case(points=1, hidden=False)
def examples(deep_rnn):
    from autograder import checks
    checks.run('deep.examples', 'same_values', {'name': 'deep_rnn', 'rule': 'deep_rnn', 'cases': ['two layers, without h0', 'two layers and h0'], 'seed': 112, 'tolerance': 1e-09}, function=deep_rnn)

