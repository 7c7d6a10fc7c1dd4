"""Rules for what a shift of the images does to the outputs of a layer.

Shapes: images (B, C, H, W), outputs (B, C', H', W'). Shifts are circular, to the right, in pixels.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop, number
from autograder.checks.rules.rule import Rule

HEIGHT, WIDTH, CHANNELS = 9, 12, 2  # not square, so that the two can't stand for each other
NOTHING = 1e-12  # rounding of float64 stays below, real differences of these layers above
AGREEING = 1e-9


class Rows(nn.Module):
    """A dense layer over the pixels of each row."""

    def __init__(self) -> None:
        """Make the layer."""
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        outputs: Tensor = self.linear(images)
        return outputs


def _circular(inputs: int = CHANNELS, stride: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, 3, 3, stride, padding=1, padding_mode="circular")


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "a convolution with circular padding": _circular,
    "a convolution with zero padding": lambda: nn.Conv2d(CHANNELS, 3, 3, padding=1),
    "a convolution of 5 pixels with zero padding": lambda: nn.Conv2d(CHANNELS, 3, 5, padding=2),
    "max pooling": lambda: nn.MaxPool2d(2),
    "average pooling by 3": lambda: nn.AvgPool2d(3),
    "two poolings": lambda: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2)),
    "a circular convolution with stride 3": lambda: _circular(stride=3),
    "circular convolution, ReLU, pooling, circular convolution": lambda: nn.Sequential(
        _circular(), nn.ReLU(), nn.MaxPool2d(2), _circular(3)
    ),
    "zero padding, then pooling": lambda: nn.Sequential(
        nn.Conv2d(CHANNELS, 3, 3, padding=1), nn.MaxPool2d(2)
    ),
    "global pooling": lambda: nn.AdaptiveMaxPool2d(1),
    "circular convolution, then global pooling": lambda: nn.Sequential(
        _circular(), nn.AdaptiveAvgPool2d(1)
    ),
    "a dense layer over each row": Rows,
    "a ReLU": nn.ReLU,
    "upsampling by 3": lambda: nn.Upsample(scale_factor=3),
}


def _images() -> Tensor:
    return torch.randn(2, CHANNELS, HEIGHT, WIDTH)


def _shifted(tensor: Tensor, shift: int) -> Tensor:
    """Column j gets what stood in column j - shift."""
    columns = [(j - shift) % tensor.shape[-1] for j in range(tensor.shape[-1])]
    return tensor[..., columns]


def _left(tensor: Tensor, shift: int) -> Tensor:
    return _shifted(tensor, -shift)


def _down(tensor: Tensor, shift: int) -> Tensor:
    return _shifted(tensor.mT, shift).mT


def _with_zeros(tensor: Tensor, shift: int) -> Tensor:
    moved = _shifted(tensor, shift)
    moved[..., :shift] = 0
    return moved


def _difference(
    layer: nn.Module, images: Tensor, shift: int, expected: int, move: Any = _shifted
) -> Tensor:
    with torch.no_grad():
        difference: Tensor = layer(move(images, shift)) - move(layer(images), expected)
    return difference


def _inside(difference: Tensor, margin: int) -> Tensor:
    return difference[..., margin : difference.shape[-1] - margin]


def _error(layer: nn.Module, images: Tensor, shift: int, expected: int, margin: int) -> Tensor:
    return _inside(_difference(layer, images, shift, expected), margin).abs().max()


def _error_of(move: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """The error for somebody who shifts in another way."""
    return lambda layer, images, shift, expected, margin: (
        _inside(_difference(layer, images, shift, expected, move), margin).abs().max()
    )


def _summary(summarise: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """The differences, in another summary than the largest absolute one."""
    return lambda layer, images, shift, expected, margin: summarise(
        _inside(_difference(layer, images, shift, expected), margin)
    )


def _one_number(result: Any, _: tuple[Any, ...]) -> float:
    """The result as a float, whatever kind it came in; what rounding leaves is 0."""
    value = number(result.detach() if isinstance(result, Tensor) else result)
    if value is None:
        raise Stop(
            "the result is not one finite number.", "Return one number, for instance a float."
        )
    return 0.0 if abs(value) < NOTHING else value


def _shift(name: str, *numbers: int) -> Callable[[], tuple[Any, ...]]:
    """A layer, images, then shift, expected shift and margin."""
    return lambda: (LAYERS[name](), _images(), *numbers)


SHIFT_ERROR = Rule(
    cases={
        "circular padding, shift 3": _shift("a convolution with circular padding", 3, 3, 0),
        "zero padding, shift 2": _shift("a convolution with zero padding", 2, 2, 0),
        "zero padding, shift 2, margin 3": _shift("a convolution with zero padding", 2, 2, 3),
        "max pooling, shift 2 expected as 1": _shift("max pooling", 2, 1, 0),
        "max pooling, shift 1 expected as 0": _shift("max pooling", 1, 0, 0),
        "zero padding, shift 2, margin 2": _shift("a convolution with zero padding", 2, 2, 2),
        "zero padding over 5 pixels, shift 3, margin 1": _shift(
            "a convolution of 5 pixels with zero padding", 3, 3, 1
        ),
        "max pooling, shift 1 expected as 1": _shift("max pooling", 1, 1, 0),
        "average pooling by 3, shift 6 expected as 2": _shift("average pooling by 3", 6, 2, 0),
        "average pooling by 3, shift 6 expected as 1": _shift("average pooling by 3", 6, 1, 0),
        "zero padding, then pooling, shift 2 expected as 1, margin 2": _shift(
            "zero padding, then pooling", 2, 1, 2
        ),
        "global pooling, shift 5 expected as 0": _shift("global pooling", 5, 0, 0),
        "a dense layer, shift 4": _shift("a dense layer over each row", 4, 4, 0),
        "a dense layer, shift 4, margin 5": _shift("a dense layer over each row", 4, 4, 5),
    },
    oracle=_error,
    read=_one_number,
    hint="Compare layer(images shifted by `shift`) with layer(images) shifted by `expected`, both "
    "by torch.roll(…, dims=-1); leave out `margin` columns of the outputs on the left and on the "
    "right; then the largest absolute difference.",
    slips={
        "Shift to the right: torch.roll(images, shift, dims=-1), without a minus.": (
            _error_of(_left)
        ),
        "Width is the last dimension, dims=-1: yours shifts along the height.": _error_of(_down),
        "The shift is circular: what leaves on the right comes back on the left.": (
            _error_of(_with_zeros)
        ),
        "Shift the outputs by `expected`, not by `shift`.": (
            lambda layer, x, s, e, m: _error(layer, x, s, s, m)
        ),
        "Shift the images by `shift`, not by `expected`.": (
            lambda layer, x, s, e, m: _error(layer, x, e, e, m)
        ),
        "The margin has no effect.": lambda layer, x, s, e, m: _error(layer, x, s, e, 0),
        "The margin goes for the columns on both sides.": lambda layer, x, s, e, m: (
            _difference(layer, x, s, e)[..., m:].abs().max()
        ),
        "The margin counts columns of the outputs, which may be fewer than the images have.": (
            lambda layer, x, s, e, m: (
                _difference(layer, x, s, e)[..., m : x.shape[-1] - m].abs().max()
            )
        ),
        "Take the largest absolute difference: yours can miss negative ones.": _summary(Tensor.max),
        "Take the largest absolute difference, not their mean.": (
            _summary(lambda difference: difference.abs().mean())
        ),
        "Take the largest absolute difference, not the mean of squares.": (
            _summary(lambda difference: difference.square().mean())
        ),
        "Take the largest absolute difference, not the norm of all.": (
            _summary(torch.linalg.vector_norm)
        ),
    },
)


def _step(layer: nn.Module, images: Tensor) -> int:
    """The smallest shift that some shift of the outputs answers; a full turn always is one."""
    width = layer(images).shape[-1]
    return next(
        shift
        for shift in range(1, images.shape[-1] + 1)
        if any(_error(layer, images, shift, e, 0) < AGREEING for e in range(width))
    )


def _step_by(expected: Callable[[int], int]) -> Callable[[nn.Module, Tensor], int]:
    """For somebody who tries one shift of the outputs alone, made from that of the images."""
    return lambda layer, images: next(
        (
            shift
            for shift in range(1, images.shape[-1] + 1)
            if _error(layer, images, shift, expected(shift), 0) < AGREEING
        ),
        images.shape[-1],
    )


def _ratio(layer: nn.Module, images: Tensor) -> int:
    return max(1, int(images.shape[-1] // layer(images).shape[-1]))


def _whole_pixels(layer: nn.Module, images: Tensor) -> int:
    """The smallest multiple of the ratio of widths that a shift by whole pixels answers."""
    ratio = _ratio(layer, images)
    return next(
        (
            shift
            for shift in range(ratio, images.shape[-1] + 1, ratio)
            if _error(layer, images, shift, shift // ratio, 0) < AGREEING
        ),
        images.shape[-1],
    )


def _beside(make: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, Tensor]]:
    return lambda: (make(), _images())


EQUIVARIANCE_STEP = Rule(
    cases={name: _beside(make) for name, make in LAYERS.items()},
    oracle=_step,
    read=_one_number,
    hint="For shift = 1, 2, … up to the images' width: does *some* shift of the outputs, from 0 up "
    "to their width - 1, make shift_error smaller than 1e-9? Return the first such shift.",
    slips={
        "The outputs may shift by less than the images: try every shift of the outputs.": (
            _step_by(lambda shift: shift)
        ),
        "A shift of the outputs by 0 counts as well: global pooling answers every shift so.": (
            _whole_pixels
        ),
        "The outputs may shift as well: try every shift of them, not 0 alone.": (
            _step_by(lambda shift: 0)
        ),
        "Widths alone don't tell: measure with shift_error whether both ways agree.": _ratio,
    },
)

RULES = {"shift_error": SHIFT_ERROR, "equivariance_step": EQUIVARIANCE_STEP}
