"""Rules for the GRU: one step of the cell, and its size beside that of RNN and LSTM.

Shapes: x (B, D), h (B, H), weights (3H, D) and (3H, H), biases (3H,); their three blocks stand in
PyTorch's order r, z, n.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _draw(batch: int, features: int, hidden: int) -> Arguments:
    """x, h, w_ih, w_hh, b_ih, b_hh."""
    states = (torch.randn(batch, n) for n in (features, hidden))
    weights = (torch.randn(3 * hidden, n) / n**0.5 for n in (features, hidden))
    return *states, *weights, torch.randn(3 * hidden), torch.randn(3 * hidden)


@dataclass(frozen=True)
class Mistaken:
    """A step that goes its own way in one thing; what is left out is right.

    Attributes:
        order: places of r, z and n among the three blocks.
        candidate: n from the input's part, r, the state, its matrix and its bias.
        squash: the function around n.
        swapped: whether z lets the new content in, not the old state.
    """

    order: tuple[int, int, int] = (0, 1, 2)
    candidate: Callable[..., Tensor] = lambda n, r, h, u, b: n + r * (h @ u.T + b)
    squash: Callable[[Tensor], Tensor] = torch.tanh
    swapped: bool = False

    def step(self, *arguments: Any) -> Tensor:
        """The new state."""
        x, h, w_ih, w_hh, b_ih, b_hh = arguments
        r, z, n = ((x @ w_ih.T + b_ih).chunk(3, dim=1)[k] for k in self.order)
        us, bs = ([part.chunk(3)[k] for k in self.order] for part in (w_hh, b_hh))
        r, z = ((gate + h @ us[k].T + bs[k]).sigmoid() for k, gate in enumerate((r, z)))
        new = self.squash(self.candidate(n, r, h, us[2], bs[2]))
        kept, let_in = (new, h) if self.swapped else (h, new)
        state: Tensor = (1 - z) * let_in + z * kept
        return state


GRU_STEP = Rule(
    cases={
        "three features": lambda: _draw(2, 3, 4),
        "a batch of one": lambda: _draw(1, 2, 3),
        "as many features as hidden units": lambda: _draw(3, 4, 4),
        "one hidden unit": lambda: _draw(4, 2, 1),
        "a large batch": lambda: _draw(50, 5, 6),
    },
    oracle=torch.gru_cell,
    hint="Split the three blocks in the order r, z, n; n = tanh(W x + b + r · (U h + b')), then "
    "h = (1 - z) · n + z · h.",
    slips={
        "z keeps the old state: h = (1 - z) · n + z · h.": Mistaken(swapped=True).step,
        "The blocks stand in the order r, z, n, not z, r, n.": Mistaken(order=(1, 0, 2)).step,
        "r multiplies what the matrix makes of h, the bias included, not h before it.": (
            Mistaken(candidate=lambda n, r, h, u, b: n + (r * h) @ u.T + b).step
        ),
        "r multiplies the bias b_hh of the candidate as well.": (
            Mistaken(candidate=lambda n, r, h, u, b: n + r * (h @ u.T) + b).step
        ),
        "The reset gate r is not used: it multiplies what comes from h in the candidate.": (
            Mistaken(candidate=lambda n, r, h, u, b: n + h @ u.T + b).step
        ),
        "r multiplies only what comes from h, not what comes from x.": (
            Mistaken(candidate=lambda n, r, h, u, b: r * (n + h @ u.T + b)).step
        ),
        "The candidate n goes through tanh; r and z go through the sigmoid.": (
            Mistaken(squash=torch.sigmoid).step
        ),
        "There are two biases: add b_hh as well.": (
            lambda x, h, w, u, b, c: torch.gru_cell(x, h, w, u, b, torch.zeros_like(c))
        ),
        "There are two biases: add b_ih as well.": (
            lambda x, h, w, u, b, c: torch.gru_cell(x, h, w, u, torch.zeros_like(b), c)
        ),
    },
)

LAYERS: dict[str, Callable[..., nn.Module]] = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}
MAPS = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _size(kind: str, inputs: int, hidden: int, layers: int = 1) -> int:
    deep = LAYERS[kind](inputs, hidden, layers, device="meta")
    return sum(parameter.numel() for parameter in deep.parameters())


def _mistaken_size(
    maps: dict[str, int],
    size: Callable[[int, int], int] = lambda i, h: h * (h + i + 2),
    widths: Callable[[int, int, int], list[int]] = lambda i, h, n: [i] + [h] * (n - 1),
) -> Callable[..., int]:
    """`maps` of a kind, times the size of one, summed over the inputs' `widths` of the layers."""

    def count(kind: str, inputs: int, hidden: int, layers: int = 1) -> int:
        return maps[kind] * sum(size(width, hidden) for width in widths(inputs, hidden, layers))

    return count


_FIRST_LAYER = "The first layer reads the inputs, every other one the {} states of the one below."
_TWO_BIASES = "PyTorch's layers have two biases, bias_ih and bias_hh."


def _sizes(*arguments: Any) -> Callable[[], Arguments]:
    return lambda: arguments


RECURRENT_PARAMETERS = Rule(
    cases={
        "an RNN, 4 inputs, 10 hidden units": _sizes("RNN", 4, 10),
        "a GRU, 4 inputs, 10 hidden units": _sizes("GRU", 4, 10),
        "an LSTM, 4 inputs, 10 hidden units": _sizes("LSTM", 4, 10),
        "an RNN of 2 layers, 1 input, 32 hidden units": _sizes("RNN", 1, 32, 2),
        "a GRU of 3 layers, 5 inputs, 7 hidden units": _sizes("GRU", 5, 7, 3),
        "an LSTM of 4 layers, 20 inputs, 6 hidden units": _sizes("LSTM", 20, 6, 4),
        "a GRU, 1 input, 1 hidden unit": _sizes("GRU", 1, 1),
        "an RNN of 5 layers, 9 inputs, 9 hidden units": _sizes("RNN", 9, 9, 5),
    },
    oracle=_size,
    hint="One map has weight_ih, weight_hh and two biases. An RNN has one, a GRU three, an LSTM "
    "four of them in each layer; a layer above the first has `hidden` inputs.",
    slips={
        _TWO_BIASES: _mistaken_size(MAPS, lambda i, h: h * (h + i + 1)),
        f"The biases are parameters too. {_TWO_BIASES}": (
            _mistaken_size(MAPS, lambda i, h: h * (h + i))
        ),
        "Every layer has weights of its own: multiply, or add up, the layers.": (
            _mistaken_size(MAPS, widths=lambda i, h, n: [i])
        ),
        _FIRST_LAYER.format("`hidden`"): _mistaken_size(MAPS, widths=lambda i, h, n: [i] * n),
        "A GRU has three maps: r, z and the candidate n.": _mistaken_size(MAPS | {"GRU": 2}),
        "A GRU has three maps, r, z and the candidate n: one less than an LSTM.": (
            _mistaken_size(MAPS | {"GRU": 4})
        ),
        "An LSTM has four maps: three gates, and the candidate.": (
            _mistaken_size(MAPS | {"LSTM": 3})
        ),
        "A GRU has three maps and an LSTM four, not one less: the candidate counts as well.": (
            _mistaken_size(MAPS | {"GRU": 2, "LSTM": 3})
        ),
    },
)

RULES = {"gru_step": GRU_STEP, "recurrent_parameters": RECURRENT_PARAMETERS}
