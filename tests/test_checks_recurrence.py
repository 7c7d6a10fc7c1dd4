import json
import random
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import rnn as packing
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from autograder.checks import CHECKS, core
from autograder.checks.models import build, nudged, samples

SETTINGS = {"name": "RNN", "input_shape": [25, 4], "seed": 7, "layers": 1}
CHECKED = ("simple_recurrence", "gated_recurrence", "both_directions")


def measured(model, check="simple_recurrence"):
    evidence = core.perform(CHECKS[check], SETTINGS, {"model": model})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, model, **settings):
    return core.decide(CHECKS[check], {**SETTINGS, **settings}, measured(model, check))


class Layer(nn.Module):
    """A recurrent layer of torch's, and a linear layer on what it gives."""

    kind, width, inputs, batch_first = nn.RNN, 32, 4, True
    options = {}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.rnn = self.kind(self.inputs, self.width, batch_first=self.batch_first, **self.options)
        self.head = nn.LazyLinear(3)

    def forward(self, x):
        return self.head(self.rnn(x)[0].mean(1))


def layer(kind=nn.RNN, forward=None, **members):
    own = {"forward": forward} if forward else {}
    options = {k: members.pop(k) for k in list(members) if not hasattr(Layer, k)}
    return type("RNN", (Layer,), {"kind": kind, "options": options, **members, **own})


def last(self, x):
    return self.head(self.rnn(x)[0][:, -1])


def state(self, x):
    kept = self.rnn(x)[1]
    return self.head((kept[0] if isinstance(kept, tuple) else kept)[-1])


def every_position(self, x):
    return self.head(self.rnn(x.reshape(len(x), -1, 1))[0][:, -1])


def time_first(self, x):
    return self.head(self.rnn(x.transpose(0, 1))[0][-1])


def packed(self, x):
    steps = packing.pack_padded_sequence(x, torch.full((len(x),), 25), batch_first=True)
    return self.head(packing.pad_packed_sequence(self.rnn(steps)[0], batch_first=True)[0][:, -1])


def normalised(self, x):
    return last(self, (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True))


class Loop(nn.Module):
    """tanh(W x + U h), by hand."""

    detach, reset, mean, size = False, None, False, 24

    def __init__(self):
        super().__init__()
        self.make()
        self.head = nn.Linear(self.size, 3)

    def make(self):
        self.w, self.u = nn.Linear(4, self.size), nn.Linear(self.size, self.size)

    def zeros(self, x):
        return torch.zeros(len(x), self.size, dtype=x.dtype)

    def step(self, x, h):
        return torch.tanh(self.w(x) + self.u(h))

    def forward(self, x):
        h, seen = self.zeros(x), []
        for t in range(x.shape[1]):
            if self.reset and t % self.reset == 0:
                h = self.zeros(x)
            h = self.step(x[:, t], h.detach() if self.detach else h)
            seen.append(h)
        return self.head(torch.stack(seen, 1).mean(1) if self.mean else h)


def loop(**members):
    return type("RNN", (Loop,), members)


class Einsum(Loop):
    """Bare parameters and all states in one tensor that is written into."""

    def make(self):
        self.w = nn.Parameter(0.1 * torch.randn(self.size, 4))
        self.u = nn.Parameter(0.1 * torch.randn(self.size, self.size))

    def forward(self, x):
        states = torch.zeros(len(x), 26, self.size, dtype=x.dtype)
        for t in range(25):
            new = torch.einsum("bd,hd->bh", x[:, t], self.w)
            states[:, t + 1] = torch.tanh(new + states[:, t].clone() @ self.u.T)
        return self.head(states[:, -1])


class Cells(Loop):
    kind = nn.RNNCell

    def make(self):
        self.cell = self.kind(4, self.size)

    def forward(self, x):
        kept = None
        for step in x.unbind(1):
            kept = self.cell(step, kept)
        return self.head(kept[0] if isinstance(kept, tuple) else kept)


class Calls(Loop):
    """torch's layer, called for one step at a time."""

    kind, hand_on = nn.RNN, True

    def make(self):
        self.layer = self.kind(4, self.size, batch_first=True)

    def forward(self, x):
        kept, total = None, 0
        for t in range(25):
            output, new = self.layer(x[:, t : t + 1], kept)
            kept, total = new if self.hand_on else None, total + output[:, 0]
        return self.head(total)


