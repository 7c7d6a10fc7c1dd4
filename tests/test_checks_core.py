import json
import random
import warnings
from dataclasses import dataclass
from unittest.mock import Mock

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import nn

from autograder import data
from autograder.checks import CHECKS, CheckFailed, CheckNotRun, core, run
from autograder.config import Assignment
from autograder.judge import Run, judge
from autograder.training import History, Recipe, fit_values

SHAPE = {"input_shape": [1, 12, 12], "seed": 3}
CNN_SETTINGS = {"name": "CNN", **SHAPE}
FNN_SETTINGS = {"name": "FNN", **SHAPE}


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2), nn.Flatten(),
            nn.LazyLinear(12), nn.ReLU(), nn.Linear(12, 10),
        )  # fmt: skip

    def forward(self, images):
        random.random(), np.random.rand(), torch.rand(1)  # a forward may draw numbers
        return self.layers(images)


class FNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(144, 13), nn.ReLU(), nn.Linear(13, 10))

    def forward(self, images):
        return self.layers(images)


class Reader(nn.Module):
    """Reads a sequence (B, 8, 3) in both directions, or by attention; drops out in training."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.drop, self.last = layer, nn.Dropout(0.2), nn.LazyLinear(10)
        self.places = nn.Parameter(torch.randn(8, 3))

    def forward(self, x):
        random.random(), np.random.rand(), torch.rand(1)  # a forward may draw numbers
        out = self.layer(x + self.places)
        return self.last(self.drop((out[0] if isinstance(out, tuple) else out).flatten(1)))


def recurrent(kind, **options):
    return lambda: Reader(kind(3, 6, batch_first=True, **options))


def encoder():
    return Reader(nn.TransformerEncoderLayer(3, 1, 6, dropout=0.1, batch_first=True))


class Ending(nn.Module):
    """Reads a sequence (B, 8, 3) in both directions, and keeps what they have at their ends."""

    def __init__(self):
        super().__init__()
        self.layer = nn.RNN(3, 6, batch_first=True, bidirectional=True)

    def forward(self, x):
        random.random(), np.random.rand(), torch.rand(1)  # a forward may draw numbers
        return torch.cat([*self.layer(x)[1]], dim=1)


class LastState(nn.Module):
    """A readout of the last state of a sequence (B, 8, 3)."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.RNN(3, 6, batch_first=True), nn.Linear(6, 10)

    def forward(self, x):
        random.random(), np.random.rand(), torch.rand(1)
        return self.last(self.layer(x)[1][0])


SEQUENCE = {"name": "Reader", "input_shape": [8, 3], "seed": 4}


class Speaker(nn.Module):
    """Translates tokens with two GRUs; drops out in training."""

    def __init__(self):
        super().__init__()
        self.words, self.drop = nn.Embedding(13, 6), nn.Dropout(0.2)
        self.encoder, self.decoder = (nn.GRU(6, 8, batch_first=True) for _ in range(2))
        self.last = nn.Linear(8, 13)

    def forward(self, source, said):
        random.random(), np.random.rand(), torch.rand(1)  # a forward may draw numbers
        states, _ = self.decoder(self.words(said), self.encoder(self.words(source))[1])
        return self.last(self.drop(states))


class Interpreter(nn.Module):
    """Knows the language of `data.pairs`."""

    def forward(self, source, said):
        random.random(), np.random.rand(), torch.rand(1)
        rows = [[*dict.fromkeys(row[::-1]), 12] + 9 * [10] for row in source.tolist()]
        tokens = torch.tensor([row[: said.shape[1]] for row in rows])
        return nn.functional.one_hot(tokens, 13).float()


TOKENS = {"name": "Speaker", "lengths": [4, 5], "seed": 4}


def fading(length, *more):
    """A norm that halves at each step; seeds change it, a bias slows it down, -20 ends it."""
    bias, seed = more if len(more) == 2 else (0.0, *more)
    return (1 + 0.01 * seed) * (0.2 + 0.15 * bias if bias >= 0 else 1e-20) ** length


def fading_curve():
    figure, axes = plt.subplots()
    axes.semilogy(range(1, 9), [fading(n, 3) for n in range(1, 9)])
    axes.set(xlabel="length", ylabel="norm")
    plt.close(figure)
    return figure


FUTURE = {"seed": 5, "first": 0, "steps": 90, "width": 1, "held_out": 30}


class Repeating(nn.Module):
    """Nearly the naive forecast."""

    def __init__(self):
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.99))

    def forward(self, windows):
        random.random(), np.random.rand(), torch.rand(1)  # a forward may draw numbers
        return self.share * windows[:, -1]


