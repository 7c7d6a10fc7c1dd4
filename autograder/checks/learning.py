"""Did the model learn, from the right data, by the common recipe, and how well?

Predictions on the hidden set are evidence; its labels are read by the judging half only, so they
never enter the student's process in the batch grader. Units: accuracies are fractions in [0, 1].
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder import data, training
from autograder.checks.core import Check, Stop, Unavailable, Verdict, number, require, verdict
from autograder.checks.models import duplicate

DATASETS = {"digits": data.digits}


def _history(history: Any, name: str) -> training.History:
    if not isinstance(require(history, name), training.History):
        raise Stop(
            f"{name} is a {type(history).__name__}, not the History that fit returns.",
            f"Write {name} = fit(…).",
        )
    assert isinstance(history, training.History)
    return history


def _trained(model: Any, name: str) -> nn.Module:
    if not isinstance(require(model, name), nn.Module):
        raise Stop(
            f"{name} is a {type(model).__name__}, not a model.",
            f"Make the model first, then train it: {name} = …()",
        )
    return duplicate(model, name)


def _predict(model: Any, inputs: Tensor, name: str) -> list[int]:
    try:
        predictions = training.predict(_trained(model, name), inputs)
    except Stop:
        raise
    except Exception as error:
        raise Stop(
            f"{name} can't predict: {type(error).__name__}: {str(error)[:500]}",
            f"Try {name} on one batch of the test set in a cell of your own.",
        ) from None
    return [int(p) for p in predictions]


def _inputs(name: str, split: str) -> Tensor:
    try:
        if split == "hidden":
            return data.hidden_images(name)
        images: Tensor = getattr(DATASETS[name](), split).images
        return images
    except data.DataUnavailable as missing:
        raise Unavailable(str(missing)) from None


def _labels(name: str, split: str) -> list[int]:
    try:
        hidden = split == "hidden"
        labels = data.hidden_labels(name) if hidden else getattr(DATASETS[name](), split).labels
        return [int(label) for label in labels]
    except data.DataUnavailable as missing:
        raise Unavailable(str(missing)) from None


@dataclass(frozen=True)
class Training:
    """Recipe and size of one training, read from its History."""

    epochs: int
    batch_size: int
    learning_rate: float
    samples: int


def measure_recipe(history: Any, *, name: str) -> Training:
    """What the History says of how the model was trained."""
    seen = _history(history, name)
    recipe = seen.recipe
    return Training(len(seen.train_loss), recipe.batch_size, recipe.learning_rate, seen.samples)


def judge_recipe(
    seen: Training, *, epochs: int, batch_size: int, learning_rate: float, samples: int
) -> Verdict:
    """Both networks are trained by one recipe, else the comparison says nothing."""
    wanted = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate,
              "samples": samples}  # fmt: skip
    wrong = [
        f"{k} {getattr(seen, k)}, expected {v}" for k, v in wanted.items() if getattr(seen, k) != v
    ]
    return verdict(
        not wrong,
        f"{'; '.join(wrong)}." if wrong else f"{epochs} epochs on {samples:,} samples.",
        "Train with the recipe and the training set as given: fit(model, digits.train, "
        "digits.validation, recipe).",
    )


@dataclass(frozen=True)
class Learning:
    """Loss of each epoch, tensors that did not change, and accuracy then and now."""

    losses: list[float | None]
    unchanged: list[str]
    recorded: float | None
    now: float | None


def measure_learned(
    model: Any, history: Any, *, model_name: str, history_name: str, dataset: str
) -> Learning:
    """Read the History, and evaluate the model again on the validation set."""
    trained, seen = _trained(model, model_name), _history(history, history_name)
    if not (seen.train_loss and seen.validation_accuracy):
        raise Stop(f"{history_name} has no epochs.", f"Write {history_name} = fit(…).")
    labels = torch.tensor(_labels(dataset, "validation"))
    predictions = torch.tensor(_predict(trained, _inputs(dataset, "validation"), model_name))
    return Learning(
        losses=[number(loss) for loss in seen.train_loss],
        unchanged=[n for n, change in seen.weight_change.items() if not change > 0],
        recorded=number(seen.validation_accuracy[-1]),
        now=number((predictions == labels).double().mean()),
    )


def judge_learned(seen: Learning, *, largest_loss_ratio: float, tolerance: float) -> Verdict:
    """Weights changed, the loss fell, and the model is the one that the History tells of."""
    if not all(0 <= (a or 0) <= 1 for a in (seen.recorded, seen.now)):
        raise ValueError("an accuracy beyond 1")
    if seen.unchanged:
        return Verdict(
            "failed",
            f"Training did not change {', '.join(seen.unchanged)}.",
            "These parameters get no gradient: look at forward.",
        )
    first, last = seen.losses[0], seen.losses[-1]
    if first is None or last is None or last > largest_loss_ratio * first:
        return Verdict(
            "failed",
            f"Training loss: {_brief(first)} in the first epoch, {_brief(last)} in the last "
            f"(at most {largest_loss_ratio:.0%} of the first).",
            "The network does not learn: check activations, and that forward returns logits.",
        )
    same = seen.recorded is not None and seen.now is not None
    rounding = 1e-9
    same = same and abs(float(seen.recorded or 0) - float(seen.now or 0)) <= tolerance + rounding
    return verdict(
        same,
        f"Loss from {first:.3g} to {last:.3g}; validation accuracy {seen.recorded} when trained, "
        f"{seen.now} now.",
        "Either this is not the model that was trained (do not make it anew after fit), or its "
        "outputs depend on the other samples of the batch.",
    )


def _brief(loss: float | None) -> str:
    return "nan" if loss is None else f"{loss:.3g}"


@dataclass(frozen=True)
class Overlap:
    """How many samples were trained on, and how many of them stand in an evaluation set."""

    samples: int
    shared: dict[str, int]


def measure_disjoint(history: Any, *, name: str, dataset: str) -> Overlap:
    """Compare finger prints of the training samples with those of validation and test set."""
    seen = set(_history(history, name).train_fingerprints)
    sets = {split: data.fingerprints(_inputs(dataset, split)) for split in ("validation", "test")}
    return Overlap(len(seen), {split: len(seen.intersection(f)) for split, f in sets.items()})


def judge_disjoint(seen: Overlap) -> Verdict:
    """No sample of the validation or test set was trained on."""
    if seen.shared.keys() != {"validation", "test"} or min(seen.shared.values()) < 0:
        raise ValueError("not the counts of both sets")
    shared = [f"{count:,} of the {split} set" for split, count in seen.shared.items() if count]
    return verdict(
        not shared and seen.samples > 0,
        f"Trained on {seen.samples:,} different samples, "
        f"{' and '.join(shared) if shared else 'none of the validation or test set'}.",
        "Train on digits.train only: accuracy on samples that were trained on says nothing.",
    )


@dataclass(frozen=True)
class Predictions:
    """Predicted classes of each model on one split."""

    classes: list[list[int]]
    dataset: str
    split: str


def measure_accuracy(model: Any, *, model_name: str, dataset: str, split: str) -> Predictions:
    """Predicted classes; `split` is "validation", "test" or "hidden"."""
    return Predictions([_predict(model, _inputs(dataset, split), model_name)], dataset, split)


def _right(seen: Predictions, dataset: str, split: str) -> tuple[list[int], int]:
    labels = _labels(dataset, split)
    if (seen.dataset, seen.split) != (dataset, split):
        raise ValueError("predictions on another set than was asked for")
    if any(len(classes) != len(labels) for classes in seen.classes):
        raise ValueError("not one prediction a sample")
    right = [sum(p == y for p, y in zip(c, labels, strict=True)) for c in seen.classes]
    return right, len(labels)


def judge_accuracy(seen: Predictions, *, smallest: float, dataset: str, split: str) -> Verdict:
    """Accuracy reaches the threshold."""
    (right,), total = _right(seen, dataset, split)
    accuracy = right / total
    return verdict(
        accuracy >= smallest,
        f"Accuracy on the {seen.split} set: {accuracy:.3f} (at least {smallest:.3f}).",
        "If training went well otherwise, look at the architecture: more channels, less pooling.",
    )


def measure_accuracy_gap(
    first: Any, second: Any, *, names: list[str], dataset: str, split: str
) -> Predictions:
    """Predicted classes of two models on one split."""
    inputs = _inputs(dataset, split)
    classes = [_predict(m, inputs, n) for m, n in zip((first, second), names, strict=True)]
    return Predictions(classes, dataset, split)


def judge_accuracy_gap(
    seen: Predictions, *, smallest_gap: float, dataset: str, split: str
) -> Verdict:
    """The first model is better than the second by the gap that its inductive bias gives."""
    (won, lost), total = _right(seen, dataset, split)
    first, second = won / total, lost / total
    return verdict(
        (won - lost) / total >= smallest_gap,
        f"Accuracy on the {seen.split} set: {first:.3f} against {second:.3f}, a gap of "
        f"{first - second:.3f} (at least {smallest_gap:.3f}).",
        "At equal parameter counts the convolutional network should win clearly.",
    )


recipe = Check(measure_recipe, judge_recipe)
learned = Check(measure_learned, judge_learned)
disjoint = Check(measure_disjoint, judge_disjoint)
accuracy = Check(measure_accuracy, judge_accuracy)
accuracy_gap = Check(measure_accuracy_gap, judge_accuracy_gap)
