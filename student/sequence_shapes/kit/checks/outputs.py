"""What comes out: shape, independence of samples, evaluation mode, logits.

Shapes: images (B, C, H, W), sequences (B, T, D), outputs (B, K) with K classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Stop, Threshold, Verdict, number, verdict
from autograder.checks.models import build, forward, nudged, parameters_of, samples, scaled

GROWN = 3.0  # makes a recurrent network remember where it started


@dataclass(frozen=True)
class Shapes:
    """Output shape for each batch size."""

    batches: list[int]
    shapes: list[list[int]]


def measure_output_shape(
    model: Any, *, name: str, input_shape: list[int], batches: list[int]
) -> Shapes:
    """Shapes of the outputs for several batch sizes."""
    module = build(model, name, input_shape)
    with torch.no_grad():
        outputs = [forward(module, torch.zeros(b, *input_shape), name) for b in batches]
    return Shapes(batches, [list(o.shape) for o in outputs])


def judge_output_shape(
    seen: Shapes, *, input_shape: list[int], outputs: int, batches: list[int]
) -> Verdict:
    """Every batch of B samples must give (B, outputs), a batch of one included."""
    wrong = [
        f"a batch of {b} gives shape {tuple(s)}, expected {(b, outputs)}"
        for b, s in zip(seen.batches, seen.shapes, strict=True)
        if s != [b, outputs]
    ]
    hint = "Keep the batch dimension: flatten with start_dim=1, and give squeeze() a dimension."
    if len(input_shape) == 2 and seen.shapes:
        hint = _of_sequences(seen.shapes[-1], seen.batches[-1], input_shape[0]) or hint
    passed = not wrong and seen.batches == batches
    shown = "; ".join(wrong) or f"Shape (B, {outputs}) for B = {seen.batches}"
    return verdict(passed, f"{shown}.", hint)


def _of_sequences(shape: list[int], batch: int, steps: int) -> str:
    """What gives such a shape for sequences; "" if nothing is known."""
    if len(shape) == 3 and shape[:2] == [batch, steps]:
        return "There is one output for each step: read the last step, or h_n."
    if len(shape) == 3 and shape[1] == batch:
        return (
            "h_n has one entry for each layer and direction in front: the top layer's is h_n[-1]."
        )
    if shape[0:1] == [steps]:
        return "Steps and sequences change places: set batch_first=True, then read output[:, -1]."
    return ""


@dataclass(frozen=True)
class Independence:
    """Largest difference between a sample's output alone and in company, and the outputs' size."""

    difference: float | None
    scale: float | None


def measure_batch_independence(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Independence:
    """Compare each sample's output in a batch of five with its output alone and beside others."""
    module = nudged(build(model, name, input_shape), seed)
    batch, others = samples(input_shape, 5, seed), samples(input_shape, 4, seed + 1)
    with torch.no_grad():
        together = forward(module, batch.clone(), name)
        alone = torch.stack([forward(module, x[None].clone(), name).reshape(-1) for x in batch])
        mixed = forward(module, torch.cat([batch[:1], others]), name)
    if together.dim() != 2 or alone.shape != together.shape or mixed.shape != together.shape:
        raise Stop(
            f"{name} gives shape {tuple(together.shape)} for a batch of 5.",
            "Mend the output shape first: one row a sample.",
        )
    difference = max((together - alone).abs().max(), (together[0] - mixed[0]).abs().max())
    return Independence(number(difference), number(together.abs().max()))


def _in_company(seen: Independence) -> float | None:
    """The difference relative to the outputs' size, if that is above 1."""
    if seen.difference is None or seen.scale is None:
        return None
    return seen.difference / max(1.0, seen.scale)


def judge_batch_independence(seen: Independence, *, tolerance: float) -> Verdict:
    """A sample's logits may not depend on the samples beside it (relative to their size)."""
    relative = _in_company(seen)
    if relative is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        0 <= relative <= tolerance,
        f"In company a sample's output changes by {seen.difference:.2g} "
        f"(allowed: {tolerance * max(1.0, seen.scale or 0.0):.2g}).",
        "Samples of a batch are mixed: look for a reshape that moves the batch dimension, dropout "
        "that stays on in evaluation, or batch statistics that are used in evaluation.",
    )


@dataclass(frozen=True)
class Repetition:
    """Largest difference between two passes over the same input in evaluation mode."""

    difference: float | None


