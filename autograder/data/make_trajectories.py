"""Make the embedded trajectories and the hidden test set with andi-datasets.

Run by hand. The generators ask for numpy 1 but work with numpy 2, so they are installed without
their dependencies; from the repository root:

    pip install -e '.[trajectories]'
    pip install --no-deps andi-datasets==2.1.13 stochastic==0.6.0
    python -m autograder.data.make_trajectories
    python -m autograder.data.make_trajectories --seed 12345        # a private hidden set

Whoever knows the seed of the hidden set can make its labels. The default seed is public, so an
instructor who wants a hidden set that is really hidden picks a seed, keeps it private, and runs the
script before building the release. The seed of the public sets is fixed: they stay the same.

Left out are trajectories that would be the same sample again. At exponent 0.2 four of ten CTRW
never move, and one in four jumps once. With equal means and standard deviations the former are all
equal, and the latter are 99 * 2 different steps, too few for sets that have none in common. So
every trajectory visits three positions or more, and of equal ones only the first is kept. More are
drawn until every class has its number.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autograder.data.diffusion import CLASSES, LENGTH, SPREAD, UNIT, as_steps
from autograder.data.files import Array
from autograder.data.fingerprint import fingerprints
from autograder.data.make_files import write_npz, write_sums

INSTALL = "pip install --no-deps andi-datasets==2.1.13 stochastic==0.6.0"
EXPONENT = 0.2
PUBLIC_SEED = 2021  # the year of the AnDi challenge's paper
HIDDEN_SEED = 6253  # its article number
PER_CLASS = {"train": 800, "validation": 100, "test": 100}  # trajectories of each class
HIDDEN_PER_CLASS = 300

Draw = Callable[[int, int], npt.NDArray[np.float64]]
"""Class number and count to positions (count, LENGTH), the next ones of a seeded generator."""
Sample = tuple[npt.NDArray[np.int16], npt.NDArray[np.uint8]]


def normalise(positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Each trajectory with mean 0 and standard deviation 1; a constant one becomes zeros.

    Shapes:  positions (N, T), any unit; returns (N, T).
    """
    centred = positions - positions.mean(axis=1, keepdims=True)
    # A constant trajectory minus its mean may be rounding noise, not zero: look before it.
    constant = np.ptp(positions, axis=1, keepdims=True) == 0
    spread = np.where(constant, 1, centred.std(axis=1, keepdims=True))
    return np.where(constant, 0, centred / spread)


def collect(draw: Draw, label: int, count: int, seen: set[str]) -> npt.NDArray[np.int16]:
    """The first `count` trajectories of a class that are worth keeping; `seen` learns their marks.

    Shapes:  returns int16 (count, LENGTH), in units of 1 / UNIT.
    """
    kept: list[npt.NDArray[np.int16]] = []
    while len(kept) < count:
        rows = np.rint(normalise(draw(label, count)) * (SPREAD * UNIT)).astype(np.int16)
        marks = fingerprints(as_steps(rows))
        for row, mark in zip(rows, marks, strict=True):
            if mark not in seen and len(np.unique(row)) > 2:
                seen.add(mark)
                kept.append(row)
    return np.stack(kept[:count])


def split(draw: Draw, sizes: Mapping[str, int], seed: int, seen: set[str]) -> dict[str, Sample]:
    """For each name positions and labels, `sizes[name]` of every class, in random order.

    Shapes:  positions int16 (N, LENGTH), labels uint8 (N,).
    """
    bounds, rng = np.cumsum([0, *sizes.values()]), np.random.default_rng(seed)
    classes = [collect(draw, label, int(bounds[-1]), seen) for label in range(len(CLASSES))]
    parts = {}
    for name, start, stop in zip(sizes, bounds[:-1], bounds[1:], strict=True):
        labels = np.repeat(np.arange(len(CLASSES), dtype=np.uint8), stop - start)
        order = rng.permutation(len(labels))
        parts[name] = np.concatenate([rows[start:stop] for rows in classes])[order], labels[order]
    return parts


def write_sets(folder: Path, generator: Callable[[int], Draw], hidden_seed: int) -> None:
    """Write trajectories.npz, the two hidden files and SHA256SUMS of all data into `folder`."""
    seen: set[str] = set()
    shown: dict[str, Array] = {}
    for name, part in split(generator(PUBLIC_SEED), PER_CLASS, PUBLIC_SEED, seen).items():
        shown[f"{name}_positions"], shown[f"{name}_labels"] = part
    sizes = {"hidden": HIDDEN_PER_CLASS}
    positions, labels = split(generator(hidden_seed), sizes, hidden_seed, seen)["hidden"]
    write_npz(folder / "trajectories.npz", shown)
    write_npz(folder / "hidden" / "trajectories.npz", {"positions": positions})
    write_npz(folder / "hidden" / "trajectories_labels.npz", {"labels": labels})
    write_sums(folder)


def andi(seed: int) -> Draw:
    """The generator of andi-datasets, with all its random numbers from `seed`."""
    import stochastic.random
    from andi_datasets.datasets_theory import datasets_theory

    np.random.seed(seed)  # ATTM and CTRW
    stochastic.random.seed(seed)  # FBM

    def draw(label: int, count: int) -> npt.NDArray[np.float64]:
        rows = datasets_theory().create_dataset(LENGTH, count, [EXPONENT], [label])
        return np.asarray(rows[:, 2:], dtype=np.float64)  # the first two: label, exponent

    return draw


def main() -> None:
    """Read the command line, make the files, say where they are."""
    parser = argparse.ArgumentParser(description="Make the embedded trajectories and a hidden set.")
    parser.add_argument(
        "--seed", type=int, default=HIDDEN_SEED, help="of the hidden set; default: %(default)s"
    )
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent)
    options = parser.parse_args()
    try:
        write_sets(options.folder, andi, options.seed)
    except ImportError as error:
        parser.error(f"{error}. First: pip install scipy h5py; then: {INSTALL}")
    print(f"Trajectories, hidden set and SHA256SUMS are in {options.folder}")


if __name__ == "__main__":
    main()
