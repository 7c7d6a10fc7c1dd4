"""Rule for the soft lookup in a database: a query (3,), N keys (N, 3), their values (N, 2)."""

from typing import Any

import torch
from torch import Tensor

from autograder.checks.rules.rule import Rule


def _database(pairs: int, temperature: float) -> tuple[Any, ...]:
    """A query, keys and values of a lookup: (3,), (N, 3), (N, 2)."""
    return torch.randn(3), torch.randn(pairs, 3), torch.randn(pairs, 2), temperature


def _by_the_largest(query: Tensor, keys: Tensor, values: Tensor, temperature: float) -> Tensor:
    """Scores relative to the largest, so that no exponential overflows; key by key."""
    scores = [float((key * query).sum()) for key in keys]
    best = max(scores)
    if temperature == 0:
        return values[scores.index(best)]
    weights = torch.tensor([(score - best) / temperature for score in scores]).exp()
    return torch.stack([w * v for w, v in zip(weights, values, strict=True)]).sum(0) / weights.sum()


def _by_exponentials(query: Tensor, keys: Tensor, values: Tensor, temperature: float) -> Tensor:
    powers = (keys @ query / temperature).exp()
    return powers @ values / powers.sum()


SOFT_LOOKUP = Rule(
    cases={
        "5 pairs at temperature 1": lambda: _database(5, 1.0),
        "4 pairs at temperature 0.1": lambda: _database(4, 0.1),
        "6 pairs at temperature 0": lambda: _database(6, 0.0),
        "one pair": lambda: _database(1, 0.5),
        "50 pairs at temperature 0": lambda: _database(50, 0.0),
        "a temperature of a millionth": lambda: _database(7, 1e-6),
        "a temperature of a million": lambda: _database(7, 1e6),
    },
    oracle=_by_the_largest,
    hint="The weights are softmax(keys · query / temperature), one for each pair; the result is "
    "the sum of the values, each times its weight.",
    slips={
        "Divide the scores by the temperature, don't multiply.": lambda q, k, v, t: (
            (k @ q * t).softmax(0) @ v
        ),
        "The temperature has no effect: divide the scores by it.": lambda q, k, v, t: (
            (k @ q).softmax(0) @ v
        ),
        "The temperature stands where √d stands in attention: don't divide by both.": (
            lambda q, k, v, t: _by_the_largest(q, k / q.numel() ** 0.5, v, t)
        ),
        "Only temperature 0 gives the value of the best key alone; else all values count.": (
            lambda q, k, v, t: _by_the_largest(q, k, v, 0.0)
        ),
        "exp overflows beyond 709: use torch.softmax, or subtract the largest score first.": (
            lambda q, k, v, t: _by_exponentials(q, k, v, t) if t else _by_the_largest(q, k, v, t)
        ),
        "Similar means a large scalar product here, not a small distance.": lambda q, k, v, t: (
            _by_the_largest(torch.ones(1), -(k - q).square().sum(1, keepdim=True), v, t)
        ),
        "Those are the weights: multiply them with the values.": lambda q, k, v, t: _by_the_largest(
            q, k, torch.eye(len(k)), t
        ),
        "0 / 0 is nan: for temperature 0 return the value of the key with the largest score.": (
            lambda q, k, v, t: (k @ q / torch.tensor(t)).softmax(0) @ v
        ),
    },
)

RULES = {"soft_lookup": SOFT_LOOKUP}
