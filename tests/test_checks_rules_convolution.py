"""The tasks of convolution_basics: right ways pass, each known mistake fails with its own hint."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks.rules import RULES, equivariance
from reference import convolution_basics as reference
from tests.rules import decided

FUNCTIONS = {
    "convolve": reference.convolve,
    "strided_convolve": reference.convolve_with,
    "map_sizes": reference.map_sizes,
    "receptive_field": reference.receptive_field,
    "max_pool": reference.max_pool,
    "average_pool": reference.average_pool,
    "global_max_pool": reference.global_max_pool,
    "shift_error": reference.shift_error,
    "equivariance_step": reference.equivariance_step,
    "convolution_parameters": reference.convolution_parameters,
    "dense_parameters": reference.dense_parameters,
}


# Other right ways.


def by_seven_loops(images, weight, bias):
    (b, c, h, w), (o, _, kh, kw) = images.shape, weight.shape
    out = np.zeros((b, o, h - kh + 1, w - kw + 1))
    for n, m, y, x in np.ndindex(*out.shape):
        total = bias[m].item()
        for k in range(c):
            for i in range(kh):
                for j in range(kw):
                    total += (weight[m, k, i, j] * images[n, k, y + i, x + j]).item()
        out[n, m, y, x] = total
    return out


def by_windows(images, weight, bias):
    kh, kw = weight.shape[2:]
    h, w = images.shape[2] - kh + 1, images.shape[3] - kw + 1
    out = torch.empty(len(images), len(weight), h, w)
    for y in range(h):
        for x in range(w):
            window = images[:, None, :, y : y + kh, x : x + kw]
            out[:, :, y, x] = (window * weight).sum(dim=(2, 3, 4)) + bias
    return out


def by_shifted_images(images, weight, bias):
    kh, kw = weight.shape[2:]
    h, w = images.shape[2] - kh + 1, images.shape[3] - kw + 1
    total = bias.view(1, -1, 1, 1)
    for i in range(kh):
        for j in range(kw):
            part = images[:, :, i : i + h, j : j + w].movedim(1, -1) @ weight[:, :, i, j].T
            total = total + part.movedim(-1, 1)
    return total


def by_columns(images, weight, bias):
    columns = F.unfold(images, weight.shape[2:])
    out = weight.flatten(1) @ columns + bias[:, None]
    h = images.shape[2] - weight.shape[2] + 1
    return out.view(len(images), len(weight), h, -1)


def in_lists(images, weight, bias):
    return by_windows(images, weight, bias).tolist()


def in_place_on_its_images(images, weight, bias):
    right = by_windows(images, weight, bias)
    images.zero_()
    return right


CONVOLUTIONS = [
    by_seven_loops, by_windows, by_shifted_images, by_columns, in_lists, in_place_on_its_images,
]  # fmt: skip


@pytest.mark.parametrize("function", CONVOLUTIONS)
def test_a_right_convolution_passes(function):
    assert decided("convolve", function).status == "passed"


@pytest.mark.parametrize("convolution", [by_windows, by_columns])
def test_a_right_convolution_with_stride_passes(convolution):
    def padded_then_thinned(images, weight, bias, stride, padding):
        b, c, h, w = images.shape
        padded = torch.zeros(b, c, h + 2 * padding, w + 2 * padding)
        padded[:, :, padding : padding + h, padding : padding + w] = images
        return convolution(padded, weight, bias)[..., ::stride, ::stride]

    assert decided("strided_convolve", padded_then_thinned).status == "passed"


def test_strided_windows_pass():
    def strided(images, weight, bias, stride=1, padding=0):
        windows = F.unfold(images, weight.shape[2:], stride=stride, padding=padding)
        rows = (images.shape[2] + 2 * padding - weight.shape[2]) // stride + 1
        out = torch.einsum("ok,bkl->bol", weight.flatten(1), windows)
        return out.unflatten(2, (rows, -1)) + bias[None, :, None, None]

    assert decided("strided_convolve", strided).status == "passed"


def test_float32_is_near_enough_for_the_tolerance_of_the_assignment():
    def single(images, weight, bias):
        return by_windows(images.float(), weight.float(), bias.float()).float()

    assert decided("convolve", single).status == "failed"
    assert decided("convolve", single, tolerance=1e-5).status == "passed"


def pooled_by_loops(summary, padded):
    def pool(maps, size, stride, padding=0):
        maps = padded(maps, padding)
        rows = range(0, maps.shape[2] - size + 1, stride)
        columns = range(0, maps.shape[3] - size + 1, stride)
        return torch.stack([
            torch.stack([summary(maps[:, :, y : y + size, x : x + size]) for x in columns], -1)
            for y in rows
        ], -2)  # fmt: skip

    return pool


def lowest(maps, padding):
    return F.pad(maps, (padding,) * 4, value=torch.finfo(maps.dtype).min)


def own_minimum(maps, padding):
    return F.pad(maps, (padding,) * 4, value=maps.min().item())


@pytest.mark.parametrize("padded", [lowest, own_minimum])
def test_a_right_max_pooling_passes(padded):
    pool = pooled_by_loops(lambda window: window.flatten(2).max(2).values, padded)
    assert decided("max_pool", pool).status == "passed"


def test_max_pooling_by_columns_passes():
    def pool(maps, size, stride, padding):
        b, c = maps.shape[:2]
        windows = F.unfold(lowest(maps, padding), size, stride=stride).view(b, c, size**2, -1)
        rows = (maps.shape[2] + 2 * padding - size) // stride + 1
        return windows.max(dim=2)[0].view(b, c, rows, -1)

    assert decided("max_pool", pool).status == "passed"


def clipped_windows(maps, size, stride, padding):
    """No padding at all: windows that are cut at the border."""
    height, width = maps.shape[2:]
    sizes = [(n + 2 * padding - size) // stride + 1 for n in (height, width)]
    out = maps.new_zeros(*maps.shape[:2], *sizes)
    for y in range(sizes[0]):
        for x in range(sizes[1]):
            top, left = y * stride - padding, x * stride - padding
            part = maps[:, :, max(top, 0) : top + size, max(left, 0) : left + size]
            out[:, :, y, x] = part.amax((2, 3))
    return out


def test_max_pooling_of_cut_windows_passes():
    assert decided("max_pool", clipped_windows).status == "passed"


def test_a_right_average_pooling_passes():
    pool = pooled_by_loops(lambda window: window.sum((2, 3)) / window[0, 0].numel(), lowest)
    assert decided("average_pool", pool).status == "passed"


@pytest.mark.parametrize("function", [
    lambda maps: maps.flatten(2).max(-1).values,
    lambda maps: maps.max(3).values.max(2).values,
    lambda maps: F.max_pool2d(maps, maps.shape[-2:])[:, :, 0, 0],
    lambda maps: maps.numpy().max(axis=(2, 3)),
])  # fmt: skip
def test_a_right_global_pooling_passes(function):
    assert decided("global_max_pool", function).status == "passed"


def sizes_from_torch(size, layers):
    maps, sizes = torch.zeros(1, 1, size, size), []
    for kernel, stride, padding in layers:
        maps = nn.Conv2d(1, 1, kernel, stride, padding)(maps)
        sizes.append(maps.shape[-1])
    return tuple(sizes)


def test_right_sizes_pass_of_whatever_kind():
    assert decided("map_sizes", sizes_from_torch).status == "passed"
    as_floats = lambda n, layers: [float(s) for s in sizes_from_torch(n, layers)]
    assert decided("map_sizes", as_floats).status == "passed"
    assert decided("map_sizes", lambda *a: torch.tensor(sizes_from_torch(*a))).status == "passed"


def backwards(layers):
    first, last = 0, 0
    for kernel, stride, padding in layers[::-1]:
        first, last = first * stride - padding, last * stride - padding + kernel - 1
    return last - first + 1


def from_the_top(layers):
    pixels = 1
    for kernel, stride, _ in reversed(layers):
        pixels = (pixels - 1) * stride + kernel
    return pixels


@pytest.mark.parametrize("function", [backwards, from_the_top])
def test_a_right_receptive_field_passes(function):
    assert decided("receptive_field", function).status == "passed"


def test_receptive_fields_of_well_known_networks():
    right = RULES["receptive_field"].oracle
    assert [right([(3, 1, 1)] * n) for n in (1, 2, 3)] == [3, 5, 7]
    assert right([(5, 1, 0), (2, 2, 0), (5, 1, 0)]) == 14


def by_columns_of_numpy(layer, images, shift, expected, margin=0):
    first = layer(torch.from_numpy(np.roll(images.numpy(), shift, axis=3))).detach().numpy()
    last = np.roll(layer(images).detach().numpy(), expected, axis=3)
    return np.max(np.abs(first - last)[..., margin : first.shape[3] - margin])


def with_concatenation(layer, images, shift, expected, margin=0):
    def move(x, n):
        n %= x.shape[-1]
        return torch.cat([x[..., x.shape[-1] - n :], x[..., : x.shape[-1] - n]], dim=-1)

    gap = (layer(move(images, shift)) - move(layer(images), expected)).abs()
    return gap[..., margin:-margin].max() if margin else gap.max()


@pytest.mark.parametrize("function", [by_columns_of_numpy, with_concatenation])
def test_a_right_shift_error_passes(function):
    assert decided("shift_error", function).status == "passed"


def test_rounding_is_no_error():
    noisy = lambda *a: reference.shift_error(*a) + 3e-16
    assert decided("shift_error", noisy, ["circular padding, shift 3"]).status == "passed"


def allclose_step(layer, images):
    out = layer(images)
    for shift in range(1, images.shape[3] + 1):
        moved = layer(images.roll(shift, 3))
        if any(torch.allclose(moved, out.roll(e, 3), atol=1e-9) for e in range(out.shape[3])):
            return torch.tensor(shift)
    return None


def test_a_right_step_passes():
    assert decided("equivariance_step", allclose_step).status == "passed"


STEPS = {
    "a convolution with circular padding": 1,
    "a convolution with zero padding": 12,
    "max pooling": 2,
    "average pooling by 3": 3,
    "two poolings": 4,
    "a circular convolution with stride 3": 3,
    "circular convolution, ReLU, pooling, circular convolution": 2,
    "zero padding, then pooling": 12,
    "global pooling": 1,
    "circular convolution, then global pooling": 1,
    "a dense layer over each row": 12,
    "a ReLU": 1,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_what_theory_says(name):
    torch.set_default_dtype(torch.float64)
    try:
        rule = equivariance.EQUIVARIANCE_STEP
        assert rule.oracle(*rule.cases[name]()) == STEPS[name]
    finally:
        torch.set_default_dtype(torch.float32)


def test_an_error_that_is_no_number_is_named():
    verdict = decided("shift_error", lambda layer, images, *_: layer(images))
    assert verdict.status == "failed"
    assert "not one finite number" in verdict.rationale


@pytest.mark.parametrize(("rule", "function"), [
    ("convolution_parameters", lambda i, o, k, bias=True: sum(
        p.numel() for p in nn.Conv2d(i, o, k, bias=bias).parameters())),
    ("dense_parameters", lambda i, n, o, m, bias=True: (
        i * n * n * o * m * m + (o * m * m if bias else 0))),
])  # fmt: skip
def test_right_counts_pass(rule, function):
    assert decided(rule, function).status == "passed"
