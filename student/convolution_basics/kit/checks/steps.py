"""What each weight is multiplied with, use by use, and the gates between two uses.

A recurrent network uses one weight at every step, on the state that the same weight made before.
"""

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from autograder.checks.gradients import edge
from autograder.checks.models import forward, parameters_of
from autograder.checks.operators import Trace, factors, place

TANHS = frozenset({"tanh", "tanh_"})
SIGMOIDS = frozenset({
    "sigmoid", "sigmoid_", "hardsigmoid", "hardsigmoid_", "exp", "exp_",  # 1 / (1 + exp(-x))
})  # fmt: skip
LERPS = frozenset({"lerp", "lerp_"})  # (1 - i) c + i g: two gates in one
GATINGS = frozenset({"mul", "mul_", "addcmul", "addcmul_"}) | LERPS  # of the last two arguments
CUTS = TANHS | SIGMOIDS | {"detach", "detach_"}  # no memory goes through them


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


class Push(NamedTuple):
    """Noise for the result of a weight's first use: `one` and `other` times two random tensors."""

    weight: Weight
    one: float
    other: float
    seed: int

    def on(self, result: Tensor) -> None:
        """Add the noise, in place."""
        generator = torch.Generator().manual_seed(self.seed)
        for factor in (self.one, self.other):
            noise = torch.randn(result.shape, generator=generator, dtype=torch.float64)
            result += (factor * noise).to(result.dtype)


class Steps(Trace):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Notes what each weight is multiplied with, the parts of gates, and how far memory goes.

    `longest` counts the gates on the longest way that no weight, no squashing and no detach()
    cuts: about one a step for a cell state that is handed on.
    """

    def __init__(self, module: nn.Module, inputs: Tensor, push: Push | None = None) -> None:
        """Start with empty records."""
        super().__init__(module, inputs)
        self.uses: dict[Weight, list[Use]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.longest = 0
        self._push = push
        self._stacks = {n: p for n, p in parameters_of(module) if p.dim() > 2}
        self._linear: set[int] = set()
        self._gates: set[int] = set()  # what a sigmoid made, and views of it
        self._memory: Counter[int] = Counter()  # by tensor, or by memory written into

    def note(self, name: str, args: Any, given: list[Tensor], made: list[Tensor]) -> None:
        """Note products of a weight with data, gates, and which results a weight just made."""
        if pair := factors(name, args):
            self._product(*pair, made[0])
        if name in SIGMOIDS and self.is_data(args[0]):
            self.counts["sigmoids"] += 1
        elif name in TANHS and self.is_data(args[0]):
            self.counts["tanhs" if id(args[0]) in self._linear else "cells"] += 1
        gates = name in GATINGS and self._gating(*args[-2:])
        self.counts["gatings"] += gates * (2 if name in LERPS else 1)
        self._remember(name, given, made, None if pair or name in CUTS else int(gates))
        squashed = name in SIGMOIDS | TANHS
        if not squashed and (pair or any(id(t) in self._linear for t in given)):
            self._linear |= {id(t) for t in made}
        else:  # an operator in place may have made something else of it
            self._linear -= {id(t) for t in made}

    def _remember(
        self, name: str, given: list[Tensor], made: list[Tensor], more: int | None
    ) -> None:
        """How many gates lie behind each result: `more` than behind what it was made from."""
        behind = [max(self._memory[id(t)], self._memory[place(t)]) for t in given]
        length = 0 if more is None else max(behind, default=0) + more
        self.longest = max(self.longest, length)
        opened = name in SIGMOIDS or (len(given) == 1 and id(given[0]) in self._gates)
        for tensor in made:
            self._memory[id(tensor)] = length
            if name.endswith("_") and tensor.nbytes < tensor.untyped_storage().nbytes():
                self._memory[place(tensor)] = max(length, self._memory[place(tensor)])
            if opened:
                self._gates.add(id(tensor))

    def _product(self, left: Tensor, right: Tensor, made: Tensor) -> None:
        weights = [t for t in (left, right) if self.origin(t) and not self.is_data(t)]
        data = [t for t in (left, right) if self.is_data(t)]
        if weights and data:
            weight = self._weight(weights[0])
            if self._push and weight == self._push.weight and not self.uses[weight]:
                self._push.on(made)
            self.uses[weight].append(Use(data[0], edge(data[0])))

    def _weight(self, used: Tensor) -> Weight:
        """Matrices that lie in one parameter of three dimensions are weights of their own."""
        names = self.origin(used)
        stack = self._stacks.get(next(iter(names))) if len(names) == 1 else None
        if stack is None or used.numel() >= stack.numel() or not _same_memory(used, stack):
            return Weight(names, None)
        return Weight(names, int(used.storage_offset() - stack.storage_offset()) // stack.stride(0))

    def _gating(self, one: Any, other: Any) -> bool:
        """Whether two different tensors of data are multiplied by element, as with a gate.

        A gate of another shape, one for all units, must come from a sigmoid: a norm has such too.
        """
        return (
            self.is_data(one) and self.is_data(other) and one is not other
            and one.is_floating_point() and other.is_floating_point()
            and (one.shape == other.shape or not self._gates.isdisjoint({id(one), id(other)}))
        )  # fmt: skip


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def traced(module: nn.Module, inputs: Tensor, name: str, push: Push | None = None) -> Steps:
    """The record of a forward pass over a copy of `inputs`, with trainable parameters."""
    for _, parameter in parameters_of(module):
        parameter.requires_grad_(parameter.is_floating_point())
    given = inputs.clone()
    trace = Steps(module, given, push)
    with torch.backends.mkldnn.flags(enabled=False), trace:  # it would hide the steps of an LSTM
        forward(module, given, name)
    return trace
