"""Rules for self-attention: x (B, T, D), w_q and w_k (D, d_k), w_v (D, d_v), mask as everywhere."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.core import Stop
from autograder.checks.rules.attention import differentiate, leaves
from autograder.checks.rules.masks import causal, padding
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _sequence(batch: int, steps: int, features: int, keys: int, values: int) -> Arguments:
    """A sequence (B, T, D), w_q and w_k (D, d_k), w_v (D, d_v)."""
    weights = (torch.randn(features, n) / features**0.5 for n in (keys, keys, values))
    return torch.randn(batch, steps, features), *weights


def _self_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor | None = None
) -> Tensor:
    q, k, v = (torch.einsum("btd,dk->btk", x, w) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


SELF_ATTENTION = Rule(
    cases={
        "as many features as before": lambda: _sequence(2, 5, 4, 4, 4),
        "queries and values of other sizes": lambda: _sequence(2, 6, 5, 3, 2),
        "a causal mask": lambda: (*_sequence(2, 5, 4, 3, 4), causal(5)),
        "a batch of one": lambda: _sequence(1, 4, 3, 2, 3),
        "one step": lambda: _sequence(3, 1, 4, 2, 4),
        "sequences of different lengths": lambda: (
            *_sequence(3, 4, 5, 2, 4), padding([4, 1, 3], 4),
        ),
        "as many sequences as steps": lambda: _sequence(4, 4, 3, 3, 3),
    },
    oracle=_self_attention,
    hint="Queries x W_q, keys x W_k, values x W_v, of every step; then attention with the mask.",
    slips={
        "Queries are x @ w_q: here the weights are not transposed.": (
            lambda x, q, k, v, m=None: (
                _self_attention(x, q.T, k.T, v.T, m) if q.shape == v.shape == q.T.shape else x
            )
        ),
        "The values are projected too: x @ w_v, not x.": (
            lambda x, q, k, v, m=None: _self_attention(x, q, k, torch.eye(x.shape[-1]), m)
        ),
        "Queries and keys are swapped.": lambda x, q, k, v, m=None: _self_attention(x, k, q, v, m),
        "Hand the mask on to the attention.": lambda x, q, k, v, m=None: (
            _self_attention(x, q, k, v)
        ),
        "The mask is True where a query MAY look; yours hides just these.": (
            lambda x, q, k, v, m=None: _self_attention(x, q, k, v, None if m is None else ~m)
        ),
        "The steps of a sequence look at each other, not the sequences of a batch.": (
            lambda x, q, k, v, m=None: _self_attention(x.transpose(0, 1), q, k, v).transpose(0, 1)
        ),
    },
)  # fmt: skip


def _step_by_step(result: Any, arguments: Arguments) -> Tensor:
    """Derivatives of each step's output, on a fixed projection, for every input: (T, B, T, D)."""
    x, *_, w_v, _ = arguments
    if not isinstance(result, Tensor) or result.shape != (*x.shape[:2], w_v.shape[1]):
        raise Stop("the result has the wrong shape or kind.", "Mend the values first.")
    projected = result @ torch.linspace(1, 2, w_v.shape[1])
    return torch.stack([differentiate(step.sum(), [x])[0] for step in projected.unbind(1)])


SELF_ATTENTION_GRADIENT = Rule(
    cases={
        "a causal mask over 5 steps": leaves(lambda: (*_sequence(2, 5, 4, 3, 4), causal(5))),
        "a batch of one behind a causal mask": leaves(
            lambda: (*_sequence(1, 6, 3, 2, 2), causal(6))
        ),
    },
    oracle=_self_attention,
    read=_step_by_step,
    hint="The derivative of output t with respect to input s must be 0 for s > t, and for no "
    "other: look at how the mask reaches the scores.",
    slips={
        "The mask has no effect: an output hangs on later inputs.": (
            lambda x, q, k, v, m: _self_attention(x, q, k, v)
        ),
        "The mask is the wrong way round: outputs hang on later inputs, not on earlier ones.": (
            lambda x, q, k, v, m: _self_attention(x, q, k, v, ~m)
        ),
    },
)

RULES = {
    "self_attention": SELF_ATTENTION,
    "self_attention_gradient": SELF_ATTENTION_GRADIENT,
}