class LearnedStart(Loop):
    def make(self):
        super().make()
        self.start = nn.Parameter(0.1 * torch.randn(self.size))

    def zeros(self, x):
        return self.start.expand(len(x), -1)


class SampleBySample(Loop):
    def forward(self, x):
        return torch.cat([super(SampleBySample, self).forward(x[i : i + 1]) for i in range(len(x))])


class Normalised(Loop):
    """A layer norm and a ReLU by hand: multiplications that are no gates."""

    def step(self, x, h):
        a = self.w(x) + self.u(h)
        a = (a - a.mean(1, keepdim=True)) * torch.rsqrt(a.var(1, keepdim=True) + 1e-5)
        return a * (a > 0)


class Parametrized(Loop):
    def make(self):
        super().make()
        spectral_norm(self.u), weight_norm(self.w)


class Flipped(nn.Module):
    """Both directions with two layers."""

    def __init__(self):
        super().__init__()
        self.there, self.back = nn.RNN(4, 20, batch_first=True), nn.RNN(4, 20, batch_first=True)
        self.head = nn.Linear(40, 3)

    def forward(self, x):
        return self.head(torch.cat([self.there(x)[0][:, -1], self.back(x.flip(1))[0][:, -1]], 1))


SIMPLE = {
    "last state": layer(forward=last),
    "mean of states": layer(),
    "relu": layer(forward=last, nonlinearity="relu"),
    "two layers": layer(forward=last, num_layers=2, dropout=0.3),
    "every position": layer(forward=every_position, inputs=1),
    "time first": layer(forward=time_first, batch_first=False),
    "final state": layer(forward=state),
    "packed": layer(forward=packed),
    "normalised input": layer(forward=normalised),
    "writes into its input": layer(forward=lambda s, x: last(s, x.sub_(0.5))),
    "five units": layer(width=5, forward=last),
    "double": lambda: layer(forward=last)().double(),
    "loop": Loop,
    "sigmoid": loop(step=lambda s, x, h: (s.w(x) + s.u(h)).sigmoid()),
    "leaky": loop(step=lambda s, x, h: 0.5 * h + 0.5 * Loop.step(s, x, h)),
    "einsum": Einsum,
    "cells": Cells,
    "calls": Calls,
    "learned start": LearnedStart,
    "sample by sample": SampleBySample,
    "norm by hand": Normalised,
    "parametrized": Parametrized,
}
BOTH = {
    "bidirectional": layer(bidirectional=True),
    "two bidirectional layers": layer(bidirectional=True, num_layers=2),
    "normalised": layer(forward=lambda s, x: Layer.forward(s, x - x.mean(1, True)),
                        bidirectional=True),
    "every position": layer(inputs=1, bidirectional=True, forward=lambda s, x: Layer.forward(
        s, x.reshape(len(x), -1, 1))),
    "flipped by hand": Flipped,
}  # fmt: skip


@pytest.mark.parametrize("model", [*SIMPLE.values(), *BOTH.values()], ids=[*SIMPLE, *BOTH])
def test_a_simple_recurrent_network_passes(model):
    decided = verdict("simple_recurrence", model)
    assert decided.status == "passed", decided
    assert verdict("gated_recurrence", model).status == "failed"


@pytest.mark.parametrize("model", SIMPLE.values(), ids=SIMPLE)
def test_one_direction_is_not_both(model):
    decided = verdict("both_directions", model)
    assert decided.status == "failed"
    assert "from the last to the first: 0" in decided.rationale


@pytest.mark.parametrize("model", BOTH.values(), ids=BOTH)
def test_both_directions_are_found(model):
    assert verdict("both_directions", model).status == "passed"


def test_backwards_alone_is_not_both():
    decided = verdict("both_directions", layer(forward=lambda s, x: last(s, x.flip(1))))
    assert "first step to the last: 0 (at least 1)" in decided.rationale
    assert "last to the first: 1 (at least 1)" in decided.rationale


# gates


class Gates(Loop):
    """An LSTM with a linear layer for each gate."""

    def make(self):
        self.gates = nn.ModuleList(nn.Linear(4 + self.size, self.size) for _ in range(4))

    def forward(self, x):
        h = c = self.zeros(x)
        for t in range(25):
            i, f, g, o = (gate(torch.cat([x[:, t], h], 1)) for gate in self.gates)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h)


