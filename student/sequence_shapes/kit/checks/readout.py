"""What does a simple recurrent network read at its end: which states, of which steps?

With next to nothing in the recurrent weights, a state knows the input of its own step alone. Then
the steps that an output depends on are the steps whose states it reads.

Shapes: sequences (B, T, D), outputs (B, K).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from autograder.checks.core import Check, Stop, Verdict, verdict
from autograder.checks.gradients import pull
from autograder.checks.models import build, forward, nudged, parameters_of, samples
from autograder.checks.recurrence import Recurrence, carried_by, measure_recurrence
from autograder.checks.sequences import by_step

FORGOTTEN = 1e-6  # factor of the recurrent weights; 0 would silence those that read the input too
SEEN = 1e-2  # of the largest gradient; a state keeps less of the step before


@dataclass(frozen=True)
class Readout:
    """The steps, from 0, whose states each output reads; and multiplications as in gates."""

    steps: int
    reads: list[list[int]]
    gatings: int


def measure_readout(
    model: Any, *, name: str, input_shape: list[int], outputs: int, seed: int
) -> Readout:
    """Make the recurrent weights tiny, and find the steps with a gradient for each output."""
    module = _plain(build(model, name, input_shape))
    traced = measure_recurrence(module, name=name, input_shape=input_shape, seed=seed)
    forgetful = _forgetful(nudged(module, seed), traced)
    inputs = samples(input_shape, 64, seed).requires_grad_()
    output = forward(forgetful, inputs.clone(), name)
    if output.shape != (64, outputs):
        raise Stop(
            f"{name} gives shape {tuple(output.shape)} for 64 sequences.", "Mend the shape first."
        )
    norms = [by_step(pull(column, [inputs], seed, name)[0]) for column in output.unbind(1)]
    return Readout(input_shape[0], [_seen(n) for n in norms], traced.gatings)


def _plain(module: nn.Module) -> nn.Module:
    """Without parametrizations: an orthogonal weight can't be made small."""
    for part in list(nn.Module.modules(module)):
        for tensor in list(getattr(part, "parametrizations", {})):
            parametrize.remove_parametrizations(part, tensor)
    return module


def _forgetful(module: nn.Module, traced: Recurrence) -> nn.Module:
    """The module with tiny recurrent weights; a stack of matrices is tiny as a whole."""
    labels = [label for weight in carried_by(traced) for label in weight.split(" + ")]
    names = {label.split("[")[0] for label in labels}
    with torch.no_grad():
        for name, parameter in parameters_of(module):
            if name in names:
                parameter.mul_(FORGOTTEN)
    return module


def _seen(norms: Tensor) -> list[int]:
    return [t for t, norm in enumerate(norms.tolist()) if norm > SEEN * float(norms.max())]


def judge_last_state(seen: Readout, *, outputs: int) -> Verdict:
    """Every output reads the last state, and no other."""
    _possible(seen, outputs)
    others = {t for steps in seen.reads for t in steps} - {seen.steps - 1}
    if seen.gatings >= seen.steps / 2:
        return GATED
    return verdict(
        not others,
        f"Of {seen.steps} steps the states of {_these(others)} are read."
        if others
        else "Of all states only the last is read.",
        "Read the state after the last step alone, output[:, -1] or h_n[-1]: it has seen the whole "
        "sequence. No mean, sum or maximum over steps.",
    )


def judge_both_ends(seen: Readout, *, outputs: int) -> Verdict:
    """Half of the outputs read the state of the last step alone, half that of the first.

    The backward direction ends at the first step.
    """
    _possible(seen, outputs)
    if seen.gatings >= seen.steps / 2:
        return GATED
    first, last = seen.reads.count([0]), seen.reads.count([seen.steps - 1])
    mixed = [set(steps) for steps in seen.reads if steps not in ([], [0], [seen.steps - 1])]
    rationale = (
        f"Of {outputs} outputs {last} read the last step's state and {first} the first step's "
        f"({outputs // 2} each)"
    )
    if mixed:
        return Verdict(
            "failed",
            f"{rationale}; {len(mixed)} read others, for instance {_these(mixed[0])}.",
            "Return what each direction has at its end, side by side: no mean, sum or maximum, no "
            "other step.",
        )
    return verdict(2 * max(first, last) <= outputs, f"{rationale}.", _one_step(last > first))


def _one_step(last: bool) -> str:
    if last:
        return (
            "At the last step the backward direction has read one step; its end is "
            "output[:, 0, H:] or h_n[1]."
        )
    return (
        "At the first step the forward direction has read one step; its end is "
        "output[:, -1, :H] or h_n[0]."
    )


GATED = Verdict(
    "failed",
    "The layer has gates that carry its state past the weights.",
    "An LSTM or a GRU has gates; use a simple recurrent layer, tanh(W x + U h), as nn.RNN.",
)


def _possible(seen: Readout, outputs: int) -> None:
    steps = {t for reads in seen.reads for t in reads}
    if len(seen.reads) != outputs or seen.gatings < 0 or not steps <= set(range(seen.steps)):
        raise ValueError("not these outputs, or steps that are not there")


def _these(steps: set[int]) -> str:
    """Steps in words, counted from 1."""
    shown = ", ".join(str(t + 1) for t in sorted(steps)[:4])
    return f"step{'s' if len(steps) > 1 else ''} {shown}{', …' if len(steps) > 4 else ''}"


last_state = Check(measure_readout, judge_last_state)
both_ends = Check(measure_readout, judge_both_ends)
