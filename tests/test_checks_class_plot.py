import json

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from autograder import data
from autograder.checks import CHECKS, core

SETTINGS = {"name": "examples", "dataset": "trajectories", "tolerance": 1e-3,
            "classes": list(data.CLASSES)}  # fmt: skip
TRAIN = data.trajectories(1).train
FIRST = [int((TRAIN.labels == k).nonzero()[0]) for k in range(3)]
CURVES = [TRAIN.inputs[row].flatten() for row in FIRST]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def verdict(figure):
    evidence = core.perform(CHECKS["class_examples"], SETTINGS, {"figure": figure})
    evidence = json.loads(json.dumps(evidence, allow_nan=False))
    return core.decide(CHECKS["class_examples"], SETTINGS, evidence)


def one_panel(curves=CURVES, labels=data.CLASSES, *, legend=True, axis_labels=True):
    figure, axes = plt.subplots()
    for curve, label in zip(curves, labels, strict=False):
        axes.plot(curve, label=label)
    if axis_labels:
        axes.set(xlabel="time step", ylabel="position")
    if legend:
        axes.legend()
    return figure


def three_panels(titles=data.CLASSES):
    figure, panels = plt.subplots(3, 1, sharex=True)
    for panel, curve, title in zip(panels, CURVES, titles, strict=True):
        panel.plot(curve)
        panel.set(title=title, ylabel="position")
    panels[-1].set_xlabel("time step")
    return figure


def legend_afterwards(names=data.CLASSES):
    figure, axes = plt.subplots()
    for curve in CURVES:
        axes.plot(curve)
    axes.set(xlabel="time step", ylabel="position")
    axes.legend(names)
    return figure


def points():
    figure, axes = plt.subplots()
    for curve, name in zip(CURVES, data.CLASSES, strict=True):
        axes.scatter(range(100), curve, label=name, s=3)
    axes.set(xlabel="t", ylabel="x"), axes.legend()
    return figure


def several_of_each():
    figure, axes = plt.subplots()
    for row in range(60):
        label = data.CLASSES[TRAIN.labels[row]]
        axes.plot(TRAIN.inputs[row], label=label if row in FIRST else None, alpha=0.5)
    axes.set(xlabel="t", ylabel="x")
    axes.legend()
    return figure


def handles(order, names):
    figure, axes = plt.subplots()
    lines = [axes.plot(curve)[0] for curve in CURVES]
    axes.set(xlabel="t", ylabel="x")
    axes.legend([lines[i] for i in order], names)
    return figure


def figure_legend(names):
    figure, axes = plt.subplots()
    axes.plot(np.array([curve.numpy() for curve in CURVES]).T)
    axes.set(xlabel="t", ylabel="x")
    figure.legend(names)
    return figure


def same_label(titles):
    figure = three_panels(titles)
    for panel in figure.axes:
        panel.lines[0].set_label("position")
        panel.legend()
    return figure


def texts(names):
    figure = three_panels(["", "", ""])
    for panel, name in zip(figure.axes, names, strict=True):
        panel.text(0, 0, name)
    return figure


def y_labels(names):
    figure = three_panels(["", "", ""])
    for panel, name in zip(figure.axes, names, strict=True):
        panel.set_ylabel(f"position, {name}")
    return figure


REVERSED = data.CLASSES[::-1]


RIGHT = {
    "one panel": one_panel,
    "three panels with titles": three_panels,
    "legend given afterwards": legend_afterwards,
    "points": points,
    "with offsets and another scale": lambda: one_panel(
        [2 * curve + 3 * k for k, curve in enumerate(CURVES)]
    ),
    "from the steps of four": lambda: one_panel(
        [data.trajectories().train.inputs[row].reshape(-1) for row in FIRST]
    ),
    "names of the student's own": lambda: one_panel(labels=["a", "b", "c"]),
    "names with more words": lambda: one_panel(labels=[f"class {c}" for c in data.CLASSES]),
    "from the test set": lambda: one_panel(
        [data.trajectories(1).test.inputs[data.trajectories(1).test.labels == k][0, :, 0]
         for k in range(3)]
    ),
    "several of each": several_of_each,
    "legend in another order": lambda: handles([2, 0, 1], ["FBM", "ATTM", "CTRW"]),
    "legend of the figure": lambda: figure_legend(data.CLASSES),
    "titles beside equal labels": lambda: same_label(data.CLASSES),
    "texts": lambda: texts(data.CLASSES),
    "names in y labels": lambda: y_labels(data.CLASSES),
    "class numbers": lambda: one_panel(labels=["0", "class 1", "Label: 2"]),
    "numbers from 1": lambda: one_panel(labels=["class 1", "class 2", "class 3"]),
}  # fmt: skip
WRONG = {
    "a class missing": (lambda: one_panel(CURVES[:2]), "none of class FBM"),
    "one class three times": (lambda: one_panel([CURVES[0]] * 3), "none of class CTRW or FBM"),
    "first positions only": (lambda: one_panel([c[:25] for c in CURVES]), "none of class ATTM"),
    "invented": (lambda: one_panel([c.flip(0) for c in CURVES]), "none of class"),
    "no legend": (lambda: one_panel(legend=False), "hold 0 names"),
    "no axis labels": (lambda: one_panel(axis_labels=False), "no label"),
    "swapped names": (lambda: one_panel(labels=["CTRW", "ATTM", "FBM"]), "is called CTRW"),
    "swapped titles": (lambda: three_panels(["ATTM", "FBM", "CTRW"]), "is called FBM"),
    "swapped legend": (lambda: legend_afterwards(["FBM", "CTRW", "ATTM"]), "is called FBM"),
    "swapped handles": (lambda: handles([2, 0, 1], data.CLASSES), "ATTM is called CTRW"),
    "figure legend reversed": (lambda: figure_legend(REVERSED), "ATTM is called FBM"),
    "swapped titles, equal labels": (lambda: same_label(REVERSED), "ATTM is called FBM"),
    "swapped texts": (lambda: texts(REVERSED), "ATTM is called FBM"),
    "swapped y labels": (lambda: y_labels(REVERSED), "ATTM is called FBM"),
    "swapped numbers": (lambda: one_panel(labels=["2", "1", "0"]), "ATTM is called FBM"),
    "swapped class numbers": (
        lambda: one_panel(labels=["class 0", "class 2", "class 1"]),
        "CTRW is called FBM",
    ),
    "steps as they are": (
        lambda: one_panel([c.reshape(25, 4) for c in CURVES]),
        "(others have 25 values); there is none of class ATTM or CTRW or FBM. "
        "Draw one whole sample of each class, as it is. That is one curve of "
        "100 values",
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_right_figures_pass(kind):
    found = verdict(RIGHT[kind]())
    assert found.status == "passed", found


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_figures_fail_and_say_why(kind):
    make, words = WRONG[kind]
    found = verdict(make())
    assert found.status == "failed"
    assert words in str(found)


def test_what_is_no_figure_is_refused():
    found = verdict(plt.subplots()[1])
    assert found.status == "failed"
    assert "not a matplotlib Figure" in str(found)
    assert verdict(None).status == "not_answered"


def test_an_empty_figure_is_not_answered_yet():
    assert verdict(plt.subplots(1, 3)[0]).status == "not_answered"
