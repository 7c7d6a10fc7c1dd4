"""What people look at in evidence: curves of trainings, sizes of networks, and what they confuse.

A network goes by its name in the notebook, in lower case: `CNN` and its instance `cnn` are one.
Evidence comes from the student's process: what can't be a measurement is left out.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, with_config

from autograder import data
from autograder.checks.accuracy import Predictions
from autograder.checks.core import Unavailable
from autograder.checks.learning import Learning
from autograder.checks.parameters import Count, Pair
from autograder.checks.plots import Drawing
from autograder.checks.trained import labels_of
from autograder.config import Assignment, CheckEntry, Question
from autograder.judge import evidence_of

QUANTITIES = {"train_loss": "training loss", "validation_accuracy": "validation accuracy"}
LONGEST = 1000  # epochs of a curve, ten times those of any assignment
UNBOUNDED = 1e12  # a loss beyond it counts as not finite
LARGEST = 10**12  # parameters of a network that fits into no machine of a course


@dataclass(frozen=True)
class Curve:
    """One number after each epoch of a training.

    Attributes:
        network: its name in the notebook, such as "cnn".
        quantity: "training loss" (nats a sample) or "validation accuracy" (0 to 1).
        values: epoch by epoch; None where it was not finite, or far beyond any number that a
            training that works can have.
    """

    network: str
    quantity: str
    values: tuple[float | None, ...]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Band:
    """Lowest, middle and highest of many trainings of the reference, epoch by epoch.

    Attributes:
        network, quantity: as in `Curve`.
    """

    network: str
    quantity: str
    lowest: list[float]
    middle: list[float]
    highest: list[float]


@dataclass(frozen=True)
class Size:
    """How many trainable values a network has.

    Attributes:
        smallest, largest: what grading.yml allows: the network's budget, else the one that follows
            from the network that it has to match; None where there is neither.
    """

    network: str
    count: int
    smallest: int | None
    largest: int | None


@dataclass(frozen=True)
class Accuracy:
    """Share of right predictions of a trained network, 0 to 1."""

    network: str
    value: float


@dataclass(frozen=True)
class Confusion:
    """Which class a trained network takes for which.

    Attributes:
        question: that asked for the predictions.
        split: of the data set: "validation", "test" or "hidden".
        classes: what the class numbers mean.
        counts: samples by true class, then by predicted class. A prediction that is no class of the
            data set is in none of them.
        samples: all of them.
    """

    network: str
    question: str
    split: str
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    samples: int

    @property
    def accuracy(self) -> float:
        """Share of right predictions, 0 to 1."""
        return sum(row[place] for place, row in enumerate(self.counts)) / self.samples


Records = Sequence[Mapping[str, Any]]


def curves(assignment: Assignment, records: Records) -> list[Curve]:
    """The curves in the evidence, each network's quantity once; what does not fit is left out."""
    found = {
        (curve.network, curve.quantity): curve
        for _, settings, seen in _seen(assignment, records)
        for curve in _curves(settings, seen)
        if _plausible(curve)
    }
    return [*found.values()]


def sizes(assignment: Assignment, records: Records) -> list[Size]:
    """Parameter counts in the evidence, each network once, that of its budget before others."""
    found: dict[str, Size] = {}
    for _, settings, seen in _seen(assignment, records):
        for size in (*_of_budget(settings, seen), *_of_pair(settings, seen)):
            known = found.get(size.network)
            if known is None or isinstance(seen, Count):
                found[size.network] = size
            elif known.largest is None:
                found[size.network] = replace(size, count=known.count)
    return [*found.values()]


def accuracies(assignment: Assignment, records: Records) -> list[Accuracy]:
    """Of each network that on the set of its predictions, where labels are here, else `recorded`.

    Predictions on the hidden set come before others.
    """
    found = {one.network: one.value for one in recorded(assignment, records)}
    seen = confusions(assignment, records)
    for one in sorted(seen, key=lambda one: one.split == "hidden"):
        found[one.network] = one.accuracy
    return [Accuracy(network, value) for network, value in found.items()]


def recorded(assignment: Assignment, records: Records) -> list[Accuracy]:
    """The validation accuracy after the last epoch of each training."""
    found = {
        _lower(settings["model_name"]): seen.recorded
        for _, settings, seen in _seen(assignment, records)
        if isinstance(seen, Learning) and seen.recorded is not None and 0 <= seen.recorded <= 1
    }
    return [Accuracy(network, value) for network, value in found.items()]


