"""Does a network carry a state from step to step, with gates or without, in which direction?

Shapes: sequences (B, T, D), outputs (B, K).
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Verdict, number, verdict
from autograder.checks.gradients import pull
from autograder.checks.models import build, nudged, parameters_of, samples
from autograder.checks.sequences import by_step
from autograder.checks.steps import Push, Use, Weight, traced

BATCH = 3
NOISE = 300.0  # beyond what tanh lets through, even if the state is scaled down before
LATER = 8  # uses of a weight that may feel a push at its first, loops over samples included
FELT = 1e-2  # of the largest effect of a push; less may be rounding
BENT = 0.05  # rounding bends a linear recurrence by 1e-6, and an activation by 0.4 or more
NORMS = ("own", "first", "middle", "last", "early", "late")


@dataclass(frozen=True)
class Recurrence:
    """Weights that are used at half of the steps or more, and the parts of gates.

    `uses` of each weight, and `norms` of gradients (None: not finite). `own`, `first`, `middle`,
    `last`: of what it is multiplied with at its last use, with respect to the weight itself and to
    three steps of the input. `early`, `late`: of what it is multiplied with halfway, with respect
    to the steps of the first and of the second half.
    Calls: of sigmoid, of tanh on what a weight has just made, of tanh on anything else (as on the
    cell state of an LSTM), and multiplications of two tensors that come from the input.
    `longest`: multiplications on the longest way from step to step that only they touch.
    `rarer`: uses of the weight that is used most often among all others.
    """

    steps: int
    uses: dict[str, int]
    norms: dict[str, dict[str, float | None]]
    sigmoids: int
    tanhs: int
    cells: int
    gatings: int
    longest: int
    rarer: int


@dataclass(frozen=True)
class Simple(Recurrence):
    """Also `bends`: how far each weight's later operands are from additive in its first result.

    Relative to the effect itself, 0 in a linear recurrence; None if there is no effect.
    """

    bends: dict[str, float | None]


@dataclass(frozen=True)
class Sized(Simple):
    """Also `shapes` of the matrices that carry a state; [] for one made of several parameters."""

    shapes: dict[str, list[int]]


def measure_recurrence(model: Any, *, name: str, input_shape: list[int], seed: int) -> Recurrence:
    """Trace the forward pass of three nudged starts; the largest of three gradients counts.

    A loop over the samples makes several runs of uses, so BATCH is odd: then the middle use lies
    halfway in a sequence.
    """
    module, steps = build(model, name, input_shape), input_shape[0]
    rows: dict[str, list[Tensor]] = defaultdict(list)
    uses: dict[str, int] = {}
    for k in range(3):
        start, inputs = nudged(module, seed + k), samples(input_shape, BATCH, seed).requires_grad_()
        trace = traced(start, inputs, name)
        for weight, used in trace.uses.items():
            if 2 * len(used) >= steps:
                rows[str(weight)].append(torch.cat([
                    _own(weight, used[-1], start, seed, name),
                    _influence(used, inputs, seed, name),
                ]))  # fmt: skip
                uses[str(weight)] = len(used)
    largest = {label: map(number, torch.stack(found).amax(0)) for label, found in rows.items()}
    norms = {label: dict(zip(NORMS, row, strict=True)) for label, row in largest.items()}
    sigmoids, tanhs, cells, gatings = (
        trace.counts[what] for what in ("sigmoids", "tanhs", "cells", "gatings")
    )
    rarer = max((len(used) for used in trace.uses.values() if 2 * len(used) < steps), default=0)
    return Recurrence(steps, uses, norms, sigmoids, tanhs, cells, gatings, trace.longest, rarer)


def _own(weight: Weight, last: Use, module: nn.Module, seed: int, name: str) -> Tensor:
    """The first number named in NORMS."""
    own: list[Tensor] = [p for n, p in parameters_of(module) if n in weight.names]
    found = pull(last.operand, own, seed, name, last.at)
    return torch.stack([weight.part_of(gradient).norm() for gradient in found]).amax(0, True)


def _influence(uses: list[Use], inputs: Tensor, seed: int, name: str) -> Tensor:
    """The other numbers named in NORMS."""
    middle = inputs.shape[1] // 2
    end, halfway = uses[-1], uses[len(uses) // 2]
    steps, before = (
        by_step(pull(use.operand, [inputs], seed, name, use.at)[0]) for use in (end, halfway)
    )
    return torch.stack([
        steps[0], steps[middle], steps[-1], before[:middle].amax(), before[middle + 1 :].amax()
    ])  # fmt: skip


def measure_simple_recurrence(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Simple:
    """The same, and whether there is an activation between two uses of each recurrent weight."""
    module = build(model, name, input_shape)
    seen = measure_recurrence(module, name=name, input_shape=input_shape, seed=seed)
    start, inputs = nudged(module, seed), samples(input_shape, BATCH, seed)
    with torch.no_grad():
        bends = {
            str(weight): _bend(weight, start, inputs, seed, name)
            for weight in traced(start, inputs, name).uses
            if str(weight) in carried_by(seen)
        }
    return Simple(**vars(seen), bends=bends)


def measure_recurrent_layers(model: Any, *, name: str, input_shape: list[int], seed: int) -> Sized:
    """The same, and how large the recurrent weights are."""
    module = build(model, name, input_shape)
    seen = measure_simple_recurrence(module, name=name, input_shape=input_shape, seed=seed)
    parameters = dict(parameters_of(module))
    shapes = {label: _shape(label, parameters) for label in carried_by(seen)}
    return Sized(**vars(seen), shapes=shapes)


def _shape(label: str, parameters: dict[str, nn.Parameter]) -> list[int]:
    """Of the weight with this label, if it is one parameter or a slice of one."""
    name, _, part = label.partition("[")
    return list(parameters[name].shape[bool(part) :]) if name in parameters else []


def _bend(weight: Weight, module: nn.Module, inputs: Tensor, seed: int, name: str) -> float | None:
    """Push the result of the weight's first use by two noises and their sum; look at later uses."""
    plain, one, other, both = (
        [use.operand.double() for use in trace.uses[weight][1:LATER]]
        for a in (0, NOISE) for b in (0, NOISE)
        for trace in [traced(module, inputs, name, Push(weight, a, b, seed))]
    )  # fmt: skip
    off = [
        (float((u - p).norm() + (v - p).norm()), float((w - u - v + p).norm()))
        for p, u, v, w in zip(plain, one, other, both, strict=True)
    ]
    most = max((effect for effect, _ in off), default=0.0)
    return number(max((o / e for e, o in off if e > FELT * most), default=float("nan")))


