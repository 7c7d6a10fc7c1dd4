import json
from dataclasses import replace

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from autograder.checks import CHECKS, core
from autograder.training import History, Recipe, plot_history

SETTINGS = {"names": ["figure", "cnn_history", "fnn_history"], "quantity": "validation_accuracy",
            "tolerance": 1e-6}  # fmt: skip
CNN = History(
    train_loss=[2.0, 1.0, 0.5], train_accuracy=[0.5, 0.8, 0.9], validation_loss=[2.0, 1.0, 0.7],
    validation_accuracy=[0.81, 0.902, 0.95], recipe=Recipe(3, 64, 0.003, 20, "cpu"), parameters=5,
    samples=3, train_fingerprints=["a"], weight_change={"w": 0.1}, seconds=1.0,
)  # fmt: skip
FNN = replace(CNN, validation_accuracy=[0.7, 0.8, 0.85], train_accuracy=[0.6, 0.7, 0.75])
A, B = CNN.validation_accuracy, FNN.validation_accuracy


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def measured(figure, first=CNN, second=FNN):
    evidence = core.perform(
        CHECKS["curves"], SETTINGS, {"figure": figure, "first": first, "second": second}
    )
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(figure, **histories):
    return core.decide(CHECKS["curves"], SETTINGS, measured(figure, **histories))


def figure(first=A, second=B, *, draw="plot", labels=("CNN", "FNN"), x=(1, 2, 3), legend=True):
    made, axes = plt.subplots()
    getattr(axes, draw)(x, first, label=labels[0])
    getattr(axes, draw)(x, second, label=labels[1])
    axes.set(xlabel="epoch", ylabel="validation accuracy")
    if legend:
        axes.legend()
    return made


def with_pyplot():
    made = plt.figure(figsize=(5, 3))
    plt.plot(A, "o-", label="CNN")
    plt.plot(B, "s--", label="FNN")
    plt.xlabel("epoch"), plt.ylabel("accuracy"), plt.legend(), plt.grid(True)
    return made


def with_shared_words():
    made, axes = plt.subplots()
    axes.plot(A, label="CNN"), axes.plot(B, label="FNN")
    made.supxlabel("epoch"), made.supylabel("accuracy"), made.legend()
    return made


def with_direct_labels():
    made = figure(legend=False)
    made.axes[0].text(3, A[-1], "CNN")
    made.axes[0].annotate("FNN", (3, B[-1]))
    return made


def with_loss_beside_it():
    made, panels = plt.subplots(1, 2)
    for name, h in {"CNN": CNN, "FNN": FNN}.items():
        panels[0].plot(h.train_loss, label=name)
        panels[1].plot(h.validation_accuracy, label=name)
    for panel, quantity in zip(panels, ("loss", "accuracy"), strict=True):
        panel.set(xlabel="epoch", ylabel=quantity), panel.legend()
    return made


def with_two_panels():
    made, panels = plt.subplots(1, 2, sharey=True)
    for panel, name, curve in zip(panels, ("CNN", "FNN"), (A, B), strict=True):
        panel.plot(curve)
        panel.set(xlabel="epoch", ylabel="accuracy", title=name)
    return made


def with_more_around():
    made = figure()
    axes = made.axes[0]
    axes.fill_between((1, 2, 3), A, B, alpha=0.2), axes.axhline(0.9), axes.axvline(2)
    axes.twinx().plot((1, 2, 3), CNN.train_loss, ":")
    return made


def with_columns():
    made, axes = plt.subplots()
    axes.plot(np.array([A, B]).T, label=["CNN", "FNN"])
    axes.set(xlabel="epoch", ylabel="accuracy"), axes.legend()
    return made


RIGHT = {
    "plain": figure,
    "arrays": lambda: figure(np.array(A), np.array(B), x=np.arange(3)),
    "tensors": lambda: figure(torch.tensor(A), torch.tensor(B), x=torch.arange(3)),
    "percent": lambda: figure([100 * v for v in A], [100 * v for v in B]),
    "rounded": lambda: figure(np.round(A, 3), np.round(B, 3)),
    "scatter": lambda: figure(draw="scatter"),
    "steps": lambda: figure(draw="step"),
    "error bars": lambda: figure(draw="errorbar"),
    "words as epochs": lambda: figure(x=("first", "second", "third")),
    "pyplot": with_pyplot,
    "words of the figure": with_shared_words,
    "direct labels": with_direct_labels,
    "loss beside it": with_loss_beside_it,
    "two panels": with_two_panels,
    "more around": with_more_around,
    "columns": with_columns,
    "the kit's own": lambda: plot_history({"CNN": CNN, "FNN": FNN}),
}


@pytest.mark.parametrize("draw", RIGHT.values(), ids=RIGHT)
def test_a_right_figure_passes(draw):
    decided = verdict(draw())
    assert decided.status == "passed", decided


