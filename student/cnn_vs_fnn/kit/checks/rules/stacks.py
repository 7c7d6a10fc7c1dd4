"""Rules for layers on top of each other: sizes of maps, receptive fields, parameters.

A layer of a stack is a tuple (kernel, stride, padding), in pixels; one direction is looked at.
"""

from collections.abc import Callable
from itertools import accumulate
from math import ceil, prod
from typing import Any

import torch
from torch import nn

from autograder.checks.rules.rule import Rule

Layer = tuple[int, int, int]
Layers = list[Layer]

LENET = [(5, 1, 2), (2, 2, 0), (5, 1, 0), (2, 2, 0)]
RESNET = [(7, 2, 3), (3, 2, 1), (3, 1, 1), (3, 2, 1), (3, 1, 1)]
VGG = [(3, 1, 1), (3, 1, 1), (2, 2, 0)] * 3


def _case(*arguments: Any) -> Callable[[], tuple[Any, ...]]:
    """Arguments whose list of layers, the last one, is new each time."""
    return lambda: (*arguments[:-1], list(arguments[-1]))


def _sizes(size: int, layers: Layers) -> list[int]:
    """Sizes of the maps when torch really runs the layers, without values."""
    maps, sizes = torch.empty(1, 1, size, device="meta"), []
    for layer in layers:
        maps = nn.Conv1d(1, 1, *layer, device="meta")(maps)
        sizes.append(maps.shape[-1])
    return sizes


def _sizes_by(rule: Callable[[int, int, int, int], float]) -> Callable[[int, Layers], list[int]]:
    """Sizes by a mistaken formula of (size, kernel, stride, padding)."""

    def mistaken(size: int, layers: Layers) -> list[int]:
        sizes = [size]
        for layer in layers:
            sizes.append(int(rule(sizes[-1], *layer)))
        return sizes[1:]

    return mistaken


