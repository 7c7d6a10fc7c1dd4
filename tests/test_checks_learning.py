import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from autograder import data
from autograder.checks import CHECKS, core, trained
from autograder.training import History, Recipe, fit

LEARNED = {"model_name": "cnn", "history_name": "cnn_history", "dataset": "digits",
           "largest_loss_ratio": 0.7, "tolerance": 0.01}  # fmt: skip
RECIPE = {"name": "cnn_history", "epochs": 2, "batch_size": 64, "learning_rate": 0.003,
          "samples": 3000}  # fmt: skip
ACCURACY = {"model_name": "cnn", "dataset": "digits", "split": "validation", "smallest": 0.9}
GAP = {"names": ["cnn", "fnn"], "dataset": "digits", "split": "validation", "smallest_gap": 0.01}
DISJOINT = {"name": "cnn_history", "dataset": "digits"}
VALIDATION = data.digits().validation
N = len(VALIDATION.labels)


def measured(check, settings, **objects):
    evidence = core.perform(CHECKS[check], settings, objects)
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, settings, **objects):
    return core.decide(CHECKS[check], settings, measured(check, settings, **objects))


class Known(nn.Module):
    """Knows every label of a split by heart, apart from the first `wrong` ones."""

    def __init__(self, wrong, split=VALIDATION):
        super().__init__()
        answers = split.labels.clone()
        answers[:wrong] = (answers[:wrong] + 1) % 10
        self.register_buffer("answers", answers)
        self.images = nn.Parameter(split.images.flatten(1).clone())

    def forward(self, images):
        nearest = torch.cdist(images.flatten(1), self.images).argmin(1)
        return nn.functional.one_hot(self.answers[nearest], 10).float()


HISTORY = History(
    train_loss=[2.0, 1.0], train_accuracy=[0.5, 0.8], validation_loss=[2.0, 1.0],
    validation_accuracy=[0.5, 0.96], recipe=Recipe(2, 64, 0.003, 20, "cpu"), parameters=5,
    samples=3000, train_fingerprints=data.fingerprints(data.digits().train.images),
    weight_change={"w": 0.1, "b": 0.02}, seconds=1.0,
)  # fmt: skip


def changed(**values):
    return replace(HISTORY, **values)


@pytest.mark.parametrize("check", ["recipe", "disjoint", "learned"])
@pytest.mark.parametrize("thing", [{"train_loss": [1.0]}, [1.0, 0.5], 5, History])
def test_what_fit_did_not_return_is_no_history(check, thing):
    settings = {"recipe": RECIPE, "disjoint": DISJOINT, "learned": LEARNED}[check]
    objects = {"model": Known(0)} if check == "learned" else {}
    decided = verdict(check, settings, **objects, history=thing)
    assert decided.status == "failed"
    assert "cnn_history" in decided.rationale
    assert verdict(check, settings, **objects, history=...).status == "not_answered"


# recipe


def test_the_given_recipe_passes():
    assert verdict("recipe", RECIPE, history=HISTORY).status == "passed"


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (changed(train_loss=[1.0]), ["epochs 1", "2"]),
        (changed(train_loss=[3.0, 2.0, 1.0]), ["epochs 3", "2"]),
        (changed(recipe=Recipe(2, 32, 0.003, 20, "cpu")), ["batch_size 32", "64"]),
        (changed(recipe=Recipe(2, 64, 0.01, 20, "cpu")), ["learning_rate 0.01", "0.003"]),
        (changed(samples=3500), ["samples 3500", "3000"]),
        (changed(samples=2999), ["samples 2999", "3000"]),
    ],
)
def test_another_recipe_is_named_beside_the_given_one(history, words):
    decided = verdict("recipe", RECIPE, history=history)
    assert decided.status == "failed"
    assert all(word in decided.rationale for word in words)


def test_a_seed_or_device_of_ones_own_is_allowed():
    assert verdict(
        "recipe", RECIPE, history=changed(recipe=Recipe(2, 64, 0.003, 7, "auto"))
    ).status == "passed"  # fmt: skip


# learned


