"""Which tokens does each step of a translator depend on? Found by changing one token after another.

Shapes as in `translation`: S tokens of the source, T steps of the decoder; `lengths` are S and T.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Threshold, Verdict, number, verdict
from autograder.checks.models import forward, nudged, samples
from autograder.checks.translation import DIGITS, joined

OTHERS = (1, 4, 8)  # what is added to a digit, modulo ten


@dataclass(frozen=True)
class Reactions:
    """Largest change of each step's logits, relative to the spread of all, when a token changes.

    Attributes:
        source: for each place of the source a list of T numbers; None: not finite.
        said: the same for each place of the decoder input.
    """

    source: list[list[float | None]]
    said: list[list[float | None]]


def measure_reactions(model: Any, *, name: str, lengths: list[int], seed: int) -> Reactions:
    """Change every token in 16 pairs, in three ways, in three nudged copies of the model."""
    module, inputs = joined(model, name, lengths), samples([sum(lengths)], 16, seed)
    with torch.no_grad():
        found = [_changes(nudged(module, seed + k), inputs, lengths[1], name) for k in range(3)]
    largest = torch.stack(found).amax(0)  # (S + T, T)
    rows = [[number(value) for value in row] for row in largest]
    return Reactions(rows[: lengths[0]], rows[lengths[0] :])


def _changes(module: nn.Module, inputs: Tensor, steps: int, name: str) -> Tensor:
    """Changes for every place and step, shape (S + T, T)."""
    plain = forward(module, inputs, name).reshape(len(inputs), steps, -1)
    rows = []
    for place in range(inputs.shape[1]):
        changed = []
        for other in OTHERS:
            moved = inputs.clone()
            moved[:, place] = (moved[:, place] + other / DIGITS) % 1
            changed.append(forward(module, moved, name).reshape(plain.shape) - plain)
        rows.append(torch.stack(changed).abs().amax((0, 1, 3)))
    return torch.stack(rows) / plain.std().clamp_min(1e-12)


def _checked(seen: Reactions, lengths: list[int]) -> Verdict | None:
    """A failed verdict if a number is missing.

    Raises:  ValueError: not one number for each place and step.
    """
    steps = lengths[1]
    places = [len(seen.source), len(seen.said)]
    if places != lengths or any(len(row) != steps for row in (*seen.source, *seen.said)):
        raise ValueError("not one number for each place and step")
    if any(value is None or value < 0 for row in (*seen.source, *seen.said) for value in row):
        return Verdict("failed", "The logits are not finite.", "Look for a division by zero.")
    return None


def _at(matrix: list[list[float | None]], place: int, step: int) -> float:
    return matrix[place][step] or 0.0


Found = tuple[float, int, int]  # the change that decides, the token's place, and the step


def _ahead(seen: Reactions, lengths: list[int]) -> Found:
    """The largest change of a step by a later token of the decoder input."""
    pairs = [(place, step) for place in range(1, lengths[1]) for step in range(place)]
    place, step = max(pairs, key=lambda pair: _at(seen.said, *pair))
    return _at(seen.said, place, step), place, step


def _past(seen: Reactions, lengths: list[int]) -> Found:
    """The smallest change of a step by its own or an earlier token of the decoder input."""
    steps = lengths[1]
    pairs = [(place, step) for place in range(1, steps) for step in range(place, steps)]
    place, step = min(pairs, key=lambda pair: _at(seen.said, *pair))
    return _at(seen.said, place, step), place, step


def _source(seen: Reactions, lengths: list[int]) -> Found:
    """The smallest change of a step by a token of the source."""
    pairs = [(place, step) for place in range(lengths[0]) for step in range(lengths[1])]
    place, step = min(pairs, key=lambda pair: _at(seen.source, *pair))
    return _at(seen.source, place, step), place, step


def judge_no_look_ahead(seen: Reactions, *, lengths: list[int], tolerance: float) -> Verdict:
    """No step depends on a later token of the decoder input (up to rounding, `tolerance`)."""
    if fault := _checked(seen, lengths):
        return fault
    worst, place, step = _ahead(seen, lengths)
    if worst <= tolerance:
        return Verdict("passed", "No step depends on later tokens of the decoder input.")
    return Verdict(
        "failed",
        f"The logits at step {step} change by {worst:.2g} of their spread when the decoder input "
        f"changes at step {place} (counted from 0; at most {tolerance:.0e}).",
        "A later decoder input contains the token that this step has to say: it would be copied "
        "in training, and is not there when you translate. The decoder reads from left to right "
        "alone; an attention over its inputs needs a causal mask.",
    )


def judge_reads_the_past(seen: Reactions, *, lengths: list[int], smallest: float) -> Verdict:
    """Every step depends on its own token and on all earlier ones, BOS apart."""
    if fault := _checked(seen, lengths):
        return fault
    least, place, step = _past(seen, lengths)
    return verdict(
        least >= smallest,
        f"The logits at step {step} change by {least:.2g} of their spread when the decoder input "
        f"changes at step {place} (counted from 0; at least {smallest:.0e}).",
        "The decoder must know everything that has been said: give decoder_input to it, and hand "
        "its state on from step to step.",
    )


def judge_reads_the_source(seen: Reactions, *, lengths: list[int], smallest: float) -> Verdict:
    """Every step depends on every token of the source."""
    if fault := _checked(seen, lengths):
        return fault
    least, place, step = _source(seen, lengths)
    return verdict(
        least >= smallest,
        f"The logits at step {step} change by {least:.2g} of their spread when the source changes "
        f"at place {place} (counted from 0; at least {smallest:.0e}).",
        "What the decoder gets from the encoder must hold the whole source: the state after its "
        "last token has seen all of them. And every step of the decoder must have it.",
    )


def _change(
    found: Callable[[Reactions, list[int]], Found],
) -> Callable[..., float | None]:
    """The change alone, for a threshold; None where a logit is not finite."""

    def value(seen: Reactions, *, lengths: list[int]) -> float | None:
        return None if _checked(seen, lengths) else found(seen, lengths)[0]

    return value


no_look_ahead = Check(
    measure_reactions, judge_no_look_ahead, Threshold("tolerance", _change(_ahead), at_least=False)
)
reads_the_past = Check(
    measure_reactions, judge_reads_the_past, Threshold("smallest", _change(_past), at_least=True)
)
reads_the_source = Check(
    measure_reactions,
    judge_reads_the_source,
    Threshold("smallest", _change(_source), at_least=True),
)