def carried_by(seen: Recurrence) -> dict[str, str]:
    """Direction of each weight that is applied to a state which the same weight made before.

    That tells a recurrent weight from a layer that is used at every step of the input, and from
    one that reads the state and is not read by it.
    """
    counts = (seen.sigmoids, seen.tanhs, seen.cells, seen.gatings, seen.longest, seen.rarer)
    if min(*seen.uses.values(), *counts) < 0:
        raise ValueError("a negative count")
    found = {}
    for weight in seen.uses:
        norms = seen.norms[weight]
        own, first, middle, last, early, late = (norms[norm] or 0.0 for norm in NORMS)
        far = first if early > late else last
        if min(own, middle, far) > 0:
            found[weight] = "forward" if early > late else "reversed"
    return found


def _no_state(seen: Recurrence, carried: dict[str, str], layers: int) -> Verdict:
    """Too few recurrent weights: which of the usual causes is it?"""
    rationale = (
        f"Weights that carry a state over all {seen.steps} steps: {len(carried)} "
        f"(at least {layers})."
    )
    others = [weight for weight in seen.uses if weight not in carried]
    if any(None in norms.values() for norms in seen.norms.values()):
        return Verdict("failed", f"{rationale} Gradients are not finite.", "Look for 0/0.")
    if not seen.uses and seen.rarer > BATCH:
        return Verdict(
            "failed",
            f"{rationale} The weight used most often is used {seen.rarer} times, but {seen.steps} "
            "steps came.",
            f"Pooling, strides or patches shorten the sequence: keep at least {seen.steps} steps.",
        )
    if not others:
        return Verdict(
            "failed", f"{rationale} No {'other ' if carried else ''}weight is used step by step.",
            "Use a recurrent layer, or a loop over all steps. With nn.RNN or nn.LSTM set "
            "batch_first=True, or samples and steps change places.",
        )  # fmt: skip
    return Verdict(
        "failed",
        f"{rationale} Used step by step, but not on a state that the weight itself made from all "
        f"steps before: {', '.join(others)}.",
        "Give each step its own input and the state that the step before returned: no new zeros, "
        "no detach() or torch.no_grad() inside the loop.",
    )


def judge_simple_recurrence(seen: Simple, *, layers: int) -> Verdict:
    """At least `layers` recurrent weights, an activation after each, and no gates on the state."""
    carried = carried_by(seen)
    if len(carried) < layers:
        return _no_state(seen, carried, layers)
    bends = {weight: seen.bends[weight] for weight in carried}
    linear = [weight for weight, bend in bends.items() if bend is not None and not bend >= BENT]
    if linear:
        return Verdict(
            "failed",
            f"From one use to the next all is linear: {', '.join(linear)}.",
            "There is no activation between two steps: h = tanh(W x + U h), and use what tanh "
            "returns.",
        )
    return verdict(
        2 * seen.gatings < seen.steps,
        f"Weights that carry a state over all {seen.steps} steps: {len(carried)} (at least "
        f"{layers}); "
        f"multiplications as in gates: {seen.gatings} (fewer than half the steps).",
        "An LSTM or a GRU has gates; a simple recurrent network is tanh(W x + U h), as nn.RNN.",
    )


