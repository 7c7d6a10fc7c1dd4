"""Rule for attention with several heads, equal to nn.MultiheadAttention's.

Shapes: sequences (B, T, D); weights as PyTorch keeps them, (outputs, inputs); D / heads features a
head.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.checks.rules.masks import causal
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Split = Callable[[Tensor, int], Tensor]

OPPOSITE = "The mask is True where a query MAY look, here as everywhere in this notebook."


def _projections(batch: int, steps: int, width: int, heads: int) -> Arguments:
    """A sequence, in_proj_weight, in_proj_bias, the weight and bias of out_proj, heads."""
    return (
        torch.randn(batch, steps, width),
        torch.randn(3 * width, width) / width**0.5,
        torch.randn(3 * width),
        torch.randn(width, width) / width**0.5,
        torch.randn(width),
        heads,
    )


def by_torch(x: Tensor, *others: Any) -> Tensor:
    """The other arguments: two weights with their biases, heads, and perhaps a mask."""
    *weights, heads, mask = others if len(others) > 5 else (*others, None)
    layer = nn.MultiheadAttention(x.shape[-1], heads, batch_first=True)
    names = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    layer.load_state_dict(dict(zip(names, weights, strict=True)))
    hidden = None if mask is None else ~mask  # torch's mask is True where nothing may be seen
    attended: Tensor = layer(x, x, x, attn_mask=hidden, need_weights=False)[0]
    return attended


def _blocks(*order: int) -> Callable[..., Tensor]:
    """For somebody who takes the three blocks of in_proj to be others."""

    def mistaken(x: Tensor, w_in: Tensor, b_in: Tensor, *others: Any) -> Tensor:
        w_in, b_in = (torch.cat([p.chunk(3)[k] for k in order]) for p in (w_in, b_in))
        return by_torch(x, w_in, b_in, *others)

    return mistaken


def _side_by_side(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, heads, T, D / heads)."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def _together(x: Tensor, _: int) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _steps_cut(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], -1)


def _steps_mixed(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


def _in_turns(x: Tensor, heads: int) -> Tensor:
    return torch.stack([x[..., k::heads] for k in range(heads)], dim=1)


def _from_turns(x: Tensor, heads: int) -> Tensor:
    return x.permute(0, 2, 3, 1).flatten(2)


def _with(
    split: Split = _side_by_side, join: Split = _together, whole: bool = False
) -> Callable[..., Tensor]:
    """Other ways to split and join heads, or scores over the root of the whole width."""

    def mistaken(x: Tensor, *others: Any) -> Tensor:
        w_in, b_in, w_out, b_out, heads, mask = others if len(others) > 5 else (*others, None)
        q, k, v = (split(part, heads) for part in F.linear(x, w_in, b_in).chunk(3, dim=-1))
        scale = x.shape[-1] ** -0.5 if whole else None
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        return F.linear(join(attended, heads), w_out, b_out)

    return mistaken


def _without(*numbers: int) -> Callable[..., Tensor]:
    """Without some of the arguments: biases become 0, the last projection does nothing."""

    def mistaken(*arguments: Any) -> Tensor:
        changed = list(arguments)
        for k in numbers:
            changed[k] = torch.eye(len(changed[k])) if k == 3 else torch.zeros_like(changed[k])
        return by_torch(*changed)

    return mistaken


def _wrong_way_round(x: Tensor, w_in: Tensor, b_in: Tensor, w_out: Tensor, *others: Any) -> Tensor:
    w_in = torch.cat([part.T for part in w_in.chunk(3)])
    return by_torch(x, w_in, b_in, w_out.T, *others)


MULTI_HEAD = Rule(
    cases={
        "two heads": lambda: _projections(2, 5, 6, 2),
        "four heads behind a causal mask": lambda: (*_projections(3, 6, 8, 4), causal(6)),
        "one head": lambda: _projections(2, 4, 5, 1),
        "as many heads as features": lambda: _projections(2, 3, 4, 4),
        "as many steps as heads": lambda: _projections(3, 3, 6, 3),
        "a batch of one": lambda: (*_projections(1, 4, 6, 3), causal(4)),
        "one step": lambda: _projections(4, 1, 4, 2),
    },
    oracle=by_torch,
    hint="x in_proj_weightᵀ + in_proj_bias has queries, keys and values side by side; each is cut "
    "into heads of D / heads neighbouring features; attention in each head; heads side by side "
    "again; then out_proj.",
    slips={
        "The scores of a head go over the root of ITS size, D / heads, not of D.": _with(
            whole=True
        ),
        "The three blocks stand in the order queries, keys, values.": _blocks(1, 0, 2),
        "The three blocks stand in the order queries, keys, values; yours begin with the values.": (
            _blocks(1, 2, 0)
        ),
        "A reshape to (B, heads, T, …) cuts the steps apart: split D first, (B, T, heads, …), then "
        "exchange two dimensions.": _with(split=_steps_cut),
        "A reshape of (B, heads, T, …) mixes heads and steps: exchange the two dimensions before "
        "you put the heads side by side.": _with(join=_steps_mixed),
        "Splits and joins by reshape alone cut the steps apart: exchange dimensions.": _with(
            split=_steps_cut, join=_steps_mixed
        ),
        "A head has neighbouring features: the first D / heads belong to the first head.": _with(
            split=_in_turns
        ),
        "Heads take neighbouring features, and stand side by side again; yours take turns.": _with(
            split=_in_turns, join=_from_turns
        ),
        "out_proj is missing: the heads are mixed by one more linear layer.": _without(3, 4),
        "The bias of out_proj is missing.": _without(4),
        "in_proj_bias is missing.": _without(2),
        "Both biases are missing.": _without(2, 4),
        "PyTorch keeps weights as (outputs, inputs): multiply with their transpose.": (
            _wrong_way_round
        ),
        "out_proj_weight is (outputs, inputs) as well: multiply with its transpose.": lambda *a: (
            by_torch(*a[:3], a[3].T, *a[4:])
        ),
        "Attend in each head by itself: yours is one head over all features.": lambda *a: by_torch(
            *a[:5], 1, *a[6:]
        ),
        "Hand the mask on to the attention.": lambda *a: by_torch(*a[:6]),
        OPPOSITE: lambda *a: by_torch(*a[:6], *(~mask for mask in a[6:])),
    },
)

RULES = {"multi_head": MULTI_HEAD}