class EightWeights(Loop):
    """An LSTM with bare weights and the sigmoid written out."""

    def make(self):
        size = self.size
        self.w = nn.ParameterList(nn.Parameter(0.1 * torch.randn(4, size)) for _ in range(4))
        self.u = nn.ParameterList(nn.Parameter(0.1 * torch.randn(size, size)) for _ in range(4))

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.size)
        for step in x.unbind(1):
            i, f, g, o = (step @ w + h @ u for w, u in zip(self.w, self.u, strict=True))
            i, f, o = (1 / (1 + torch.exp(-a)) for a in (i, f, o))
            c = f * c + i * torch.tanh(g)
            h = o * torch.tanh(c)
        return self.head(h)


class OneSigmoid(Loop):
    """An LSTM with one matrix, and one sigmoid for three gates."""

    def make(self):
        self.gates = nn.Linear(4 + self.size, 4 * self.size)

    def forward(self, x):
        h = c = self.zeros(x)
        for t in range(25):
            all_gates = self.gates(torch.cat([h, x[:, t]], 1))
            i, f, o = all_gates[:, : 3 * self.size].sigmoid().chunk(3, 1)
            c = torch.addcmul(f * c, i, all_gates[:, 3 * self.size :].tanh())
            h = o * c.tanh()
        return self.head(h)