def without_axis_label(which, text=""):
    made = figure()
    made.axes[0].set(**{which: text})
    return made


def one_curve():
    made, axes = plt.subplots()
    axes.plot(A, label="CNN"), axes.set(xlabel="e", ylabel="a"), axes.legend()
    return made


WRONG = {
    "empty": (plt.figure, "cnn_history or fnn_history"),
    "one curve": (one_curve, "fnn_history"),
    "training accuracy": (
        lambda: figure(CNN.train_accuracy, FNN.train_accuracy),
        "cnn_history or fnn_history",
    ),
    "one is another quantity": (lambda: figure(A, FNN.train_accuracy), "curve of fnn_history"),
    "the error": (lambda: figure([1 - v for v in A], [1 - v for v in B]), "does not show"),
    "too short": (lambda: figure(A[:2], B[:2], x=(1, 2)), "does not show"),
    "reversed": (lambda: figure(A[::-1], B[::-1]), "does not show"),
    "a little off": (lambda: figure([v + 1e-5 for v in A], B), "curve of cnn_history"),
    "nan": (lambda: figure([float("nan")] * 3, B), "curve of cnn_history"),
    "no x label": (lambda: without_axis_label("xlabel"), "label"),
    "no y label": (lambda: without_axis_label("ylabel"), "label"),
    "blank label": (lambda: without_axis_label("xlabel", "  "), "label"),
    "no legend": (lambda: figure(legend=False), "told apart"),
    "one name": (lambda: figure(labels=("network", "network")), "told apart"),
}


