"""Rules for add & norm, and for a whole block of a Transformer encoder.

Shapes: sequences (B, T, D). Parameters of a block go by their names in nn.TransformerEncoderLayer.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from autograder.checks.rules.heads import OPPOSITE, by_torch
from autograder.checks.rules.masks import causal
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _pair(batch: int, steps: int, width: int, scale: float = 1.0) -> Arguments:
    """A sequence, what is added to it, and the weight and bias of the layer norm, each (D,)."""
    x, update = (scale * torch.randn(batch, steps, width) for _ in range(2))
    return x, update, torch.randn(width), torch.randn(width)


def _norm(x: Tensor, update: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x + update, weight.shape, weight, bias, eps)


def _normalised_by(
    deviation: Callable[[Tensor], Tensor], dims: tuple[int, ...] = (-1,)
) -> Callable[..., Tensor]:
    def mistaken(x: Tensor, update: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        total = x + update
        return (total - total.mean(dims, keepdim=True)) / deviation(total) * weight + bias

    return mistaken


def _root(x: Tensor, dims: tuple[int, ...] = (-1,), correction: int = 0) -> Tensor:
    return (x.var(dims, keepdim=True, correction=correction) + 1e-5).sqrt()


ADD_AND_NORM = Rule(
    cases={
        "6 features": lambda: _pair(2, 4, 6),
        "features that hardly vary": lambda: _pair(2, 3, 5, scale=3e-3),
        "a batch of one": lambda: _pair(1, 3, 4),
        "one step": lambda: _pair(3, 1, 8),
        "a step whose features are equal": lambda: (
            torch.full((1, 2, 4), 0.5), torch.full((1, 2, 4), 0.25), *torch.randn(2, 4),
        ),
        "64 features": lambda: _pair(2, 5, 64),
    },
    oracle=_norm,
    hint="Add, then for each step: subtract the mean of its features, divide by the root of their "
    "variance plus 1e-5, multiply by weight, add bias.",
    slips={
        "The variance is the mean of the squares: F.layer_norm divides by D, torch.var by D - 1 "
        "unless correction=0 is given.": _normalised_by(lambda x: _root(x, correction=1)),
        "The 1e-5 is missing: it keeps the root from 0 where features are equal.": _normalised_by(
            lambda x: x.std(-1, keepdim=True, correction=0)
        ),
        "The 1e-5 is added to the variance, under the root.": _normalised_by(
            lambda x: x.std(-1, keepdim=True, correction=0) + 1e-5
        ),
        "Torch's standard deviation divides by D - 1, and the 1e-5 belongs to the variance.": (
            _normalised_by(lambda x: x.std(-1, keepdim=True) + 1e-5)
        ),
        "Each step is normalised by itself, over its features alone.": _normalised_by(
            lambda x: _root(x, (-2, -1)), (-2, -1)
        ),
        "Normalise over the features of a step, the last dimension, not over the steps.": (
            _normalised_by(lambda x: _root(x, (1,)), (1,))
        ),
        "Add first, then normalise: the norm goes over the sum.": lambda x, u, w, b: (
            x + _norm(u, torch.zeros_like(u), w, b)
        ),
        "x itself is missing: normalise x + update.": lambda x, u, w, b: (
            _norm(u, torch.zeros_like(u), w, b)
        ),
        "Multiply by weight, then add bias.": lambda x, u, w, b: (
            _norm(x, u, torch.ones_like(w), torch.zeros_like(b))
        ),
        "The bias is missing.": lambda x, u, w, b: _norm(x, u, w, torch.zeros_like(b)),
        "Multiply by weight first, then add bias.": lambda x, u, w, b: (
            (_norm(x, u, torch.ones_like(w), torch.zeros_like(b)) + b) * w
        ),
    },
)  # fmt: skip


def _block(batch: int, steps: int, width: int, heads: int, inner: int) -> Arguments:
    """A sequence, all parameters of a block, heads; no parameter is at its start of 0 or 1."""
    names = nn.TransformerEncoderLayer(width, heads, inner).state_dict()
    weights = {name: torch.randn(p.shape) / p.shape[-1] ** 0.5 for name, p in names.items()}
    return torch.randn(batch, steps, width), weights, heads


def _layer(**options: Any) -> Callable[..., Tensor]:
    """The block of torch, with these options; its mask is True where nothing may be seen."""

    def run(
        x: Tensor, weights: dict[str, Tensor], heads: int, mask: Tensor | None = None
    ) -> Tensor:
        inner = len(weights["linear1.bias"])
        layer = nn.TransformerEncoderLayer(
            x.shape[-1], heads, inner, dropout=0.0, batch_first=True, **options
        )
        layer.load_state_dict(weights)
        outputs: Tensor = layer(x, None if mask is None else ~mask)
        return outputs

    return run


_encoded = _layer()


def _changed(
    change: Callable[[dict[str, Tensor]], dict[str, Tensor]],
) -> Callable[..., Tensor]:
    """The block with other parameters."""
    return lambda x, weights, *others: _encoded(x, {**weights, **change(weights)}, *others)


def _half(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    names = ("linear2.weight", "linear2.bias")
    return {name: torch.zeros_like(weights[name]) for name in names}


def _without_residuals(
    x: Tensor, weights: dict[str, Tensor], heads: int, mask: Tensor | None = None
) -> Tensor:
    attention = [value for name, value in weights.items() if name.startswith("self_attn.")]
    attended = by_torch(x, *attention, heads, mask)
    norms = [(weights[f"norm{k}.weight"], weights[f"norm{k}.bias"]) for k in (1, 2)]
    first = F.layer_norm(attended, x.shape[-1:], *norms[0])
    inner = F.linear(first, weights["linear1.weight"], weights["linear1.bias"]).relu()
    fed = F.linear(inner, weights["linear2.weight"], weights["linear2.bias"])
    return F.layer_norm(fed, x.shape[-1:], *norms[1])


ENCODER_BLOCK = Rule(
    cases={
        "two heads": lambda: _block(2, 5, 6, 2, 10),
        "a causal mask": lambda: (*_block(2, 4, 8, 4, 5), causal(4)),
        "one head": lambda: _block(3, 4, 5, 1, 7),
        "a batch of one": lambda: _block(1, 6, 4, 2, 8),
        "one step": lambda: _block(3, 1, 6, 3, 4),
        "as wide inside as outside": lambda: (*_block(2, 3, 6, 2, 6), causal(3)),
    },
    oracle=_encoded,
    hint="First y = add_and_norm(x, attention of x) with norm1, then add_and_norm(y, linear2 of "
    "relu of linear1 of y) with norm2.",
    slips={
        "This is the pre-norm block: here the norm comes after each sum.": _layer(norm_first=True),
        "The activation is a ReLU, not a GELU.": _layer(activation=F.gelu),
        "The ReLU between the two linear layers is missing.": _layer(activation=nn.Identity()),
        "The two norms are swapped: norm1 belongs to the attention.": _changed(
            lambda w: {f"norm{k}.{p}": w[f"norm{3 - k}.{p}"]
                       for k in (1, 2) for p in ("weight", "bias")}
        ),
        "Both norms have weights of their own: norm2 comes last.": _changed(
            lambda w: {f"norm2.{p}": w[f"norm1.{p}"] for p in ("weight", "bias")}
        ),
        "The feed-forward part is missing.": _changed(_half),
        "The sums are missing: x is added to the attention, y to the feed-forward part.": (
            _without_residuals
        ),
        "Hand the mask on to the attention.": lambda x, weights, heads, mask=None: (
            _encoded(x, weights, heads)
        ),
        OPPOSITE: (
            lambda x, weights, heads, mask=None: (
                _encoded(x, weights, heads, None if mask is None else ~mask)
            )
        ),
    },
)  # fmt: skip

RULES = {"add_and_norm": ADD_AND_NORM, "encoder_block": ENCODER_BLOCK}
