"""Did the model learn, from the right data, by the common recipe?

Units: losses in nats a sample, accuracies as fractions in [0, 1].
"""

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder import data
from autograder.checks.core import Check, Stop, Threshold, Verdict, number, verdict
from autograder.checks.trained import history_of, inputs_of, labels_of, predictions, trained

LOW = 0.8  # of the loss of guessing: a network that starts below was hardly new; chooses a hint


@dataclass(frozen=True)
class Training:
    """Recipe and size of one training, read from its History."""

    epochs: int
    batch_size: int
    learning_rate: float
    samples: int


def measure_recipe(history: Any, *, name: str) -> Training:
    """What the History says of how the model was trained."""
    seen = history_of(history, name)
    recipe = seen.recipe
    return Training(len(seen.train_loss), recipe.batch_size, recipe.learning_rate, seen.samples)


def judge_recipe(
    seen: Training, *, epochs: int, batch_size: int, learning_rate: float, samples: int
) -> Verdict:
    """All networks are trained by the given recipe, else the comparison says nothing."""
    wanted = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate,
              "samples": samples}  # fmt: skip
    wrong = [
        f"{k} {getattr(seen, k)}, expected {v}" for k, v in wanted.items() if getattr(seen, k) != v
    ]
    return verdict(
        not wrong,
        f"{'; '.join(wrong)}." if wrong else f"{epochs} epochs on {samples:,} samples.",
        "Train with the recipe and the training set as given: fit(model, data.train, "
        "data.validation, recipe), with the name of your data set in place of data.",
    )


@dataclass(frozen=True)
class Learning:
    """Loss of each epoch, tensors that did not change, and accuracy then and now.

    `guessing` is the loss of equal probabilities for all classes. `accuracies`, those after each
    epoch, are for people to look at; stored evidence of an older release has none.
    """

    guessing: float
    losses: list[float | None]
    unchanged: list[str]
    recorded: float | None
    now: float | None
    accuracies: list[float | None] = field(default_factory=list)


def measure_learned(
    model: Any, history: Any, *, model_name: str, history_name: str, dataset: str
) -> Learning:
    """Read the History, and evaluate the model again on the validation set."""
    network, seen = trained(model, model_name), history_of(history, history_name)
    if not (seen.train_loss and seen.validation_accuracy):
        raise Stop(f"{history_name} has no epochs.", f"Write {history_name} = fit(…).")
    labels = torch.tensor(labels_of(dataset, "validation"))
    classes = torch.tensor(predictions(network, inputs_of(dataset, "validation"), model_name))
    return Learning(
        guessing=math.log(len(set(labels.tolist()))),
        losses=[number(loss) for loss in seen.train_loss],
        unchanged=[n for n, change in seen.weight_change.items() if not change > 0],
        recorded=number(seen.validation_accuracy[-1]),
        now=number((classes == labels).double().mean()),
        accuracies=[number(accuracy) for accuracy in seen.validation_accuracy],
    )


def _loss_ratio(seen: Learning) -> float | None:
    """The last loss as a share of the first; None where one is missing or the first is 0."""
    first, last = seen.losses[0], seen.losses[-1]
    return None if first is None or last is None or first <= 0 else last / first


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
    first, last, ratio = seen.losses[0], seen.losses[-1], _loss_ratio(seen)
    if ratio is None or ratio > largest_loss_ratio:
        return Verdict(
            "failed",
            f"Training loss: {_brief(first)} in the first epoch, {_brief(last)} in the last "
            f"(at most {largest_loss_ratio:.0%} of the first).",
            _why(first, seen.guessing),
        )
    same = seen.recorded is not None and seen.now is not None
    rounding = 1e-9
    same = same and abs(float(seen.recorded or 0) - float(seen.now or 0)) <= tolerance + rounding
    return verdict(
        same,
        f"Loss from {_brief(first)} to {_brief(last)}; validation accuracy {seen.recorded} when "
        f"trained, {seen.now} now.",
        "Either this is not the model that was trained (do not make it anew after fit), or its "
        "outputs depend on the other samples of the batch.",
    )


def _why(first: float | None, guessing: float) -> str:
    """Where to look when the loss did not fall."""
    if first is not None and first < LOW * guessing:
        return (
            "The loss starts low: this network had probably been trained before. "
            "Make it anew, then call fit once."
        )
    return "The network does not learn: check activations, and that forward returns logits."


def _brief(loss: float | None) -> str:
    return "nan" if loss is None else f"{loss:.3g}"


@dataclass(frozen=True)
class Overlap:
    """How many samples were trained on, and how many of them stand in an evaluation set."""

    samples: int
    shared: dict[str, int]


def measure_disjoint(history: Any, *, name: str, dataset: str) -> Overlap:
    """Compare finger prints of the training samples with those of validation and test set."""
    seen = set(history_of(history, name).train_fingerprints)
    sets = {split: data.fingerprints(inputs_of(dataset, split)) for split in ("validation", "test")}
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
        "Train on the training set only: accuracy on samples that were trained on says nothing.",
    )


@dataclass(frozen=True)
class Given:
    """Samples trained on, different ones among them, and those that the training set holds."""

    samples: int
    different: int
    known: int


def measure_given_samples(history: Any, *, name: str, dataset: str) -> Given:
    """Compare finger prints of the training samples with those of the given training set."""
    seen = history_of(history, name).train_fingerprints
    known = set(data.fingerprints(inputs_of(dataset, "train")))
    return Given(len(seen), len(set(seen)), sum(mark in known for mark in seen))


def judge_given_samples(seen: Given) -> Verdict:
    """Every sample is one of the given, normalised ones, and each was used once."""
    if (
        not 0 <= max(seen.different, seen.known) <= seen.samples
        or min(seen.known, seen.different) < 0
    ):
        raise ValueError("counts that can't be")
    return verdict(
        0 < seen.samples == seen.known == seen.different,
        f"{seen.known:,} of {seen.samples:,} training samples are those of the given, normalised "
        f"training set; {seen.different:,} are different from each other.",
        "Pass the training set to fit as it is: other numbers, another scale or another order "
        "within a sample make the comparison unfair.",
    )


recipe = Check(measure_recipe, judge_recipe)
learned = Check(
    measure_learned, judge_learned, Threshold("largest_loss_ratio", _loss_ratio, at_least=False)
)
given_samples = Check(measure_given_samples, judge_given_samples)
disjoint = Check(measure_disjoint, judge_disjoint)
