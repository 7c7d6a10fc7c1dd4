"""Rules for boolean masks, True where a query may look: causal (T, T), for padding (B, 1, S)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule


def causal(length: int) -> Tensor:
    """True where column s ≤ row t, shape (T, T)."""
    return torch.tensor([[s <= t for s in range(length)] for t in range(length)])


def padding(lengths: list[int], longest: int) -> Tensor:
    """True where a key is real, shape (B, 1, S)."""
    return torch.tensor([[[k < n for k in range(longest)]] for n in lengths])


def _boolean(result: Any, _: tuple[Any, ...]) -> Any:
    """The mask, if its values are booleans: a mask of 0 and 1 would be added to the scores."""
    kind = result.dtype if isinstance(result, Tensor) else np.asarray(result).dtype
    if kind not in (torch.bool, np.dtype(bool)):
        raise Stop(
            f"the mask holds {kind}, not booleans.", "Return a boolean tensor: .bool(), or compare."
        )
    return result


CAUSAL_MASK = Rule(
    cases={
        "4 steps": lambda: (4,),
        "5 steps": lambda: (5,),
        "2 steps": lambda: (2,),
        "1 step": lambda: (1,),
        "30 steps": lambda: (30,),
    },
    oracle=causal,
    read=_boolean,
    words={0.0: "False", 1.0: "True"},
    hint="Row t, column s: True where s ≤ t.",
    slips={
        "True is where a query may look: yours is the mask of what is hidden.": (
            lambda n: torch.ones(n, n).triu(1).bool()
        ),
        "Rows are queries, columns keys: yours is transposed, and sees the future alone.": (
            lambda n: torch.ones(n, n).triu().bool()
        ),
        "A step may see itself: the diagonal is True.": lambda n: torch.ones(n, n).tril(-1).bool(),
        "A step may not see the one after it.": lambda n: torch.ones(n, n).tril(1).bool(),
    },
)

PADDING_MASK = Rule(
    cases={
        "lengths 2, 4 and 3": lambda: ([2, 4, 3], 4),
        "lengths 1 and 5, padded to 6": lambda: ([1, 5], 6),
        "one sequence": lambda: ([3], 5),
        "an empty sequence": lambda: ([0, 2], 3),
        "thirty sequences": lambda: (torch.randint(0, 9, (30,)).tolist(), 8),
        "a length of one": lambda: ([1, 1], 1),
    },
    oracle=padding,
    read=_boolean,
    words={0.0: "False", 1.0: "True"},
    hint="Sample b, key s: True where s < lengths[b]; the middle dimension, for all queries, is 1.",
    slips={
        "True is where a key is real, and may be looked at; yours marks the padding.": (
            lambda lengths, longest: ~padding(lengths, longest)
        ),
        "Steps count from 0: a sequence of 2 has the steps 0 and 1, not 2.": (
            lambda lengths, longest: padding([n + 1 for n in lengths], longest)
        ),
        "The last real step may be seen as well.": (
            lambda lengths, longest: padding([n - 1 for n in lengths], longest)
        ),
        "A dimension is missing: (B, 1, S), so that it serves all queries of a sample.": (
            lambda lengths, longest: padding(lengths, longest)[:, 0]
        ),
        "The dimension of size 1 stands for the queries, in the middle: (B, 1, S).": (
            lambda lengths, longest: padding(lengths, longest).mT
        ),
        "The mask has `longest` columns, even if no sequence is that long.": (
            lambda lengths, longest: padding(lengths, max(lengths))
        ),
        "One row serves all queries: (B, 1, S), not (B, S, S).": (
            lambda lengths, longest: padding(lengths, longest).repeat(1, longest, 1)
        ),
    },
)

RULES = {"causal_mask": CAUSAL_MASK, "padding_mask": PADDING_MASK}