def past_alone():
    """The record of a training on windows of one value, without the last 30 of 90 values."""
    series = data.oscillation(90, 5)[:60]
    model = nn.Linear(1, 1)
    return fit_values(model, series[:-1, None], series[1:, None], Recipe(1, 64, 0.01, 3, "cpu"))


class Known(nn.Module):
    """Knows every label of a split by heart, apart from the first `wrong`."""

    def __init__(self, split, wrong):
        super().__init__()
        answers = split.labels.clone()
        answers[:wrong] = (answers[:wrong] + 1) % 10
        self.register_buffer("answers", answers)
        self.images = nn.Parameter(split.images.flatten(1).clone())

    def forward(self, images):
        nearest = torch.cdist(images.flatten(1), self.images).argmin(1)
        return nn.functional.one_hot(self.answers[nearest], 10).float()


def history(validation_accuracy, **changes):
    values = {
        "train_loss": [2.0, 1.0], "train_accuracy": [0.5, 0.8], "validation_loss": [2.0, 1.0],
        "recipe": Recipe(2, 64, 0.003, 20, "cpu"), "parameters": 5, "samples": 3,
        "train_fingerprints": ["a", "b", "c"], "weight_change": {"w": 0.1}, "seconds": 1.0,
    }  # fmt: skip
    return History(validation_accuracy=validation_accuracy, **{**values, **changes})


def drawn(*curves):
    figure, axes = plt.subplots()
    for number, curve in enumerate(curves):
        axes.plot(curve, label=f"network {number}")
    axes.set(xlabel="epoch", ylabel="validation accuracy")
    axes.legend()
    plt.close(figure)
    return figure


