from otter.test_files import test_case

OK_FORMAT = False

name = "training"
points = None

@test_case(points=0.5, hidden=False)
def cnn_recipe(cnn_history):
    from autograder import checks
    checks.run('training.cnn_recipe', 'recipe', {'name': 'cnn_history', 'epochs': 8, 'batch_size': 64, 'learning_rate': 0.01, 'samples': 3000}, history=cnn_history)

@test_case(points=0.5, hidden=False)
def fnn_recipe(fnn_history):
    from autograder import checks
    checks.run('training.fnn_recipe', 'recipe', {'name': 'fnn_history', 'epochs': 8, 'batch_size': 64, 'learning_rate': 0.01, 'samples': 3000}, history=fnn_history)

@test_case(points=0.5, hidden=False)
def trained_convolution(cnn):
    from autograder import checks
    checks.run('training.trained_convolution', 'convolution', {'name': 'cnn', 'input_shape': [1, 28, 28], 'seed': 9, 'smallest': 1}, model=cnn)

@test_case(points=0.5, hidden=False)
def trained_match(cnn, fnn):
    from autograder import checks
    checks.run('training.trained_match', 'matched_parameters', {'names': ['cnn', 'fnn'], 'input_shape': [1, 28, 28], 'seed': 10, 'tolerance': 0.05}, first=cnn, second=fnn)

@test_case(points=1, hidden=False)
def cnn_learned(cnn, cnn_history):
    from autograder import checks
    checks.run('training.cnn_learned', 'learned', {'model_name': 'cnn', 'history_name': 'cnn_history', 'dataset': 'digits', 'largest_loss_ratio': 0.3, 'tolerance': 0.01}, model=cnn, history=cnn_history)

@test_case(points=1, hidden=False)
def fnn_learned(fnn, fnn_history):
    from autograder import checks
    checks.run('training.fnn_learned', 'learned', {'model_name': 'fnn', 'history_name': 'fnn_history', 'dataset': 'digits', 'largest_loss_ratio': 0.3, 'tolerance': 0.01}, model=fnn, history=fnn_history)

