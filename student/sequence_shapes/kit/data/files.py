"""Reading data files: those in this folder, and the hidden sets beside the package."""

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[np.generic]

_HERE = Path(__file__).resolve().parent
_BESIDE_PACKAGE = _HERE.parents[1]  # the grading zip unpacks hidden sets here


class DataUnavailable(RuntimeError):
    """Data are not there, through no fault of whoever asked for them."""


def embedded(name: str, key: str) -> Array:
    """One array of the data set `name` that everybody has.

    Raises:  DataUnavailable: the file is missing or damaged.
    """
    return _read(_HERE / f"{name}.npz", key)


def hidden(stem: str, key: str) -> Array:
    """One array of a hidden set: beside the package in a release, else in the folder `hidden`.

    Raises:  DataUnavailable: the hidden set is not on this machine, or damaged.
    """
    places = (_BESIDE_PACKAGE / f"hidden_{stem}.npz", _HERE / "hidden" / f"{stem}.npz")
    for path in places:
        if path.is_file():
            return _read(path, key)
    raise DataUnavailable(
        f"The hidden test set is not here ({places[0].name} was not found). "
        "Only the autograder has it; your own test set is the test split of the data."
    )


def as_labels(labels: Array) -> Tensor:
    """Stored class numbers as int64 (N,)."""
    return torch.from_numpy(labels).to(torch.int64)


def one_line(error: Exception) -> str:
    """An error's kind and message, short enough for a sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _read(path: Path, key: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as file:
            return np.asarray(file[key])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataUnavailable(
            f"{path.name} cannot be read: the file is missing or damaged. This is a problem with "
            "the installation, not with your work: get a fresh copy of the folder autograder/data. "
            f"(Reason: {one_line(error)})"
        ) from None
