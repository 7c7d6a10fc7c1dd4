"""Samples with their labels: checked, and moved to a device."""

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
"""Inputs (N, ...) float32 and labels int64 (N,): a `data.Split` or a plain tuple."""


def on(place: torch.device, pair: Pair, name: str) -> Pair:
    """The pair on a device, after a look at its types and sizes.

    Raises:  TypeError, ValueError: data that cannot be trained or evaluated on; `name` says which.
    """
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(torch.is_tensor, pair))):
        raise TypeError(
            f"The {name} data must be a pair of tensors (inputs, labels), "
            f"got {type(pair).__name__}. Pass digits().train or (inputs, labels)."
        )
    inputs, labels = pair
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise TypeError(
            f"The {name} labels must be class numbers, int64 of shape (N,), "
            f"got {str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}. "
            "Use labels.long(), or labels.argmax(dim=1) if they are one-hot."
        )
    if not len(labels) or inputs.ndim == 0 or len(inputs) != len(labels):
        raise ValueError(
            f"The {name} data need one label for each sample and at least one sample, "
            f"got inputs {tuple(inputs.shape)} and labels {tuple(labels.shape)}."
        )
    if labels.min() < 0:
        raise ValueError(f"The {name} labels must be class numbers from 0, got {labels.min()}.")
    return inputs.to(place), labels.to(place)