@pytest.mark.parametrize(("draw", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_figure_fails_and_says_what_is_missing(draw, words):
    decided = verdict(draw())
    assert decided.status == "failed"
    assert words in decided.rationale


@pytest.mark.parametrize(
    ("thing", "kind"),
    [(lambda: figure().axes[0], "Axes"), (lambda: plt.plot(A), "list"), (lambda: "figure", "str")],
)
def test_what_is_no_figure_is_named(thing, kind):
    decided = verdict(thing())
    assert decided.status == "failed"
    assert kind in decided.rationale


def test_nothing_drawn_yet_is_not_answered():
    assert verdict(...).status == "not_answered"
    assert verdict(figure(), first=...).status == "not_answered"
    assert verdict(figure(), second=[0.7]).status == "failed"


def test_evidence_holds_curves_labels_and_names():
    evidence = measured(figure())
    assert evidence == {
        "panels": {"x_labels": ["epoch"], "y_labels": ["validation accuracy"], "columns": [0],
                   "rows": [0], "names": [["CNN", "FNN"]]},
        "curves": [[A, B]], "called": [[["CNN"], ["FNN"]]],
        "wanted": {"cnn_history": A, "fnn_history": B},
    }  # fmt: skip


def test_evidence_of_a_huge_figure_stays_small():
    made = figure()
    made.axes[0].plot(np.zeros(10**6), label="noise")
    assert len(json.dumps(measured(made))) < 100_000
    assert verdict(made).status == "passed"


def test_the_figure_is_left_as_it_was():
    made = figure()
    before = [line.get_xydata().copy() for line in made.axes[0].lines]
    measured(made)
    assert all(
        np.array_equal(b, line.get_xydata())
        for b, line in zip(before, made.axes[0].lines, strict=True)
    )
    assert plt.get_fignums() == [made.number]


def test_curves_given_as_words_are_no_curves():
    assert verdict(figure([str(v) for v in A], [str(v) for v in B])).status == "failed"


THREE = {"names": ["figure", "rnn_history", "lstm_history", "transformer_history"],
         "quantity": "train_loss", "tolerance": 1e-6}  # fmt: skip


def of_three(*losses, labels=("RNN", "LSTM", "Transformer")):
    made, axes = plt.subplots()
    for loss, label in zip(losses, labels, strict=False):
        axes.plot([1, 2, 3][: len(loss)], loss, label=label)
    axes.set(xlabel="epoch", ylabel="training loss"), axes.legend()
    return made


@pytest.mark.parametrize(
    ("drawn", "labels", "status"),
    [
        ((0, 1, 2), ("RNN", "LSTM", "Transformer"), "passed"),
        ((2, 0, 1), ("Transformer", "RNN", "LSTM"), "passed"),
        ((0, 1), ("RNN", "LSTM"), "failed"),
        ((0, 1, 1), ("RNN", "LSTM", "Transformer"), "failed"),
        ((0, 1, 2), ("RNN", "LSTM", "LSTM"), "failed"),
    ],
)
def test_three_curves_of_one_quantity(drawn, labels, status):
    losses = [[1.0, 0.5, 0.25], [1.1, 0.4, 0.2], [1.2, 0.3, 0.1]]
    histories = [replace(CNN, train_loss=loss) for loss in losses]
    objects = dict(zip(("first", "second", "third"), histories, strict=True))
    objects["figure"] = of_three(*(losses[i] for i in drawn), labels=labels)
    evidence = core.perform(CHECKS["three_curves"], THREE, objects)
    assert core.decide(CHECKS["three_curves"], THREE, evidence).status == status


def test_a_curve_that_is_shorter_than_its_history_does_not_count():
    loss = [1.0, 0.5, 0.25]
    objects = dict.fromkeys(("first", "second", "third"), replace(CNN, train_loss=loss))
    objects["figure"] = of_three(loss[:2], loss[:2], loss[:2])
    evidence = core.perform(CHECKS["three_curves"], THREE, objects)
    found = core.decide(CHECKS["three_curves"], THREE, evidence)
    assert found.status == "failed"
    assert "rnn_history or lstm_history or transformer_history" in found.rationale


LOSSES = [[1.0, 0.5, 0.25], [1.1, 0.4, 0.2], [1.2, 0.3, 0.1]]
NAMES = ("RNN", "LSTM", "Transformer")


def of_three_decided(made):
    histories = [replace(CNN, train_loss=loss) for loss in LOSSES]
    objects = dict(zip(("first", "second", "third"), histories, strict=True))
    evidence = core.perform(CHECKS["three_curves"], THREE, {"figure": made, **objects})
    return core.decide(CHECKS["three_curves"], THREE, json.loads(json.dumps(evidence)))


def in_a_row(names=NAMES, y_labels=("loss", "", ""), loc="center"):
    made, panels = plt.subplots(1, 3)
    for panel, loss, name, text in zip(panels, LOSSES, names, y_labels, strict=True):
        panel.plot(loss), panel.set(xlabel="epoch", ylabel=text)
        panel.set_title(name, loc=loc)
    return made


def with_handles(order, names):
    made, axes = plt.subplots()
    lines = [axes.plot(loss)[0] for loss in LOSSES]
    axes.set(xlabel="epoch", ylabel="loss")
    axes.legend([lines[i] for i in order], names)
    return made


def highlighted():
    made, panels = plt.subplots(1, 3, sharey=True)
    for k, panel in enumerate(panels):
        for i, loss in enumerate(LOSSES):
            panel.plot(loss, label=NAMES[i], linewidth=2 if i == k else 0.5)
        panel.set(title=NAMES[k], xlabel="epoch", ylabel="loss")
    panels[0].legend()  # in the other panels all curves stand below one network's title
    return made


def all_in_black(names):
    made = of_three(*LOSSES, labels=names)
    for line in made.axes[0].lines:
        line.set_color("k")
    made.axes[0].legend()
    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: of_three(*LOSSES, labels=["simple rnn", "lstm_history", "transformers"]), ""),
        (lambda: of_three(*LOSSES, labels=["a", "b", "c"]), ""),
        (lambda: of_three(*LOSSES, labels=["RNN", "LSTM, an RNN", "no RNN: Transformer"]), ""),
        (lambda: of_three(*LOSSES, labels=["recurrent", "lstmrnn", "RNNTransformer"]), ""),
        (lambda: with_handles([2, 0, 1], ["Transformer", "RNN", "LSTM"]), ""),
        (in_a_row, ""),
        (lambda: in_a_row(loc="left"), ""),
        (lambda: in_a_row(["", "", ""], [f"loss of {name}" for name in NAMES]), ""),
        (highlighted, ""),
        (lambda: all_in_black(NAMES), ""),
        (lambda: of_three(*LOSSES, labels=["Transformer", "RNN", "LSTM"]),
         "rnn_history is called transformer"),
        (lambda: of_three(*LOSSES, labels=["RNN", "the transformer", "the lstm"]),
         "lstm_history is called transformer"),
        (lambda: with_handles([2, 0, 1], NAMES), "rnn_history is called lstm"),
        (lambda: in_a_row(["LSTM", "RNN", "Transformer"]), "rnn_history is called lstm"),
        (lambda: in_a_row(["LSTM", "RNN", "Transformer"], loc="right"),
         "rnn_history is called lstm"),
        (lambda: all_in_black(["LSTM", "RNN", "Transformer"]), "rnn_history is called lstm"),
        (lambda: in_a_row(y_labels=("", "", "")), "label"),
        (lambda: in_a_row(["", "", ""]), "told apart"),
    ],
)  # fmt: skip
def test_names_are_found_wherever_they_stand(make, words):
    found = of_three_decided(make())
    assert found.status == ("failed" if words else "passed"), found
    assert words in found.rationale


def test_a_y_label_beside_the_curves_counts_only_where_it_is_theirs():
    made, (left, right) = plt.subplots(1, 2)
    left.plot([9.0, 8.0]), left.set(xlabel="epoch", ylabel="loss")
    right.plot(A, label="CNN"), right.plot(B, label="FNN")
    right.set(xlabel="epoch"), right.legend()
    assert "no label" in verdict(made).rationale
    right.set(ylabel="accuracy")
    assert verdict(made).status == "passed"
