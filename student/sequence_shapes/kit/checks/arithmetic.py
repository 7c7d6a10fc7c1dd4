"""Functions that the student writes, compared with what torch does.

Shapes: images (B, C, H, W). Units: sizes, kernels, strides and paddings in pixels.
"""

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Stop, Verdict, call, number, verdict

Arguments = tuple[int, ...]


def _convolution_size(size: int, kernel: int, stride: int = 1, padding: int = 0) -> int:
    layer = nn.Conv2d(1, 1, kernel, stride, padding, device="meta")
    return int(layer(torch.empty(1, 1, size, size, device="meta")).shape[-1])


def _pooling_size(size: int, kernel: int, stride: int | None = None, padding: int = 0) -> int:
    layer = nn.MaxPool2d(kernel, stride, padding)
    return int(layer(torch.empty(1, 1, size, size, device="meta")).shape[-1])


def _convolution_case(choose: random.Random) -> Arguments:
    given = choose.choice([2, 3, 4, 4, 4])
    size, padding = choose.randint(5, 64), choose.randint(0, 3) if given == 4 else 0
    kernel = choose.randint(1, min(size + 2 * padding, 11))
    return (size, kernel, choose.randint(1, 4), padding)[:given]


def _pooling_case(choose: random.Random) -> Arguments:
    size, kernel = choose.randint(6, 64), choose.randint(1, 6)
    stride, padding = choose.randint(1, 4), choose.randint(0, kernel // 2)
    return (size, kernel, stride, padding)[: choose.choice([2, 3, 4, 4, 4])]


RULES = {
    "convolution": (_convolution_size, _convolution_case, "nn.Conv2d"),
    "pooling": (_pooling_size, _pooling_case, "nn.MaxPool2d"),
}


@dataclass(frozen=True)
class Sizes:
    """Arguments, the student's answers and torch's sizes, one entry a case."""

    arguments: list[list[int]]
    answers: list[float | None]
    expected: list[int]
    oracle: str


def measure_output_size(function: Any, *, name: str, rule: str, cases: int, seed: int) -> Sizes:
    """Call the student's function on `cases` random settings, some with default arguments."""
    size, case, oracle = RULES[rule]
    choose = random.Random(seed)
    arguments = [case(choose) for _ in range(cases)]
    answers = [number(call(function, *a, name=name)) for a in arguments]
    return Sizes([list(a) for a in arguments], answers, [size(*a) for a in arguments], oracle)


def judge_output_size(seen: Sizes) -> Verdict:
    """Every size agrees with torch."""
    rows = list(zip(seen.arguments, seen.answers, seen.expected, strict=True))
    wrong = [(a, got, right) for a, got, right in rows if got != right]
    if rows and not wrong:
        return Verdict("passed", f"Agrees with {seen.oracle} in all {len(rows)} cases.")
    shown = "; ".join(
        f"for ({', '.join(map(str, a))}) it gave {_shown(got)}, {seen.oracle} gives {right}"
        for a, got, right in wrong[:3]
    )
    fraction = any(got is not None and got % 1 for _, got, _ in wrong)
    hint = (
        "A size is a whole number: round down."
        if fraction
        else "Arguments are (size, kernel, stride, padding). Padding counts on both sides, and the "
        "last window must fit completely."
    )
    return Verdict("failed", f"Wrong in {len(wrong)} of {len(rows)} cases: {shown}.", hint)


def _shown(answer: float | None) -> str:
    return "something that is not a number" if answer is None else f"{answer:.6g}"


@dataclass(frozen=True)
class Pooled:
    """Shapes that came and were expected, and the largest error where the shape was right."""

    inputs: list[list[int]]
    shapes: list[list[int]]
    errors: list[float | None]


def measure_global_pool(function: Any, *, name: str, shapes: list[list[int]], seed: int) -> Pooled:
    """Pool random feature maps (B, C, H, W), and compare with the mean of each channel."""
    generator = torch.Generator().manual_seed(seed)
    maps = [torch.randn(*shape, generator=generator) for shape in shapes]
    results = [_tensor(call(function, m.clone(), name=name), name) for m in maps]
    errors = [_error(r, m) for r, m in zip(results, maps, strict=True)]
    return Pooled(shapes, [list(r.shape) for r in results], errors)


def _tensor(result: Any, name: str) -> Tensor:
    if isinstance(result, Tensor):
        return result.detach().cpu()
    raise Stop(f"{name} returned a {type(result).__name__}.", "Return a tensor of shape (B, C).")


def _error(result: Tensor, maps: Tensor) -> float | None:
    """Largest difference from the channel means, summed pixel by pixel in double precision."""
    expected = maps.double().flatten(2).sum(-1) / maps[0, 0].numel()
    if result.shape != expected.shape:
        return None
    return number((result.double() - expected).abs().max())


def judge_global_pool(seen: Pooled, *, tolerance: float) -> Verdict:
    """Shape (B, C) always, and the mean of every channel."""
    rows = list(zip(seen.inputs, seen.shapes, seen.errors, strict=True))
    for given, shape, error in rows:
        if shape != given[:2]:
            return Verdict(
                "failed",
                f"An input {tuple(given)} gives shape {tuple(shape)}, expected {tuple(given[:2])}.",
                "squeeze() without a dimension also removes a batch or channel dimension of one.",
            )
        if error is None or not 0 <= error <= tolerance:
            return Verdict(
                "failed",
                f"For an input {tuple(given)} the values are off by "
                f"{'nan' if error is None else f'{error:.2g}'} (allowed: {tolerance:.1g}).",
                "Average over height and width, the last two dimensions.",
            )
    return verdict(bool(rows), f"Shape (B, C) and the right mean in all {len(rows)} cases.", "")


output_size = Check(measure_output_size, judge_output_size)
global_pool = Check(measure_global_pool, judge_global_pool)
