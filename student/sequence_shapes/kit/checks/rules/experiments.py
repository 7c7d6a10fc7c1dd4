"""Rules for the two experiments: what is left of a gradient after `length` steps of zeros?

Both draw a network with five hidden units and its initial state from a seed, and return the norm of
the gradient of the mean squared last output with respect to that state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop, number
from autograder.checks.rules.gates import FORGET, biased, overwritten
from autograder.checks.rules.recurrent import by_jacobians
from autograder.checks.rules.rule import Rule

HIDDEN = 5
TO_THE_FORGET_GATE = biased(FORGET)


def _last(output: Tensor, _: Tensor) -> Tensor:
    return output[:, -1].square().mean()


@dataclass(frozen=True)
class Mistaken:
    """An experiment that goes its own way in one thing; what is left out is right.

    Attributes:
        loss: of the outputs (1, T, H), and of the last cell state where there is one.
        size: a number for the gradient.
        inputs: makes them from a shape.
        more: steps beyond `length`.
        change: puts the bias into an LSTM.
        of: the initial state that is differentiated with respect to, h0 or c0.
    """

    loss: Callable[[Tensor, Tensor], Tensor] = _last
    size: Callable[[Tensor], Tensor] = torch.linalg.vector_norm
    inputs: Callable[..., Tensor] = torch.zeros
    more: int = 0
    change: Callable[[nn.LSTM, float], nn.LSTM] = TO_THE_FORGET_GATE
    of: int = 1

    def gradient_norm(self, length: int, seed: int) -> Tensor:
        """Through a simple recurrent layer, with respect to h0."""
        torch.manual_seed(seed)
        rnn = nn.RNN(1, HIDDEN, batch_first=True)
        h0 = torch.randn(1, 1, HIDDEN).requires_grad_()
        output, _ = rnn(self.inputs(1, length + self.more, 1), h0)
        return self.size(torch.autograd.grad(self.loss(output, output), h0)[0])

    def memory_norm(self, length: int, bias: float, seed: int) -> Tensor:
        """Through an LSTM, with respect to c0."""
        torch.manual_seed(seed)
        lstm = nn.LSTM(1, HIDDEN, batch_first=True)
        start = [torch.randn(1, 1, HIDDEN).requires_grad_() for _ in range(2)]
        changed = self.change(lstm, bias)
        output, (_, cell) = changed(self.inputs(1, length + self.more, 1), tuple(start))
        return self.size(torch.autograd.grad(self.loss(output, cell), start[self.of])[0])


MISTAKES = {
    "The norm is the root of the sum of squares: the root is missing.": Mistaken(
        size=lambda g: g.square().sum()
    ),
    "Take gradient.norm(), not the sum of the absolute values.": Mistaken(
        size=lambda g: g.abs().sum()
    ),
    "Take gradient.norm(), not the sum of the values.": Mistaken(size=torch.sum),
    "Take gradient.norm(), not the largest value.": Mistaken(size=lambda g: g.abs().max()),
    "The norm sums the squares; don't average them.": Mistaken(
        size=lambda g: g.square().mean().sqrt()
    ),
    "The loss is the mean of the squares, not their sum.": Mistaken(
        loss=lambda output, _: output[:, -1].square().sum()
    ),
    "The loss is the mean of the *squared* outputs.": Mistaken(
        loss=lambda output, _: output[:, -1].mean()
    ),
    "The loss is the mean over all units, not one of them.": Mistaken(
        loss=lambda output, _: output[:, -1, 0].square().mean()
    ),
    "The loss looks at the last step alone, output[:, -1], not at all of them.": Mistaken(
        loss=lambda output, _: output.square().mean()
    ),
    "The input is zeros, not ones: torch.zeros(1, length, 1).": Mistaken(inputs=torch.ones),
    "The input is zeros, not random: torch.zeros(1, length, 1).": Mistaken(inputs=torch.randn),
    "That is one step too many: torch.zeros(1, length, 1).": Mistaken(more=1),
    "That is one step too few: torch.zeros(1, length, 1).": Mistaken(more=-1),
}
MISTAKES_OF_MEMORY = MISTAKES | {
    "The loss looks at the last output, not at the last cell state.": Mistaken(
        loss=lambda _, cell: cell.square().mean()
    ),
    "The bias came in twice: call add_forget_bias once.": Mistaken(change=biased(FORGET, factor=2)),
    "Add the bias to what is there, don't put it in its place.": Mistaken(change=overwritten),
    "The bias is for the forget gate alone; yours changes the input gate as well.": Mistaken(
        change=biased(range(0, 2))
    ),
    "The bias is for the forget gate alone, not for all gates.": Mistaken(
        change=biased(range(0, 4))
    ),
    "The bias comes into both vectors, as add_forget_bias does it.": Mistaken(
        change=biased(FORGET, ("bias_ih_l0",))
    ),
    "Differentiate with respect to c0, not to h0.": Mistaken(of=0),
}


def _float(result: Any, _: tuple[Any, ...]) -> float:
    """The norm as a float, of whatever kind it came."""
    norm = number(result.detach() if isinstance(result, Tensor) else result)
    if norm is None:
        raise Stop(
            "the result is not one finite number.", "Return a float: gradient.norm().item()."
        )
    return norm


def _gradient_norm(length: int, seed: int) -> Tensor:
    torch.manual_seed(seed)
    rnn = nn.RNN(1, HIDDEN, batch_first=True)
    h0 = torch.randn(1, 1, HIDDEN)
    norm: Tensor = by_jacobians(rnn, torch.zeros(1, length, 1), h0).norm()
    return norm


@torch.no_grad()
def _memory_norm(length: int, bias: float, seed: int) -> Tensor:
    """Back through the equations of an LSTM by hand, gate by gate; states and gates (1, H)."""
    torch.manual_seed(seed)
    lstm = nn.LSTM(1, HIDDEN, batch_first=True)
    (h,), (c,) = torch.randn(1, 1, HIDDEN), torch.randn(1, 1, HIDDEN)
    _, w_hh, b_ih, b_hh = lstm.parameters()
    shift = b_ih + b_hh + 2 * bias * torch.eye(4)[1].repeat_interleave(HIDDEN)
    steps = []
    for _ in range(length):
        i, f, g, o = (h @ w_hh.T + shift).chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        old, c = c, f * c + i * g
        h = o * c.tanh()
        steps.append((i, f, g, o, old, c))
    to_h, to_c = 2 * h / h.numel(), torch.zeros_like(c)
    for i, f, g, o, old, c in reversed(steps):
        to_c = to_c + to_h * o * (1 - c.tanh() ** 2)
        gates = (
            to_c * g * i * (1 - i), to_c * old * f * (1 - f),
            to_c * i * (1 - g**2), to_h * c.tanh() * o * (1 - o),
        )  # fmt: skip
        to_h, to_c = torch.cat(gates, dim=1) @ w_hh, to_c * f
    norm: Tensor = to_c.norm()
    return norm


def _cases(name: str, *rows: tuple[float, ...]) -> dict[str, Callable[[], tuple[float, ...]]]:
    """Cases whose names hold their arguments."""

    def given(row: tuple[float, ...]) -> Callable[[], tuple[float, ...]]:
        return lambda: row

    return {name.format(*row): given(row) for row in rows}


GRADIENT_NORM = Rule(
    # One norm a case: beside a large one, an error of 1e-31 would not be seen.
    cases=_cases(
        "{} steps, seed {}", (2, 1), (10, 2), (100, 3), (3, 4), (25, 5), (60, 6), (100, 7)
    ),
    oracle=_gradient_norm,
    read=_float,
    hint="Leave the given lines as they are, in float64. Feed torch.zeros(1, length, 1) from h0, "
    "take the gradient of question 3, and return its norm(): the root of the sum of squares.",
    slips={hint: mistaken.gradient_norm for hint, mistaken in MISTAKES.items()},
)
MEMORY_NORM = Rule(
    cases=_cases(
        "{} steps, bias {}, seed {}",
        (2, 0, 1),
        (10, 1, 2),
        (100, 2, 3),
        (3, 0.5, 4),
        (25, 1.5, 5),
        (100, 0, 6),
        (100, 1, 7),
    ),
    oracle=_memory_norm,
    read=_float,
    hint="Leave the given lines as they are, in float64. Add the bias with add_forget_bias, feed "
    "torch.zeros(1, length, 1) from (h0, c0), and return the norm() of the gradient with respect "
    "to c0; the loss is the mean of the squared last output.",
    slips={hint: mistaken.memory_norm for hint, mistaken in MISTAKES_OF_MEMORY.items()},
)

RULES = {"gradient_norm": GRADIENT_NORM, "memory_norm": MEMORY_NORM}
