"""A model that translates tokens: shape, order of the source, and what every network owes.

A model maps sources (B, S) and decoder inputs (B, T), both int64 tokens, to logits (B, T, V).
Decoder inputs begin with BOS. `lengths` are S and T.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, NotAnswered, Stop, Verdict, number, verdict
from autograder.checks.gradients import Gradients, judge_gradient_reach, measure_gradient_reach
from autograder.checks.models import build, forward, made, nudged, samples
from autograder.checks.outputs import (
    COMPANY,
    REPETITION,
    Independence,
    Outputs,
    Repetition,
    judge_batch_independence,
    judge_evaluation_mode,
    judge_logits,
    measure_batch_independence,
    measure_evaluation_mode,
    measure_logits,
)
from autograder.checks.sequences import ORDER, Change
from autograder.data import BOS, VOCABULARY

DIGITS = 10


def call_translator(module: nn.Module, source: Tensor, said: Tensor, name: str) -> Tensor:
    """What the model makes of sources (B, S) and decoder inputs (B, T); faults become `Stop`."""
    try:
        logits = module(source.clone(), said.clone())
    except Exception as error:
        raise Stop(
            f"{name} can't process sources of shape {tuple(source.shape)} with decoder inputs of "
            f"shape {tuple(said.shape)}: {type(error).__name__}: {str(error)[:500].rstrip(' .')}.",
            _why_raised(error),
        ) from None
    if logits is None or logits is ...:
        raise NotAnswered(
            f"The forward method of {name} returns nothing yet.", "Complete the class."
        )
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise Stop(
            f"{name} returns a {type(logits).__name__}, expected a tensor of float logits.",
            "nn.GRU returns a pair: give its states to the last layer, and return what that gives.",
        )
    return logits


def _why_raised(error: Exception) -> str:
    if "index out of range in self" in str(error):
        return (
            f"An embedding is too small: decoder inputs have {VOCABULARY} tokens, PAD, BOS and EOS "
            "among them; an embedding of places needs as many rows as the longest sequence has."
        )
    return "forward takes both, in this order; follow their shapes through it, layer by layer."


def logits_of(module: nn.Module, source: Tensor, said: Tensor, name: str) -> Tensor:
    """Logits (B, T, V); another shape is a `Stop`."""
    logits = call_translator(module, source, said, name)
    if logits.shape != (*said.shape, VOCABULARY):
        raise Stop(
            f"{name} gives shape {tuple(logits.shape)} for sources {tuple(source.shape)} and "
            f"decoder inputs {tuple(said.shape)}.",
            "Mend the output shape first.",
        )
    return logits


class Joined(nn.Module):
    """A translator as a network of numbers, for the checks of all networks.

    Numbers (B, S + T) in [0, 1) stand for the digits of the source and of the decoder input, whose
    first token is BOS; the logits of all steps come in one row, (B, T * V).
    """

    def __init__(self, model: Any, name: str, source_length: int) -> None:
        """Join the inputs of a student's class, function or instance."""
        super().__init__()
        self.model, self.name, self.source_length = made(model, name), name, source_length

    def forward(self, numbers: Tensor) -> Tensor:
        """Numbers (B, S + T) -> logits (B, T * V)."""
        digits = (DIGITS * numbers).long().clamp(0, DIGITS - 1)
        source, said = digits[:, : self.source_length], digits[:, self.source_length :].clone()
        said[:, 0] = BOS
        return logits_of(self.model, source, said, self.name).flatten(1)


class _Rows(nn.Module):
    """Logits (B, T * V) as (B * T, V)."""

    def forward(self, logits: Tensor) -> Tensor:
        return logits.reshape(-1, VOCABULARY)


def joined(model: Any, name: str, lengths: list[int]) -> nn.Module:
    """The student's model as one of numbers, ready to be measured."""
    return build(Joined(model, name, lengths[0]), name, [sum(lengths)])


@dataclass(frozen=True)
class Sizes:
    """Shape of the logits for each batch size, source length and number of decoder steps."""

    sizes: list[list[int]]
    shapes: list[list[int]]


def measure_translation_shape(model: Any, *, name: str, sizes: list[list[int]]) -> Sizes:
    """Shapes of the logits for several (B, S, T)."""
    module = made(model, name)
    with torch.no_grad():
        shapes = [
            call_translator(module, torch.zeros(b, s).long(), torch.full((b, t), BOS), name).shape
            for b, s, t in sizes
        ]
    return Sizes(sizes, [list(shape) for shape in shapes])


