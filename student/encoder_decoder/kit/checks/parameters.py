"""Counting parameters, by us and by the student.

Counted are distinct tensors that require a gradient, through torch's own method, so that a class
which overrides `parameters` changes nothing; and tensors that the forward pass learns from but the
module does not own (layers in a plain list, weights in a closure) are found in the graph.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Verdict, call, number, verdict
from autograder.checks.models import build, forward, parameters_of, samples


def trainable(module: nn.Module) -> int:
    """Number of distinct trainable values that the module owns."""
    return sum(p.numel() for _, p in parameters_of(module) if p.requires_grad)


def unowned(module: nn.Module, output: Tensor, *given: Tensor) -> int:
    """Number of values that `output` learns from and `module` does not own."""
    owned = {id(t) for t in (*given, *(p for _, p in parameters_of(module)))}
    leaves = {id(t): t for t in _leaves(output)}
    return sum(t.numel() for key, t in leaves.items() if key not in owned)


def _leaves(output: Tensor) -> list[Tensor]:
    seen, todo, found = set(), [output.grad_fn], []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(leaf := getattr(node, "variable", None), Tensor):
            found.append(leaf)
        todo.extend(following for following, _ in node.next_functions)
    return found


@dataclass(frozen=True)
class Count:
    """Trainable values by tensor, and values learned from outside the module."""

    tensors: dict[str, int]
    unowned: int


def measure_parameter_budget(model: Any, *, name: str, input_shape: list[int], seed: int) -> Count:
    """Trainable values of a fresh model, by tensor name."""
    module = build(model, name, input_shape)
    inputs = samples(input_shape, 2, seed)
    output = forward(module, inputs, name)
    tensors = {n: p.numel() for n, p in parameters_of(module) if p.requires_grad}
    return Count(tensors, unowned(module, output, inputs))


def judge_parameter_budget(seen: Count, *, smallest: int, largest: int) -> Verdict:
    """The number of trainable values lies within the budget, and the module owns all of them."""
    if min(seen.unowned, *seen.tensors.values(), 0) < 0:
        raise ValueError("a negative count")
    total = sum(seen.tensors.values())
    if seen.unowned:
        return Verdict(
            "failed",
            f"forward uses {seen.unowned:,} trainable values that the module does not own.",
            "Layers in a plain Python list are invisible to PyTorch: use nn.ModuleList or "
            "nn.Sequential, and create parameters in __init__, not in forward.",
        )
    return verdict(
        smallest <= total <= largest,
        f"{total:,} trainable parameters (budget: {smallest:,} to {largest:,}).",
        f"Largest tensors: {_largest(seen.tensors)}. Change the width (channels, hidden units).",
    )


def _largest(tensors: dict[str, int]) -> str:
    ordered = sorted(tensors.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} ({size:,})" for name, size in ordered) or "none"


@dataclass(frozen=True)
class Pair:
    """Trainable values of two models, the unowned ones included."""

    first: int
    second: int


def measure_matched_parameters(
    first: Any, second: Any, *, names: list[str], input_shape: list[int], seed: int
) -> Pair:
    """Trainable values of two fresh models."""
    counts = []
    for model, name in zip((first, second), names, strict=True):
        module = build(model, name, input_shape)
        output = forward(module, samples(input_shape, 2, seed), name)
        counts.append(trainable(module) + unowned(module, output))
    return Pair(*counts)


def judge_matched_parameters(seen: Pair, *, tolerance: float) -> Verdict:
    """The two counts differ by at most `tolerance` of the first."""
    if seen.first <= 0 or seen.second < 0:
        return Verdict("failed", "The first model has no parameters.", "Add layers to it.")
    off = (seen.second - seen.first) / seen.first
    return verdict(
        abs(off) <= tolerance,
        f"{seen.first:,} against {seen.second:,} parameters: {off:+.2%} "
        f"(allowed: ±{tolerance:.0%}).",
        "Keep the first model, and change the width of the second.",
    )


@dataclass(frozen=True)
class Counts:
    """For each test model what the student's function counted and what it has."""

    models: list[str]
    counted: list[float | None]
    expected: list[int]


def measure_counter(function: Any, *, name: str, models: list[str]) -> Counts:
    """Call the student's counting function on our own small models, named in `EXAMPLES`."""
    built = [EXAMPLES[kind]() for kind in models]
    counted = [number(call(function, module, name=name)) for module, _ in built]
    return Counts(models, counted, [expected for _, expected in built])


def judge_counter(seen: Counts, *, models: list[str]) -> Verdict:
    """Every count is exact."""
    rows = zip(seen.models, seen.counted, seen.expected, strict=True)
    wrong = [f"{m}: counted {_shown(c)}, it has {e:,}" for m, c, e in rows if c != e]
    hint = "Sum numel() over model.parameters(), taking only those that require a gradient."
    passed = not wrong and seen.models == models
    return verdict(passed, "; ".join(wrong) or f"Exact for {', '.join(seen.models)}.", hint)


def _shown(count: float | None) -> str:
    return "something that is not a number" if count is None else f"{count:,.10g}"


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(6, 6), nn.Linear(6, 6)
        self.up.weight = self.down.weight


class _Raw(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.layer = nn.Parameter(torch.ones(7)), nn.Linear(7, 2)


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    model[0].requires_grad_(False)
    return model


# Each with its count by hand.
EXAMPLES: dict[str, Callable[[], tuple[nn.Module, int]]] = {
    "a linear layer": lambda: (nn.Linear(12, 5), 12 * 5 + 5),
    "a small CNN": lambda: (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 26 * 26, 10)),
        (4 * 9 + 4) + (4 * 26 * 26 * 10 + 10),
    ),
    "batch norm (its running statistics are no parameters)": lambda: (nn.BatchNorm2d(8), 16),
    "a frozen layer": lambda: (_frozen(), 4 * 3 + 3),
    "two layers that share a weight": lambda: (_Tied(), 36 + 6 + 6),
    "a parameter outside any layer": lambda: (_Raw(), 7 + 14 + 2),
    "an LSTM": lambda: (nn.LSTM(3, 5), 4 * (5 * 5 + (3 + 2) * 5)),
}

parameter_budget = Check(measure_parameter_budget, judge_parameter_budget)
matched_parameters = Check(measure_matched_parameters, judge_matched_parameters)
counter = Check(measure_counter, judge_counter)
