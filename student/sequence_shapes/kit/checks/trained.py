"""The student's trained models and their histories, beside the data sets by name."""

from typing import Any

from torch import Tensor, nn

from autograder import data, training
from autograder.checks.core import Stop, Unavailable, require
from autograder.checks.models import duplicate


def history_of(history: Any, name: str) -> training.History:
    """The History that `fit` returned, under the student's name for it."""
    if not isinstance(require(history, name), training.History):
        raise Stop(
            f"{name} is a {type(history).__name__}, not the History that fit returns.",
            f"Write {name} = fit(…).",
        )
    assert isinstance(history, training.History)
    return history


def trained(model: Any, name: str) -> nn.Module:
    """A copy of the student's model, on the CPU."""
    if not isinstance(require(model, name), nn.Module):
        raise Stop(
            f"{name} is a {type(model).__name__}, not a model.",
            f"Make the model first, then train it: {name} = …()",
        )
    return duplicate(model, name)


def predictions(model: Any, inputs: Tensor, name: str) -> list[int]:
    """The class of each sample, as the model sees it."""
    try:
        classes = training.predict(trained(model, name), inputs)
    except Stop:
        raise
    except Exception as error:
        raise Stop(
            f"{name} can't predict: {type(error).__name__}: {str(error)[:500]}",
            f"Try {name} on one batch of the test set in a cell of your own.",
        ) from None
    return [int(c) for c in classes]


def inputs_of(dataset: str, split: str) -> Tensor:
    """Inputs (N, ...) of a split: "train", "validation", "test" or "hidden"."""
    try:
        if split == "hidden":
            return data.hidden_inputs(dataset)
        inputs: Tensor = getattr(data.load(dataset), split)[0]
    except data.DataUnavailable as missing:
        raise Unavailable(str(missing)) from None
    return inputs


def labels_of(dataset: str, split: str) -> list[int]:
    """Class numbers of a split. In the batch grader only the judging half can read hidden ones."""
    try:
        hidden = split == "hidden"
        labels = data.hidden_labels(dataset) if hidden else getattr(data.load(dataset), split)[1]
    except data.DataUnavailable as missing:
        raise Unavailable(str(missing)) from None
    values: list[int] = labels.tolist()
    return values