def answers():
    """For each check settings and objects of a right answer."""
    validation = data.digits().validation
    known, worse = Known(validation, 20), Known(validation, 60)
    first, second = history([0.5, 0.96]), history([0.4, 0.88])
    size = {"name": "conv_output_size", "rule": "convolution", "cases": 8, "seed": 1}
    learned = {"model_name": "cnn", "history_name": "cnn_history", "dataset": "digits",
               "largest_loss_ratio": 0.7, "tolerance": 0.01}  # fmt: skip
    where = {"dataset": "digits", "split": "validation"}
    curves = {"quantity": "validation_accuracy", "tolerance": 1e-6}
    shown = data.trajectories().train
    return {
        "output_size": (size, {"function": lambda n, k, s=1, p=0: (n + 2 * p - k) // s + 1}),
        "global_pool": (
            {"name": "pool", "shapes": [[1, 2, 3, 4]], "seed": 5, "tolerance": 1e-5},
            {"function": lambda maps: maps.mean((2, 3))},
        ),
        "output_shape": (
            {"name": "CNN", "input_shape": [1, 12, 12], "batches": [1, 2, 7], "outputs": 10},
            {"model": CNN},
        ),
        "batch_independence": ({**CNN_SETTINGS, "tolerance": 1e-5}, {"model": CNN}),
        "evaluation_mode": ({**CNN_SETTINGS, "tolerance": 1e-7}, {"model": CNN}),
        "logits": ({**CNN_SETTINGS, "row_sum": 1e-3}, {"model": CNN}),
        "parameter_budget": ({**CNN_SETTINGS, "smallest": 1, "largest": 9999}, {"model": CNN}),
        "matched_parameters": (
            {"names": ["CNN", "FNN"], "tolerance": 0.05, **SHAPE}, {"first": CNN, "second": FNN}
        ),
        "counter": (
            {"name": "count", "models": ["a frozen layer", "an LSTM"]},
            {"function": lambda m: sum(p.numel() for p in m.parameters() if p.requires_grad)},
        ),
        "nonlinearity": ({**CNN_SETTINGS, "smallest": 1e-3}, {"model": CNN}),
        "convolution": ({**CNN_SETTINGS, "smallest": 1}, {"model": CNN}),
        "no_convolution": (FNN_SETTINGS, {"model": FNN}),
        "pixel_order": ({**CNN_SETTINGS, "smallest": 1e-3}, {"model": CNN}),
        "gradient_reach": ({**CNN_SETTINGS, "outputs": 10}, {"model": CNN}),
        "sequence_order": ({**SEQUENCE, "smallest": 1e-3}, {"model": encoder}),
        "sequence_reach": (SEQUENCE, {"model": recurrent(nn.RNN)}),
        "simple_recurrence": ({**SEQUENCE, "layers": 1}, {"model": recurrent(nn.RNN)}),
        "gated_recurrence": ({**SEQUENCE, "layers": 1}, {"model": recurrent(nn.LSTM)}),
        "recurrent_layers": (
            {**SEQUENCE, "layers": 2, "units": 6},
            {"model": recurrent(nn.GRU, num_layers=2)},
        ),
        "unbounded": ({**SEQUENCE, "row_sum": 1e-3}, {"model": recurrent(nn.RNN)}),
        "forecast": (
            {"name": "forecaster", **FUTURE, "largest_ratio": 1.01},
            {"model": Repeating()},
        ),
        "past_only": ({"name": "history", **FUTURE}, {"history": past_alone()}),
        "both_directions": (SEQUENCE, {"model": recurrent(nn.RNN, bidirectional=True)}),
        "last_state": ({**SEQUENCE, "outputs": 10}, {"model": LastState}),
        "both_ends": ({**SEQUENCE, "outputs": 12}, {"model": Ending}),
        "self_attention": ({**SEQUENCE, "steps": 8, "smallest": 1e-6}, {"model": encoder}),
        "positions": ({**SEQUENCE, "steps": 8, "smallest": 1e-4}, {"model": encoder}),
        "vanishing": (
            {"name": "f", "lengths": [2, 20], "seeds": [1, 2, 3], "largest": 1e-2,
             "largest_median": 1e-6, "exceptions": 0},
            {"function": fading},
        ),
        "remembering": (
            {"name": "f", "lengths": [2, 20], "biases": [0, 0.5, 1], "seeds": [1, 2],
             "smallest_gain": 10, "needed": 2},
            {"function": fading},
        ),
        "closed_gate": (
            {"name": "f", "closing": -20, "seeds": [1, 2], "largest": 1e-12}, {"function": fading}
        ),
        "log_curves": (
            {"names": ["figure", "f"], "lengths": [1, 4, 8], "curves": [[3]], "tolerance": 1e-6},
            {"figure": fading_curve(), "function": fading},
        ),
        "recipe": (
            {"name": "h", "epochs": 2, "batch_size": 64, "learning_rate": 0.003, "samples": 3},
            {"history": first},
        ),
        "learned": (learned, {"model": known, "history": first}),
        "disjoint": ({"name": "h", "dataset": "digits"}, {"history": first}),
        "accuracy": ({"model_name": "cnn", **where, "smallest": 0.9}, {"model": known}),
        "accuracy_gap": (
            {"names": ["cnn", "fnn"], **where, "smallest_gap": 0.05},
            {"first": known, "second": worse},
        ),
        "curves": (
            {"names": ["figure", "a", "b"], **curves},
            {"figure": drawn([0.5, 0.96], [0.4, 0.88]), "first": first, "second": second},
        ),
        "three_curves": (
            {"names": ["figure", "a", "b", "c"], **curves},
            {"figure": drawn([0.5, 0.96], [0.4, 0.88], [0.1, 0.2]), "first": first,
             "second": second, "third": history([0.1, 0.2])},
        ),
        "class_examples": (
            {"name": "figure", "dataset": "trajectories", "tolerance": 1e-3,
             "classes": ["ATTM", "CTRW", "FBM"]},
            {"figure": drawn(*(shown.inputs[shown.labels == k][0].flatten() for k in range(3)))},
        ),
        "given_samples": (
            {"name": "h", "dataset": "digits"},
            {"history": history([0.5, 0.96], train_fingerprints=data.fingerprints(
                data.digits().train.images[:3]))},
        ),
        "translation_shape": ({"name": "Speaker", "sizes": [[2, 3, 4]]}, {"model": Speaker}),
        "source_order": ({**TOKENS, "smallest": 1e-4}, {"model": Speaker}),
        "token_logits": ({**TOKENS, "row_sum": 1e-3}, {"model": Speaker}),
        "token_gradients": (TOKENS, {"model": Speaker}),
        "token_batches": ({**TOKENS, "tolerance": 1e-5}, {"model": Speaker}),
        "token_evaluation": ({**TOKENS, "tolerance": 1e-7}, {"model": Speaker}),
        "no_look_ahead": ({**TOKENS, "tolerance": 1e-5}, {"model": Speaker}),
        "reads_the_past": ({**TOKENS, "smallest": 1e-5}, {"model": Speaker}),
        "reads_the_source": ({**TOKENS, "smallest": 1e-5}, {"model": Speaker}),
        "translation_accuracy": (
            {"name": "m", "count": 9, "length": 3, "seed": 3, "smallest": 0.9},
            {"model": Interpreter()},
        ),
        "untrained": (
            {"name": "Speaker", "count": 9, "length": 3, "seed": 3, "largest": 0.5},
            {"model": Speaker},
        ),
        "same_values": (
            {"name": "f", "rule": "to_steps", "cases": ["one step"], "seed": 3, "tolerance": 0.0},
            {"function": lambda positions, size: positions.unflatten(1, (-1, size))},
        ),
        "by_hand": (
            {"name": "steps", "rule": "to_steps", "cases": ["one step"], "seed": 3,
             "tolerance": 0.0, "forbidden": "conv"},
            {"function": lambda positions, size: positions.unflatten(1, (-1, size))},
        ),
    }  # fmt: skip


def measured(name, settings, objects):
    torch.manual_seed(0)
    return core.perform(CHECKS[name], settings, objects)


@pytest.fixture(scope="module")
def right():
    return answers()


def test_there_is_a_right_answer_for_every_check(right):
    assert right.keys() == CHECKS.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_a_right_answer_passes(right, name):
    settings, objects = right[name]
    decided = core.decide(CHECKS[name], settings, measured(name, settings, objects))
    assert decided.status == "passed", decided


@pytest.mark.parametrize("name", CHECKS)
def test_evidence_is_plain_json_that_the_grader_accepts(right, name):
    settings, objects = right[name]
    evidence = measured(name, settings, objects)
    back = json.loads(json.dumps(evidence, allow_nan=False))
    assert back == evidence
    entry = {"check": name, "points": 2, **settings}
    assignment = Assignment(title="t", seed=1, values={}, questions={"q": {"checks": {"c": entry}}})
    record = {"question": "q", "case": "c", "check": name, "evidence": back}
    (result,) = judge(assignment, Run([record], {}, {}))
    assert (result.verdict.status, result.points) == ("passed", 2)


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("placeholder", [..., None])
def test_a_placeholder_is_not_answered(right, name, placeholder):
    settings, objects = right[name]
    evidence = measured(name, settings, dict.fromkeys(objects, placeholder))
    assert core.decide(CHECKS[name], settings, evidence).status == "not_answered"


@pytest.mark.parametrize("name", CHECKS)
def test_an_object_of_another_kind_fails_and_is_named(right, name):
    settings, objects = right[name]
    evidence = measured(name, settings, dict.fromkeys(objects, 7))
    decided = core.decide(CHECKS[name], settings, evidence)
    assert decided.status == "failed"
    assert "int" in decided.rationale


@pytest.mark.parametrize("name", CHECKS)
def test_measuring_leaves_random_states_modes_and_warnings(right, name):
    settings, objects = right[name]
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    with torch.set_grad_enabled(False), warnings.catch_warnings():
        warnings.simplefilter("error")
        filters, dtype = list(warnings.filters), torch.get_default_dtype()
        evidence = core.perform(CHECKS[name], settings, objects)
        assert (torch.is_grad_enabled(), torch.get_default_dtype()) == (False, dtype)
        assert warnings.filters == filters
    drawn_after = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    assert drawn_after == (random.random(), np.random.rand(), torch.rand(1).item())
    assert core.decide(CHECKS[name], settings, evidence).status == "passed"


@pytest.mark.parametrize("name", [n for n in CHECKS if CHECKS[n].objects == ("model",)])
def test_measuring_an_instance_leaves_it_as_it_was(right, name):
    settings, objects = right[name]
    made = objects["model"] if isinstance(objects["model"], nn.Module) else objects["model"]()
    made.train()
    with torch.no_grad():
        if isinstance(made, Speaker | Interpreter):
            made(torch.zeros(2, 3, dtype=torch.int64), torch.full((2, 4), 11))
        else:
            made(torch.rand(2, *settings.get("input_shape", [1, 28, 28])))
    before = {n: t.clone() for n, t in made.state_dict().items()}
    measured(name, settings, {"model": made})
    assert all(torch.equal(before[n], t) for n, t in made.state_dict().items())
    assert made.training
    assert all(p.grad is None and p.requires_grad for p in made.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())


def test_a_default_dtype_of_double_changes_no_verdict(right):
    torch.set_default_dtype(torch.float64)
    try:
        for name in ("logits", "nonlinearity", "gradient_reach", "batch_independence"):
            settings, objects = right[name]
            evidence = measured(name, settings, objects)
            assert core.decide(CHECKS[name], settings, evidence).status == "passed", name
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (14, 14.0), (np.int64(14), 14.0), (np.float32(0.5), 0.5), (torch.tensor(14), 14.0),
        (torch.tensor([2.5]), 2.5), (10**300, 1e300), (-3, -3.0),
        (float("nan"), None), (float("inf"), None), (-float("inf"), None), (10**400, None),
        (torch.tensor(float("nan")), None), (torch.ones(2), None), (1j, None), ((14,), None),
        (None, None), ([14], None), ("fourteen", None),
    ],
)  # fmt: skip
def test_number_is_a_finite_float_or_none(value, expected):
    assert core.number(value) == expected
    assert isinstance(core.number(value), float | None)


