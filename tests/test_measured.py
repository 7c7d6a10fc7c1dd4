"""What is read from evidence: sizes, accuracies, confusions, curves; nothing that can not be."""

import copy
import math

import numpy as np
import pytest

from autograder import data
from autograder.measured import Accuracy, Size, accuracies, confusions, curves, recorded, sizes


def record(question, case, check, **evidence):
    return {"question": question, "case": case, "check": check, "evidence": evidence}


def predictions(case, *classes, check="accuracy", dataset="digits", split="hidden"):
    return record("training", case, check, classes=list(classes), dataset=dataset, split=split)


def learned(name, losses=(1.5, 0.5), last=0.9, **more):
    return record(
        "training", f"{name}_learned", "learned", guessing=2.3, losses=list(losses), unchanged=[],
        recorded=last, now=last, **more,
    )  # fmt: skip


def budget(total=20_000, unowned=0):
    tensors = {"a": total - 10, "b": 10}
    return record("cnn", "parameter_budget", "parameter_budget", tensors=tensors, unowned=unowned)


def match(first=20_000, second=19_000):
    return record("fnn", "matched_parameters", "matched_parameters", first=first, second=second)


def drawn(**wanted):
    panels = {name: [] for name in ("x_labels", "y_labels", "columns", "rows", "names")}
    return record("comparison", "curves", "curves", panels=panels, curves=[], called=[],
                  wanted=wanted)  # fmt: skip


@pytest.fixture
def digits(grading):
    return grading.assignment("cnn_vs_fnn")


@pytest.fixture
def sequences(grading):
    return grading.assignment("sequence_models")


@pytest.fixture
def truth():
    """Hidden labels, and predictions a part of which is wrong."""
    labels = data.hidden_labels("digits").tolist()
    return labels, [9 - label if place % 7 == 0 else label for place, label in enumerate(labels)]


def test_a_network_has_its_budget_or_that_of_the_network_it_has_to_match(digits):
    assert sizes(digits, [match(), budget()]) == [
        Size("cnn", 20_000, 10_000, 25_000), Size("fnn", 19_000, 19_000, 21_000),
    ]  # fmt: skip
    assert sizes(digits, [match()])[0] == Size("cnn", 20_000, None, None)


def test_a_class_and_its_instance_are_one_network(digits):
    trained = record("training", "trained_match", "matched_parameters", first=20_000, second=19_000)
    found = [size.network for size in sizes(digits, [budget(), match(), trained])]
    assert found == ["cnn", "fnn"]


def test_values_outside_the_module_count(digits):
    assert sizes(digits, [budget(20_000, unowned=5)])[0].count == 20_005


@pytest.mark.parametrize(
    "wrong", [budget(5), budget(20_000, -1), budget(10**13), match(-1), match(10**400), match(1.5)]
)
def test_counts_that_can_not_be_are_left_out(digits, wrong):
    assert sizes(digits, [wrong]) == []


def test_accuracy_is_that_on_the_hidden_set_else_what_was_recorded(digits, truth):
    labels, predicted = truth
    seen = [
        learned("cnn", last=0.91),
        learned("fnn", last=0.8),
        predictions("cnn_accuracy", predicted),
    ]
    expected = np.mean(np.array(labels) == np.array(predicted))
    assert accuracies(digits, seen) == [
        Accuracy("cnn", pytest.approx(expected)), Accuracy("fnn", 0.8),
    ]  # fmt: skip
    assert recorded(digits, seen) == [Accuracy("cnn", 0.91), Accuracy("fnn", 0.8)]


@pytest.mark.parametrize("value", [1.01, -0.1, None, "0.9", math.nan, 10**400])
def test_an_accuracy_that_can_not_be_is_left_out(digits, value):
    assert accuracies(digits, [learned("cnn", last=value)]) == []


def test_confusions_count_true_by_predicted_class(digits, truth):
    labels, predicted = truth
    (seen,) = confusions(digits, [predictions("cnn_accuracy", predicted)])
    table = np.zeros((10, 10), int)
    np.add.at(table, (labels, predicted), 1)
    assert np.array_equal(seen.counts, table)
    assert (seen.network, seen.question, seen.split) == ("cnn", "training", "hidden")
    assert seen.classes == tuple("0123456789")
    assert seen.accuracy == pytest.approx(np.trace(table) / len(labels))


