"""Does a figure show a sample of each class, under its right name?

A sample is recognised by its values, whatever offset and scale it is drawn with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from autograder.checks.core import Check, Verdict
from autograder.checks.plots import UNLABELLED, all_apart, axis_label, drawn, the_figure, written
from autograder.checks.trained import inputs_of, labels_of

Values = npt.NDArray[np.float64]
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Sample:
    """A sample that was recognised: its panel, its true class, and the name that it has there."""

    panel: int
    label: int
    name: str


@dataclass(frozen=True)
class Gallery:
    """All recognised samples, and for each panel its axis labels and the names in it."""

    samples: list[Sample]
    curves: int
    x_labels: list[str]
    y_labels: list[str]
    names: list[list[str]]


def measure_class_examples(figure: Any, *, name: str, dataset: str, tolerance: float) -> Gallery:
    """Look up each drawn curve among the samples that students have."""
    shown = the_figure(figure, name)
    known = np.concatenate([_standard(inputs_of(dataset, s).flatten(1).numpy()) for s in SPLITS])
    labels = [label for split in SPLITS for label in labels_of(dataset, split)]
    samples, count = [], 0
    for number, panel in enumerate(shown.axes):
        curves = drawn(panel)
        count += len(curves)
        for curve, said in zip(curves, _said(panel, shown, len(curves)), strict=True):
            row = _find(curve, known, tolerance)
            samples += [] if row is None else [Sample(number, labels[row], said[:100])]
    return Gallery(
        samples=samples[:100],
        curves=count,
        x_labels=[axis_label(p, shown, "x")[:100] for p in shown.axes],
        y_labels=[axis_label(p, shown, "y")[:100] for p in shown.axes],
        names=[[text[:100] for text in written(p, shown)][:20] for p in shown.axes],
    )


def _standard(rows: npt.NDArray[Any]) -> Values:
    """Each row (N, T) with mean 0 and standard deviation 1; a constant one stays at 0."""
    centred = rows.astype(np.float64) - rows.mean(1, keepdims=True)
    spread = centred.std(1, keepdims=True)
    return np.asarray(centred / np.where(spread > 0, spread, 1))


def _find(curve: list[float | None], known: Values, tolerance: float) -> int | None:
    """The row of the sample that a curve shows."""
    if len(curve) != known.shape[1] or any(value is None for value in curve):
        return None
    errors = np.abs(known - _standard(np.array([curve], dtype=np.float64))).max(1)
    return int(errors.argmin()) if errors.min() <= tolerance else None


def _said(panel: Any, figure: Figure, count: int) -> list[str]:
    """What each curve is called: its label, its entry in the legend, or its panel's title."""
    own = [str(artist.get_label()) for artist in (*panel.lines, *panel.collections)][:count]
    legend = panel.get_legend()
    texts = [text.get_text() for text in legend.get_texts()] if legend is not None else []
    title = panel.get_title() if len(figure.axes) > 1 else ""
    names = [title if label.startswith("_") else label for label in own]
    if len(texts) == count and all(label.startswith("_") for label in own):
        names = texts  # axes.legend(["first", "second"]) labels no line
    return names + [title] * (count - len(names))


def judge_class_examples(seen: Gallery, *, classes: list[str]) -> Verdict:
    """Each class is there, no sample has another class's name, and the axes have labels."""
    if missing := [c for i, c in enumerate(classes) if i not in {s.label for s in seen.samples}]:
        return Verdict(
            "failed",
            f"Of {seen.curves} curves {len(seen.samples)} are whole samples of the data; "
            f"there is none of class {' or '.join(missing)}.",
            "Draw one whole sample of each class, as it is.",
        )
    for sample in seen.samples:
        if wrong := _misnamed(sample, classes):
            return Verdict("failed", wrong, "Take the name from the sample's own label.")
    used = {sample.panel for sample in seen.samples}
    if any(not (seen.x_labels[i].strip() and seen.y_labels[i].strip()) for i in used):
        return UNLABELLED
    return all_apart({text for i in used for text in seen.names[i]}, len(classes))


def _misnamed(sample: Sample, classes: list[str]) -> str:
    mentioned = [name for name in classes if name.lower() in sample.name.lower()]
    true = classes[sample.label]
    if not mentioned or true in mentioned:
        return ""
    return f"A sample of class {true} is called {mentioned[0]}."


class_examples = Check(measure_class_examples, judge_class_examples)
