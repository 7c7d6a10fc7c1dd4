"""Rules for the LSTM: one step of the cell, and the bias of its forget gate.

Shapes: x (B, D), h and c (B, H), weights (4H, D) and (4H, H), biases (4H,); their four blocks stand
in PyTorch's order i, f, g, o.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Step = tuple[Tensor, Tensor]


def _step(batch: int, features: int, hidden: int) -> Arguments:
    """x, h, c, w_ih, w_hh, b_ih, b_hh."""
    states = (torch.randn(batch, n) for n in (features, hidden, hidden))
    weights = (torch.randn(4 * hidden, n) / n**0.5 for n in (features, hidden))
    return *states, *weights, torch.randn(4 * hidden), torch.randn(4 * hidden)


def _cell(x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, *biases: Tensor) -> Step:
    cell = nn.LSTMCell(x.shape[1], h.shape[1])
    with torch.no_grad():
        for parameter, value in zip(cell.parameters(), (w_ih, w_hh, *biases), strict=True):
            parameter.copy_(value)
    new_h, new_c = cell(x, (h, c))
    return new_h, new_c


def _ordered(*order: int) -> Callable[..., Step]:
    """The cell for somebody who takes the four blocks to be other gates."""

    def mistaken(x: Tensor, h: Tensor, c: Tensor, *parameters: Tensor) -> Step:
        swapped = [torch.cat([p.chunk(4)[k] for k in order]) for p in parameters]
        return _cell(x, h, c, *swapped)

    return mistaken


def _gates(*arguments: Any) -> list[Tensor]:
    x, h, _, w_ih, w_hh, b_ih, b_hh = arguments
    blocks: list[Tensor] = list((x @ w_ih.T + h @ w_hh.T + b_ih + b_hh).chunk(4, dim=1))
    return blocks


def _without_last_tanh(*arguments: Any) -> Step:
    new_c = _cell(*arguments)[1]
    return _gates(*arguments)[3].sigmoid() * new_c, new_c


def _squashed_candidate(*arguments: Any) -> Step:
    i, f, g, o = (gate.sigmoid() for gate in _gates(*arguments))
    new_c = f * arguments[2] + i * g
    return o * torch.tanh(new_c), new_c


def _output_of_old_cell(*arguments: Any) -> Step:
    new_c = _cell(*arguments)[1]
    return _gates(*arguments)[3].sigmoid() * torch.tanh(arguments[2]), new_c


LSTM_STEP = Rule(
    cases={
        "three features": lambda: _step(2, 3, 4),
        "a batch of one": lambda: _step(1, 2, 3),
        "as many features as hidden units": lambda: _step(3, 6, 6),
        "one hidden unit": lambda: _step(4, 2, 1),
    },
    oracle=_cell,
    hint="Split the four blocks in the order i, f, g, o; then c = f · c + i · g and "
    "h = o · tanh(c).",
    slips={
        "The blocks stand in the order i, f, g, o: the third is the candidate g, the last the "
        "output gate o.": _ordered(0, 1, 3, 2),
        "Input and forget gate are swapped: the blocks stand in the order i, f, g, o.": (
            _ordered(1, 0, 2, 3)
        ),
        "The blocks stand in the order i, f, g, o, not f, i, o, g.": _ordered(1, 0, 3, 2),
        "h = o · tanh(c): the tanh of the new cell state is missing.": _without_last_tanh,
        "The candidate g goes through tanh; i, f and o go through the sigmoid.": (
            _squashed_candidate
        ),
        "h comes from the new c, not from the old one.": _output_of_old_cell,
        "There are two biases: add b_hh as well.": (
            lambda *a: _cell(*a[:6], torch.zeros_like(a[6]))
        ),
        "There are two biases: add b_ih as well.": (
            lambda *a: _cell(*a[:5], torch.zeros_like(a[5]), a[6])
        ),
        "The order is (h, c): your two results are swapped.": lambda *a: _cell(*a)[::-1],
    },
)

BIASES = ("bias_ih_l0", "bias_hh_l0")


def _parameters(result: Any, _: Arguments) -> tuple[Tensor, ...]:
    """All parameters of the LSTM that came back, biases first."""
    kept = dict(nn.Module.named_parameters(result)) if isinstance(result, nn.LSTM) else {}
    names = (*BIASES, "weight_ih_l0", "weight_hh_l0")
    if not set(names) <= set(kept):
        raise Stop(
            f"the result, a {type(result).__name__}, is not the LSTM.",
            "Change the biases of the LSTM that came in, then return it.",
        )
    return tuple(kept[name] for name in names)


def biased(
    gates: range, names: tuple[str, ...] = BIASES, factor: float = 1.0
) -> Callable[[nn.LSTM, float], nn.LSTM]:
    """Adds `factor` times the value to the blocks `gates` of the biases `names`."""

    def change(lstm: nn.LSTM, value: float) -> nn.LSTM:
        size = lstm.hidden_size
        with torch.no_grad():
            for name in names:
                block = lstm.get_parameter(name)[gates.start * size : gates.stop * size]
                block.add_(factor * value)
        return lstm

    return change


def overwritten(lstm: nn.LSTM, value: float) -> nn.LSTM:
    """Puts the value in the place of the forget gate's biases."""
    with torch.no_grad():
        for name in BIASES:
            lstm.get_parameter(name)[lstm.hidden_size : 2 * lstm.hidden_size] = value
    return lstm


def _masked(lstm: nn.LSTM, value: float) -> nn.LSTM:
    """Otherwise than students: a Kronecker product makes a mask of the whole vector."""
    mask = torch.kron(torch.tensor([0.0, 1.0, 0.0, 0.0]), torch.ones(lstm.hidden_size))
    for name in BIASES:
        lstm.get_parameter(name).data += value * mask
    return lstm


FORGET = range(1, 2)

FORGET_BIAS = Rule(
    cases={
        "five hidden units": lambda: (nn.LSTM(1, 5, batch_first=True), 1.0),
        "one hidden unit": lambda: (nn.LSTM(2, 1, batch_first=True), 0.5),
        "a negative value": lambda: (nn.LSTM(3, 4, batch_first=True), -2.0),
        "twelve hidden units": lambda: (nn.LSTM(2, 12), 1.5),
    },
    oracle=_masked,
    read=_parameters,
    hint="Add the value to the second of the four blocks of bias_ih_l0 and of bias_hh_l0, and "
    "change nothing else.",
    slips={
        "That is the input gate: the blocks stand in the order i, f, g, o.": biased(range(0, 1)),
        "That is the candidate g: the blocks stand in the order i, f, g, o.": biased(range(2, 3)),
        "That is the output gate: the blocks stand in the order i, f, g, o.": biased(range(3, 4)),
        "There are two bias vectors: bias_hh_l0 has to change as well.": (
            biased(FORGET, BIASES[:1])
        ),
        "There are two bias vectors: bias_ih_l0 has to change as well.": (
            biased(FORGET, BIASES[1:])
        ),
        "Add the value to what is there, don't put it in its place.": overwritten,
        "Add the whole value to each of the two vectors.": biased(FORGET, factor=0.5),
        "The value comes into both vectors, not twice into bias_ih_l0.": (
            biased(FORGET, BIASES[:1], factor=2)
        ),
        "The value comes into both vectors, not twice into bias_hh_l0.": (
            biased(FORGET, BIASES[1:], factor=2)
        ),
        "Only the forget gate is meant: the second of four blocks.": biased(range(0, 4)),
    },
)


RULES = {"lstm_step": LSTM_STEP, "forget_bias": FORGET_BIAS}
