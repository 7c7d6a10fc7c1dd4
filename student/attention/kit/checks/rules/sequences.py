"""Rules for preparing sequences. Shapes: N trajectories of T positions, D positions a step."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from autograder.checks.rules.rule import Rule

LENGTH = 100  # positions of a trajectory in the cases of `normalise`


def _walks(count: int, scale: float = 1.0, offset: float = 0.0) -> Tensor:
    return offset + scale * torch.randn(count, LENGTH).cumsum(1)


def _beside_a_constant() -> Tensor:
    walks = _walks(4)
    walks[1] = 0.25  # a mean without rounding on every machine, so that each guard will do
    return walks


def _of_many_scales() -> Tensor:
    scales = torch.tensor([1.0, 10.0, 100.0, 1000.0, 10000.0])  # usual guards are small beside all
    return _walks(5) * scales[:, None]


def _normalised(positions: Tensor) -> Tensor:
    """Row by row in Python, with sums that are exact."""
    return torch.tensor([_normalised_row(row) for row in positions.tolist()])


def _normalised_row(row: list[float]) -> list[float]:
    if max(row) == min(row):
        return [0.0] * len(row)
    mean = math.fsum(row) / len(row)
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in row) / len(row))
    return [(x - mean) / spread for x in row]


def _by(dim: int | None) -> Callable[[Tensor], Tensor]:
    """Normalise over a dimension, or over everything, without a guard; torch's own deviation."""

    def mistaken(positions: Tensor) -> Tensor:
        keep = dim is not None
        return (positions - positions.mean(dim, keepdim=keep)) / positions.std(dim, keepdim=keep)

    return mistaken


def _constant_kept(positions: Tensor) -> Tensor:
    still = positions.std(1, keepdim=True) == 0
    return torch.where(still, positions, _by(1)(positions))


NORMALISE = Rule(
    cases={
        "random walks": lambda: (_walks(5),),
        "a trajectory that never moves among others": lambda: (_beside_a_constant(),),
        "one trajectory": lambda: (_walks(1),),
        "trajectories of very different scales": lambda: (_of_many_scales(),),
        "a large offset": lambda: (_walks(3, offset=1000.0),),
        "trajectories that never move": lambda: (
            torch.tensor([[0.0], [0.25], [-5.0]]).repeat(1, LENGTH),
        ),
    },
    oracle=_normalised,
    hint="For each row: subtract its mean, then divide by its standard deviation.",
    slips={
        "Each trajectory has a mean and a deviation of its own: give dim=1 and keepdim=True.": (
            _by(None)
        ),
        "The mean goes over the positions of one trajectory, dim=1, not over trajectories.": _by(0),
        "A trajectory that never moves has no spread, and 0 / 0 is nan: divide it by 1, or by "
        "its spread plus a tiny number.": _by(1),
        "A trajectory that never moves must become zeros: its mean is subtracted as well.": (
            _constant_kept
        ),
        "The mean is subtracted; now divide by the standard deviation.": (
            lambda positions: positions - positions.mean(1, keepdim=True)
        ),
    },
)


def _counted_positions(count: int, length: int, size: int) -> tuple[Tensor, int]:
    """Every position is another whole number, so that none can take another's place."""
    return torch.randperm(count * length).reshape(count, length).to(torch.float64), size


def _steps(positions: Tensor, size: int) -> Tensor:
    starts = range(0, positions.shape[1], size)
    return torch.stack([positions[:, start : start + size] for start in starts], dim=1)


TO_STEPS = Rule(
    cases={
        "6 positions in steps of 2": lambda: (torch.arange(1.0, 7.0)[None], 2),
        "100 positions in steps of 4": lambda: _counted_positions(3, 100, 4),
        "16 positions in steps of 4": lambda: _counted_positions(5, 16, 4),
        "steps of one position": lambda: _counted_positions(2, 10, 1),
        "one step": lambda: _counted_positions(3, 8, 8),
    },
    oracle=_steps,
    hint="Keep the order: step k of a trajectory holds its positions k·size to (k + 1)·size - 1.",
    slips={
        "Positions that follow each other belong to one step; here a step takes every second or "
        "later one.": lambda positions, size: positions.unflatten(1, (size, -1)).transpose(1, 2),
        "size says how many positions a step has, not how many steps there are.": (
            lambda positions, size: positions.unflatten(1, (size, -1))
        ),
    },
)

RULES = {"normalise": NORMALISE, "to_steps": TO_STEPS}
