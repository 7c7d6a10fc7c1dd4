"""Rules for the states of a deep recurrent layer: handed in, handed on, handed back.

Shapes: inputs (B, T, D), output (B, T, H), h0 and h_n (L, B, H) with L layers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop
from autograder.checks.rules.architectures import Kind, network, run_by_hand
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Run = tuple[Tensor, Tensor]


def _stack(
    sizes: tuple[int, int], count: int, batch: int, steps: int, *given: str
) -> Callable[[], Arguments]:
    """Makes layers, inputs, and h0 or None where it is `given`; sizes are D and H."""

    def make() -> Arguments:
        features, hidden = sizes
        widths = [features] + [hidden] * (count - 1)
        layers = [network(nn.RNN, 1, width, hidden, 1)[0] for width in widths]
        h0 = {"h0": torch.randn(count, batch, hidden), "None": None}
        return layers, torch.randn(batch, steps, features), *(h0[name] for name in given)

    return make


def _deep(layers: list[nn.RNN], inputs: Tensor, h0: Tensor | None = None) -> Run:
    """PyTorch's own deep layer, with the same weights."""
    first = layers[0]
    deep = nn.RNN(first.input_size, first.hidden_size, len(layers), batch_first=True)
    with torch.no_grad():
        for name, weight in deep.named_parameters():
            kind, layer = name.rsplit("_l", 1)
            weight.copy_(layers[int(layer)].get_parameter(f"{kind}_l0"))
    output, h_n = deep(inputs, h0)
    return output, h_n


def _mistaken_deep(
    start: Callable[[Tensor | None, int, Tensor | None], Tensor | None],
    back: Callable[[list[Tensor]], Tensor] = torch.cat,
) -> Callable[..., Run]:
    """Layer by layer; `start` knows h0, the layer's number and the last state of the one below."""

    def run(layers: list[nn.RNN], inputs: Tensor, h0: Tensor | None = None) -> Run:
        lasts: list[Tensor] = []
        for k, layer in enumerate(layers):
            inputs, last = layer(inputs, start(h0, k, lasts[-1] if lasts else None))
            lasts.append(last)
        return inputs, back(lasts)

    return run


def _own(h0: Tensor | None, k: int, _: Tensor | None) -> Tensor | None:
    return None if h0 is None else h0[k : k + 1]


DEEP = Rule(
    cases={
        "two layers, without h0": _stack((3, 4), 2, 2, 6),
        "two layers and h0": _stack((3, 4), 2, 2, 6, "h0"),
        "one layer and h0": _stack((2, 3), 1, 3, 5, "h0"),
        "three layers, h0=None": _stack((2, 5), 3, 4, 7, "None"),
        "four layers and h0": _stack((3, 3), 4, 2, 5, "h0"),
        "a batch of one and h0": _stack((2, 4), 3, 1, 6, "h0"),
        "one step and h0": _stack((1, 4), 2, 3, 1, "h0"),
        "all sizes alike, and h0": _stack((4, 4), 4, 4, 4, "h0"),
    },
    oracle=_deep,
    hint="The outputs of a layer are the inputs of the next one. Layer k starts from "
    "h0[k : k + 1], of shape (1, B, H), or from None; put the last states together along "
    "dimension 0.",
    slips={
        "h_n holds the last state of every layer, not of the top one alone.": (
            _mistaken_deep(_own, lambda lasts: lasts[-1])
        ),
        "A layer starts from its own h0[k], not from the last state of the layer below.": (
            _mistaken_deep(lambda h0, k, below: _own(h0, 0, None) if below is None else below)
        ),
        "h0 is not used: each layer has to start from its part of it.": (
            _mistaken_deep(lambda h0, k, below: None)
        ),
        "Each layer has a part of its own in h0: layer k starts from h0[k : k + 1], not from the "
        "first part.": _mistaken_deep(lambda h0, k, below: _own(h0, 0, None)),
        "h0[0] belongs to the first layer, the one that reads the inputs.": (
            _mistaken_deep(lambda h0, k, below: None if h0 is None else h0.flip(0)[k : k + 1])
        ),
        "In h_n the first layer comes first.": (
            _mistaken_deep(_own, lambda lasts: torch.cat(lasts[::-1]))
        ),
        "h_n has the shape (L, B, H): each last state is (1, B, H) already, so use torch.cat.": (
            _mistaken_deep(_own, torch.stack)
        ),
        "The order is (output, h_n): your two results are swapped.": lambda *a: _deep(*a)[::-1],
    },
)


