"""Does a network carry a state from step to step, with gates or without, in which direction?

Shapes: sequences (B, T, D), outputs (B, K).
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from autograder.checks.core import Check, Verdict, number, verdict
from autograder.checks.gradients import edge, pull
from autograder.checks.models import build, forward, nudged, parameters_of, samples
from autograder.checks.operators import Trace, factors
from autograder.checks.sequences import by_step

TANHS = frozenset({"tanh", "tanh_"})
SIGMOIDS = frozenset({"sigmoid", "sigmoid_", "exp", "exp_"})  # 1 / (1 + exp(-x)) by hand
GATINGS = frozenset({"mul", "mul_", "addcmul", "addcmul_", "lerp", "lerp_"})  # last two arguments
NORMS = ("own", "first", "middle", "last", "early", "late")


class Weight(NamedTuple):
    """The parameters that a weight comes from, and which slice of a stack of matrices it is."""

    names: frozenset[str]
    slice: int | None

    def __str__(self) -> str:
        """As it would stand in code."""
        place = "" if self.slice is None else f"[{self.slice}]"
        return " + ".join(f"{name}{place}" for name in sorted(self.names))

    def part_of(self, gradient: Tensor) -> Tensor:
        """The part of a parameter's gradient that is this weight's own."""
        return gradient if self.slice is None else gradient[self.slice]


class Use(NamedTuple):
    """What a weight was multiplied with, and where that stood in the graph then."""

    operand: Tensor
    at: GradientEdge | None


class Steps(Trace):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Notes what each weight is multiplied with, and the parts of gates."""

    def __init__(self, module: nn.Module, inputs: Tensor) -> None:
        """Start with empty records."""
        super().__init__(module, inputs)
        self.uses: dict[Weight, list[Use]] = defaultdict(list)
        self._stacks = {n: p for n, p in parameters_of(module) if p.dim() > 2}
        self.counts: Counter[str] = Counter()
        self._linear: set[int] = set()

    def note(self, name: str, args: Any, given: list[Tensor], made: list[Tensor]) -> None:
        """Note products of a weight with data, gates, and which results a weight just made."""
        if pair := factors(name, args):
            self._product(*pair)
        if name in SIGMOIDS and self.is_data(args[0]):
            self.counts["sigmoids"] += 1
        elif name in TANHS and self.is_data(args[0]):
            self.counts["tanhs" if id(args[0]) in self._linear else "cells"] += 1
        elif name in GATINGS and self._gates(*args[-2:]):
            self.counts["gatings"] += 1
        squashed = name in SIGMOIDS | TANHS
        if not squashed and (pair or any(id(t) in self._linear for t in given)):
            self._linear |= {id(t) for t in made}
        else:  # an operator in place may have made something else of it
            self._linear -= {id(t) for t in made}

    def _product(self, left: Tensor, right: Tensor) -> None:
        weights = [t for t in (left, right) if self.origin(t) and not self.is_data(t)]
        data = [t for t in (left, right) if self.is_data(t)]
        if weights and data:
            self.uses[self._weight(weights[0])].append(Use(data[0], edge(data[0])))

    def _weight(self, used: Tensor) -> Weight:
        """Matrices that lie in one parameter of three dimensions are weights of their own."""
        names = self.origin(used)
        stack = self._stacks.get(next(iter(names))) if len(names) == 1 else None
        if stack is None or used.numel() >= stack.numel() or not _same_memory(used, stack):
            return Weight(names, None)
        return Weight(names, int(used.storage_offset() - stack.storage_offset()) // stack.stride(0))

    def _gates(self, one: Any, other: Any) -> bool:
        """Whether two different tensors of data, of the same shape, are multiplied by element."""
        return (
            self.is_data(one) and self.is_data(other) and one is not other
            and one.shape == other.shape and one.is_floating_point() and other.is_floating_point()
        )  # fmt: skip


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


@dataclass(frozen=True)
class Recurrence:
    """Weights that are used at half of the steps or more, and the parts of gates.

    `uses` of each weight, and `norms` of gradients (None: not finite). `own`, `first`, `middle`,
    `last`: of what it is multiplied with at its last use, with respect to the weight itself and to
    three steps of the input. `early`, `late`: of what it is multiplied with halfway, with respect
    to the steps of the first and of the second half.
    Calls: of sigmoid, of tanh on what a weight has just made, of tanh on anything else (as on the
    cell state of an LSTM), and multiplications of two tensors that come from the input.
    """

    steps: int
    uses: dict[str, int]
    norms: dict[str, dict[str, float | None]]
    sigmoids: int
    tanhs: int
    cells: int
    gatings: int


def measure_recurrence(model: Any, *, name: str, input_shape: list[int], seed: int) -> Recurrence:
    """Trace the forward pass of three nudged starts; the largest of three gradients counts.

    A loop over the samples makes several runs of uses, so the number of samples is odd: then the
    middle use lies halfway in a sequence.
    """
    module, steps = build(model, name, input_shape), input_shape[0]
    rows: dict[str, list[Tensor]] = defaultdict(list)
    uses: dict[str, int] = {}
    for k in range(3):
        start, inputs = nudged(module, seed + k), samples(input_shape, 3, seed).requires_grad_()
        trace = _traced(start, inputs, name)
        for weight, used in trace.uses.items():
            if 2 * len(used) >= steps:
                rows[str(weight)].append(torch.cat([
                    _own(weight, used[-1], start, seed, name),
                    _influence(used, inputs, seed, name),
                ]))  # fmt: skip
                uses[str(weight)] = len(used)
    largest = {label: map(number, torch.stack(found).amax(0)) for label, found in rows.items()}
    norms = {label: dict(zip(NORMS, row, strict=True)) for label, row in largest.items()}
    counts = (trace.counts[what] for what in ("sigmoids", "tanhs", "cells", "gatings"))
    return Recurrence(steps, uses, norms, *counts)


def _traced(module: nn.Module, inputs: Tensor, name: str) -> Steps:
    for _, parameter in parameters_of(module):
        parameter.requires_grad_(parameter.is_floating_point())
    given = inputs.clone()
    trace = Steps(module, given)
    with torch.backends.mkldnn.flags(enabled=False), trace:  # it would hide the steps of an LSTM
        forward(module, given, name)
    return trace


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


def carried_by(seen: Recurrence) -> dict[str, str]:
    """Direction of each weight that is applied to a state which the same weight made before.

    That tells a recurrent weight from a layer that is used at every step of the input, and from
    one that reads the state and is not read by it.
    """
    if min([*seen.uses.values(), seen.sigmoids, seen.tanhs, seen.cells, seen.gatings]) < 0:
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


def judge_simple_recurrence(seen: Recurrence, *, layers: int) -> Verdict:
    """At least `layers` recurrent weights, and no gates that multiply the state."""
    carried = carried_by(seen)
    if len(carried) < layers:
        return _no_state(seen, carried, layers)
    return verdict(
        2 * seen.gatings < seen.steps,
        f"Weights that carry a state over all {seen.steps} steps: {len(carried)} (at least "
        f"{layers}); "
        f"multiplications as in gates: {seen.gatings} (fewer than half the steps).",
        "An LSTM or a GRU has gates; a simple recurrent network is tanh(W x + U h), as nn.RNN.",
    )


def judge_gated_recurrence(seen: Recurrence, *, layers: int) -> Verdict:
    """At least `layers` recurrent weights, and at each step what an LSTM has.

    That is one sigmoid (of all gates together, or one for each), three multiplications by gates
    (the first step has no state to forget), a tanh of what the weights made, and a tanh of the
    cell state, which a GRU does not have.
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
    return verdict(
        all(n >= least for n, least in counts.values()),
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


simple_recurrence = Check(measure_recurrence, judge_simple_recurrence)
gated_recurrence = Check(measure_recurrence, judge_gated_recurrence)
both_directions = Check(measure_recurrence, judge_both_directions)