def measure_evaluation_mode(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Repetition:
    """Two passes over the same five inputs after model.eval(), with five others in between.

    Again with larger parameters: a state that comes from elsewhere fades over the steps when they
    are small. Where these overflow, the plain passes count alone.
    """
    plain = build(model, name, input_shape)
    large = scaled(plain, {n: GROWN for n, _ in parameters_of(plain)}, seed)
    batch, others = samples(input_shape, 5, seed), samples(input_shape, 5, seed + 1)
    plain_change, large_change = (_change(m, batch, others, name) for m in (plain, large))
    finite = large_change.isfinite()
    return Repetition(number(torch.maximum(plain_change, large_change) if finite else plain_change))


def _change(module: nn.Module, batch: Tensor, others: Tensor, name: str) -> Tensor:
    """Largest difference between two passes over `batch`, with a pass over `others` in between."""
    with torch.no_grad():
        once = forward(module, batch.clone(), name)
        forward(module, others.clone(), name)
        return (once - forward(module, batch.clone(), name)).abs().max()


def judge_evaluation_mode(seen: Repetition, *, tolerance: float) -> Verdict:
    """Evaluation is deterministic."""
    if seen.difference is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        0 <= seen.difference <= tolerance,
        f"Two passes in evaluation mode differ by {seen.difference:.2g} (up to {tolerance:.2g}).",
        "Use nn.Dropout, or F.dropout(x, p, self.training): plain F.dropout never switches off. "
        "Keep no state from one call to the next, and draw no random one.",
    )


@dataclass(frozen=True)
class Outputs:
    """Range of the outputs over many inputs, and how far row sums are from 1."""

    smallest: float | None
    largest: float | None
    row_sum_error: float | None


def measure_logits(model: Any, *, name: str, input_shape: list[int], seed: int) -> Outputs:
    """Range and row sums over random inputs, for weights as they are and up to 64 times as large.

    Weights change size and sign of logits, but not the range of a softmax, sigmoid, ReLU or tanh.
    All are changed together, and each tensor alone, since large weights everywhere may overflow.
    """
    module, inputs = nudged(build(model, name, input_shape), seed), samples(input_shape, 32, seed)
    with torch.no_grad():
        plain = forward(module, inputs.clone(), name)
        names = [n for n, _ in parameters_of(module)]
        changes = [dict.fromkeys(names, k) for k in (1.0, 2.0, 8.0, 64.0)]
        changes += [{n: 64.0} for n in names]
        others = [scaled(module, change, seed + i) for i, change in enumerate(changes)]
        more = [forward(other, inputs.clone(), name) for other in others]
    if plain.dim() != 2 or not plain.numel():
        raise Stop(f"{name} gives shape {tuple(plain.shape)}.", "Mend the output shape first.")
    output = torch.cat([plain, *(o for o in more if o.isfinite().all())])
    error = (output.double().sum(1) - 1).abs().max()
    return Outputs(number(output.min()), number(output.max()), number(error))


def _squashing(seen: Outputs, row_sum: float) -> Iterator[str]:
    if seen.smallest is None or seen.largest is None or seen.row_sum_error is None:
        yield "The outputs are not finite."
    elif seen.smallest >= 0 and seen.row_sum_error < row_sum:
        yield "Every row of the output is non-negative and sums to 1: these are probabilities."
    elif seen.smallest >= 0 and seen.largest <= 1:
        yield "Every output lies between 0 and 1, as after a sigmoid."
    elif seen.smallest >= 0:
        yield "No output is ever negative, as after a ReLU."
    elif seen.smallest >= -1 and seen.largest <= 1:
        yield "Every output lies between -1 and 1, as after a tanh."


def judge_logits(seen: Outputs, *, row_sum: float) -> Verdict:
    """Cross-entropy takes unbounded logits: no softmax, sigmoid, ReLU or tanh on the last layer.

    A log-softmax is accepted: the cross-entropy of log-probabilities equals that of the logits.
    Rows that sum to 1 within `row_sum` are probabilities.
    """
    faults = list(_squashing(seen, row_sum))
    hint = (
        "Return the last linear layer's output as it is: nn.CrossEntropyLoss applies log-softmax "
        "itself, and a second squashing slows or stops learning."
    )
    return verdict(not faults, " ".join(faults) or "The outputs are unbounded logits.", hint)


def judge_unbounded(seen: Outputs, *, row_sum: float) -> Verdict:
    """Values that are forecast have no range: the same as for logits, in other words."""
    faults = list(_squashing(seen, row_sum))
    hint = (
        "Return the last linear layer's output as it is: a function after it, such as tanh or "
        "softmax, keeps forecasts within its range, and the values to forecast lie outside."
    )
    return verdict(not faults, " ".join(faults) or "The outputs have no fixed range.", hint)


COMPANY = Threshold("tolerance", _in_company, at_least=False)
REPETITION = Threshold("tolerance", lambda seen: seen.difference, at_least=False)

output_shape = Check(measure_output_shape, judge_output_shape)
batch_independence = Check(measure_batch_independence, judge_batch_independence, COMPANY)
evaluation_mode = Check(measure_evaluation_mode, judge_evaluation_mode, REPETITION)
logits = Check(measure_logits, judge_logits)
unbounded = Check(measure_logits, judge_unbounded)
