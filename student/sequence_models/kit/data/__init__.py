"""Data for the exercises: digits, trajectories, a series, a language, hidden sets."""

from autograder.data.backwards import BOS, EOS, PAD, VOCABULARY, pairs
from autograder.data.diffusion import CLASSES, Steps, Trajectories, trajectories
from autograder.data.files import DataUnavailable
from autograder.data.fingerprint import fingerprints
from autograder.data.mnist import Digits, DownloadFailed, Split, digits
from autograder.data.named import hidden_inputs, hidden_labels, load
from autograder.data.series import oscillation

__all__ = [
    "BOS",
    "CLASSES",
    "EOS",
    "PAD",
    "VOCABULARY",
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
    "oscillation",
    "pairs",
    "trajectories",
]