MAP_SIZES = Rule(
    cases={
        "a convolution and a pooling": _case(28, [(5, 1, 0), (2, 2, 0)]),
        "LeNet on 28 pixels": _case(28, LENET),
        "one layer": _case(9, [(4, 3, 1)]),
        "sizes that do not divide": _case(31, [(3, 2, 0), (2, 2, 0), (3, 2, 1), (2, 2, 0)]),
        "ResNet's first layers on 224 pixels": _case(224, RESNET),
        "nine layers on 60 pixels": _case(60, VGG),
        "kernels of one pixel": _case(10, [(1, 1, 0), (1, 3, 0), (1, 1, 1)]),
    },
    oracle=_sizes,
    hint="Each layer gets what the one before it has left: (size + 2 · padding - kernel) // stride "
    "+ 1, then on with that size. One number for each layer.",
    slips={
        "The sizes *after* each layer: leave the image's own size out.": (
            lambda n, layers: [n, *_sizes(n, layers)]
        ),
        "All sizes are asked for, not the last one alone.": (
            lambda n, layers: _sizes(n, layers)[-1]
        ),
        "Each layer reads the map that the layer before has left, not the image.": (
            lambda n, layers: [_sizes(n, [layer])[0] for layer in layers]
        ),
        "Padding counts on both sides.": _sizes_by(lambda n, k, s, p: (n + p - k) // s + 1),
        "The padding has no effect.": _sizes_by(lambda n, k, s, p: (n - k) // s + 1),
        "The stride has no effect.": _sizes_by(lambda n, k, s, p: n + 2 * p - k + 1),
        "The first window counts as well: + 1.": _sizes_by(lambda n, k, s, p: (n + 2 * p - k) // s),
        "A last window that does not fit is left out: round down.": (
            _sizes_by(lambda n, k, s, p: ceil((n + 2 * p - k) / s) + 1)
        ),
        "The division comes before the + 1.": _sizes_by(
            lambda n, k, s, p: (n + 2 * p - k + 1) // s
        ),
    },
)

WIDE = 2000  # pixels: more than any receptive field that is asked for


def _support(layers: Layers) -> int:
    """From the first to the last pixel with a gradient, in a network with positive weights."""
    image = torch.zeros(1, 1, WIDE).requires_grad_()
    maps = image
    for kernel, stride, _ in layers:
        maps = nn.functional.conv1d(maps, torch.full((1, 1, kernel), 1 / kernel), stride=stride)
    (gradient,) = torch.autograd.grad(maps[0, 0, maps.shape[-1] // 2], image)
    seen = gradient[0, 0].nonzero()
    return int(seen.max() - seen.min()) + 1


def _strides(layers: Layers) -> list[int]:
    return [stride for _, stride, _ in layers]


def _grown(layers: Layers, jumps: list[int]) -> int:
    return 1 + sum((k - 1) * jump for (k, _, _), jump in zip(layers, jumps, strict=True))


RECEPTIVE_FIELD = Rule(
    cases={
        "one kernel of 5": _case([(5, 1, 0)]),
        "two kernels of 3": _case([(3, 1, 1), (3, 1, 1)]),
        "convolution, pooling, convolution": _case([(5, 1, 0), (2, 2, 0), (5, 1, 0)]),
        "LeNet": _case(LENET),
        "ResNet's first layers": _case(RESNET),
        "nine layers": _case(VGG),
        "a stride in the last layer alone": _case([(3, 1, 1), (4, 1, 0), (3, 3, 0)]),
        "strides of 2 and 3": _case([(4, 2, 0), (5, 3, 1), (3, 1, 0), (2, 2, 0)]),
        "a kernel smaller than its stride": _case([(1, 2, 0), (3, 1, 1), (2, 3, 0), (3, 1, 0)]),
    },
    oracle=_support,
    hint="Start with 1 pixel and a distance of 1. Each layer adds (kernel - 1) times the distance "
    "between neighbours of the map that it reads; then its stride multiplies that distance.",
    slips={
        "The strides of the layers before widen a step: multiply (kernel - 1) by their product.": (
            lambda layers: _grown(layers, [1] * len(layers))
        ),
        "A layer's own stride counts for the layers after it, not for itself.": (
            lambda layers: _grown(layers, list(accumulate(_strides(layers), int.__mul__)))
        ),
        "The strides of the layers *before* a layer count, not those after it.": (
            lambda layers: _grown(
                layers, [prod(_strides(layers)[n + 1 :]) for n in range(len(layers))]
            )
        ),
        "All strides before a layer count: multiply them, not the last one alone.": (
            lambda layers: _grown(layers, [1, *_strides(layers)][: len(layers)])
        ),
        "A kernel of k pixels adds k - 1 steps: the windows overlap.": (
            lambda layers: sum(kernel for kernel, _, _ in layers)
        ),
        "Kernels don't multiply: each adds (kernel - 1) steps.": (
            lambda layers: prod(kernel for kernel, _, _ in layers)
        ),
        "Begin with 1: without any layer one pixel sees itself.": (
            lambda layers: _support(layers) - 1
        ),
        "One number is asked for, the receptive field after the last layer.": (
            lambda layers: [_support(layers[: n + 1]) for n in range(len(layers))]
        ),
    },
)


def _parameters(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def _convolution(inputs: int, outputs: int, kernel: int, bias: bool) -> int:
    return _parameters(nn.Conv2d(inputs, outputs, kernel, bias=bias, device="meta"))


def _numbers(*numbers: int) -> Callable[[], tuple[int, ...]]:
    return lambda: numbers


CONVOLUTION_PARAMETERS = Rule(
    cases={
        "1 to 8 channels, kernel 5, with bias": _numbers(1, 8, 5, True),
        "3 to 16 channels, kernel 3, without bias": _numbers(3, 16, 3, False),
        "16 to 4 channels, kernel 2, with bias": _numbers(16, 4, 2, True),
        "64 to 64 channels, kernel 1, with bias": _numbers(64, 64, 1, True),
        "7 to 5 channels, kernel 6, without bias": _numbers(7, 5, 6, False),
    },
    oracle=_convolution,
    hint="Each output channel has a kernel of in_channels × kernel × kernel weights, and one bias "
    "if there is a bias.",
    slips={
        "One bias for each output channel, if there is a bias: it is missing.": (
            lambda i, o, k, b: i * o * k * k
        ),
        "Without a bias there are weights alone: mind the last argument.": (
            lambda i, o, k, b: o * (i * k * k + 1)
        ),
        "One bias for each output channel, not for each input channel.": (
            lambda i, o, k, b: i * o * k * k + i * b
        ),
        "One bias for each output channel, not for each pair of channels.": (
            lambda i, o, k, b: i * o * (k * k + b)
        ),
        "One bias for the whole layer is too few: each output channel has its own.": (
            lambda i, o, k, b: i * o * k * k + b
        ),
        "A kernel looks at all input channels, with weights of its own for each.": (
            lambda i, o, k, b: o * (k * k + b)
        ),
        "Each output channel has a kernel of its own.": lambda i, o, k, b: i * k * k + b,
        "A kernel has kernel × kernel weights for each channel.": lambda i, o, k, b: (
            o * (i * k + b)
        ),
    },
)


def _dense(inputs: int, size: int, outputs: int, out_size: int, bias: bool) -> int:
    layer = nn.Linear(inputs * size**2, outputs * out_size**2, bias=bias, device="meta")
    return _parameters(layer)


DENSE_PARAMETERS = Rule(
    cases={
        "1 map of 28 pixels to 8 of 24, with bias": _numbers(1, 28, 8, 24, True),
        "3 maps of 10 pixels to 2 of 5, without bias": _numbers(3, 10, 2, 5, False),
        "5 maps of 4 pixels to 6 of 9, with bias": _numbers(5, 4, 6, 9, True),
        "7 maps of 3 pixels to 10 of 1, with bias": _numbers(7, 3, 10, 1, True),
        "4 maps of 16 pixels to 4 of 8, without bias": _numbers(4, 16, 4, 8, False),
    },
    oracle=_dense,
    hint="The layer has in_channels · in_size² inputs and out_channels · out_size² outputs: a "
    "weight for each pair, and a bias for each output if there is a bias.",
    slips={
        "One bias for each output, if there is a bias: it is missing.": (
            lambda i, n, o, m, b: i * n**2 * o * m**2
        ),
        "Without a bias there are weights alone: mind the last argument.": (
            lambda i, n, o, m, b: (i * n**2 + 1) * o * m**2
        ),
        "A dense layer has a bias for every output pixel, not for every channel.": (
            lambda i, n, o, m, b: i * n**2 * o * m**2 + o * b
        ),
        "A map has size × size pixels.": lambda i, n, o, m, b: i * n * o * m + o * m * b,
        "All channels are mapped, not one.": lambda i, n, o, m, b: n**2 * m**2 + m**2 * b,
        "All pixels are mapped, not channels alone.": lambda i, n, o, m, b: i * o + o * b,
    },
)

RULES = {
    "map_sizes": MAP_SIZES,
    "receptive_field": RECEPTIVE_FIELD,
    "convolution_parameters": CONVOLUTION_PARAMETERS,
    "dense_parameters": DENSE_PARAMETERS,
}