def judge_recurrent_layers(seen: Sized, *, layers: int, units: int) -> Verdict:
    """`layers` recurrent layers of `units` hidden units, with or without gates, none linear.

    More layers than asked for are found where there are no gates: there each has one weight.
    """
    carried = carried_by(seen)
    if len(carried) < layers:
        return _no_state(seen, carried, layers)
    bends = [seen.bends[weight] for weight in carried]
    rationale = (
        f"Weights that carry a state over all {seen.steps} steps: {len(carried)} (at least "
        f"{layers})."
    )
    if not all(bend is None or bend >= BENT for bend in bends):
        return Verdict(
            "failed", rationale, "There is no activation between two steps: all is linear."
        )
    gated = 2 * seen.gatings >= seen.steps
    shapes = {weight: seen.shapes[weight] for weight in carried}
    wrong = [
        f"{weight} ({' × '.join(map(str, shape))})"
        for weight, shape in shapes.items()
        if len(shape) == 2 and not _fits(shape, units, 4 if gated else 1)
    ]
    if wrong or not (gated or len(carried) == layers):
        many = "" if wrong else f" There are {len(carried)} layers."
        sizes = f" Not of {units} hidden units: {', '.join(wrong)}." if wrong else ""
        return Verdict(
            "failed",
            f"{rationale}{many}{sizes}",
            f"Make {layers} recurrent layers with {units} hidden units each, no more and no less.",
        )
    return Verdict("passed", rationale)


def _fits(shape: list[int], units: int, blocks: int) -> bool:
    """Whether a matrix may be that of `units` hidden units, with up to `blocks` gates or so.

    It may multiply the state alone, or state, input and a 1 for the bias side by side.
    """
    return any(
        made % units == 0 and 1 <= made // units <= blocks and units <= read <= 2 * units + 2
        for made, read in (shape, shape[::-1])
    )


def judge_gated_recurrence(seen: Recurrence, *, layers: int) -> Verdict:
    """At least `layers` recurrent weights, and at each step what an LSTM has.

    That is one sigmoid (of all gates together, or one for each), three multiplications by gates
    (the first step has no state to forget), a tanh of what the weights made, a tanh of the cell
    state, which a GRU does not have, and a cell state that no weight and no tanh touches on its
    way from step to step.
    """
    carried = carried_by(seen)
    if len(carried) < layers:
        return _no_state(seen, carried, layers)
    steps = min(seen.uses[weight] for weight in carried)
    counts = {
        "sigmoids": (seen.sigmoids, steps * layers),
        "multiplications by gates": (seen.gatings, 3 * (steps - 1) * layers),
        "tanh of new content": (seen.tanhs, steps * layers),
        "tanh of a cell state": (seen.cells, steps * layers),
    }
    shown = "; ".join(f"{what}: {n} (at least {least})" for what, (n, least) in counts.items())
    complete = all(n >= least for n, least in counts.values())
    if complete and 2 * (seen.longest + 1) < seen.steps:
        return Verdict(
            "failed",
            f"The longest memory that only gates touch spans {seen.longest} of {seen.steps} steps.",
            "Hand c, not h, on to the next step: h, c = cell(x, (h, c)).",
        )
    return verdict(
        complete,
        f"Over {seen.steps} steps {shown}.",
        "An LSTM has input, forget and output gate (sigmoids) and a cell state that goes from step "
        "to step and whose tanh the output gate lets through; a GRU or a plain RNN has none.",
    )


def judge_both_directions(seen: Recurrence) -> Verdict:
    """A recurrent weight that runs from the first step on, and one that runs from the last."""
    ways = list(carried_by(seen).values())
    forward, backward = ways.count("forward"), ways.count("reversed")
    return verdict(
        forward > 0 and backward > 0,
        f"Weights that carry a state from the first step to the last: {forward} (at least 1); "
        f"from the last to the first: {backward} (at least 1).",
        "Set bidirectional=True, or run a second layer, with weights of its own, over the flipped "
        "sequence; both need batch_first=True or time in the first place.",
    )


simple_recurrence = Check(measure_simple_recurrence, judge_simple_recurrence)
recurrent_layers = Check(measure_recurrent_layers, judge_recurrent_layers)
gated_recurrence = Check(measure_recurrence, judge_gated_recurrence)
both_directions = Check(measure_recurrence, judge_both_directions)
