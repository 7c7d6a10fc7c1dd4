"""Fingerprints of samples, to show that two sets of data have none in common."""

import hashlib

import numpy as np
import torch
from torch import Tensor

_GREY_LEVELS = 255  # the grid: exactly the pixel values of an 8-bit image with range [0, 1]
_DIGEST_BYTES = 8


def fingerprints(samples: Tensor) -> list[str]:
    """One hash a sample, equal for equal samples on every machine.

    Values are rounded to 1/255 first, so that float noise does not matter. Only the values count,
    not the shape: an image has the same hash with and without its channel dimension.

    Shapes:  samples (N, ...), any real dtype; for images (N, 1, 28, 28) or (N, 28, 28).
    Units:   16 hexadecimal digits a sample.
    Raises:  ValueError: no sample dimension.
    Source:  BLAKE2b, RFC 7693.
    """
    if samples.ndim == 0:
        raise ValueError("fingerprints needs a batch of samples (N, ...), got a single number.")
    grid = torch.round(samples.detach().cpu().double() * _GREY_LEVELS)
    limits = np.iinfo(np.int32)
    # NaN and infinity have no whole number: pin them, so that the hash stays defined.
    grid = torch.nan_to_num(grid, nan=float(limits.min)).clamp(limits.min, limits.max)
    rows = grid.flatten(1) if grid.ndim > 1 else grid.unsqueeze(1)
    return [
        hashlib.blake2b(row.tobytes(), digest_size=_DIGEST_BYTES).hexdigest()
        for row in rows.numpy().astype("<i4")
    ]