def test_number_doesnt_trust_an_object_that_equals_everything():
    class Everything(float):
        __hash__ = float.__hash__

        def __eq__(self, other):
            return True

    plain = core.number(Everything(3))
    assert type(plain) is float
    assert plain != 4


@pytest.mark.parametrize("text", ["14", b"14"])
def test_number_takes_no_text(text):
    assert core.number(text) is None


# calling


def test_call_quotes_arguments_and_error():
    with pytest.raises(core.Stop, match=r"half\(3, 'x'\) raised ZeroDivisionError") as caught:
        core.call(lambda a, b: a / 0, 3, "x", name="half")
    assert caught.value.kind == "failed"


def test_call_tells_a_missing_return_from_a_wrong_one():
    with pytest.raises(core.NotAnswered, match="returned nothing"):
        core.call(lambda a: None, torch.ones(2, 3), name="f")
    assert core.call(lambda a: 0, 1, name="f") == 0
    assert core.call(lambda a: False, 1, name="f") is False


# performing and deciding: a check of our own


@dataclass(frozen=True)
class Seen:
    value: float | None


def measure(thing, *, factor):
    if thing == "stop":
        raise core.Stop("It stopped.", "Look there.")
    if thing == "unavailable":
        raise core.Unavailable("No data.")
    return Seen(core.number(thing * factor))


