"""What people look at in evidence: the curves of trainings, as the judged records tell them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, with_config

from autograder.checks.learning import Learning
from autograder.checks.plots import Drawing
from autograder.config import Assignment, CheckEntry, Question
from autograder.judge import evidence_of

QUANTITIES = {"train_loss": "training loss", "validation_accuracy": "validation accuracy"}


@dataclass(frozen=True)
class Curve:
    """One number after each epoch of a training.

    Attributes:
        network: its name in the notebook, such as "cnn".
        quantity: "training loss" (nats a sample) or "validation accuracy" (0 to 1).
        values: epoch by epoch; None where it was not finite.
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


def curves(assignment: Assignment, records: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """The curves in the evidence, each network's quantity once; what does not fit is left out."""
    found = {
        (curve.network, curve.quantity): curve
        for record in records
        if (place := _entry(assignment, record))
        for curve in _curves(*place, record.get("evidence"))
    }
    return [*found.values()]


def _entry(assignment: Assignment, record: Mapping[str, Any]) -> tuple[Question, CheckEntry] | None:
    """Question and entry of a record's case; None where grading.yml has no such case."""
    question = assignment.questions.get(str(record.get("question")))
    entry = question.checks.get(str(record.get("case"))) if question else None
    return (question, entry) if question and entry else None


def _curves(question: Question, entry: CheckEntry, evidence: Any) -> Iterator[Curve]:
    settings = {**question.settings, **entry.settings}
    seen = evidence_of(entry.check, evidence)
    if isinstance(seen, Learning):
        yield Curve(settings["model_name"], QUANTITIES["train_loss"], tuple(seen.losses))
    elif isinstance(seen, Drawing):
        quantity = QUANTITIES[settings["quantity"]]
        for history, values in seen.wanted.items():
            yield Curve(history.removesuffix("_history"), quantity, tuple(values))
