import math

import pytest
import torch

from autograder.data import oscillation, series


def test_a_series_is_the_same_for_the_same_seed_and_float32_whatever_the_default_is():
    first = oscillation(50, 3)
    torch.set_default_dtype(torch.float64)
    try:
        again = oscillation(50, 3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(first, again)
    assert (first.dtype, first.shape) == (torch.float32, (50,))


def test_drawing_a_series_leaves_the_global_generator():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    oscillation(10, 1)
    assert torch.equal(torch.rand(1), expected)


def test_without_the_noise_it_is_two_sines():
    many = torch.stack([oscillation(60, seed, 7) for seed in range(400)]).double()
    expected = [
        math.sin(2 * math.pi * t / 25) + 0.5 * math.sin(2 * math.pi * t / 10) for t in range(7, 67)
    ]
    assert (many.mean(0) - torch.tensor(expected, dtype=torch.float64)).abs().max() < 0.025
    assert many.std(0).mean().item() == pytest.approx(series.NOISE, rel=0.02)


def test_a_later_part_has_noise_of_its_own():
    whole, later = oscillation(300, 1), oscillation(100, 2, 200)
    assert (whole[200:] - later).abs().min() > 0
    assert (whole[200:] - later).std().item() == pytest.approx(2**0.5 * series.NOISE, rel=0.3)
