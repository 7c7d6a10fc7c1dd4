"""Rule for the shapes of a recurrent layer: B sequences, T steps, H hidden units."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule

SIZES = {
    "output": "(B, T, directions · H), or (T, B, …) where time comes first",
    "h_n": "(layers · directions, B, H)",
}


def _three_numbers(result: Any, _: tuple[Any, ...]) -> Any:
    """The result, unless one of its two parts can't be a shape."""
    parts = result if isinstance(result, tuple | list) and len(result) == 2 else ()
    for name, part in zip(("output", "h_n"), parts, strict=False):
        if isinstance(part, Tensor) and part.dim() != 1:
            raise Stop("these are the tensors themselves.", "Return their .shape.")
        if isinstance(part, tuple | list) and len(part) != 3:
            raise Stop(f"{name} has {len(part)} numbers, not 3.", f"Its shape is {SIZES[name]}.")
    return result


def _named(arguments: tuple[Any, ...]) -> dict[str, Any]:
    names = ("batch", "length", "hidden", "layers", "both", "first")
    return {"layers": 1, "both": False, "first": True} | dict(zip(names, arguments, strict=False))


def _sizes(*arguments: Any) -> tuple[list[int], list[int]]:
    """What torch gives for (batch, length, hidden, layers, bidirectional, batch_first)."""
    given = _named(arguments)
    first, front = given["first"], [given["batch"], given["length"]]
    rnn = nn.RNN(
        3, given["hidden"], given["layers"], bidirectional=given["both"], batch_first=first
    )
    output, last = rnn(torch.zeros(*(front if first else front[::-1]), 3))
    return list(output.shape), list(last.shape)


def _mistaken_sizes(
    change: Callable[[list[int], list[int], dict[str, Any]], None],
) -> Callable[..., tuple[list[int], list[int]]]:
    """The right sizes, then changed by a misconception that knows the settings."""

    def mistaken(*arguments: Any) -> tuple[list[int], list[int]]:
        output, last = _sizes(*arguments)
        change(output, last, _named(arguments))
        return output, last

    return mistaken


def _batch_in_front(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    if given["first"]:
        last[:2] = last[1], last[0]


def _always_batch_first(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    output[:2] = given["batch"], given["length"]


def _one_direction(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    output[2] = given["hidden"]


def _directions_forgotten(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    last[0] = given["layers"]


def _layers_forgotten(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    last[0] = 1 + given["both"]


def _layers_beside(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    output[2] *= given["layers"]


def _wide_last(output: list[int], last: list[int], given: dict[str, Any]) -> None:
    last[:] = [given["layers"], given["batch"], (1 + given["both"]) * given["hidden"]]


RECURRENT_SHAPES = Rule(
    cases={
        "one layer": lambda: (4, 7, 5),
        "two layers": lambda: (3, 6, 4, 2),
        "both directions": lambda: (3, 6, 4, 1, True),
        "time first": lambda: (3, 6, 4, 1, False, False),
        "a batch of one": lambda: (1, 9, 2, 1, False, True),
        "one step": lambda: (5, 1, 2, 3, True, True),
        "three layers, both directions, time first": lambda: (2, 7, 5, 3, True, False),
        "two layers, time first": lambda: (8, 3, 6, 2, False, False),
        "two layers, both directions": lambda: (4, 9, 3, 2, True, True),
    },
    oracle=_sizes,
    read=_three_numbers,
    hint="Make such a layer with nn.RNN, feed it zeros, and print both shapes.",
    slips={
        "batch_first changes inputs and output. h_n stays (layers · directions, B, H).": (
            _mistaken_sizes(_batch_in_front)
        ),
        "Without batch_first the output is (T, B, …): time comes first.": (
            _mistaken_sizes(_always_batch_first)
        ),
        "A bidirectional layer puts both directions beside each other: 2 · H features.": (
            _mistaken_sizes(_one_direction)
        ),
        "Each direction has a last state of its own in h_n.": (
            _mistaken_sizes(_directions_forgotten)
        ),
        "h_n holds the last state of every layer, not of the top one alone.": (
            _mistaken_sizes(_layers_forgotten)
        ),
        "The output shows the top layer alone.": _mistaken_sizes(_layers_beside),
        "In h_n directions lie one after the other, each H wide: (layers · directions, B, H).": (
            _mistaken_sizes(_wide_last)
        ),
    },
)

RULES = {"recurrent_shapes": RECURRENT_SHAPES}
