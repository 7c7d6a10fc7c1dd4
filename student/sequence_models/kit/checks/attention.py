"""Do the steps of a sequence look at each other, with weights that depend on what is there?

Shapes: sequences (B, T, D), attention maps (..., S, L) of S queries over L keys.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checks.core import Check, Verdict, verdict
from autograder.checks.models import build, forward, nudged, samples
from autograder.checks.operators import Trace, factors

BATCH = 3  # fewer than any sequence has steps, so that attention over the batch is told apart
ROUNDING = 1e-2  # of a sum of weights in bfloat16; no other matrix comes near to rows of sum 1


class Maps(Trace):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Keeps the attention maps that are multiplied with values made from the input."""

    def __init__(self, module: nn.Module, inputs: Tensor) -> None:
        """Start with an empty list."""
        super().__init__(module, inputs)
        self.maps: list[Tensor] = []

    def note(self, name: str, args: Any, given: list[Tensor], made: list[Tensor]) -> None:
        """Take the left matrix, or the right one transposed, if its rows are averages.

        Which rows: along the dimension that the product sums over, so a softmax over queries
        is no attention map.
        """
        pair = factors(name, args)
        if pair is None or name == "convolution":
            return
        left, right = pair
        if self.is_data(right) and _averages(left):
            self.maps.append(left.detach().double())
        elif self.is_data(left) and right.dim() > 1 and _averages(right.mT):
            self.maps.append(right.mT.detach().double())


def _averages(matrix: Tensor) -> bool:
    """Whether each row is a weighting of two or more things: no weight below 0, sum 1."""
    if matrix.dim() < 2 or matrix.shape[-1] < 2 or not matrix.is_floating_point():
        return False
    weights = matrix.detach().double()
    return bool((weights >= 0).all() and ((weights.sum(-1) - 1).abs() < ROUNDING).all())


@dataclass(frozen=True)
class Attention:
    """Attention maps by size: how many, and the largest values among them.

    `off_diagonal`: of a weight on another place than the query's own; `change`: of a weight's
    difference between two inputs.
    """

    queries: list[int]
    keys: list[int]
    maps: list[int]
    off_diagonal: list[float]
    change: list[float]


def measure_self_attention(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Attention:
    """Find the maps of a nudged model in its forward passes over two batches of three sequences."""
    module = nudged(build(model, name, input_shape), seed)
    one, other = (_maps(module, samples(input_shape, BATCH, seed + k), name) for k in (0, 1))
    sizes: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for a, b in zip(one, other, strict=False):
        if a.shape == b.shape:
            elsewhere = a * (1 - torch.eye(*a.shape[-2:], dtype=a.dtype))
            seen = (float(elsewhere.max()), float((a - b).abs().max()))
            sizes[a.shape[-2], a.shape[-1]].append(seen)
    return Attention(
        queries=[queries for queries, _ in sizes],
        keys=[keys for _, keys in sizes],
        maps=[len(found) for found in sizes.values()],
        off_diagonal=[max(weight for weight, _ in found) for found in sizes.values()],
        change=[max(change for _, change in found) for found in sizes.values()],
    )


def _maps(module: nn.Module, inputs: Tensor, name: str) -> list[Tensor]:
    trace = Maps(module, inputs)
    with _in_plain_operators(), trace:
        forward(module, inputs, name)
    return trace.maps


@contextlib.contextmanager
def _in_plain_operators() -> Iterator[None]:
    """Without the fused operators that compute an attention map and never show it."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def judge_self_attention(seen: Attention, *, steps: int, smallest: float) -> Verdict:
    """A map of `steps` queries over `steps` keys or more, of weights that are really used.

    A query gives at least `smallest` to another place than its own, and some weight changes by
    that much with the input.
    """
    if min([*seen.queries, *seen.keys, *seen.maps], default=0) < 0:
        raise ValueError("a negative count")
    rows = zip(seen.queries, seen.keys, seen.maps, seen.off_diagonal, seen.change, strict=True)
    wide = [row for row in rows if min(row[:2]) >= steps]
    if not wide:
        return _none(seen, steps)
    queries, keys, count, weight, change = max(wide, key=lambda row: min(row[3:]))
    return verdict(
        weight >= smallest and change >= smallest,
        f"Attention maps of {queries} queries over {keys} keys: {count}. Largest weight on "
        f"another place: {weight:.2g}; largest change of a weight with the input: {change:.2g} "
        f"(each at least {smallest:.2g}).",
        "Queries and keys must be made from the tokens, and each token must be allowed to look "
        "at the others: check the mask and what the softmax is taken of.",
    )


def _none(seen: Attention, steps: int) -> Verdict:
    sizes = [f"{q}×{k}" for q, k in zip(seen.queries, seen.keys, strict=True)]
    hint = (
        "Let every step look at all steps: nn.TransformerEncoder, nn.MultiheadAttention or "
        "softmax(Q Kᵀ / √d) V, with the softmax over keys, the last dimension."
    )
    if f"{BATCH}×{BATCH}" in sizes:
        hint = (
            f"These are the {BATCH} samples of the batch, which look at each other: set "
            "batch_first=True, so that the steps do."
        )
    return Verdict(
        "failed",
        f"No attention map over {steps} steps or more is multiplied with values; sizes found: "
        f"{', '.join(sizes) or 'none'}.",
        hint,
    )


self_attention = Check(measure_self_attention, judge_self_attention)
