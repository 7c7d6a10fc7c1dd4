"""Rules for what a layer knows of time: its positions, a look ahead, and the order of the steps.

Shapes: sequences (B, T, D), outputs (B, T, H), an encoding (T, D).
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop, number
from autograder.checks.rules import influence
from autograder.checks.rules.influence import FEATURES, STEPS, Masked
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
ROUNDING = 1e-12  # smaller differences are none; those of the layers here are above 1e-6
BASE = 10_000.0


def _column(position: int, column: int, width: int) -> float:
    angle = position / BASE ** (2 * (column // 2) / width)
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


def _encoding(length: int, width: int) -> Tensor:
    """Entry by entry."""
    rows = [[_column(t, k, width) for k in range(width)] for t in range(length)]
    return torch.tensor(rows)


def _angles(length: int, width: int, exponents: Tensor) -> Tensor:
    return torch.arange(length)[:, None] / BASE ** (exponents / width)


def _in_halves(length: int, width: int) -> Tensor:
    angles = _angles(length, width, torch.arange(0.0, width, 2))
    return torch.cat([angles.sin(), angles.cos()[:, : width // 2]], dim=1)


def _in_columns(sines: Tensor, cosines: Tensor) -> Tensor:
    made = torch.empty(sines.shape)
    made[:, 0::2], made[:, 1::2] = sines[:, 0::2], cosines[:, 1::2]
    return made


def _with_exponents(of: Callable[[Tensor], Tensor]) -> Callable[[int, int], Tensor]:
    def mistaken(length: int, width: int) -> Tensor:
        angles = _angles(length, width, of(torch.arange(0.0, width)))
        return _in_columns(angles.sin(), angles.cos())

    return mistaken


def _cosine_first(length: int, width: int) -> Tensor:
    angles = _angles(length, width, torch.arange(width).div(2, rounding_mode="floor") * 2.0)
    return _in_columns(angles.cos(), angles.sin())


POSITIONAL_ENCODING = Rule(
    cases={
        "20 steps of width 6": lambda: (20, 6),
        "100 steps of width 16": lambda: (100, 16),
        "7 steps of width 5": lambda: (7, 5),
        "one step": lambda: (1, 4),
        "width 1": lambda: (6, 1),
        "width 2": lambda: (9, 2),
        "30 steps of width 33": lambda: (30, 33),
        "5000 steps of width 8": lambda: (5000, 8),
    },
    oracle=_encoding,
    hint="Row t, columns 2i and 2i + 1: sine and cosine of t / 10000^(2i / D), t from 0.",
    slips={
        "Sine and cosine take turns, column by column: yours stand in two halves.": _in_halves,
        "Sine and cosine of a pair have the same angle: 2i is the even one of the two columns.": (
            _with_exponents(lambda columns: columns)
        ),
        "The exponent is 2i / D: i counts the pairs of columns.": _with_exponents(
            lambda columns: columns.div(2, rounding_mode="floor")
        ),
        "The exponent is 2i / D, where 2i is the column's number, not twice that.": (
            _with_exponents(lambda columns: columns.div(2, rounding_mode="floor") * 4)
        ),
        "Even columns are sines, odd ones cosines.": _cosine_first,
        "The first position is 0, not 1.": lambda t, d: _encoding(t + 1, d)[1:],
        "Rows are positions: yours is transposed.": lambda t, d: _encoding(t, d).T,
        "A batch dimension is too much: (T, D).": lambda t, d: _encoding(t, d)[None],
    },
)


class Positioned(nn.Module):
    """An encoder layer without a mask, behind a positional encoding."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.layer = Masked(torch.zeros(STEPS, STEPS))

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        outputs: Tensor = self.layer(inputs + _encoding(*inputs.shape[1:]))
        return outputs


def _plain(result: Any, _: Arguments) -> float:
    """A float of whatever kind it came, and 0 for what is only rounding."""
    value = number(result.detach() if isinstance(result, Tensor) else result)
    if value is None:
        raise Stop(
            "the result is not one finite number.", "Return a float, for instance ….max().item()."
        )
    return 0.0 if abs(value) < ROUNDING else value


def _layer(name: str) -> nn.Module:
    layer: nn.Module = influence.CASES[name]()[0]
    return layer


def _projected(layer: Callable[[], nn.Module], ones: bool = False) -> Callable[[], Arguments]:
    """The layer, one sequence, and a projection (H,) of random numbers or of ones."""

    def made() -> Arguments:
        module, inputs = layer().eval(), torch.randn(1, STEPS, FEATURES)
        size = module(inputs).shape[-1]
        return module, inputs, torch.ones(size) if ones else torch.randn(size)

    return made


def _known(name: str) -> Callable[[], Arguments]:
    return _projected(lambda: _layer(name))


def _derivatives(layer: nn.Module, inputs: Tensor, projection: Tensor) -> Tensor:
    """Of each projected output, shape (T, T, D): later inputs to the right."""
    jacobian = influence.jacobian(layer, inputs)  # (T, H, T, D)
    return torch.einsum("tksd,k->tsd", jacobian, projection)


def _slopes(layer: nn.Module, inputs: Tensor, projection: Tensor) -> Tensor:
    return _derivatives(layer, inputs, projection).abs()