def judge_translation_shape(seen: Sizes, *, sizes: list[list[int]]) -> Verdict:
    """There is one row of logits for each token of the decoder input, whatever S is."""
    if seen.sizes != sizes:
        raise ValueError("not the sizes that were asked for")
    rows = list(zip(seen.sizes, seen.shapes, strict=True))
    wrong = [(size, shape) for size, shape in rows if shape != [size[0], size[2], VOCABULARY]]
    told = [
        f"sources {(b, s)} with decoder inputs {(b, t)} give shape {tuple(shape)}, expected "
        f"{(b, t, VOCABULARY)}"
        for (b, s, t), shape in wrong[:2]
    ]
    shown = "; ".join(told) or f"Shape (B, T, {VOCABULARY}) for all of {len(rows)} sizes"
    return verdict(not wrong, f"{shown}.", _why_shape(*wrong[0]) if wrong else "")


def _why_shape(size: list[int], shape: list[int]) -> str:
    batch, source, steps = size
    if shape == [batch, source, VOCABULARY]:
        return "That is one output for each token of the source: read the decoder's states."
    if shape == [steps, batch, VOCABULARY]:
        return "Batch and steps change places: set batch_first=True."
    if shape == [batch, VOCABULARY, steps]:
        return "The logits of a step come last: leave out the transpose here."
    if shape[:-1] == [batch, steps]:
        return f"The last layer gives {VOCABULARY} logits, those of PAD, BOS and EOS among them."
    return "Give all of the decoder's states, (B, T, H), to one linear layer; squeeze nothing."


def measure_source_order(model: Any, *, name: str, lengths: list[int], seed: int) -> Change:
    """Shuffle the source, its first and last token apart; the largest of five changes.

    Relative to the change that another source makes.
    """
    module, inputs = nudged(joined(model, name, lengths), seed), samples([sum(lengths)], 16, seed)
    other = torch.cat([inputs.flip(0)[:, : lengths[0]], inputs[:, lengths[0] :]], dim=1)
    generator, length = torch.Generator().manual_seed(seed), lengths[0]
    with torch.no_grad():
        plain, spread = forward(module, inputs, name), forward(module, other, name)
        changes = []
        for _ in range(5):
            inner = 1 + torch.randperm(length - 2, generator=generator)
            order = [0, *inner.tolist(), *range(length - 1, sum(lengths))]
            changes.append((forward(module, inputs[:, order], name) - plain).abs().max())
    # What is below the rounding of the logits is no spread.
    least = 1e3 * torch.finfo(plain.dtype).eps * plain.abs().max()
    most = torch.maximum((spread - plain).abs().max(), least).clamp_min(1e-12)
    return Change(number(torch.stack(changes).max() / most))


def judge_source_order(seen: Change, *, smallest: float) -> Verdict:
    """The order of the source's tokens matters."""
    if seen.relative is None:
        return Verdict("failed", "The logits are not finite.", "Look for a division by zero.")
    return verdict(
        seen.relative >= smallest,
        f"Shuffling the source changes the logits by {seen.relative:.2g} of what another source "
        f"changes (at least {smallest:.2g}).",
        "The encoder can't see the order of its tokens: read them with a recurrent layer, or add "
        "positions to them before an attention.",
    )


def measure_token_logits(model: Any, *, name: str, lengths: list[int], seed: int) -> Outputs:
    """Range of the logits, for weights as they are and larger; one row for each token."""
    tokens = nn.Sequential(joined(model, name, lengths), _Rows())
    return measure_logits(tokens, name=name, input_shape=[sum(lengths)], seed=seed)


def measure_token_gradients(model: Any, *, name: str, lengths: list[int], seed: int) -> Gradients:
    """Gradients of a loss of all logits."""
    return measure_gradient_reach(
        joined(model, name, lengths), name=name, input_shape=[sum(lengths)],
        outputs=lengths[1] * VOCABULARY, seed=seed,
    )  # fmt: skip


def measure_token_batches(model: Any, *, name: str, lengths: list[int], seed: int) -> Independence:
    """Logits of a pair alone, and beside others."""
    module, shape = joined(model, name, lengths), [sum(lengths)]
    return measure_batch_independence(module, name=name, input_shape=shape, seed=seed)


def measure_token_evaluation(model: Any, *, name: str, lengths: list[int], seed: int) -> Repetition:
    """Two passes over the same pairs in evaluation mode."""
    module, shape = joined(model, name, lengths), [sum(lengths)]
    return measure_evaluation_mode(module, name=name, input_shape=shape, seed=seed)


translation_shape = Check(measure_translation_shape, judge_translation_shape)
source_order = Check(measure_source_order, judge_source_order, ORDER)
token_logits = Check(measure_token_logits, judge_logits)
token_gradients = Check(measure_token_gradients, judge_gradient_reach)
token_batches = Check(measure_token_batches, judge_batch_independence, COMPANY)
token_evaluation = Check(measure_token_evaluation, judge_evaluation_mode, REPETITION)