def test_both_networks_of_a_gap_once(digits, truth):
    labels, predicted = truth
    gap = predictions("gap", labels, predicted, check="accuracy_gap")
    seen = confusions(digits, [predictions("fnn_accuracy", predicted), gap])
    assert [(one.network, one.accuracy == 1) for one in seen] == [("fnn", False), ("cnn", True)]


def test_classes_have_their_names_where_the_data_set_has_them(sequences):
    labels = data.hidden_labels("trajectories").tolist()
    given = predictions("rnn_accuracy", labels, dataset="trajectories")
    (seen,) = confusions(sequences, [given])
    assert seen.classes == ("ATTM", "CTRW", "FBM")


def test_a_prediction_that_is_no_class_is_wrong_and_in_no_place(digits, truth):
    labels, _ = truth
    (seen,) = confusions(digits, [predictions("cnn_accuracy", [10, -1, *labels[2:]])])
    assert np.sum(seen.counts) == len(labels) - 2
    assert seen.accuracy == pytest.approx(1 - 2 / len(labels))


@pytest.mark.parametrize(
    "wrong",
    [{"split": "test"}, {"dataset": "trajectories"}, {"classes": [[1, 2]]}, {"classes": []},
     {"classes": [[1.5]]}, {"more": 1}],
)  # fmt: skip
def test_predictions_on_something_else_are_left_out(digits, truth, wrong):
    given = predictions("cnn_accuracy", truth[0])
    given["evidence"] |= wrong
    assert confusions(digits, [given]) == []


def test_without_the_hidden_set_there_is_no_confusion(digits, truth, monkeypatch):
    def missing(name):
        raise data.DataUnavailable("not here")

    monkeypatch.setattr(data, "hidden_labels", missing)
    seen = [learned("cnn"), predictions("cnn_accuracy", truth[0])]
    assert confusions(digits, seen) == []
    assert accuracies(digits, seen) == [Accuracy("cnn", 0.9)]


def test_curves_come_from_trainings_and_drawings(digits):
    seen = [learned("cnn"), drawn(cnn_history=[0.5, 0.9], fnn_history=[0.4, None])]
    assert [(c.network, c.quantity, c.values) for c in curves(digits, seen)] == [
        ("cnn", "training loss", (1.5, 0.5)),
        ("cnn", "validation accuracy", (0.5, 0.9)),
        ("fnn", "validation accuracy", (0.4, None)),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        learned("cnn", [None, None]), learned("cnn", []), learned("cnn", [1.0] * 1001),
        drawn(cnn_history=[1.5], fnn_history=[-0.5]), drawn(cnn_history=[0.5]),
        drawn(**{"<script>": [0.5], "fnn_history": [0.5]}),
    ],
)  # fmt: skip
def test_curves_that_can_not_be_are_left_out(digits, wrong):
    assert curves(digits, [wrong]) == []


def test_a_loss_beyond_all_bounds_counts_as_not_finite(digits):
    (seen,) = curves(digits, [learned("cnn", [1.0, 1e300, 0.5])])
    assert seen.values == (1.0, None, 0.5)


@pytest.mark.parametrize("read", [sizes, accuracies, confusions, curves])
@pytest.mark.parametrize(
    "change",
    [{"question": "nowhere"}, {"case": "nowhere"}, {"question": None}, {"evidence": None},
     {"evidence": {"stopped": {"kind": "failed", "rationale": "x", "hint": ""}}}, {"evidence": []}],
)  # fmt: skip
def test_records_that_fit_nothing_are_left_out(digits, truth, read, change):
    whole = [budget(), match(), learned("cnn"), predictions("cnn_accuracy", truth[0])]
    assert read(digits, whole)
    assert read(digits, [copy.deepcopy(one) | change for one in whole]) == []


def test_the_check_is_that_of_grading_yml_whatever_a_record_says(digits):
    assert sizes(digits, [budget() | {"check": "accuracy"}]) != []
    assert sizes(digits, [learned("cnn") | {"check": "parameter_budget"}]) == []


def test_a_training_has_its_accuracies_where_its_evidence_holds_them(sequences):
    """Evidence of older releases holds the last one alone."""
    seen = [learned("rnn", accuracies=[0.5, 0.9]), learned("lstm")]
    assert [(c.network, c.values) for c in curves(sequences, seen)] == [
        ("rnn", (1.5, 0.5)), ("rnn", (0.5, 0.9)), ("lstm", (1.5, 0.5)),
    ]  # fmt: skip
    impossible = learned("rnn", accuracies=[0.5, 1.1])
    assert [c.quantity for c in curves(sequences, [impossible])] == ["training loss"]