class NormedCell(Loop):
    """An LSTM with layer norms before the gates and on the cell state."""

    def make(self):
        self.w, self.u = nn.Linear(4, 4 * self.size), nn.Linear(self.size, 4 * self.size)
        self.before, self.after = nn.LayerNorm(4 * self.size), nn.LayerNorm(self.size)

    def forward(self, x):
        h = c = self.zeros(x)
        for step in x.unbind(1):
            i, f, g, o = self.before(self.w(step) + self.u(h)).split(self.size, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * self.after(c).tanh()
        return self.head(h)


class StuckCell(Loop):
    """An LSTM whose cell state is not handed on."""

    def make(self):
        self.cell = nn.LSTMCell(4, self.size)

    def step(self, x, h):
        return self.cell(x, (h, torch.zeros_like(h)))[0]


GATED = {
    "lstm": layer(nn.LSTM),
    "last": layer(nn.LSTM, forward=last),
    "final cell state": layer(nn.LSTM, forward=lambda s, x: s.head(s.rnn(x)[1][1][-1])),
    "projected": layer(nn.LSTM, forward=last, proj_size=8),
    "two layers": layer(nn.LSTM, forward=last, num_layers=2),
    "bidirectional": layer(nn.LSTM, bidirectional=True),
    "packed": layer(nn.LSTM, forward=packed),
    "every position": layer(nn.LSTM, forward=every_position, inputs=1),
    "time first": layer(nn.LSTM, forward=time_first, batch_first=False),
    "double": lambda: layer(nn.LSTM, forward=last)().double(),
    "cells": type("LSTM", (Cells,), {"kind": nn.LSTMCell}),
    "calls": type("LSTM", (Calls,), {"kind": nn.LSTM}),
    "four layers": Gates,
    "eight weights": EightWeights,
    "one sigmoid": OneSigmoid,
    "normed": NormedCell,
}


@pytest.mark.parametrize("model", GATED.values(), ids=GATED)
def test_an_lstm_passes(model):
    decided = verdict("gated_recurrence", model)
    assert decided.status == "passed", decided


@pytest.mark.parametrize("model", GATED.values(), ids=GATED)
def test_an_lstm_is_no_simple_network(model):
    decided = verdict("simple_recurrence", model)
    assert decided.status == "failed"
    assert "gates" in decided.rationale


GRUS = {
    "gru": layer(nn.GRU),
    "two layers": layer(nn.GRU, num_layers=2),
    "bidirectional": layer(nn.GRU, bidirectional=True),
    "cells": type("GRU", (Cells,), {"kind": nn.GRUCell}),
}


@pytest.mark.parametrize("model", GRUS.values(), ids=GRUS)
def test_a_gru_is_neither(model):
    assert "gates: 5" not in verdict("simple_recurrence", Loop).rationale
    assert verdict("simple_recurrence", model).status == "failed"
    decided = verdict("gated_recurrence", model)
    assert decided.status == "failed"
    assert "tanh of a cell state: 0" in decided.rationale


def test_a_cell_state_that_is_not_handed_on_is_noticed():
    decided = verdict("gated_recurrence", StuckCell)
    assert decided.status == "failed"
    assert "multiplications by gates: 50 (at least 69)" in decided.rationale


class HandedOn(Loop):
    """An LSTM cell whose next state is made by `handed` from (h, c) old and new."""

    handed = staticmethod(lambda h, c, new_h, new_c: (new_h, new_c))

    def make(self):
        self.cell = nn.LSTMCell(4, self.size)

    def forward(self, x):
        h = c = self.zeros(x)
        for step in x.unbind(1):
            h, c = self.handed(h, c, *self.cell(step, (h, c)))
        return self.head(h)


def handed(function):
    return type("LSTM", (HandedOn,), {"handed": staticmethod(function)})


NOT_CARRIED = {
    "h in place of c": handed(lambda h, c, new_h, new_c: (new_h, new_h)),
    "exchanged": handed(lambda h, c, new_h, new_c: (new_c, new_h)),
    "detached": handed(lambda h, c, new_h, new_c: (new_h, new_c.detach())),
    "through a tanh": handed(lambda h, c, new_h, new_c: (new_h, new_c.tanh())),
}


@pytest.mark.parametrize("model", NOT_CARRIED.values(), ids=NOT_CARRIED)
def test_a_cell_state_must_go_from_step_to_step(model):
    decided = verdict("gated_recurrence", model)
    assert decided.status == "failed"
    assert re.search(r"spans [12] of 25 steps", decided.rationale)
    assert "h, c = cell(x, (h, c))" in decided.hint


def test_the_memory_of_an_lstm_spans_all_steps():
    """One gate a step: the input gate at the first, the forget gate at all others."""
    assert measured(HandedOn, "gated_recurrence")["longest"] == 25
    assert measured(layer(nn.GRU))["longest"] > 12  # its state is carried by gates as well


def test_a_cell_state_kept_in_one_tensor_is_followed():
    class Kept(HandedOn):
        def forward(self, x):
            cells = torch.zeros(len(x), 26, self.size, dtype=x.dtype)
            h = self.zeros(x)
            for t in range(25):
                h, cells[:, t + 1] = self.cell(x[:, t], (h, cells[:, t].clone()))
            return self.head(h)

    assert verdict("gated_recurrence", Kept).status == "passed"


class Coupled(Gates):
    """Input and forget gate are one, in one operator; the sigmoids are made of straight lines."""

    def forward(self, x):
        h = c = self.zeros(x)
        for t in range(25):
            i, _, g, o = (gate(torch.cat([x[:, t], h], 1)) for gate in self.gates)
            c = torch.lerp(c, g.tanh(), nn.functional.hardsigmoid(i))
            h = nn.functional.hardsigmoid(o) * c.tanh()
        return self.head(h)


def test_an_interpolation_is_two_gates():
    evidence = measured(Coupled, "gated_recurrence")
    assert (evidence["sigmoids"], evidence["gatings"], evidence["longest"]) == (50, 75, 25)
    assert verdict("gated_recurrence", Coupled).status == "passed"


def test_one_gate_for_all_units_is_a_gate():
    class OneGate(Loop):
        def make(self):
            super().make()
            self.gate = nn.Linear(self.size, 1)

        def step(self, x, h):
            z = self.gate(h).sigmoid()
            return z * h + (1 - z) * super().step(x, h)

    decided = verdict("simple_recurrence", OneGate)
    assert decided.status == "failed"
    assert "gates" in decided.rationale


# no activation


def dropped(self, x, h):
    state = self.w(x) + self.u(h)
    state.tanh()
    return state


LINEAR = {
    "none": loop(step=lambda s, x, h: s.w(x) + s.u(h)),
    "result thrown away": loop(step=dropped),
    "on the input alone": loop(step=lambda s, x, h: s.w(x).tanh() + s.u(h)),
    "leaky": loop(step=lambda s, x, h: 0.5 * h + s.w(x) + 0.5 * s.u(h)),
    "residual": loop(step=lambda s, x, h: h + 0.1 * s.u(h) + s.w(x)),
}


@pytest.mark.parametrize("model", LINEAR.values(), ids=LINEAR)
def test_a_linear_recurrence_fails(model):
    assert measured(model)["bends"]["u.weight"] < 1e-3
    decided = verdict("simple_recurrence", model)
    assert decided.status == "failed"
    assert "use what tanh returns" in decided.hint
    assert "u.weight" in decided.rationale


@pytest.mark.parametrize("model", SIMPLE.values(), ids=SIMPLE)
def test_activations_are_far_from_the_limit(model):
    bends = measured(model)["bends"].values()
    assert bends
    assert min(bends) > 0.1


def test_fewer_steps_than_came_are_told():
    halved = layer(forward=lambda s, x: last(s, x[:, ::2] + 0 * x[:, 1:2]))
    pooled = layer(forward=lambda s, x: last(s, nn.functional.max_pool1d(x.mT, 3).mT))
    assert verdict("simple_recurrence", halved).status == "failed"
    decided = verdict("simple_recurrence", pooled)
    assert "used 7 times, but 25 steps came" in decided.rationale
    assert "at least 25 steps" in decided.hint


# what only looks like a recurrence


class Sum(Loop):
    """Each step on its own, added up; the head reads the sum at every step."""

    def forward(self, x):
        total = output = 0
        for t in range(25):
            total = total + self.w(x[:, t]).tanh()
            output = output + self.head(total)
        return output


class Within(Loop):
    """A state within each step's four positions, none from step to step."""

    def make(self):
        self.w, self.u = nn.Linear(1, self.size), nn.Linear(self.size, self.size)

    def forward(self, x):
        seen = []
        for step in x.unbind(1):
            h = self.zeros(x)
            for position in step.split(1, 1):
                h = self.step(position, h)
            seen.append(h)
        return self.head(torch.stack(seen, 1).mean(1))


class Twin(Loop):
    """A layer over all steps at once."""

    def forward(self, x):
        return self.head(self.u(self.w(x).tanh()).tanh().mean(1))


WRONG = {
    "detached, last": loop(detach=True),
    "detached, mean": loop(detach=True, mean=True),
    "reset each step, last": loop(reset=1),
    "reset each step, mean": loop(reset=1, mean=True),
    "reset every fifth step, mean": loop(reset=5, mean=True),
    "within each step": Within,
    "state not handed on": type("RNN", (Calls,), {"hand_on": False}),
    "LSTM state not handed on": type("RNN", (Calls,), {"hand_on": False, "kind": nn.LSTM}),
    "head at each step": Sum,
    "all steps at once": Twin,
    "batch_first forgotten": layer(batch_first=False),
    "batch_first forgotten, last": layer(batch_first=False, forward=last),
    "LSTM, batch_first forgotten": layer(nn.LSTM, batch_first=False),
    "first step again and again": layer(forward=lambda s, x: last(s, x[:, :1].expand(-1, 25, -1))),
    "last step alone": layer(forward=lambda s, x: last(s, x[:, -1:])),
    "without gradient": layer(forward=torch.no_grad()(last)),
    "flat": lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 30), nn.Tanh(), nn.Linear(30, 3)),
    "convolution": lambda: nn.Sequential(nn.Conv1d(25, 16, 2), nn.Tanh(), nn.Flatten(),
                                         nn.LazyLinear(3)),
    "Transformer": lambda: nn.Sequential(
        nn.Linear(4, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(),
        nn.LazyLinear(3)),
}  # fmt: skip


