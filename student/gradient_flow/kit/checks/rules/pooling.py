"""Rules for pooling by hand. Shapes: maps (B, C, H, W), pooled maps (B, C, H', W') or (B, C)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _maps(shape: tuple[int, ...], *more: int) -> Callable[[], Arguments]:
    """Random maps, then size, stride and padding as far as there are any."""
    return lambda: (torch.randn(shape), *more)


def _negative(shape: tuple[int, ...], *more: int, largest: float = -1.0) -> Callable[[], Arguments]:
    """As above, all values between twice the largest and the largest."""
    return lambda: (largest * (1 + torch.rand(shape)), *more)


ALL_WINDOWS = "Only windows that fit completely count: the last one must not stick out."
NEXT_WINDOW = "The next window begins `stride` pixels further, not `size`."
SIDE_BY_SIDE = "The next window begins `stride` pixels further, not one."

MAX_POOL = Rule(
    cases={
        "windows side by side": _maps((2, 3, 6, 8), 2, 2, 0),
        "windows that overlap": _maps((2, 2, 7, 9), 3, 2, 0),
        "padding 1 around negative values": _negative((1, 1, 3, 5), 3, 2, 1),
        "negative values in the thousands": _negative((2, 2, 5, 6), 2, 2, 1, largest=-2000.0),
        "padding 1": _maps((2, 3, 6, 6), 3, 2, 1),
        "windows that do not fit": _maps((2, 2, 5, 8), 3, 3, 0),
        "a stride larger than the window": _maps((1, 2, 8, 7), 2, 3, 0),
        "stride 1 and padding 2": _maps((1, 1, 6, 5), 5, 1, 2),
        "a window as large as the map": _maps((2, 3, 4, 4), 4, 4, 0),
    },
    oracle=F.max_pool2d,
    hint="For each window of size × size pixels the largest value, in every channel by itself. "
    "Padding must never win: pad with float('-inf').",
    slips={
        "A zero in the padding beats negative values: pad with float('-inf').": (
            lambda x, k, s, p: F.max_pool2d(F.pad(x, (p,) * 4), k, s)
        ),
        "The padding has no effect.": lambda x, k, s, p: F.max_pool2d(x, k, s),
        NEXT_WINDOW: lambda x, k, s, p: F.max_pool2d(x, k, k, p),
        SIDE_BY_SIDE: lambda x, k, s, p: F.max_pool2d(x, k, 1, p),
        ALL_WINDOWS: lambda x, k, s, p: F.max_pool2d(x, k, s, p, ceil_mode=True),
        "The largest value is asked for, not the mean.": (F.avg_pool2d),
        "The largest value is asked for, not the largest absolute value.": (
            lambda x, k, s, p: F.max_pool2d(x.abs(), k, s, p)
        ),
        "The largest value is asked for, not the smallest.": (
            lambda x, k, s, p: -F.max_pool2d(-x, k, s, p)
        ),
    },
)

AVERAGE_POOL = Rule(
    cases={
        "windows side by side": _maps((2, 3, 6, 8), 2, 2),
        "windows that overlap": _maps((2, 2, 7, 9), 3, 2),
        "windows that do not fit": _maps((2, 2, 5, 8), 3, 3),
        "a stride larger than the window": _maps((1, 2, 8, 7), 2, 3),
        "stride 1": _maps((1, 1, 5, 4), 2, 1),
        "a window of one pixel": _maps((2, 3, 4, 4), 1, 1),
    },
    oracle=F.avg_pool2d,
    hint="For each window the mean of its size × size pixels, in every channel by itself.",
    slips={
        "The mean is asked for, not the sum.": lambda x, k, s: F.avg_pool2d(x, k, s) * k * k,
        "A window has size × size pixels: divide by all of them.": (
            lambda x, k, s: F.avg_pool2d(x, k, s) * k
        ),
        "The mean is asked for, not the largest value.": F.max_pool2d,
        NEXT_WINDOW: lambda x, k, s: F.avg_pool2d(x, k, k),
        SIDE_BY_SIDE: lambda x, k, s: F.avg_pool2d(x, k, 1),
        ALL_WINDOWS: lambda x, k, s: F.avg_pool2d(x, k, s, ceil_mode=True),
        "Every channel has means of its own: don't average over channels.": (
            lambda x, k, s: F.avg_pool2d(x.mean(1, keepdim=True).expand_as(x), k, s)
        ),
    },
)


def _channel_maxima(maps: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(maps, 1).flatten(1)


GLOBAL_MAX_POOL = Rule(
    cases={
        "two images of three channels": _maps((2, 3, 5, 6)),
        "a batch of one": _maps((1, 4, 3, 5)),
        "one channel": _maps((3, 1, 4, 4)),
        "negative values": _negative((2, 3, 4, 3)),
        "maps of one pixel": _maps((2, 5, 1, 1)),
    },
    oracle=_channel_maxima,
    hint="For every image and channel the largest of all its pixels: (B, C, H, W) -> (B, C).",
    slips={
        "Only height and width go: (B, C), not (B, C, 1, 1).": lambda x: F.adaptive_max_pool2d(
            x, 1
        ),
        "squeeze() without a dimension also removes a batch or channel dimension of one.": (
            lambda x: F.adaptive_max_pool2d(x, 1).squeeze()
        ),
        "The largest value is asked for, not the mean.": lambda x: x.mean((2, 3)),
        "The largest value is asked for, not the largest absolute value.": (
            lambda x: _channel_maxima(x.abs())
        ),
        "Every image has maxima of its own: keep the batch dimension.": lambda x: x.amax((0, 2, 3)),
        "The maximum goes over height and width, the last two dimensions, not over channels.": (
            lambda x: x.amax(1)
        ),
    },
)

RULES = {
    "max_pool": MAX_POOL,
    "average_pool": AVERAGE_POOL,
    "global_max_pool": GLOBAL_MAX_POOL,
}
