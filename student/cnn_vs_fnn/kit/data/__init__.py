"""Data sets for the exercises: embedded digits, full MNIST on request, the hidden test set."""

from autograder.data.fingerprint import fingerprints
from autograder.data.mnist import (
    DataUnavailable,
    Digits,
    DownloadFailed,
    Split,
    digits,
    hidden_images,
    hidden_labels,
)

__all__ = [
    "DataUnavailable",
    "Digits",
    "DownloadFailed",
    "Split",
    "digits",
    "fingerprints",
    "hidden_images",
    "hidden_labels",
]
