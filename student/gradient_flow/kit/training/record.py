"""How to train, and what happened: the record that checks read and that survives as JSON."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from autograder.training.environment import DEVICES


@dataclass(frozen=True)
class Recipe:
    """How to train; the numbers come from grading.yml.

    Units:   learning_rate: the peak of the one-cycle schedule; batch_size: samples;
             device: a name for `device`.
    Raises:  ValueError: a value that cannot be trained with.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    device: str

    def __post_init__(self) -> None:
        """Refuse values that would fail later, and less clearly."""
        rules = {
            "epochs": (_is_count(self.epochs), "a whole number, at least 1"),
            "batch_size": (_is_count(self.batch_size), "a whole number, at least 1"),
            "learning_rate": (_is_number(self.learning_rate, above=0), "a number above 0"),
            "seed": (_is_count(self.seed, 0) and self.seed < 2**32, "from 0 to 2**32 - 1"),
            "device": (self.device in DEVICES, f"one of {', '.join(DEVICES)}"),
        }
        for name, (holds, rule) in rules.items():
            if not holds:
                raise ValueError(f"Recipe: {name} must be {rule}, got {getattr(self, name)!r}.")


@dataclass(frozen=True)
class History:
    """What happened in one training, one number an epoch in each list.

    `train_accuracy` is measured while the weights move, `validation_accuracy` after each epoch.

    Units:   losses in nats a sample; accuracies 0 to 1; seconds of wall-clock time.
             parameters: trainable numbers; samples: training samples;
             weight_change: ‖after − before‖ / ‖before‖ for each parameter tensor.
    """

    train_loss: list[float]
    train_accuracy: list[float]
    validation_loss: list[float]
    validation_accuracy: list[float]
    recipe: Recipe
    parameters: int
    samples: int
    train_fingerprints: list[str] = field(repr=False)  # thousands: too many to show
    weight_change: dict[str, float]
    seconds: float

    def to_json(self) -> str:
        """The history as one JSON object."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "History":
        """Read what `to_json` wrote.

        Raises:  ValueError: not JSON, or not a whole and consistent history.
        """
        try:
            record = json.loads(text)
            history = cls(**{**record, "recipe": Recipe(**record["recipe"])})
            broken = _broken_rule(history)
        except (TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"This is not a training history ({error}).") from None
        if broken:
            raise ValueError(f"This is not a training history: it lacks {broken}.")
        return history


def _broken_rule(h: History) -> str:
    """The first rule that a history read from outside breaks, or nothing."""
    curves = (h.train_loss, h.train_accuracy, h.validation_loss, h.validation_accuracy)
    changes, marks = h.weight_change, h.train_fingerprints
    rules = {
        "one number an epoch": all(
            _is_list(curve, h.recipe.epochs, _is_number) for curve in curves
        ),
        "accuracies from 0 to 1": all(
            _is_list(curve, h.recipe.epochs, _is_share) for curve in (curves[1], curves[3])
        ),
        "parameters and samples": _is_count(h.parameters) and _is_count(h.samples),
        "one fingerprint a sample": _is_list(marks, h.samples, _is_text),
        "weight changes": isinstance(changes, dict) and all(map(_is_number, changes.values())),
        "seconds": _is_number(h.seconds),
    }
    return next((rule for rule, holds in rules.items() if not holds), "")


def _is_number(value: object, above: float = -math.inf) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return above < value <= sys.float_info.max  # JSON can hold integers beyond every float


def _is_share(value: object) -> bool:
    return _is_number(value, above=-1e-9) and isinstance(value, float | int) and value <= 1


def _is_count(value: object, lowest: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_list(values: object, count: int, is_right: Callable[[object], bool]) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(is_right, values))


def _is_text(value: object) -> bool:
    return isinstance(value, str)
