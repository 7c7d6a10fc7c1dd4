"""Training for the exercises: one recipe, one loop and one record for images and for sequences."""

from autograder.training.environment import device, seed_everything
from autograder.training.evaluation import accuracy, predict
from autograder.training.loop import fit
from autograder.training.plot import plot_history
from autograder.training.record import History, Recipe
from autograder.training.regression import Regression, fit_values, pair_fingerprints
from autograder.training.samples import Pair

__all__ = [
    "History",
    "Pair",
    "Recipe",
    "Regression",
    "accuracy",
    "device",
    "fit",
    "fit_values",
    "pair_fingerprints",
    "plot_history",
    "predict",
    "seed_everything",
]