def _pieces(
    kind: Kind, layers: int, batch: int, steps: int, size: int, *given: str
) -> Callable[[], Arguments]:
    """Makes rnn, inputs, size, and h0 or None where it is `given`; 2 features, 4 hidden units."""

    def make() -> Arguments:
        rnn, _ = network(kind, layers, 2, 4, 1)
        h0 = {"h0": torch.randn(layers, batch, 4), "None": None}
        return _watched(rnn), torch.randn(batch, steps, 2), size, *(h0[name] for name in given)

    return make


def _watched(rnn: nn.RNNBase) -> nn.RNNBase:
    """The layer, which notes in `seen` how many steps it gets at once."""
    forward, seen = rnn.forward, []

    def noting(*arguments: Any, **named: Any) -> Any:
        inputs = arguments[0] if arguments else named["input"]
        seen.append(inputs.shape[-2] if isinstance(inputs, Tensor) and inputs.dim() > 1 else 0)
        return forward(*arguments, **named)

    rnn.seen, rnn.forward = seen, noting
    return rnn


def _piecewise(result: Any, arguments: Arguments) -> Any:
    """The result, unless the layer got more than `size` steps at once."""
    rnn, _, size = arguments[:3]
    longest = max(rnn.seen, default=0)
    if longest > size:
        raise Stop(
            f"the layer got {longest} steps at once, and only {size} fit.",
            "Cut the inputs along dimension 1, for instance by inputs.split(size, dim=1), and run "
            "the layer on one piece after the other.",
        )
    return result


def _mistaken_pieces(
    start: Callable[[Tensor | None, Tensor | None], Tensor | None],
    join: Callable[[list[Tensor]], Tensor] = lambda outputs: torch.cat(outputs, dim=1),
    last: Callable[[list[Tensor]], Tensor] = lambda states: states[-1],
) -> Callable[..., Run]:
    """Piece by piece; `start` knows h0 and the state after the piece before (None at first)."""

    def run(rnn: nn.RNNBase, inputs: Tensor, size: int, h0: Tensor | None = None) -> Run:
        outputs: list[Tensor] = []
        states: list[Tensor] = []
        for piece in torch.split(inputs, size, dim=1):
            output, state = rnn(piece, start(h0, states[-1] if states else None))
            outputs.append(output)
            states.append(state)
        return join(outputs), last(states)

    return run


def _carried(h0: Tensor | None, before: Tensor | None) -> Tensor | None:
    return h0 if before is None else before


PIECES = Rule(
    cases={
        "9 steps in pieces of 3": _pieces(nn.RNN, 1, 2, 9, 3),
        "10 steps in pieces of 4, from h0": _pieces(nn.GRU, 2, 3, 10, 4, "h0"),
        "pieces of one step": _pieces(nn.RNN, 2, 3, 5, 1, "None"),
        "one piece, longer than the inputs": _pieces(nn.GRU, 1, 2, 4, 7, "h0"),
        "two halves, from h0": _pieces(nn.RNN, 3, 2, 8, 4, "h0"),
        "a batch of one": _pieces(nn.RNN, 2, 1, 7, 2, "h0"),
        "as many sequences as layers and steps": _pieces(nn.RNN, 3, 3, 3, 2, "h0"),
    },
    oracle=lambda rnn, inputs, size, h0=None: run_by_hand(rnn, inputs, h0),
    read=_piecewise,
    hint="The first piece starts from h0, every other one from the state that the piece before "
    "returned. Put the outputs together along dimension 1; h_n is the state of the last piece.",
    slips={
        "Every piece starts anew from zeros: hand the state on from piece to piece.": (
            _mistaken_pieces(lambda h0, before: None)
        ),
        "Every piece starts from h0: only the first one should, the others from the state that the "
        "piece before returned.": _mistaken_pieces(lambda h0, before: h0),
        "h0 is not used: the first piece has to start from it.": (
            _mistaken_pieces(lambda h0, before: before)
        ),
        "These are the outputs of the last piece: put those of all pieces together.": (
            _mistaken_pieces(_carried, join=lambda outputs: outputs[-1])
        ),
        "h_n is the state after the last piece, not after the first.": (
            _mistaken_pieces(_carried, last=lambda states: states[0])
        ),
        "The order is (output, h_n): your two results are swapped.": (
            lambda rnn, inputs, size, h0=None: run_by_hand(rnn, inputs, h0)[::-1]
        ),
    },
)

RULES = {"deep_rnn": DEEP, "in_pieces": PIECES}
