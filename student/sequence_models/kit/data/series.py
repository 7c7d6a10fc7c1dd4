"""A generated series to forecast: an oscillation of two periods, with noise."""

import math

import torch
from torch import Tensor

PERIODS = (25.0, 10.0)  # steps
AMPLITUDES = (1.0, 0.5)
NOISE = 0.1  # standard deviation: no forecast can have a smaller error


def oscillation(steps: int, seed: int, first: int = 0) -> Tensor:
    """The values at times first, first + 1, … of two sines and noise, the same on every machine.

    The sines know the time alone; the seed draws the noise, at each time independent of all
    others. So a later part with noise of its own is the same process, and can't be looked up.

    Shapes:  returns float32 (steps,).
    Units:   steps and first in time steps; the values have none.
    """
    generator = torch.Generator().manual_seed(seed)
    values = NOISE * torch.randn(steps, generator=generator, dtype=torch.float64)
    times = torch.arange(first, first + steps, dtype=torch.float64)
    for period, amplitude in zip(PERIODS, AMPLITUDES, strict=True):
        values += amplitude * torch.sin(2 * math.pi / period * times)
    return values.float()