@pytest.mark.parametrize("check", CHECKED)
@pytest.mark.parametrize("model", WRONG.values(), ids=WRONG)
def test_what_carries_no_state_fails(model, check):
    decided = verdict(check, model)
    assert decided.status == "failed", decided
    assert "0 (at least 1)" in decided.rationale


def test_the_hint_follows_the_cause():
    assert "batch_first" in verdict("simple_recurrence", WRONG["batch_first forgotten"]).hint
    decided = verdict("simple_recurrence", WRONG["detached, mean"])
    assert "u.weight" in decided.rationale
    assert "detach()" in decided.hint


def test_more_layers_can_be_asked_for():
    for check, kind in (("simple_recurrence", nn.RNN), ("gated_recurrence", nn.LSTM)):
        two, three = (layer(kind, num_layers=n, forward=last) for n in (2, 3))
        assert verdict(check, two, layers=3).status == "failed"
        assert verdict(check, two, layers=2).status == "passed"
        assert verdict(check, three, layers=3).status == "passed"


# the numbers


def test_counts_of_an_lstm_are_those_of_its_equations():
    """At each step three sigmoids, one tanh of new content, one of the cell, three products."""
    evidence = measured(layer(nn.LSTM))
    assert evidence["uses"] == {"rnn.weight_hh_l0": 24}  # the first state is no product of data
    assert (evidence["sigmoids"], evidence["tanhs"], evidence["cells"]) == (75, 25, 25)
    assert evidence["gatings"] == 3 * 25 - 1


