from otter.test_files import test_case

OK_FORMAT = False

name = "accuracy"
points = None

@test_case(points=0.5, hidden=False)
def examples(sequence_accuracy):
    from autograder import checks
    checks.run('accuracy.examples', 'same_values', {'name': 'sequence_accuracy', 'rule': 'sequence_accuracy', 'cases': ['four translations, one with a wrong digit', 'two translations that stop too late or too early', 'a translation that goes on after its end'], 'seed': 147, 'tolerance': 1e-06}, function=sequence_accuracy)