def confusions(assignment: Assignment, records: Records) -> list[Confusion]:
    """The confusions in the evidence, each network and set once, where the labels are here."""
    found: dict[tuple[str, str], Confusion] = {}
    for question, settings, seen in _seen(assignment, records):
        if isinstance(seen, Predictions):
            for one in _confusions(question, settings, seen):
                found.setdefault((one.network, one.split), one)
    return [*found.values()]


def _seen(assignment: Assignment, records: Records) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Question, settings and evidence of each record that grading.yml has a case for."""
    for record in records:
        if place := _entry(assignment, record):
            question, entry = place
            settings = {**question.settings, **entry.settings}
            yield (
                str(record["question"]),
                settings,
                evidence_of(entry.check, record.get("evidence")),
            )


def _entry(assignment: Assignment, record: Mapping[str, Any]) -> tuple[Question, CheckEntry] | None:
    """Question and entry of a record's case; None where grading.yml has no such case."""
    question = assignment.questions.get(str(record.get("question")))
    entry = question.checks.get(str(record.get("case"))) if question else None
    return (question, entry) if question and entry else None


def _lower(name: str) -> str:
    return name.lower()


def _curves(settings: Mapping[str, Any], seen: Any) -> Iterator[Curve]:
    if isinstance(seen, Learning):
        network = _lower(settings["model_name"])
        yield Curve(network, QUANTITIES["train_loss"], _bounded(seen.losses))
        yield Curve(network, QUANTITIES["validation_accuracy"], _bounded(seen.accuracies))
    elif isinstance(seen, Drawing) and list(seen.wanted) == settings["names"][1:]:
        quantity = QUANTITIES[settings["quantity"]]
        for history, values in seen.wanted.items():
            yield Curve(_lower(history.removesuffix("_history")), quantity, _bounded(values))


def _bounded(values: Sequence[float | None]) -> tuple[float | None, ...]:
    return tuple(None if v is None or abs(v) > UNBOUNDED else v for v in values)


def _plausible(curve: Curve) -> bool:
    known = [value for value in curve.values if value is not None]
    inside = curve.quantity == QUANTITIES["train_loss"] or all(0 <= v <= 1 for v in known)
    return bool(known) and inside and len(curve.values) <= LONGEST


def _of_budget(settings: Mapping[str, Any], seen: Any) -> Iterator[Size]:
    if isinstance(seen, Count) and _counts_can_be([seen.unowned, *seen.tensors.values()]):
        count = seen.unowned + sum(seen.tensors.values())
        yield Size(_lower(settings["name"]), count, settings["smallest"], settings["largest"])


def _of_pair(settings: Mapping[str, Any], seen: Any) -> Iterator[Size]:
    """Of two networks the second has to match the first."""
    if isinstance(seen, Pair) and _counts_can_be([seen.first, seen.second]):
        first, second = map(_lower, settings["names"])
        room = seen.first * settings["tolerance"]
        least, most = math.ceil(seen.first - room), math.floor(seen.first + room)
        yield Size(first, seen.first, None, None)
        yield Size(second, seen.second, least, most)


def _counts_can_be(counts: Sequence[int]) -> bool:
    return min(counts) >= 0 and sum(counts) <= LARGEST


def _confusions(
    question: str, settings: Mapping[str, Any], seen: Predictions
) -> Iterator[Confusion]:
    """One for each network whose predictions are there."""
    dataset, split = settings["dataset"], settings["split"]
    names = settings["names"] if "names" in settings else [settings["model_name"]]
    try:
        labels = labels_of(dataset, split)
    except Unavailable:
        return
    if (seen.dataset, seen.split, len(seen.classes)) != (dataset, split, len(names)):
        return
    for name, predicted in zip(names, seen.classes, strict=True):
        if len(predicted) == len(labels):
            classes = _classes(dataset, labels)
            counts = _counts(labels, predicted, len(classes))
            yield Confusion(_lower(name), question, split, classes, counts, len(labels))


def _classes(dataset: str, labels: Sequence[int]) -> tuple[str, ...]:
    named = {"trajectories": data.CLASSES}
    return named.get(dataset, tuple(map(str, range(max(labels) + 1))))


def _counts(
    labels: Sequence[int], predicted: Sequence[int], classes: int
) -> tuple[tuple[int, ...], ...]:
    pairs = Counter(zip(labels, predicted, strict=True))
    return tuple(tuple(pairs[row, column] for column in range(classes)) for row in range(classes))
