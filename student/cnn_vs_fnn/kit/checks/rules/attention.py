"""Rules for attention: its weights, the weighted values, and their gradient.

Shapes: queries (..., L, d_k), keys (..., S, d_k), values (..., S, d_v). A mask (..., L, S) is
boolean, and True where a query may look: that of F.scaled_dot_product_attention, and the opposite
of nn.MultiheadAttention's.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from autograder.checks.core import Stop
from autograder.checks.rules.masks import causal, padding
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Function = Callable[..., Tensor]


def _draw(*sizes: int, lead: tuple[int, ...] = (2,), scale: float = 1.0) -> Arguments:
    """Queries, keys and, for a fourth size, values: sizes are L, S, d_k and d_v."""
    rows, keys, width, *values = sizes
    drawn = (torch.randn(*lead, rows, width) * scale, torch.randn(*lead, keys, width))
    return *drawn, *(torch.randn(*lead, keys, size) for size in values)


def _mask(*shape: int) -> Tensor:
    """A mask in which each query may look at its own place, and at about half of the others."""
    return (torch.rand(shape) < 0.5) | torch.eye(shape[-2], shape[-1], dtype=torch.bool)


def _blind(*shape: int) -> Tensor:
    """A mask in which the second query of the first sample, and all of the last, see nothing."""
    mask = _mask(*shape)
    mask[0, ..., 1, :] = False
    mask[-1] = False
    return mask


def _lowest_two(queries: Tensor, keys: Tensor, *values: Tensor) -> Arguments:
    """With scores up to ±90 000, and a mask that shows each query its two lowest alone.

    They are often below -10 000: a mask that puts such a number in place of -inf hides nothing.
    """
    scores = _scores(queries, keys)
    mask = scores <= scores.kthvalue(2, dim=-1, keepdim=True).values
    return queries * (90_000 / scores.abs().max()), keys, *values, mask


MASKED: dict[str, Callable[[tuple[int, ...]], Arguments]] = {
    "no mask": lambda v: _draw(4, 6, 3, *v),
    "as many queries as keys": lambda v: _draw(5, 5, 4, *v),
    "a mask for all samples": lambda v: (*_draw(5, 5, 3, *v), _mask(5, 5)),
    "a mask for each sample": lambda v: (*_draw(4, 4, 3, *v), _mask(2, 4, 4)),
    "a causal mask": lambda v: (*_draw(5, 5, 2, *v), causal(5)),
    "queries that may see nothing": lambda v: (*_draw(4, 4, 3, *v, lead=(3,)), _blind(3, 4, 4)),
    "one query": lambda v: _draw(1, 5, 3, *v),
    "one key": lambda v: _draw(4, 1, 3, *v),
    "no batch": lambda v: (*_draw(3, 5, 2, *v, lead=()), _mask(3, 5)),
    "a batch of heads": lambda v: (*_draw(4, 5, 3, *v, lead=(2, 3)), _mask(2, 1, 4, 5)),
    "sequences of different lengths": lambda v: (
        *_draw(3, 6, 4, *v, lead=(3,)), padding([6, 2, 4], 6),
    ),
    "an empty sequence in a batch": lambda v: (
        *_draw(3, 4, 2, *v, lead=(3, 2)), padding([4, 0, 2], 4)[:, None],
    ),
    "scores in the thousands": lambda v: _draw(4, 6, 4, *v, scale=1e4),
    "scores in the thousands behind a mask": lambda v: _lowest_two(*_draw(4, 6, 4, *v)),
}  # fmt: skip


def _cases(*values: int) -> dict[str, Callable[[], Arguments]]:
    """All of MASKED, with values of that size where there are any."""
    return {name: functools.partial(make, values) for name, make in MASKED.items()}


def _weights(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    """With the unit matrix for values, attention gives its weights."""
    size = keys.shape[-2]
    values = torch.eye(size).expand(*keys.shape[:-2], size, size)
    weights: Tensor = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    return weights


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries @ keys.mT).div(keys.shape[-1] ** 0.5)


def _filled(value: float) -> Function:
    """The weights when masked scores become `value`."""

    def mistaken(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = _scores(queries, keys)
        return (scores if mask is None else scores.masked_fill(~mask, value)).softmax(-1)

    return mistaken


def _not_renormalised(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    weights = _scores(queries, keys).softmax(-1)
    return weights if mask is None else weights * mask


def _times_mask(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = _scores(queries, keys)
    return (scores if mask is None else scores * mask).softmax(-1)


def _by_exponentials(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    powers = _scores(queries, keys).exp()
    powers = powers if mask is None else powers * mask
    return powers / powers.sum(-1, keepdim=True)


MISTAKES: dict[str, Function] = {
    "Divide the scores by √d_k: for large d_k they would be too large.": (
        lambda q, k, m=None: _weights(q * k.shape[-1] ** 0.5, k, m)
    ),
    "Divide the scores by the root of d_k, not by d_k.": (
        lambda q, k, m=None: _weights(q / k.shape[-1] ** 0.5, k, m)
    ),
    "√d_k belongs to the size of queries and keys, not to the number of keys.": (
        lambda q, k, m=None: _weights(q * (k.shape[-1] / k.shape[-2]) ** 0.5, k, m)
    ),
    "The mask has no effect: where it is False, the weight must be 0.": (
        lambda q, k, m=None: _weights(q, k)
    ),
    "The mask is True where a query MAY look; yours hides just these.": (
        lambda q, k, m=None: _weights(q, k, None if m is None else ~m)
    ),
    "A query that may see nothing has weights 0, but softmax of nothing but -inf is nan: put 0 "
    "there after the softmax.": _filled(-torch.inf),
    "A query that may see nothing has weights 0; a large negative number in place of -inf gives "
    "it a share of all keys.": _filled(-1e9),
    "A score of 0 is a score like others: exp(0) is 1. Put -inf where the mask is False.": (
        _times_mask
    ),
    "After masking, the weights of a query must still sum to 1: mask before the softmax.": (
        _not_renormalised
    ),
    "exp overflows beyond 709, and a sum of nothing but zeros is 0: use torch.softmax, or subtract "
    "the largest score that is allowed.": _by_exponentials,
    "The softmax goes over the keys, the last dimension: a query's weights sum to 1.": (
        lambda q, k, m=None: (
            _scores(q, k) if m is None else _scores(q, k).masked_fill(~m, -torch.inf)
        ).softmax(-2)
    ),
}

WEIGHTS = Rule(
    cases=_cases(),
    oracle=_weights,
    hint="Scores: each query times each key, over √d_k; -inf where the mask is False; softmax over "
    "the keys, the last dimension; then 0 for a query that may see nothing.",
    slips={
        **MISTAKES,
        "Those are the scores: take their softmax over the keys.": lambda q, k, m=None: _scores(
            q, k
        ),
    },
)


def _weighted(weights: Function) -> Function:
    def mistaken(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return weights(q, k, mask) @ v

    return mistaken


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


ATTENTION = Rule(
    cases={**_cases(5), "values as wide as keys": lambda: _draw(4, 6, 3, 3)},
    oracle=_attention,
    hint="For each query the sum of the values, each times its weight: weights @ values.",
    slips={hint: _weighted(weights) for hint, weights in MISTAKES.items()},
)


def _gradients(result: Any, arguments: Arguments) -> tuple[Tensor, ...]:
    """Derivatives of a weighted sum of the result with respect to queries, keys and values."""
    queries, keys, values, *_ = arguments
    if not isinstance(result, Tensor) or result.shape != (*queries.shape[:-1], values.shape[-1]):
        raise Stop("the result has the wrong shape or kind.", "Mend the values first.")
    weights = torch.linspace(1, 2, result.numel()).view_as(result)
    return differentiate((weights * result).sum(), [queries, keys, values])


_leaf_of = WeakTensorKeyDictionary()


def differentiate(number: Tensor, given: list[Tensor]) -> tuple[Tensor, ...]:
    """The derivatives by arguments that `leaves` made, or Stop where the number misses one."""
    try:
        return torch.autograd.grad(number, [_leaf_of[a] for a in given], retain_graph=True)
    except RuntimeError as error:
        raise Stop(
            f"no gradient flows from the result to all tensors that came in: {str(error)[:200]}",
            "Stay with torch operations: detach(), .data, item(), numpy and torch.no_grad() cut "
            "the gradient, and so does writing into the result of a softmax.",
        ) from None


def leaves(make: Callable[[], Arguments]) -> Callable[[], Arguments]:
    """The same arguments, all but masks as copies of leaves: a function may change them."""

    def made() -> Arguments:
        arguments = [a.requires_grad_() if a.is_floating_point() else a for a in make()]
        copies = [a.clone() for a in arguments]
        _leaf_of.update(zip(copies, arguments, strict=True))
        return tuple(copies)

    return made


def _added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    hidden = torch.zeros(()) if mask is None else torch.zeros(mask.shape).where(mask, -torch.inf)
    return (_scores(q, k) + hidden).softmax(-1).nan_to_num(0.0) @ v


ATTENTION_GRADIENT = Rule(
    cases={name: leaves(make) for name, make in ATTENTION.cases.items()},
    oracle=_attention,
    read=_gradients,
    hint="The values may be right, but the gradient with respect to queries, keys and values is "
    "not. For a query that may see nothing it must be 0, not nan.",
    slips={
        "The nan that softmax makes of nothing but -inf comes back in the gradient. masked_fill "
        "and torch.where stop it; adding -inf to the scores doesn't.": _added,
        "A query that may see nothing needs a gradient of 0, and yours gives it a share of all "
        "keys.": _weighted(_filled(-1e9)),
    },
)


RULES = {
    "attention_weights": WEIGHTS,
    "attention": ATTENTION,
    "attention_gradient": ATTENTION_GRADIENT,
}