def _largest(of: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda layer, inputs, projection: of(_slopes(layer, inputs, projection)).max()


LEAK = Rule(
    cases={
        "an encoder layer without a mask": _known("an encoder layer without a mask"),
        "an encoder layer with a causal mask": _known("an encoder layer with a causal mask"),
        "an encoder layer without a mask, projected on ones": _projected(
            lambda: _layer("an encoder layer without a mask"), ones=True
        ),
        "an encoder layer with a hole in its mask": _known(
            "an encoder layer with a hole in its mask"
        ),
        "an encoder layer with a mask of zeros and ones": _known(
            "an encoder layer with a mask of zeros and ones"
        ),
        "an encoder layer whose mask adds -10": _projected(
            lambda: Masked(torch.full((STEPS, STEPS), -10.0).triu(1))
        ),
        "an RNN that reads backwards": _known("an RNN that reads backwards"),
        "a layer that sees a little of the step after the next": _known(
            "a layer that sees a little of the step after the next"
        ),
        "a linear layer": _known("a linear layer"),
        "a convolution over the steps before": _known("a convolution over the steps before"),
    },
    oracle=_largest(lambda slopes: slopes.amax(-1).triu(1)),
    read=_plain,
    hint="For each step t: differentiate outputs[0, t] @ projection with respect to the inputs, "
    "and take the largest absolute derivative for the inputs after t.",
    slips={
        "The projection is missing, you take a sum: behind a layer norm it is always the same.": (
            lambda layer, x, p: _slopes(layer, x, torch.ones_like(p)).amax(-1).triu(1).max()
        ),
        "The output's own step t is no future: only inputs s > t count.": _largest(
            lambda slopes: slopes.amax(-1).triu()
        ),
        "The future are the inputs s > t; yours looks at those before.": _largest(
            lambda slopes: slopes.amax(-1).tril(-1)
        ),
        "Only later inputs count, s > t; yours looks at all of them.": _largest(
            lambda slopes: slopes
        ),
        "The largest absolute derivative is asked for, not a norm over the features.": _largest(
            lambda slopes: slopes.norm(dim=-1).triu(1)
        ),
        "Take absolute values before the largest: a derivative may be negative.": (
            lambda layer, x, p: _derivatives(layer, x, p).amax(-1).triu(1).max()
        ),
        "All later inputs count, not only the next one.": _largest(
            lambda slopes: slopes.amax(-1).diagonal(1)
        ),
        "Each output counts, not only the first.": _largest(lambda slopes: slopes[0, 1:]),
        "The largest derivative is asked for, not their sum.": (
            lambda layer, x, p: _slopes(layer, x, p).sum(-1).triu(1).sum()
        ),
        "Differentiate each step's output by itself, not the sum over all steps.": (
            lambda layer, x, p: torch.einsum(
                "tksd,k->sd", influence.jacobian(layer, x), p
            )[1:].abs().max()
        ),
    },
)  # fmt: skip


def _reordered(layer: Callable[[], nn.Module]) -> Callable[[], Arguments]:
    """The layer, two sequences, and an order of their steps that is no exchange of two."""

    def made() -> Arguments:
        order = torch.tensor([2, 0, 1, 4, 3])  # its own inverse would be no test of the direction
        return layer().eval(), torch.randn(2, STEPS, FEATURES), order

    return made


def _by_steps(layer: nn.Module, inputs: Tensor, order: Tensor) -> Tensor:
    """Step by step: what became of step order[k], which now stands at k."""
    before, after = layer(inputs), layer(inputs[:, order])
    gaps = [(after[:, k] - before[:, step]).abs().max() for k, step in enumerate(order.tolist())]
    return torch.stack(gaps).max()


ORDER_ERROR = Rule(
    cases={
        "a linear layer": _reordered(lambda: _layer("a linear layer")),
        "an encoder layer without a mask": _reordered(
            lambda: _layer("an encoder layer without a mask")
        ),
        "an encoder layer behind positions": _reordered(Positioned),
        "an encoder layer with a causal mask": _reordered(
            lambda: _layer("an encoder layer with a causal mask")
        ),
        "an RNN that reads backwards": _reordered(lambda: _layer("an RNN that reads backwards")),
        "a convolution over the steps on both sides": _reordered(
            lambda: _layer("a convolution over the steps on both sides")
        ),
    },
    oracle=_by_steps,
    read=_plain,
    hint="The largest absolute difference between layer(inputs[:, order]) and "
    "layer(inputs)[:, order].",
    slips={
        "The outputs move with the steps: compare with layer(inputs)[:, order].": (
            lambda layer, x, order: (layer(x[:, order]) - layer(x)).abs().max()
        ),
        "Take the largest difference, not the mean.": lambda layer, x, order: (
            (layer(x[:, order]) - layer(x)[:, order]).abs().mean()
        ),
        "Take the largest difference, not the sum.": lambda layer, x, order: (
            (layer(x[:, order]) - layer(x)[:, order]).abs().sum()
        ),
        "Take the absolute value before the largest.": lambda layer, x, order: (
            layer(x[:, order]) - layer(x)[:, order]
        ).max(),
        "Both sides are put in the same order: layer(inputs[:, order]) and "
        "layer(inputs)[:, order].": lambda layer, x, order: (
            (layer(x[:, order]) - layer(x)[:, order.argsort()]).abs().max()
        ),
    },
)

RULES = {
    "positional_encoding": POSITIONAL_ENCODING,
    "leak": LEAK,
    "order_error": ORDER_ERROR,
}
