"""Data sets for the exercises: digits, full MNIST on request, trajectories, hidden test sets."""

from autograder.data.diffusion import CLASSES, Steps, Trajectories, trajectories
from autograder.data.files import DataUnavailable
from autograder.data.fingerprint import fingerprints
from autograder.data.mnist import Digits, DownloadFailed, Split, digits
from autograder.data.named import hidden_inputs, hidden_labels, load

__all__ = [
    "CLASSES",
    "DataUnavailable",
    "Digits",
    "DownloadFailed",
    "Split",
    "Steps",
    "Trajectories",
    "digits",
    "fingerprints",
    "hidden_inputs",
    "hidden_labels",
    "load",
    "trajectories",
]
