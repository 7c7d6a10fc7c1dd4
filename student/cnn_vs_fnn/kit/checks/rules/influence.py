"""Rules for causality: which inputs influence which outputs?

Shapes: one sequence (1, T, D), outputs (1, T, H), influence (T, T): row t is the output of step t,
column s the input of step s.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograder.checks.core import Stop, number
from autograder.checks.rules.rule import Rule

STEPS, FEATURES = 5, 4


class Masked(nn.Module):
    """An encoder layer that adds `mask` (T, T) to its attention scores."""

    def __init__(self, mask: Tensor) -> None:
        """Make the layer, without dropout."""
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(FEATURES, 2, 8, dropout=0.0, batch_first=True)
        self.mask = mask

    def forward(self, inputs: Tensor) -> Tensor:
        """(1, T, D) -> (1, T, D)."""
        steps = inputs.shape[1]
        outputs: Tensor = self.layer(inputs, self.mask[:steps, :steps])
        return outputs


class Backwards(nn.Module):
    """A recurrent layer that reads from the end to the beginning."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.rnn = nn.RNN(FEATURES, 3, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """(1, T, D) -> (1, T, H)."""
        outputs: Tensor = self.rnn(inputs.flip(1))[0]
        return outputs.flip(1)


class Ahead(nn.Module):
    """A linear layer that sees a little of the step after the next."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.linear = nn.Linear(FEATURES, FEATURES)

    def forward(self, inputs: Tensor) -> Tensor:
        """(1, T, D) -> (1, T, D)."""
        later = torch.cat([inputs[:, 2:], torch.zeros_like(inputs[:, :2])], dim=1)
        outputs: Tensor = self.linear(inputs) + 1e-4 * later[:, : inputs.shape[1]]
        return outputs


class Convolution(nn.Module):
    """A convolution over three steps, with zeros before and after the sequence."""

    def __init__(self, before: int, after: int) -> None:
        """Make the layer; `before` and `after` count the zeros."""
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConstantPad1d((before, after), 0.0), nn.Conv1d(FEATURES, 3, kernel_size=3)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """(1, T, D) -> (1, T, H)."""
        outputs: Tensor = self.layers(inputs.mT).mT
        return outputs


def _open_at(step: int, later: int) -> Tensor:
    """A causal mask in which one output may see one later input."""
    mask = _future(float("-inf"))
    mask[step, later] = 0.0
    return mask


def _future(value: float) -> Tensor:
    """A mask with `value` at every later step, and 0 elsewhere."""
    return torch.full((STEPS, STEPS), value).triu(1)


def _beside(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, Tensor]]:
    return lambda: (make().eval(), torch.randn(1, STEPS, FEATURES))


_LAYERS: dict[str, Callable[[], nn.Module]] = {
    "an RNN": lambda: nn.RNN(FEATURES, 3, batch_first=True),
    "an LSTM": lambda: nn.LSTM(FEATURES, 3, batch_first=True),
    "a bidirectional RNN": lambda: nn.RNN(FEATURES, 3, batch_first=True, bidirectional=True),
    "an encoder layer without a mask": lambda: Masked(_future(0.0)),
    "an encoder layer with a causal mask": lambda: Masked(_future(float("-inf"))),
    "a GRU of two layers": lambda: nn.GRU(FEATURES, 3, 2, batch_first=True),
    "an RNN that reads backwards": Backwards,
    "an encoder layer with a mask of zeros and ones": lambda: Masked(_future(1.0)),
    "an encoder layer with a hole in its mask": lambda: Masked(_open_at(1, 3)),
    "a layer that sees a little of the step after the next": Ahead,
    "a convolution over the steps before": lambda: Convolution(2, 0),
    "a convolution over the steps on both sides": lambda: Convolution(1, 1),
    "a linear layer": lambda: nn.Linear(FEATURES, 2),
}

CASES = {name: _beside(make) for name, make in _LAYERS.items()}


def jacobian(layer: nn.Module, inputs: Tensor) -> Tensor:
    """All derivatives, shape (T, H, T, D)."""

    def outputs(sequence: Tensor) -> Any:
        result = layer(sequence)
        return (result[0] if isinstance(result, tuple) else result)[0]

    derivatives: Callable[..., Tensor] = torch.autograd.functional.jacobian
    return derivatives(outputs, inputs)[:, :, 0]


def _norms(layer: nn.Module, inputs: Tensor) -> Tensor:
    return jacobian(layer, inputs).square().sum((1, 3)).sqrt()


def _of_sums(layer: nn.Module, inputs: Tensor) -> Tensor:
    return jacobian(layer, inputs).sum(1).square().sum(2).sqrt()


INFLUENCE = Rule(
    cases=CASES,
    oracle=_norms,
    hint="Entry [t, s]: the square root of the sum of squares of all derivatives of outputs[0, t] "
    "with respect to inputs[0, s].",
    slips={
        "Derivatives of out[t].sum() cancel each other, after a layer norm completely: take each "
        "feature of the output by itself.": _of_sums,
        "Derivatives of out[t].mean() cancel each other, after a layer norm completely: take each "
        "feature of the output by itself.": (
            lambda layer, x: jacobian(layer, x).mean(1).norm(dim=2)
        ),
        "Rows are outputs and columns inputs: yours is transposed.": (
            lambda layer, x: _norms(layer, x).T
        ),
        "Take the root of the sum of squares, not the largest derivative.": (
            lambda layer, x: jacobian(layer, x).abs().amax((1, 3))
        ),
        "Take the root of the sum of squares, not the sum of absolute values.": (
            lambda layer, x: jacobian(layer, x).abs().sum((1, 3))
        ),
        "The root of the sum of squares: the root is missing.": (
            lambda layer, x: jacobian(layer, x).square().sum((1, 3))
        ),
        "Sum the squares, don't average them.": (
            lambda layer, x: jacobian(layer, x).square().mean((1, 3)).sqrt()
        ),
    },
)


def _beyond_rounding(matrix: Tensor) -> bool:
    return bool((matrix > 1e-12).any())


def _decision(result: Any, _: tuple[Any, ...]) -> Any:
    if number(result) is None:
        raise Stop(
            f"the result is a {type(result).__name__}.",
            "Return one True or False, for instance bool((… < 1e-12).all()).",
        )
    return bool(result) if isinstance(result, Tensor | np.ndarray) else result


CAUSAL = Rule(
    cases=CASES,
    oracle=lambda layer, inputs: not _beyond_rounding(_norms(layer, inputs).triu(1)),
    read=_decision,
    words={0.0: "False", 1.0: "True"},
    hint="A layer is causal if no later input influences an output: everything above the diagonal "
    "of the influence is 0. On the diagonal, an output may see its own input.",
    slips={
        "A layer norm hides the leak from out[t].sum(): use all derivatives, as in influence.": (
            lambda layer, x: not _beyond_rounding(_of_sums(layer, x).triu(1))
        ),
        "The future lies above the diagonal, columns s > t; the diagonal itself is the present.": (
            lambda layer, x: not _beyond_rounding(_norms(layer, x).tril(-1))
        ),
        "The diagonal itself is the present: an output may see its own input.": (
            lambda layer, x: not _beyond_rounding(_norms(layer, x).triu())
        ),
    },
)

RULES = {"influence": INFLUENCE, "is_causal": CAUSAL}
