"""How well does a trained model do?

Predictions are evidence; labels are read by the judging half only, so those of the hidden set
never enter the student's process in the batch grader. Units: accuracies are fractions in [0, 1].
"""

from dataclasses import dataclass
from typing import Any

from autograder.checks.core import Check, Threshold, Verdict, verdict
from autograder.checks.trained import inputs_of, labels_of, predictions


@dataclass(frozen=True)
class Predictions:
    """Predicted classes of each model on one split."""

    classes: list[list[int]]
    dataset: str
    split: str


def measure_accuracy(model: Any, *, model_name: str, dataset: str, split: str) -> Predictions:
    """Predicted classes; `split` is "validation", "test" or "hidden"."""
    return Predictions([predictions(model, inputs_of(dataset, split), model_name)], dataset, split)


def _right(seen: Predictions, dataset: str, split: str) -> tuple[list[int], int]:
    labels = labels_of(dataset, split)
    if (seen.dataset, seen.split) != (dataset, split):
        raise ValueError("predictions on another set than was asked for")
    if any(len(classes) != len(labels) for classes in seen.classes):
        raise ValueError("not one prediction a sample")
    right = [sum(p == y for p, y in zip(c, labels, strict=True)) for c in seen.classes]
    return right, len(labels)


def _accuracy(seen: Predictions, *, dataset: str, split: str) -> float:
    (right,), total = _right(seen, dataset, split)
    return right / total


def judge_accuracy(seen: Predictions, *, smallest: float, dataset: str, split: str) -> Verdict:
    """Accuracy reaches the threshold."""
    accuracy = _accuracy(seen, dataset=dataset, split=split)
    return verdict(
        accuracy >= smallest,
        f"Accuracy on the {seen.split} set: {accuracy:.3f} (at least {smallest:.3f}).",
        "If training went well otherwise, look at the architecture: does it keep what tells the "
        "classes apart?",
    )


def measure_accuracy_gap(
    first: Any, second: Any, *, names: list[str], dataset: str, split: str
) -> Predictions:
    """Predicted classes of two models on one split."""
    inputs = inputs_of(dataset, split)
    classes = [predictions(m, inputs, n) for m, n in zip((first, second), names, strict=True)]
    return Predictions(classes, dataset, split)


def _gap(seen: Predictions, *, dataset: str, split: str) -> float:
    (won, lost), total = _right(seen, dataset, split)
    return (won - lost) / total


def judge_accuracy_gap(
    seen: Predictions, *, smallest_gap: float, dataset: str, split: str
) -> Verdict:
    """The first model is better than the second by the gap that its inductive bias gives."""
    (won, lost), total = _right(seen, dataset, split)
    first, second = won / total, lost / total
    return verdict(
        _gap(seen, dataset=dataset, split=split) >= smallest_gap,
        f"Accuracy on the {seen.split} set: {first:.3f} against {second:.3f}, a gap of "
        f"{first - second:.3f} (at least {smallest_gap:.3f}).",
        "At equal parameter counts the first network should win clearly.",
    )


accuracy = Check(measure_accuracy, judge_accuracy, Threshold("smallest", _accuracy, at_least=True))
accuracy_gap = Check(
    measure_accuracy_gap, judge_accuracy_gap, Threshold("smallest_gap", _gap, at_least=True)
)
