"""Reference solution of the assignment convolution_basics.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: B images, C input and O output
channels, H and W height and width. Everything is float64 on the CPU.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def convolve(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolution without padding, with stride 1.

    images (B, C, H, W), weight (O, C, KH, KW), bias (O,) -> (B, O, H - KH + 1, W - KW + 1).
    After LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
    recognition; like torch.nn.functional.conv2d it does not flip the kernel.
    """
    # BEGIN SOLUTION
    windows = images.unfold(2, weight.shape[2], 1).unfold(3, weight.shape[3], 1)
    # windows: (B, C, H', W', KH, KW)
    return torch.einsum("bcyxij,ocij->boyx", windows, weight) + bias[:, None, None]
    # END SOLUTION


def convolve_with(
    images: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int
) -> Tensor:
    """Convolution with a stride, and with zeros around the images.

    images (B, C, H, W), weight (O, C, KH, KW), bias (O,) -> (B, O, H', W').
    The arithmetic is that of Dumoulin and Visin (2016), A guide to convolution arithmetic for deep
    learning.
    """
    # BEGIN SOLUTION
    padded = F.pad(images, (padding, padding, padding, padding))
    return convolve(padded, weight, bias)[:, :, ::stride, ::stride]
    # END SOLUTION


def map_sizes(size: int, layers: list[tuple[int, int, int]]) -> list[int]:
    """Height (or width) of the maps after each layer; a layer is (kernel, stride, padding)."""
    # BEGIN SOLUTION
    sizes = []
    for kernel, stride, padding in layers:
        size = (size + 2 * padding - kernel) // stride + 1
        sizes.append(size)
    return sizes
    # END SOLUTION


def receptive_field(layers: list[tuple[int, int, int]]) -> int:
    """Height (or width) of what one output of the last layer sees, in pixels of the image.

    The sum is that of Araujo, Norris and Sim (2019), Computing receptive fields of convolutional
    neural networks.
    """
    # BEGIN SOLUTION
    pixels, distance = 1, 1
    for kernel, stride, _ in layers:
        pixels += (kernel - 1) * distance
        distance *= stride
    return pixels
    # END SOLUTION


def max_pool(maps: Tensor, size: int, stride: int, padding: int) -> Tensor:
    """The largest value of each window: maps (B, C, H, W) -> (B, C, H', W')."""
    # BEGIN SOLUTION
    padded = F.pad(maps, (padding,) * 4, value=float("-inf"))
    return padded.unfold(2, size, stride).unfold(3, size, stride).amax(dim=(4, 5))
    # END SOLUTION


def average_pool(maps: Tensor, size: int, stride: int) -> Tensor:
    """The mean of each window: maps (B, C, H, W) -> (B, C, H', W')."""
    # BEGIN SOLUTION
    return maps.unfold(2, size, stride).unfold(3, size, stride).mean(dim=(4, 5))
    # END SOLUTION


def global_max_pool(maps: Tensor) -> Tensor:
    """The largest value of each channel: maps (B, C, H, W) -> (B, C)."""
    # BEGIN SOLUTION
    return maps.amax(dim=(2, 3))
    # END SOLUTION


def shift_error(
    layer: nn.Module, images: Tensor, shift: int, expected: int, margin: int = 0
) -> float:
    """Largest difference between layer(shifted images) and shifted layer(images).

    images (B, C, H, W); they shift by `shift` pixels, the outputs (B, C', H', W') by `expected`,
    and `margin` columns of the outputs on the left and on the right don't count.
    """
    # BEGIN SOLUTION
    shifted_first = layer(torch.roll(images, shift, dims=-1))
    shifted_last = torch.roll(layer(images), expected, dims=-1)
    difference = (shifted_first - shifted_last).abs()
    return float(difference[..., margin : difference.shape[-1] - margin].max())
    # END SOLUTION


def equivariance_step(layer: nn.Module, images: Tensor) -> int:
    """The smallest shift of the images, at least 1, that some shift of the outputs answers.

    After Zhang (2019), Making convolutional networks shift-invariant again.
    """
    # BEGIN SOLUTION
    width, out_width = images.shape[-1], layer(images).shape[-1]
    for shift in range(1, width):
        if any(shift_error(layer, images, shift, e) < 1e-9 for e in range(out_width)):
            return shift
    return width
    # END SOLUTION


def convolution_parameters(
    in_channels: int, out_channels: int, kernel: int, bias: bool = True
) -> int:
    """Number of parameters of a convolution with kernel × kernel pixels."""
    # BEGIN SOLUTION
    return out_channels * (in_channels * kernel**2 + bias)
    # END SOLUTION


def dense_parameters(
    in_channels: int, in_size: int, out_channels: int, out_size: int, bias: bool = True
) -> int:
    """Number of parameters of a dense layer between maps of in_size and of out_size squared."""
    # BEGIN SOLUTION
    inputs, outputs = in_channels * in_size**2, out_channels * out_size**2
    return outputs * (inputs + bias)
    # END SOLUTION