def test_a_trained_network_passes():
    """Really trained, for one more epoch than nothing."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    train = data.digits().train
    history = fit(model, tuple(train), tuple(VALIDATION), Recipe(3, 64, 0.003, 20, "cpu"))
    decided = verdict("learned", LEARNED, model=model, history=history)
    assert decided.status == "passed", decided
    other = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    assert verdict("learned", LEARNED, model=other, history=history).status == "failed"


def test_accuracy_now_is_the_share_of_right_answers():
    evidence = measured("learned", LEARNED, model=Known(20), history=HISTORY)
    assert evidence["now"] == (N - 20) / N == 0.96
    assert evidence["recorded"] == evidence["accuracies"][-1] == 0.96


@pytest.mark.parametrize(
    ("wrong", "status"), [(20, "passed"), (16, "passed"), (24, "passed"), (26, "failed"),
                          (14, "failed"), (500, "failed")],
)  # fmt: skip
def test_another_model_than_the_trained_one_fails(wrong, status):
    decided = verdict("learned", LEARNED, model=Known(wrong), history=HISTORY)
    assert decided.status == status
    assert str((N - wrong) / N) in decided.rationale
    assert "0.96" in decided.rationale


@pytest.mark.parametrize(
    ("losses", "status"),
    [
        ([2.0, 1.4], "passed"), ([2.0, 1.41], "failed"), ([2.0, 9.0, 1.0], "passed"),
        ([2.0, 2.0], "failed"), ([2.0], "failed"), ([2.0, float("nan")], "failed"),
        ([float("inf"), 1.0], "failed"), ([float("nan")] * 2, "failed"),
    ],
)  # fmt: skip
def test_limit_of_the_loss(losses, status):
    decided = verdict("learned", LEARNED, model=Known(20), history=changed(train_loss=losses))
    assert decided.status == status
    if status == "failed":
        assert "70%" in decided.rationale


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([0.5, 0.45], "Make it anew"), ([1.83, 1.8], "Make it anew"),  # 0.8 ln 10 = 1.842
        ([1.85, 1.8], "does not learn"), ([float("nan"), 1.0], "does not learn"),
    ],
)  # fmt: skip
def test_a_loss_that_starts_low_and_stays_was_trained_before(losses, words):
    found = verdict("learned", LEARNED, model=Known(20), history=changed(train_loss=losses))
    assert (found.status, words in found.hint) == ("failed", True)


@pytest.mark.parametrize(
    ("change", "names"),
    [({"w": 0.1, "b": 0.0}, "b"), ({"w": 0.0, "b": 0.0}, "w, b"), ({"w": float("nan")}, "w")],
)
def test_tensors_that_did_not_change_are_named(change, names):
    decided = verdict("learned", LEARNED, model=Known(20), history=changed(weight_change=change))
    assert decided.status == "failed"
    assert f"did not change {names}." in decided.rationale


@pytest.mark.parametrize("recorded", [float("nan"), float("inf")])
def test_a_recorded_accuracy_that_is_no_number_never_passes(recorded):
    history = changed(validation_accuracy=[0.5, recorded])
    assert verdict("learned", LEARNED, model=Known(20), history=history).status == "failed"


def test_a_history_without_epochs_is_no_fault_of_ours():
    empty = changed(train_loss=[], validation_accuracy=[])
    assert verdict("learned", LEARNED, model=Known(20), history=empty).status == "failed"


@pytest.mark.parametrize("check", ["learned", "accuracy"])
@pytest.mark.parametrize(
    ("model", "status", "word"),
    [
        (nn.Linear, "failed", "cnn is a type"), (5, "failed", "int"), (..., "not_answered", "cnn"),
        (nn.Linear(5, 5), "failed", "can't predict"), (nn.LSTM(28, 10), "failed", "can't predict"),
        (nn.Flatten(0), "failed", "can't predict"),
    ],
)  # fmt: skip
def test_what_is_no_trained_model(check, model, status, word):
    settings, more = (LEARNED, {"history": HISTORY}) if check == "learned" else (ACCURACY, {})
    decided = verdict(check, settings, model=model, **more)
    assert decided.status == status
    assert word in decided.rationale


def test_a_model_that_keeps_a_graph_can_be_evaluated():
    class Keeping(Known):
        def forward(self, images):
            self.kept = images.flatten(1) @ self.images.T
            return super().forward(images)

    model = Keeping(20)
    model(VALIDATION.images[:2])
    assert verdict("accuracy", ACCURACY, model=model).status == "passed"


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(784), nn.Dropout(0.5), nn.Linear(784, 10))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    measured("learned", LEARNED, model=model.train(), history=HISTORY)
    measured("accuracy", ACCURACY, model=model)
    assert model.training
    assert all(torch.equal(before[n], v) for n, v in model.state_dict().items())


def test_dropout_is_off_when_predicting():
    model = nn.Sequential(Known(20), nn.Dropout(0.9)).train()
    assert measured("accuracy", ACCURACY, model=model)["classes"][0] == [
        int(c) for c in Known(20).answers
    ]


# disjoint


def test_the_training_set_is_disjoint():
    decided = verdict("disjoint", DISJOINT, history=HISTORY)
    assert decided.status == "passed"
    assert "3,000" in decided.rationale


@pytest.mark.parametrize(("split", "count"), [("validation", 1), ("test", 7), ("test", 500)])
def test_leaked_samples_are_counted(split, count):
    leaked = data.fingerprints(getattr(data.digits(), split).images[:count])
    history = changed(train_fingerprints=[*HISTORY.train_fingerprints, *leaked, *leaked])
    evidence = measured("disjoint", DISJOINT, history=history)
    assert evidence["shared"] == {"validation": 0, "test": 0} | {split: count}
    decided = core.decide(CHECKS["disjoint"], DISJOINT, evidence)
    assert decided.status == "failed"
    assert f"{count:,} of the {split} set" in decided.rationale


def test_no_samples_at_all_never_pass():
    assert verdict("disjoint", DISJOINT, history=changed(train_fingerprints=[])).status == "failed"


# accuracy


@pytest.mark.parametrize(("wrong", "status"), [(50, "passed"), (51, "failed"), (0, "passed"),
                                               (500, "failed")])  # fmt: skip
def test_limit_of_accuracy(wrong, status):
    decided = verdict("accuracy", ACCURACY, model=Known(wrong))
    assert decided.status == status
    assert f"{(N - wrong) / N:.3f} (at least 0.900)" in decided.rationale


@pytest.mark.parametrize("split", ["validation", "test", "hidden"])
def test_each_split_is_the_one_that_is_named(split):
    hidden = data.Split(data.hidden_inputs("digits"), data.hidden_labels("digits"))
    known = Known(0, hidden if split == "hidden" else getattr(data.digits(), split))
    decided = verdict("accuracy", {**ACCURACY, "split": split}, model=known)
    assert decided.status == "passed"
    assert f"{split} set: 1.000" in decided.rationale
    others = {"validation", "test", "hidden"} - {split}
    settings = {**ACCURACY, "split": min(others)}
    assert verdict("accuracy", settings, model=known).status == "failed"


def test_a_constant_and_a_nan_answer_get_the_share_of_one_class():
    class Constant(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value

        def forward(self, images):
            return torch.full((len(images), 10), self.value)

    for value in (0.0, float("nan")):
        decided = verdict("accuracy", ACCURACY, model=Constant(value))
        assert decided.status == "failed"
        assert "0.100" in decided.rationale  # the classes are balanced


def test_hidden_labels_are_no_part_of_the_evidence():
    evidence = measured("accuracy", {**ACCURACY, "split": "hidden"}, model=Known(0))
    assert evidence.keys() == {"classes", "dataset", "split"}
    assert len(evidence["classes"][0]) == len(data.hidden_labels("digits"))


def test_without_the_hidden_set_nobody_is_blamed(monkeypatch):
    def missing(name):
        raise data.DataUnavailable("The hidden test set is not here.")

    monkeypatch.setattr(data, "hidden_inputs", missing)
    settings = {**ACCURACY, "split": "hidden"}
    assert verdict("accuracy", settings, model=Known(0)).status == "not_run"


# accuracy_gap


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (10, 20, "passed"), (10, 15, "passed"), (11, 15, "failed"), (15, 15, "failed"),
        (20, 10, "failed"), (30, 35, "passed"), (0, 500, "passed"),
    ],
)  # fmt: skip
def test_limit_of_the_gap(first, second, status):
    """A gap of 0.01 is five of the 500 images, whatever floating point makes of it."""
    decided = verdict("accuracy_gap", GAP, first=Known(first), second=Known(second))
    assert decided.status == status, decided
    shown = [f"{(N - wrong) / N:.3f}" for wrong in (first, second)]
    assert all(number in decided.rationale for number in [*shown, "0.010"])


def test_the_gap_names_the_model_that_is_missing():
    decided = verdict("accuracy_gap", GAP, first=Known(0), second=...)
    assert decided.status == "not_answered"
    assert "fnn" in decided.rationale


def test_numpy_is_left_alone():
    np.random.seed(5)
    measured("accuracy", ACCURACY, model=Known(0))
    after = np.random.rand()
    np.random.seed(5)
    assert after == np.random.rand()


GIVEN = {"name": "cnn_history", "dataset": "digits"}
IMAGES = data.digits().train.images


@pytest.mark.parametrize(
    ("samples", "status"),
    [
        (IMAGES, "passed"),
        (IMAGES.flip(0), "passed"),
        (IMAGES.flatten(1), "passed"),
        (IMAGES[:10], "passed"),  # their number is judged by `recipe`
        (IMAGES * 2, "failed"),
        (torch.cat([IMAGES[:10], IMAGES[:10]]), "failed"),
        (torch.cat([IMAGES[:10], VALIDATION.images[:1]]), "failed"),
    ],
)
def test_only_the_given_training_samples_count_each_once(samples, status):
    history = changed(train_fingerprints=data.fingerprints(samples))
    assert verdict("given_samples", GIVEN, history=history).status == status


def test_a_history_without_samples_is_no_training_on_the_given_ones():
    found = verdict("given_samples", GIVEN, history=changed(train_fingerprints=[]))
    assert found.status == "failed"


@pytest.mark.parametrize("counts", [(5, 5, 6), (5, 6, 5), (5, -1, 5), (5, 5, -1)])
def test_impossible_counts_of_samples_are_refused(counts):
    evidence = dict(zip(("samples", "different", "known"), counts, strict=True))
    with pytest.raises(ValueError, match="counts"):
        core.decide(CHECKS["given_samples"], GIVEN, evidence)


@pytest.mark.parametrize("dataset", ["digits", "trajectories"])
@pytest.mark.parametrize("split", ["train", "validation", "test", "hidden"])
def test_each_split_of_each_data_set_has_a_label_for_each_input(dataset, split):
    assert len(trained.inputs_of(dataset, split)) == len(trained.labels_of(dataset, split)) > 0
