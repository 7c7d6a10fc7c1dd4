"""A small language to translate: digits are read backwards, and each one is said once."""

import torch
from torch import Tensor

PAD, BOS, EOS = 10, 11, 12
"""Tokens beside the digits 0 to 9: padding, begin and end of a sequence."""
VOCABULARY = 13  # tokens, the ten digits among them


def pairs(count: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences of `length` random digits, and their translations, the same on every machine.

    A translation goes through the digits from the last to the first and leaves out those that it
    has said before; then comes EOS, and PAD up to `length` + 1 tokens.

    Shapes:  returns int64 sources (count, length) and targets (count, length + 1).
    """
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(10, (count, length), generator=generator)
    said = [[*dict.fromkeys(reversed(digits)), EOS] for digits in source.tolist()]
    return source, torch.tensor([tokens + [PAD] * (length + 1 - len(tokens)) for tokens in said])
