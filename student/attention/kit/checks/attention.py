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

from autograder.checks.core import Check, Threshold, Verdict, verdict
from autograder.checks.models import build, forward, nudged, samples
from autograder.checks.operators import Trace, factors
from autograder.checks.sequences import shuffled

BATCH = 3  # fewer than any sequence has steps, so that attention over the batch is told apart
TOLD = 0.1  # of the largest change among rows; a normalised input changes the others a little
MOST = 0.5  # of the rows of values; with a convolution before them one step changes a few
ROUNDING = 1e-2  # of a sum of weights in bfloat16; no other matrix comes near to rows of sum 1


class Maps(Trace):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Keeps the attention maps that are multiplied with values made from the input, and these."""

    def __init__(self, module: nn.Module, inputs: Tensor) -> None:
        """Start with an empty list."""
        super().__init__(module, inputs)
        self.maps: list[Tensor] = []
        self.values: list[Tensor] = []  # for each map, with a row for each key

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
            self._keep(left, right)
        elif self.is_data(left) and right.dim() > 1 and _averages(right.mT):
            self._keep(right.mT, left.mT)

    def _keep(self, weights: Tensor, values: Tensor) -> None:
        self.maps.append(weights.detach().double())
        self.values.append(values.detach().double())


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
    difference between two inputs. `spread`: the smallest share of the values' rows that one
    changed step changes, about 1 / steps where rows are steps and 1 where they are channels.
    """

    queries: list[int]
    keys: list[int]
    maps: list[int]
    off_diagonal: list[float]
    change: list[float]
    spread: list[float]


