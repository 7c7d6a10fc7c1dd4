"""Rules for the convolution by hand.

Shapes: images (B, C, H, W), weight (O, C, KH, KW), bias (O,), maps (B, O, H', W').
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _given(
    images: tuple[int, ...], kernels: tuple[int, ...], *more: int
) -> Callable[[], Arguments]:
    """Random images (B, C, H, W) and kernels (O, C, KH, KW), a bias, then stride and padding."""
    return lambda: (torch.randn(images), torch.randn(kernels), torch.randn(kernels[0]), *more)


CONVOLVE = Rule(
    cases={
        "one channel": _given((1, 1, 5, 6), (1, 1, 3, 3)),
        "several images": _given((3, 1, 6, 6), (1, 1, 2, 2)),
        "three input channels": _given((2, 3, 6, 5), (1, 3, 3, 3)),
        "three input and four output channels": _given((2, 3, 6, 7), (4, 3, 3, 3)),
        "a kernel that is not square": _given((2, 2, 6, 7), (3, 2, 2, 4)),
        "a kernel of one pixel": _given((2, 3, 4, 5), (2, 3, 1, 1)),
        "a kernel as large as the image": _given((2, 2, 4, 4), (3, 2, 4, 4)),
        "as many output as input channels": _given((2, 3, 5, 5), (3, 3, 2, 2)),
    },
    oracle=F.conv2d,
    hint="Output [b, o, y, x] is bias[o] plus the sum of the products of weight[o] and the window "
    "images[b, :, y : y + KH, x : x + KW], over all channels, rows and columns.",
    slips={
        "The kernel is flipped: PyTorch lays it on the image as it is.": (
            lambda x, w, b: F.conv2d(x, w.flip(2, 3), b)
        ),
        "The bias is missing: every output channel adds its own number.": (
            lambda x, w, b: F.conv2d(x, w)
        ),
        "The bias comes in once, not once for each input channel.": (
            lambda x, w, b: F.conv2d(x, w, b * x.shape[1])
        ),
        "The input channels are summed, not averaged.": (
            lambda x, w, b: F.conv2d(x, w / x.shape[1], b)
        ),
        "Every input channel counts, not the first alone.": (
            lambda x, w, b: F.conv2d(x[:, :1], w[:, :1], b)
        ),
        "The products are summed, not averaged.": (
            lambda x, w, b: F.conv2d(x, w / w[0].numel(), b)
        ),
        "Rows and columns of the kernel are swapped.": lambda x, w, b: F.conv2d(x, w.mT, b),
        "No padding here: only windows that lie inside of the image count.": (
            lambda x, w, b: F.conv2d(x, w, b, padding="same")
        ),
        "There are H - KH + 1 rows of windows and W - KW + 1 columns: the last ones are missing.": (
            lambda x, w, b: F.conv2d(x, w, b)[:, :, :-1, :-1]
        ),
    },
)


def _padded(
    pad: Callable[[Tensor, int], Tensor],
) -> Callable[[Tensor, Tensor, Tensor, int, int], Tensor]:
    """A convolution that pads in its own way."""
    return lambda x, w, b, s, p: F.conv2d(pad(x, p), w, b, s)


STRIDED = Rule(
    cases={
        "stride 2": _given((2, 2, 7, 9), (3, 2, 3, 3), 2, 0),
        "padding 1": _given((2, 2, 5, 6), (3, 2, 3, 3), 1, 1),
        "stride 1 without padding": _given((1, 2, 5, 5), (2, 2, 2, 2), 1, 0),
        "stride 2 and padding 1": _given((2, 2, 7, 7), (3, 2, 3, 3), 2, 1),
        "windows that do not fit": _given((2, 1, 8, 9), (2, 1, 3, 3), 3, 0),
        "a stride larger than the kernel": _given((1, 2, 9, 8), (2, 2, 2, 2), 3, 0),
        "padding 2 around an image that is not square": _given((2, 2, 5, 8), (2, 2, 4, 3), 1, 2),
        "more padding than the kernel is large": _given((1, 1, 4, 4), (2, 1, 2, 2), 1, 3),
        "stride 3 and padding 2": _given((2, 3, 9, 7), (2, 3, 4, 4), 3, 2),
    },
    oracle=F.conv2d,
    hint="Put `padding` zeros on all four sides of the images, then keep the windows that begin at "
    "rows and columns 0, stride, 2 · stride and so on.",
    slips={
        "The stride has no effect.": lambda x, w, b, s, p: F.conv2d(x, w, b, 1, p),
        "The stride goes for rows and columns, not for rows alone.": (
            lambda x, w, b, s, p: F.conv2d(x, w, b, (s, 1), p)
        ),
        "The stride goes for rows and columns, not for columns alone.": (
            lambda x, w, b, s, p: F.conv2d(x, w, b, (1, s), p)
        ),
        "The padding has no effect.": lambda x, w, b, s, p: F.conv2d(x, w, b, s, 0),
        "Padding counts on both sides: yours is to the right and below only.": (
            _padded(lambda x, p: F.pad(x, (0, p, 0, p)))
        ),
        "Padding counts on both sides: yours is to the left and above only.": (
            _padded(lambda x, p: F.pad(x, (p, 0, p, 0)))
        ),
        "Pad rows and columns: F.pad(images, (p, p)) pads the width alone.": (
            _padded(lambda x, p: F.pad(x, (p, p)))
        ),
        "Each side gets `padding` pixels, not twice as many.": (
            _padded(lambda x, p: F.pad(x, (2 * p,) * 4))
        ),
        "Pad with zeros, not with the image's own border.": (
            _padded(lambda x, p: F.pad(x, (p,) * 4, mode="replicate"))
        ),
        "Pad with zeros, not with ones.": _padded(lambda x, p: F.pad(x, (p,) * 4, value=1.0)),
        "The arguments come in the order stride, padding.": (
            lambda x, w, b, s, p: F.conv2d(x, w, b, max(p, 1), s)
        ),
        "Padding lies around the images, not around the results.": (
            lambda x, w, b, s, p: F.pad(F.conv2d(x, w, b, s), (p,) * 4)
        ),
    },
)

RULES = {"convolve": CONVOLVE, "strided_convolve": STRIDED}
