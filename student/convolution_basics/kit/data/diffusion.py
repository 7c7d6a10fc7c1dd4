"""Trajectories of three models of anomalous diffusion, to be told apart by a network."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from autograder.data.files import Array, as_labels, embedded

CLASSES = ("ATTM", "CTRW", "FBM")
"""What the labels 0, 1 and 2 mean: annealed transient time model, continuous-time random walk,
fractional Brownian motion."""

LENGTH = 100  # positions of a trajectory
SPREAD = 3  # standard deviation of every trajectory
UNIT = 1024  # stored whole numbers a unit; |position| <= 3 * sqrt(99), so that they fit into int16
_DIVISORS = [size for size in range(1, LENGTH + 1) if LENGTH % size == 0]


class Steps(NamedTuple):
    """Sequences with their labels.

    Shapes:  inputs float32 (N, T, D), labels int64 (N,).
    Units:   position, in thirds of its trajectory's standard deviation; class number, see CLASSES.
    """

    inputs: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Trajectories:
    """Three sets of trajectories that have none in common."""

    train: Steps
    validation: Steps
    test: Steps


def trajectories(positions_per_step: int = 4) -> Trajectories:
    """Trajectories of 100 positions on a line: 2,400 / 300 / 300, every class equally often.

    Each has mean 0 and standard deviation 3. With 1 the classes differ too little where tanh is
    almost linear, and a plain recurrent network may learn nothing for many epochs.

    One step of the sequence holds `positions_per_step` successive positions: 4 makes 25 steps of 4
    numbers, 1 makes 100 steps of 1 number.

    Shapes:  inputs float32 (N, 100 / positions_per_step, positions_per_step), labels int64 (N,).
    Raises:  ValueError: 100 is no multiple of positions_per_step.
             DataUnavailable: the file is missing or damaged.
    Source:  made with andi-datasets (MIT) at exponent 0.2; see LICENSE-TRAJECTORIES.md.
    """
    if positions_per_step not in _DIVISORS:
        raise ValueError(
            f"trajectories: positions_per_step must divide {LENGTH} "
            f"({', '.join(map(str, _DIVISORS))}), got {positions_per_step!r}."
        )
    train, validation, test = (
        Steps(
            as_steps(embedded("trajectories", f"{split}_positions"), positions_per_step),
            as_labels(embedded("trajectories", f"{split}_labels")),
        )
        for split in ("train", "validation", "test")
    )
    return Trajectories(train, validation, test)


def as_steps(positions: Array, positions_per_step: int = 4) -> Tensor:
    """Stored positions (N, 100) as float32 (N, T, D), the same on every machine."""
    # Dividing by a power of two is exact.
    values = torch.from_numpy(positions).to(torch.float32).div_(UNIT)
    return values.reshape(len(values), LENGTH // positions_per_step, positions_per_step)