def measure_self_attention(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Attention:
    """Find the maps of a nudged model in its forward passes over two batches of three sequences.

    And over three in which one step of the first batch is another: the first, middle or last.
    """
    module = nudged(build(model, name, input_shape), seed)
    inputs = samples(input_shape, BATCH, seed)
    one = _traced(module, inputs, name)
    other = _traced(module, samples(input_shape, BATCH, seed + 1), name)
    moved = [
        _traced(module, _with_another(inputs, step), name)
        for step in (0, input_shape[0] // 2, input_shape[0] - 1)
    ]
    sizes: dict[tuple[int, int], list[tuple[float, float, float]]] = defaultdict(list)
    for k, (a, b) in enumerate(zip(one.maps, other.maps, strict=False)):
        if a.shape == b.shape:
            elsewhere = a * (1 - torch.eye(*a.shape[-2:], dtype=a.dtype))
            spread = min(_spread(one.values[k], m.values[k]) for m in moved if k < len(m.values))
            seen = (float(elsewhere.max()), float((a - b).abs().max()), spread)
            sizes[a.shape[-2], a.shape[-1]].append(seen)
    return Attention(
        queries=[queries for queries, _ in sizes],
        keys=[keys for _, keys in sizes],
        maps=[len(found) for found in sizes.values()],
        off_diagonal=[max(weight for weight, _, _ in found) for found in sizes.values()],
        change=[max(change for _, change, _ in found) for found in sizes.values()],
        spread=[min(spread for _, _, spread in found) for found in sizes.values()],
    )


def _with_another(inputs: Tensor, step: int) -> Tensor:
    changed = inputs.clone()
    changed[:, step] += 1
    return changed


def _spread(values: Tensor, moved: Tensor) -> float:
    """Share of rows that differ by more than a trace of what the most different row does."""
    if values.shape != moved.shape:
        return 1.0
    change = (values - moved).abs().sum(-1)
    return float((change > TOLD * change.amax(-1, keepdim=True)).double().mean())


def _traced(module: nn.Module, inputs: Tensor, name: str) -> Maps:
    given = inputs.clone()
    trace = Maps(module, given)
    with _in_plain_operators(), trace:
        forward(module, given, name)
    return trace


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
    that much with the input. One step of the input is one row of the values, or a few.
    """
    row = _best(seen, steps)
    if row is None:
        return _none(seen, steps)
    queries, keys, count, weight, change, spread = row
    if not spread <= MOST:
        return Verdict(
            "failed",
            f"One changed step of the input changes {spread:.0%} of the {keys} rows that the "
            f"attention averages (at most {MOST:.0%}).",
            "These are channels that look at each other: tokens must be steps, (B, 25, width).",
        )
    return verdict(
        weight >= smallest and change >= smallest,
        f"Attention maps of {queries} queries over {keys} keys: {count}. Largest weight on "
        f"another place: {weight:.2g}; largest change of a weight with the input: {change:.2g} "
        f"(each at least {smallest:.2g}).",
        "Queries and keys must be made from the tokens, and each token must be allowed to look "
        "at the others: check the mask and what the softmax is taken of.",
    )


def _best(seen: Attention, steps: int) -> tuple[int, int, int, float, float, float] | None:
    """The fields of the maps over `steps` or more that come nearest to passing, if there are any.

    Raises:  ValueError: a negative count.
    """
    if min([*seen.queries, *seen.keys, *seen.maps], default=0) < 0:
        raise ValueError("a negative count")
    rows = zip(
        seen.queries, seen.keys, seen.maps, seen.off_diagonal, seen.change, seen.spread,
        strict=True,
    )  # fmt: skip
    wide = [row for row in rows if min(row[:2]) >= steps]
    return max(wide, key=lambda row: (row[5] <= MOST, min(row[3:5])), default=None)


def _used(seen: Attention, *, steps: int) -> float | None:
    """The smaller of weight and change; None without attention of steps over steps."""
    row = _best(seen, steps)
    return min(row[3:5]) if row and row[5] <= MOST else None


def _none(seen: Attention, steps: int) -> Verdict:
    pairs = list(zip(seen.queries, seen.keys, strict=True))
    sizes = [f"{q}×{k}" for q, k in pairs]
    hint = (
        "Let every step look at all steps: nn.TransformerEncoder, nn.MultiheadAttention or "
        "softmax(Q Kᵀ / √d) V, with the softmax over keys, the last dimension."
    )
    if f"{BATCH}×{BATCH}" in sizes:
        hint = (
            f"These are the {BATCH} samples of the batch, which look at each other: set "
            "batch_first=True, so that the steps do."
        )
    elif any(min(pair) > BATCH for pair in pairs):
        hint = (
            "Patches, strides or pooling make fewer tokens than steps, or channels or heads look "
            f"at each other: keep at least {steps} steps as tokens."
        )
    return Verdict(
        "failed",
        f"No attention map over {steps} steps or more is multiplied with values; sizes found: "
        f"{', '.join(sizes) or 'none'}.",
        hint,
    )


@dataclass(frozen=True)
class Positions:
    """Attention maps by size, and the largest change among their sorted weights.

    The change is that of shuffled steps; tokens without positions only change places.
    """

    queries: list[int]
    keys: list[int]
    change: list[float]


def measure_positions(model: Any, *, name: str, input_shape: list[int], seed: int) -> Positions:
    """Shuffle the steps between the first and the last of three sequences."""
    module = nudged(build(model, name, input_shape), seed)
    inputs = samples(input_shape, BATCH, seed)
    mixed = shuffled(inputs, torch.Generator().manual_seed(seed))
    plain, other = (_traced(module, steps, name).maps for steps in (inputs, mixed))
    sizes: dict[tuple[int, int], float] = defaultdict(float)
    for a, b in zip(plain, other, strict=False):
        if a.shape == b.shape:
            size = (a.shape[-2], a.shape[-1])
            change = a.flatten(-2).sort().values - b.flatten(-2).sort().values
            sizes[size] = max(sizes[size], float(change.abs().max()))
    return Positions(
        queries=[queries for queries, _ in sizes],
        keys=[keys for _, keys in sizes],
        change=list(sizes.values()),
    )


def _moved(seen: Positions, *, steps: int) -> float | None:
    """The largest change in a map of `steps` by `steps` or more, if there is one."""
    rows = zip(seen.queries, seen.keys, seen.change, strict=True)
    wide = [change for queries, keys, change in rows if min(queries, keys) >= steps]
    return max(wide, default=None)


def judge_positions(seen: Positions, *, steps: int, smallest: float) -> Verdict:
    """In a map of `steps` by `steps` or more, weights change by `smallest` when steps do."""
    change = _moved(seen, steps=steps)
    if change is None:
        return Verdict(
            "failed",
            f"There is no attention map over {steps} steps or more.",
            "Let the steps look at each other first, then tell them where they are.",
        )
    return verdict(
        change >= smallest,
        f"Shuffling the steps between the first and the last changes the attention weights, apart "
        f"from their places, by {change:.2g} (at least {smallest:.2g}).",
        "The attention can't see where a step is: add a positional encoding to the tokens before "
        "the encoder; behind it, or in a head that flattens, it comes too late.",
    )


self_attention = Check(
    measure_self_attention, judge_self_attention, Threshold("smallest", _used, at_least=True)
)
positions = Check(measure_positions, judge_positions, Threshold("smallest", _moved, at_least=True))
