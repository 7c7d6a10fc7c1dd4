"""Reference solution of the assignment attention.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: B sequences, T steps, D features;
L queries over S keys. Everything is float64 on the CPU. Masks are True where a query may look.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def lookup(query: Tensor, keys: Tensor, values: Tensor, temperature: float) -> Tensor:
    """A soft lookup: query (d,), keys (N, d), values (N, m) -> (m,).

    After Bahdanau, Cho and Bengio (2015), Neural machine translation by jointly learning to align
    and translate.
    """
    # BEGIN SOLUTION
    scores = keys @ query  # (N,)
    if temperature == 0:
        return values[scores.argmax()]
    return torch.softmax(scores / temperature, dim=0) @ values
    # END SOLUTION


def attention_weights(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    """How much each query looks at each key: (..., L, d_k), (..., S, d_k) -> (..., L, S).

    mask: boolean, broadcasts to (..., L, S), True where a query may look at a key.
    After Vaswani et al. (2017), Attention is all you need, section 3.2.1.
    """
    # BEGIN SOLUTION
    scores = queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5
    if mask is None:
        return torch.softmax(scores, dim=-1)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
    return weights.masked_fill(~mask, 0)  # a query that may see nothing has nan until here
    # END SOLUTION


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weighted values: (..., L, d_k), (..., S, d_k), (..., S, d_v) -> (..., L, d_v)."""
    # BEGIN SOLUTION
    return attention_weights(queries, keys, mask) @ values
    # END SOLUTION


def causal_mask(length: int) -> Tensor:
    """True where step t (row) may look at step s (column), s ≤ t: boolean, (T, T)."""
    # BEGIN SOLUTION
    return torch.ones(length, length).tril().bool()
    # END SOLUTION


def padding_mask(lengths: list[int], longest: int) -> Tensor:
    """True where a step belongs to its sequence: boolean, (B, 1, longest)."""
    # BEGIN SOLUTION
    return torch.arange(longest) < torch.tensor(lengths)[:, None, None]
    # END SOLUTION


def self_attention(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Attention of the steps of x to each other: x (B, T, D) -> (B, T, d_v).

    w_q and w_k (D, d_k), w_v (D, d_v).
    """
    # BEGIN SOLUTION
    return attention(x @ w_q, x @ w_k, x @ w_v, mask)
    # END SOLUTION


def leak(layer: nn.Module, inputs: Tensor, projection: Tensor) -> float:
    """How strongly an output depends on a later input: inputs (1, T, D), projection (H,).

    The largest absolute derivative of outputs[0, t] @ projection with respect to an input s > t.
    """
    # BEGIN SOLUTION
    inputs = inputs.detach().clone().requires_grad_()
    largest = 0.0
    for t, number in enumerate(layer(inputs)[0] @ projection):
        (gradient,) = torch.autograd.grad(number, inputs, retain_graph=True)
        largest = max([largest, *gradient[0, t + 1 :].abs().flatten().tolist()])
    return largest
    # END SOLUTION


def positional_encoding(length: int, width: int) -> Tensor:
    """Sines and cosines of the positions 0, 1, ..., length - 1: (length, width).

    After Vaswani et al. (2017), Attention is all you need, section 3.5.
    """
    # BEGIN SOLUTION
    positions = torch.arange(length)[:, None]  # (T, 1)
    angles = positions / 10_000 ** (torch.arange(0, width, 2) / width)  # (T, ⌈D / 2⌉)
    encoding = torch.empty(length, width)
    encoding[:, 0::2] = angles.sin()
    encoding[:, 1::2] = angles.cos()[:, : width // 2]
    return encoding
    # END SOLUTION


def order_error(layer: nn.Module, inputs: Tensor, order: Tensor) -> float:
    """The largest change of an output when the steps are reordered: inputs (B, T, D), order (T,).

    Each output is compared with that of the same step at its old place.
    """
    # BEGIN SOLUTION
    gap: float = (layer(inputs[:, order]) - layer(inputs)[:, order]).abs().max().item()
    return gap
    # END SOLUTION


def multi_head(
    x: Tensor,
    in_proj_weight: Tensor,
    in_proj_bias: Tensor,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor,
    heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    """Self-attention in several heads: x (B, T, D) -> (B, T, D).

    in_proj_weight (3D, D), in_proj_bias (3D,), out_proj_weight (D, D), out_proj_bias (D,).
    After Vaswani et al. (2017), Attention is all you need, section 3.2.2.
    """
    # BEGIN SOLUTION
    batch, steps, width = x.shape

    def split(part: Tensor) -> Tensor:
        return part.reshape(batch, steps, heads, width // heads).transpose(1, 2)

    q, k, v = (x @ in_proj_weight.T + in_proj_bias).chunk(3, dim=-1)  # (B, T, D) each
    attended = attention(split(q), split(k), split(v), mask)  # (B, heads, T, D / heads)
    together = attended.transpose(1, 2).reshape(batch, steps, width)
    return together @ out_proj_weight.T + out_proj_bias
    # END SOLUTION


def add_and_norm(x: Tensor, update: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer norm of x + update: (B, T, D), (B, T, D), (D,), (D,) -> (B, T, D).

    After Ba, Kiros and Hinton (2016), Layer normalization.
    """
    # BEGIN SOLUTION
    total = x + update
    centred = total - total.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5) * weight + bias
    # END SOLUTION


def encoder_block(
    x: Tensor, weights: dict[str, Tensor], heads: int, mask: Tensor | None = None
) -> Tensor:
    """One block of a Transformer encoder: x (B, T, D) -> (B, T, D).

    weights: the parameters of an nn.TransformerEncoderLayer by their names.
    After Vaswani et al. (2017), Attention is all you need, section 3.1.
    """
    # BEGIN SOLUTION
    attended = multi_head(
        x,
        weights["self_attn.in_proj_weight"],
        weights["self_attn.in_proj_bias"],
        weights["self_attn.out_proj.weight"],
        weights["self_attn.out_proj.bias"],
        heads,
        mask,
    )
    x = add_and_norm(x, attended, weights["norm1.weight"], weights["norm1.bias"])
    inner = F.relu(F.linear(x, weights["linear1.weight"], weights["linear1.bias"]))
    fed = F.linear(inner, weights["linear2.weight"], weights["linear2.bias"])
    return add_and_norm(x, fed, weights["norm2.weight"], weights["norm2.bias"])
    # END SOLUTION