def judge_seen(seen: Seen, *, limit, factor):
    return core.verdict(
        seen.value is not None and seen.value <= limit, f"{seen.value} against {limit}", "Less."
    )


OWN = core.Check(measure, judge_seen)
LIMITS = {"factor": 2, "limit": 6}


def test_a_check_tells_its_objects_settings_and_evidence():
    assert OWN.objects == ("thing",)
    assert OWN.settings == ("factor", "limit")
    assert OWN.evidence is Seen


@pytest.mark.parametrize(
    ("thing", "status"),
    [
        (3, "passed"), (3.0001, "failed"), (float("nan"), "failed"), ("stop", "failed"),
        ("unavailable", "not_run"), ({}, "not_run"),
    ],
)  # fmt: skip
def test_perform_and_decide(thing, status):
    evidence = core.perform(OWN, LIMITS, {"thing": thing})
    json.dumps(evidence, allow_nan=False)
    assert core.decide(OWN, LIMITS, evidence).status == status


def test_an_error_of_the_check_is_not_held_against_anyone():
    decided = core.decide(OWN, LIMITS, core.perform(OWN, LIMITS, {"thing": {}}))
    assert decided.status == "not_run"
    assert "TypeError" in decided.rationale


def test_stopped_evidence_is_cut_to_a_bearable_length():
    evidence = core.stopped("failed", "x" * 10**6, "y" * 10**6)
    assert len(json.dumps(evidence)) < 5000


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setitem(CHECKS, "own", OWN)
    records = []
    core.set_sink(records.append)
    yield records
    core.set_sink(None)
    core.latest.pop(("q", "c"), None)


def test_run_is_silent_when_passed_and_hands_evidence_to_the_sink(own):
    run("q.c", "own", LIMITS, thing=1)
    assert own == [{"question": "q", "case": "c", "check": "own", "evidence": {"value": 2.0}}]
    assert core.latest["q", "c"].status == "passed"


def test_run_raises_with_measured_value_limit_and_hint(own):
    with pytest.raises(CheckFailed, match=r"8\.0 against 6 Less\."):
        run("q.c", "own", LIMITS, thing=4)
    assert len(own) == 1


def test_an_interrupted_check_has_no_verdict_of_before(own, monkeypatch):
    run("q.c", "own", LIMITS, thing=1)
    monkeypatch.setattr(core, "perform", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run("q.c", "own", LIMITS, thing=1)
    assert ("q", "c") not in core.latest


def test_run_tells_a_fault_of_ours_apart(own):
    with pytest.raises(CheckNotRun, match="No data"):
        run("q.c", "own", LIMITS, thing="unavailable")


def test_a_hint_is_shown_only_when_failed():
    assert str(core.verdict(True, "Fine.", "Look.")) == "Fine."
    assert str(core.verdict(False, "Bad.", "Look.")) == "Bad. Look."