def test_gradients_are_those_by_hand():
    """What U is applied to last is h(T-1); its gradient for x(0) is a product of Jacobians."""
    evidence = measured(Loop)["norms"]["u.weight"]
    torch.manual_seed(SETTINGS["seed"])
    module, x = build(Loop, "RNN", [25, 4]), samples([25, 4], 3, 7).double()
    generator = torch.Generator().manual_seed(7)
    weights = torch.randn(3, Loop.size, generator=generator, dtype=torch.float64)
    norms = []
    for k in range(3):
        net = nudged(module, 7 + k).double()
        states = [torch.zeros(3, Loop.size, dtype=torch.float64)]
        with torch.no_grad():
            for t in range(24):
                states.append(net.step(x[:, t], states[-1]))
            back = weights
            for t in range(24, 0, -1):
                back = back * (1 - states[t] ** 2)
                back = back @ (net.u.weight if t > 1 else net.w.weight)
        norms.append(float(back.norm()))
    assert evidence["first"] == pytest.approx(max(norms), rel=1e-3)
    assert evidence["last"] == 0  # the last state but one has not seen the last step
    assert evidence["late"] == 0


def test_a_gradient_below_single_precision_is_no_zero():
    class Small(Loop):
        def step(self, x, h):
            return torch.tanh(self.w(x) + 1e-2 * self.u(h))

    first = measured(Small)["norms"]["u.weight"]["first"]
    assert 0 < first < 1e-38
    assert verdict("simple_recurrence", Small).status == "passed"


def test_evidence_is_small():
    assert len(json.dumps(measured(EightWeights))) < 4000


# judging


def evidence(check, uses=24, bend=0.5, **changes):
    plain = {"own": 1.0, "first": 1e-9, "middle": 0.1, "last": 0.0, "early": 1.0, "late": 0.0}
    counts = {"sigmoids": 0, "tanhs": 25, "cells": 0, "gatings": 0, "longest": 0, "rarer": 0}
    norms = {k: changes.get(k, v) for k, v in plain.items()}
    seen = {"steps": 25, "uses": {"u": uses}, "norms": {"u": norms},
            **{k: changes.get(k, v) for k, v in counts.items()}}  # fmt: skip
    return {**seen, "bends": {"u": bend}} if check == "simple_recurrence" else seen


def judged(check, **changes):
    return core.decide(CHECKS[check], SETTINGS, evidence(check, **changes)).status


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "passed"), ({"first": 1e-300}, "passed"), ({"first": 0.0}, "failed"),
        ({"own": 0.0}, "failed"), ({"middle": 0.0}, "failed"), ({"own": None}, "failed"),
        ({"first": None}, "failed"), ({"own": -1.0}, "failed"), ({"early": 0.0}, "failed"),
        ({"gatings": 12}, "passed"), ({"gatings": 13}, "failed"),
        ({"early": 0.0, "late": 1.0, "last": 0.5, "first": 0.0}, "passed"),
        ({"bend": 0.05}, "passed"), ({"bend": 0.049}, "failed"), ({"bend": None}, "passed"),
    ],
)  # fmt: skip
def test_limits_of_a_simple_recurrence(changes, status):
    assert judged("simple_recurrence", **changes) == status


LSTM = {"sigmoids": 24, "tanhs": 24, "cells": 24, "gatings": 69, "longest": 12}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "passed"), ({"sigmoids": 23}, "failed"), ({"tanhs": 23}, "failed"),
        ({"cells": 23}, "failed"), ({"gatings": 68}, "failed"), ({"own": 0.0}, "failed"),
        ({"longest": 11}, "failed"),
    ],
)  # fmt: skip
def test_limits_of_a_gated_recurrence(changes, status):
    assert judged("gated_recurrence", **LSTM | changes) == status


