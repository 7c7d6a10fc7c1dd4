import pytest
import torch
from torch import nn

from autograder.checks import CHECKS, core

SETTINGS = {"name": "Model", "input_shape": [12, 2], "outputs": 6, "seed": 5}


def verdict(check, model, **changes):
    settings = {**SETTINGS, **changes}
    return core.decide(CHECKS[check], settings, core.perform(CHECKS[check], settings,
                                                             {"model": model}))  # fmt: skip


def network(read, size=7, outputs=6, **options):
    """Recurrent layers, and a linear readout of what `read` makes of outputs and last states."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.RNN(2, 7, batch_first=True, **options)
            self.head = nn.Linear(size, outputs)

        def forward(self, x):
            return self.head(read(*self.rnn(x)))

    return Network


class Joined(nn.Module):
    """One weight for input and state together; reads the states that `read` takes."""

    read = staticmethod(lambda states: states[-1])

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.Linear(9, 7), nn.Linear(7, 6)

    def forward(self, x):
        h, states = torch.zeros(len(x), 7, dtype=x.dtype), []
        for step in x.unbind(1):
            h = torch.tanh(self.cell(torch.cat([step, h], 1)))
            states.append(h)
        return self.head(self.read(states))


class JoinedMean(Joined):
    read = staticmethod(lambda states: sum(states) / len(states))


class Orthogonal(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.RNNCell(2, 7), nn.Linear(7, 6)
        nn.utils.parametrizations.orthogonal(self.cell, "weight_hh")

    def forward(self, x):
        h = None
        for step in x.unbind(1):
            h = self.cell(step, h)
        return self.head(h)


def strong():
    model = network(lambda out, last: last[-1], num_layers=3)()
    for name, parameter in model.rnn.named_parameters():
        if "weight_hh" in name:
            parameter.data *= 4
    return model


@pytest.mark.parametrize(
    "model",
    [
        network(lambda out, last: last[-1]),
        network(lambda out, last: out[:, -1], num_layers=3),
        network(lambda out, last: last[-1], nonlinearity="relu", bias=False),
        Joined,
        Orthogonal,
        strong,
    ],
)
def test_who_reads_the_last_state_passes(model):
    decided = verdict("last_state", model)
    assert decided.status == "passed", str(decided)


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (network(lambda out, last: out.mean(1)), "steps 1, 2, 3, 4, …"),
        (network(lambda out, last: out.amax(1)), "1"),
        (network(lambda out, last: out[:, -2]), "step 11 "),
        (network(lambda out, last: out[:, 0] + last[-1]), "step 1 "),
        (network(lambda out, last: torch.cat([last[-1], 0.1 * out[:, 5]], 1), 14), "step 6 "),
        (JoinedMean, "steps 1, 2, 3, 4, …"),
    ],
)
def test_who_reads_other_states_fails(model, steps):
    decided = verdict("last_state", model)
    assert decided.status == "failed"
    assert steps in decided.rationale
    assert "h_n[-1]" in decided.hint


class Directions(nn.Module):
    """Both directions of three units, read by `read` from outputs and last states."""

    def __init__(self, read, kind=nn.RNN):
        super().__init__()
        self.rnn, self.read = kind(2, 3, batch_first=True, bidirectional=True), read

    def forward(self, x):
        return self.read(*self.rnn(x))


@pytest.mark.parametrize(
    "read",
    [
        lambda out, last: torch.cat([last[0], last[1]], 1),
        lambda out, last: torch.cat([last[1], last[0]], 1),
        lambda out, last: torch.cat([out[:, -1, :3], out[:, 0, 3:]], 1),
        lambda out, last: last.transpose(0, 1).flatten(1),
    ],
)
def test_both_ends_pass(read):
    decided = verdict("both_ends", lambda: Directions(read))
    assert decided.status == "passed", str(decided)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda out, last: out[:, -1], "output[:, 0, H:] or h_n[1]"),
        (lambda out, last: out[:, 0], "output[:, -1, :H] or h_n[0]"),
        (lambda out, last: out.mean(1), "no mean"),
        (lambda out, last: out[:, 6], "no other step"),
        (lambda out, last: out[:, 0] + out[:, -1], "side by side"),
        (lambda out, last: torch.cat([last[0], last[0] + last[1]], 1), "side by side"),
    ],
)
def test_other_states_than_the_ends_fail(read, words):
    decided = verdict("both_ends", lambda: Directions(read))
    assert decided.status == "failed"
    assert words in decided.hint


def test_gates_are_told_so():
    ends = lambda out, last: torch.cat([last[0], last[1]], 1)
    decided = verdict("both_ends", lambda: Directions(ends, nn.GRU))
    assert decided.status == "failed"
    assert "simple recurrent layer" in decided.hint


def test_another_shape_is_named():
    decided = verdict("last_state", network(lambda out, last: out))
    assert "(64, 12, 6) for 64 sequences" in decided.rationale


def test_nothing_of_the_student_changes():
    model = Orthogonal()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    verdict("last_state", model)
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())


SEEN = {"steps": 12, "reads": [[11]] * 6, "gatings": 0}
ENDS = {"steps": 12, "reads": [[11]] * 3 + [[0]] * 3, "gatings": 0}


@pytest.mark.parametrize(
    ("check", "evidence", "status"),
    [
        ("last_state", SEEN, "passed"),
        ("last_state", SEEN | {"reads": [[11]] * 5 + [[]]}, "passed"),
        ("last_state", SEEN | {"reads": [[11]] * 5 + [[10, 11]]}, "failed"),
        ("last_state", SEEN | {"gatings": 5}, "passed"),
        ("last_state", SEEN | {"gatings": 6}, "failed"),
        ("both_ends", ENDS, "passed"),
        ("both_ends", ENDS | {"reads": [[11]] * 3 + [[0]] * 2 + [[]]}, "passed"),
        ("both_ends", ENDS | {"reads": [[11]] * 4 + [[0]] * 2}, "failed"),
        ("both_ends", ENDS | {"reads": [[11]] * 3 + [[0]] * 2 + [[0, 11]]}, "failed"),
        ("both_ends", ENDS | {"gatings": 6}, "failed"),
    ],
)
def test_limits(check, evidence, status):
    assert core.decide(CHECKS[check], SETTINGS, evidence).status == status


@pytest.mark.parametrize("check", ["last_state", "both_ends"])
@pytest.mark.parametrize(
    "change", [{"reads": [[11]] * 5}, {"reads": [[12]] * 6}, {"reads": [[-1]] * 6}, {"gatings": -1}]
)
def test_impossible_evidence_is_refused(check, change):
    with pytest.raises(ValueError, match="steps that are not there"):
        core.decide(CHECKS[check], SETTINGS, SEEN | change)
