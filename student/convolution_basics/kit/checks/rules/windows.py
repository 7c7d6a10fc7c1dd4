"""Rules for forecasting a series from windows.

Shapes: series (S,), windows (N, W, 1), targets (N, 1); errors are numbers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checks.core import Stop, number
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Pairs = tuple[Tensor, Tensor]


def _counted(steps: int, *more: int) -> Callable[[], Arguments]:
    """A series in which every value is another whole number, so that none can take a place."""
    return lambda: (1.0 + torch.randperm(steps).to(torch.float64), *more)


def _ascending(steps: int, *more: int) -> Callable[[], Arguments]:
    return lambda: (torch.arange(1.0, steps + 1), *more)


def _pairs(series: Tensor, width: int) -> Pairs:
    """Value by value in Python."""
    values = series.tolist()
    windows = [values[k : k + width] for k in range(len(values) - width)]
    return torch.tensor(windows)[:, :, None], torch.tensor(values[width:])[:, None]


def _taken(starts: Callable[[int, int], Tensor], step: int = 0) -> Callable[[Tensor, int], Pairs]:
    """Pairs at other starts, whose targets lie `step` later than right."""

    def mistaken(series: Tensor, width: int) -> Pairs:
        at = starts(len(series), width)
        windows = series[(at[:, None] + torch.arange(width)) % len(series)]
        return windows[:, :, None], series[(at + width + step) % len(series)][:, None]

    return mistaken


def _some(short: int, every: Callable[[int], int] = lambda _: 1) -> Callable[[int, int], Tensor]:
    """Starts of all pairs but the last `short` ones, or some of them only."""
    return lambda steps, width: torch.arange(0, max(0, steps - width - short), every(width))


TO_WINDOWS = Rule(
    cases={
        "6 values in windows of 2": _ascending(6, 2),
        "40 values in windows of 8": _counted(40, 8),
        "windows of one value": _counted(9, 1),
        "a single window": _counted(6, 5),
        "as many windows as values in each": _counted(10, 5),
        "300 values in windows of 24": _counted(300, 24),
    },
    oracle=_pairs,
    hint="Pair k has the window series[k : k + W] and the target series[k + W], for k from 0 to "
    "S - W - 1.",
    slips={
        "The target is the value *after* the window: yours stands in the window already, so that "
        "there is nothing left to forecast.": _taken(_some(0), -1),
        "The target is the next value after the window, not the one after that.": (
            _taken(_some(1), 1)
        ),
        "One pair is missing: of S values in windows of W there are S - W pairs.": (
            _taken(_some(1))
        ),
        "Windows overlap: the next one starts one value later, not W.": (
            _taken(_some(0, lambda width: width))
        ),
        "In a window time runs forward, the oldest value first.": (
            lambda series, width: (_pairs(series, width)[0].flip(1), _pairs(series, width)[1])
        ),
        "Each step of a window has one feature: the shapes are (N, W, 1) and (N, 1).": (
            lambda series, width: tuple(part[..., 0] for part in _pairs(series, width))
        ),
        "The targets have the shape (N, 1).": (
            lambda series, width: (_pairs(series, width)[0], series[width:])
        ),
        "The windows have the shape (N, W, 1): one feature a step.": (
            lambda series, width: (_pairs(series, width)[0][..., 0], series[width:, None])
        ),
        "The last window has no next value: there are S - W pairs.": (
            lambda series, width: (series.unfold(0, width, 1)[..., None], series[width:, None])
        ),
    },
)


def _parted(count: Callable[[int, int, int], int]) -> Callable[..., tuple[Tensor, ...]]:
    """All pairs, cut before the one that `count` (of pairs, W and held-out values) gives."""

    def split(series: Tensor, width: int, held_out: int) -> tuple[Tensor, ...]:
        inputs, targets = _pairs(series, width)
        cut = max(0, count(len(targets), width, held_out))
        return inputs[:cut], targets[:cut], inputs[cut:], targets[cut:]

    return split


_right_split = _parted(lambda pairs, width, held_out: pairs - held_out)


def _overlapping(series: Tensor, width: int, held_out: int) -> tuple[Tensor, ...]:
    return *_pairs(series, width), *_right_split(series, width, held_out)[2:]


def _cut_first(series: Tensor, width: int, held_out: int) -> tuple[Tensor, ...]:
    """The series is cut, then each part is made to windows: the held-out one loses W targets."""
    train = _right_split(series, width, held_out)[:2]
    return *train, *(part[width:] for part in _right_split(series, width, held_out)[2:])


def _beginning(series: Tensor, width: int, held_out: int) -> tuple[Tensor, ...]:
    first = _parted(lambda *_: held_out)(series, width, held_out)
    return *first[2:], *first[:2]


SPLIT = Rule(
    cases={
        "12 values, windows of 3, 4 held out": _ascending(12, 3, 4),
        "60 values, windows of 8, 20 held out": _counted(60, 8, 20),
        "one value held out": _counted(20, 4, 1),
        "fewer values held out than a window has": _counted(40, 10, 6),
        "a single pair to train on": _counted(15, 4, 10),
        "300 values, windows of 24, 60 held out": _counted(300, 24, 60),
    },
    oracle=_right_split,
    hint="The last `held_out` pairs, whose targets are the last `held_out` values, are for the "
    "test; all pairs before them for training. Keep the order of time.",
    slips={
        "Some training targets are held-out values: the network would be trained on what it is "
        "tested on.": _overlapping,
        "All pairs are for training; the last `held_out` of them must be kept for the test.": (
            lambda series, width, held_out: _pairs(series, width) * 2
        ),
        "The last training target is a held-out value: one pair too many.": (
            _parted(lambda pairs, width, held_out: pairs - held_out + 1)
        ),
        "One training pair is missing: its target is the last value before the held-out part.": (
            _parted(lambda pairs, width, held_out: pairs - held_out - 1)
        ),
        "No gap is needed: the last training target is the value just before the held-out part.": (
            lambda series, width, held_out: tuple(
                part[: max(0, len(part) - width)] if k < 2 else part
                for k, part in enumerate(_right_split(series, width, held_out))
            )
        ),
        "The first held-out values are targets as well: their windows reach back into the part "
        "before, whose values are known by then.": _cut_first,
        "The end of the series is held out, not its beginning.": _beginning,
        "First the training pairs, then the test pairs.": (
            lambda *a: (*_right_split(*a)[2:], *_right_split(*a)[:2])
        ),
        "The order is train inputs, train targets, test inputs, test targets.": (
            lambda *a: tuple(_right_split(*a)[k] for k in (0, 2, 1, 3))
        ),
    },
)

NAIVE = Rule(
    cases={
        "four windows of six values": lambda: (torch.randn(4, 6, 1),),
        "one window": lambda: (torch.randn(1, 5, 1),),
        "windows of one value": lambda: (torch.randn(7, 1, 1),),
        "as many windows as values in each": lambda: (torch.randn(5, 5, 1),),
    },
    oracle=lambda inputs: torch.tensor([[window[-1][0]] for window in inputs.tolist()]),
    hint="The last value of every window, as (N, 1): inputs[:, -1].",
    slips={
        "That is the first value of each window; the last one is inputs[:, -1].": (
            lambda inputs: inputs[:, 0]
        ),
        "inputs[-1] is the last *window*; the last value of each is inputs[:, -1].": (
            lambda inputs: inputs[-1]
        ),
        "That is the mean of the window; the naive forecast repeats its last value.": (
            lambda inputs: inputs.mean(1)
        ),
        "The shape is (N, 1), as that of the targets.": lambda inputs: inputs[:, -1, 0],
        "The shape is (N, 1), as that of the targets: inputs[:, -1], not inputs[:, -1:].": (
            lambda inputs: inputs[:, -1:]
        ),
    },
)


def _error(result: Any, _: Arguments) -> float:
    """The error as a float, of whatever kind it came."""
    error = number(result.detach() if isinstance(result, Tensor) else result)
    if error is None:
        raise Stop(
            "the result is not one finite number.",
            "Return one number for all forecasts together: the root of the mean of the squares.",
        )
    return error


def _column_and(*sizes: int) -> Callable[[], Arguments]:
    """Two tensors of as many values: the first (N, 1), the second as `sizes` say."""
    return lambda: (torch.randn(sizes[0], 1), torch.randn(*sizes))


def _rmse(predicted: Tensor, targets: Tensor) -> float:
    pairs = zip(predicted.flatten().tolist(), targets.flatten().tolist(), strict=True)
    squares = [(p - t) ** 2 for p, t in pairs]
    return float((sum(squares) / len(squares)) ** 0.5)


def _of_differences(size: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda predicted, targets: size(predicted.flatten() - targets.flatten())


RMSE = Rule(
    cases={
        "two columns": _column_and(6, 1),
        "a column and a row of values": _column_and(5),
        "a row of values and a column": lambda: _column_and(8)()[::-1],
        "two rows of values": lambda: (torch.randn(7), torch.randn(7)),
        "one forecast": _column_and(1, 1),
        "errors that cancel": lambda: (torch.tensor([[1.0], [-1.0]]), torch.zeros(2, 1)),
        "many forecasts": _column_and(400, 1),
    },
    oracle=_rmse,
    read=_error,
    hint="The root of the mean of the squared differences, each forecast against its own target.",
    slips={
        "(N, 1) - (N,) is broadcast to (N, N): every forecast meets every target. Bring both to "
        "one shape first, for instance by flatten().": (
            lambda predicted, targets: (predicted - targets).square().mean().sqrt()
        ),
        "That is the mean squared error: the root is missing.": (
            _of_differences(lambda d: d.square().mean())
        ),
        "That is the mean absolute error: square before the mean, and take the root after it.": (
            _of_differences(lambda d: d.abs().mean())
        ),
        "The mean of the squares is asked for, not their sum.": (
            _of_differences(lambda d: d.square().sum().sqrt())
        ),
        "The root comes last, after the mean, and the squares before it.": (
            _of_differences(lambda d: d.mean().abs())
        ),
    },
)

RULES = {
    "to_windows": TO_WINDOWS,
    "split_windows": SPLIT,
    "naive_forecast": NAIVE,
    "rmse": RMSE,
}