@pytest.mark.parametrize(
    "forged",
    [
        {"sigmoids": -1},
        {"gatings": -100},
        {"uses": -24},
        {"cells": -1},
        {"longest": -1},
        {"rarer": -1},
    ],
)
@pytest.mark.parametrize("check", CHECKED)
def test_impossible_counts_are_refused(check, forged):
    with pytest.raises(ValueError, match="negative"):
        judged(check, **forged)


def test_a_weight_without_norms_is_refused():
    with pytest.raises(KeyError):
        core.decide(
            CHECKS["simple_recurrence"], SETTINGS, {**evidence("simple_recurrence"), "norms": {}}
        )


# nothing is left behind


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_of_the_student_changes(enabled):
    model = layer(nn.LSTM)()
    model(torch.rand(2, 25, 4)).sum().backward()
    for parameter in model.head.parameters():
        parameter.requires_grad_(False)
    before = [(p.clone(), p.requires_grad, p.grad) for p in model.parameters()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    was = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = enabled
    try:
        assert verdict("gated_recurrence", model).status == "passed"
        assert torch.backends.mkldnn.enabled is enabled
    finally:
        torch.backends.mkldnn.enabled = was
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[1].tolist())
    for (value, trained, grad), p in zip(before, model.parameters(), strict=True):
        assert torch.equal(value, p)
        assert p.requires_grad is trained
        assert p.grad is grad


def test_models_made_in_double_precision_pass():
    torch.set_default_dtype(torch.float64)
    try:
        assert verdict("simple_recurrence", Loop).status == "passed"
        assert verdict("gated_recurrence", layer(nn.LSTM)).status == "passed"
        assert verdict("both_directions", layer(bidirectional=True)).status == "passed"
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("check", CHECKED)
def test_a_missing_or_broken_network(check):
    assert verdict(check, ...).status == "not_answered"
    assert verdict(check, lambda: nn.Linear(9, 9)).status == "failed"
    nan = layer(forward=lambda s, x: last(s, x * float("nan")))
    assert verdict(check, nan).status == "failed"


def test_a_state_that_is_overwritten_in_place_is_told_in_words():
    class InPlace(Loop):
        def forward(self, x):
            h = self.zeros(x)
            for t in range(25):
                h = self.step(x[:, t], h).mul_(1.0).sigmoid_()
                self.seen = h
                h.mul_(2)
            return self.head(h)

    decided = verdict("simple_recurrence", InPlace)
    assert decided.status == "failed"
    assert "x = x + 1" in decided.hint


class Stacked(nn.Module):
    """Layers whose matrices are slices of one parameter; `copies` multiplies each by 1 first."""

    layers, copies = 3, False

    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(8))
        self.stack = nn.Parameter(torch.randn(2 * self.layers - 1, 8, 8) / 4)
        self.head = nn.Linear(8, 3)

    def matrix(self, k):
        return self.stack[k] * 1 if self.copies else self.stack[k]

    def forward(self, x):
        h = [torch.zeros(len(x), 8, dtype=x.dtype) for _ in range(self.layers)]
        for t in range(x.shape[1]):
            below = self.first * x[:, t, :1]
            for k in range(self.layers):
                h[k] = torch.tanh(below + h[k] @ self.matrix(2 * k))
                if k + 1 < self.layers:
                    below = h[k] @ self.matrix(2 * k + 1)
        return self.head(h[-1])


class StackOfTwo(Stacked):
    layers = 2


def test_slices_of_one_parameter_are_weights_of_their_own():
    assert verdict("simple_recurrence", Stacked, layers=3).status == "passed"
    assert set(measured(Stacked)["uses"]) == {f"stack[{k}]" for k in range(5)}
    two = verdict("simple_recurrence", StackOfTwo, layers=3)
    assert two.status == "failed"  # the matrix between the layers makes no state of its own
    assert "stack[1]" in two.rationale


def test_copies_of_slices_count_as_one_weight():
    class Copies(Stacked):
        copies = True

    assert list(measured(Copies)["uses"]) == ["stack"]
    assert verdict("simple_recurrence", Copies).status == "passed"
