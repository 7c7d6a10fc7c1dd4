"""Does a figure show a sample of each class, under its right name?

A sample is recognised by its values, whatever offset and scale it is drawn with.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autograder.checks.core import Check, NotAnswered, Verdict
from autograder.checks.plots import (
    Panels,
    called,
    drawn,
    mentioned,
    panels_of,
    readable,
    the_figure,
)
from autograder.checks.trained import inputs_of, labels_of

Values = npt.NDArray[np.float64]
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Sample:
    """A sample that was recognised: its panel, its true class, and texts that may name it."""

    panel: int
    label: int
    names: list[str]


@dataclass(frozen=True)
class Gallery:
    """All recognised samples, the lengths of the other curves, and what stands around them.

    `length` is the number of values of a whole sample.
    """

    length: int
    samples: list[Sample]
    others: list[int]
    panels: Panels


def measure_class_examples(figure: Any, *, name: str, dataset: str, tolerance: float) -> Gallery:
    """Look up each drawn curve among the samples that students have."""
    shown = the_figure(figure, name)
    known = np.concatenate([_standard(inputs_of(dataset, s).flatten(1).numpy()) for s in SPLITS])
    labels = [label for split in SPLITS for label in labels_of(dataset, split)]
    samples: list[Sample] = []
    others: list[int] = []
    for number, panel in enumerate(shown.axes):
        for curve, texts in zip(drawn(panel), called(panel, shown), strict=True):
            row = _find(curve, known, tolerance)
            samples += [] if row is None else [Sample(number, labels[row], texts)]
            others += [len(curve)] if row is None else []
    if not samples and not others:
        raise NotAnswered(f"{name} shows no curves yet.", "Draw one whole sample of each class.")
    return Gallery(known.shape[1], samples[:100], others[:100], panels_of(shown))


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


def judge_class_examples(seen: Gallery, *, classes: list[str]) -> Verdict:
    """Each class is there, no sample has another class's name, and the axes have labels."""
    if missing := [c for i, c in enumerate(classes) if i not in {s.label for s in seen.samples}]:
        return _missing(seen, missing)
    if wrong := _misnamed(seen.samples, classes):
        return Verdict("failed", wrong, "Take the name from the sample's own label.")
    return readable(seen.panels, {sample.panel for sample in seen.samples}, classes)


def _missing(seen: Gallery, missing: list[str]) -> Verdict:
    count = len(seen.samples) + len(seen.others)
    lengths = sorted(set(seen.others) - {seen.length})
    other = f" (others have {', '.join(map(str, lengths[:3]))} values)" if lengths else ""
    flatten = f" That is one curve of {seen.length} values: flatten the steps first."
    return Verdict(
        "failed",
        f"Of {count} curves {len(seen.samples)} are whole samples of the data{other}; "
        f"there is none of class {' or '.join(missing)}.",
        f"Draw one whole sample of each class, as it is.{flatten if lengths else ''}",
    )


def _misnamed(samples: list[Sample], classes: list[str]) -> str:
    numbers = [_number(sample.names) for sample in samples]
    counted = all(n is None or n < len(classes) for n in numbers)  # from 0, as labels are
    for sample, n in zip(samples, numbers, strict=True):
        true = classes[sample.label]
        by_number = [] if n is None or not counted else [classes[n]]
        said = mentioned(sample.names, classes) or by_number
        if said and true not in said:
            return f"A sample of class {true} is called {said[0]}."
    return ""


def _number(names: list[str]) -> int | None:
    """The class number that a name is, for instance "2" or "class 2"."""
    found = [
        re.fullmatch(r"(?:class|label)?\W*(\d{1,3})\W*", text, re.IGNORECASE) for text in names
    ]
    return next((int(match[1]) for match in found if match), None)


class_examples = Check(measure_class_examples, judge_class_examples)
