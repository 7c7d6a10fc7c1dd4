"""The given training loop: one recipe, one loop and one record for images and for sequences."""

import contextlib
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from autograder.data import fingerprints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pair = tuple[Tensor, Tensor]
"""Inputs (N, ...) float32 and labels int64 (N,): a `data.Split` or a plain tuple."""

_DEVICES = ("auto", "cpu", "cuda")
_EVALUATION_BATCH = 256  # samples at once where no recipe says otherwise: speed only
_TINY = 1e-12  # keeps the relative change of a tensor that starts at zero finite


def seed_everything(seed: int) -> None:
    """Seed random, NumPy and PyTorch (CPU and every GPU), and make cuDNN deterministic.

    Raises:  ValueError: seed outside 0 to 2**32 - 1.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def device(name: str = "auto") -> torch.device:
    """The device to train on: "auto" takes a GPU if there is one.

    The environment variable AUTOGRADER_DEVICE, if set, decides what "auto" means.

    Raises:  ValueError: unknown name. RuntimeError: "cuda" on a machine without a CUDA GPU.
    """
    origin = "AUTOGRADER_DEVICE" if name == "auto" else "device"
    if name == "auto":
        name = os.environ.get("AUTOGRADER_DEVICE") or name
    if name not in _DEVICES:
        raise ValueError(f"{origin} must be one of {', '.join(_DEVICES)}, got {name!r}.")
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise RuntimeError(
            f"{origin} is 'cuda', but PyTorch sees no CUDA GPU here. Use 'auto' or 'cpu', or "
            "install a PyTorch build with CUDA and check that nvidia-smi lists the GPU."
        )
    return torch.device(name if name != "auto" else "cuda" if has_cuda else "cpu")


@dataclass(frozen=True)
class Recipe:
    """How to train; the numbers come from grading.yml.

    Units:   learning_rate: Adam's step size; batch_size: samples; device: a name for `device`.
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
            "device": (self.device in _DEVICES, f"one of {', '.join(_DEVICES)}"),
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
    train_fingerprints: list[str]
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


def _is_count(value: object, lowest: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest


def _is_list(values: object, count: int, is_right: Callable[[object], bool]) -> bool:
    return isinstance(values, list) and len(values) == count and all(map(is_right, values))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def fit(model: nn.Module, train: Pair, validation: Pair, recipe: Recipe) -> History:
    """Train a classifier with Adam on cross-entropy; leaves it in eval mode on the recipe's device.

    The order of the samples depends on `recipe.seed` alone. What the model itself draws (initial
    weights, dropout) comes from PyTorch's global generator: call `seed_everything` for that.

    Shapes:  inputs (N, ...), labels (N,); the model maps (B, ...) to logits (B, classes).
    Raises:  TypeError, ValueError: a model or data that cannot be trained.
             FloatingPointError: the loss became infinite or NaN.
             RuntimeError: no such device.
    """
    started = time.perf_counter()
    place = device(recipe.device)
    moved, held_out = _on(place, train, "training"), _on(place, validation, "validation")
    _require_trainable(model)
    model.to(place)
    _probe(model, moved[0], classes=int(max(moved[1].max(), held_out[1].max())) + 1)

    weights = dict(nn.Module.named_parameters(model))
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    rows = _epochs(model, moved, held_out, recipe)
    train_loss, train_accuracy, validation_loss, validation_accuracy = (
        list(curve) for curve in zip(*rows, strict=True)
    )
    return History(
        train_loss=train_loss,
        train_accuracy=train_accuracy,
        validation_loss=validation_loss,
        validation_accuracy=validation_accuracy,
        recipe=recipe,
        parameters=sum(weight.numel() for weight in weights.values() if weight.requires_grad),
        samples=len(train[1]),
        train_fingerprints=fingerprints(train[0]),
        weight_change={name: _change(before[name], weight) for name, weight in weights.items()},
        seconds=time.perf_counter() - started,
    )


def predict(model: nn.Module, inputs: Tensor, batch_size: int = _EVALUATION_BATCH) -> Tensor:
    """The most likely class of each sample, in eval mode; the model's mode is put back.

    Shapes:  inputs (N, ...) on any device; returns int64 (N,) on the CPU.
    Raises:  TypeError, ValueError: the model returns no logits (N, classes).
    """
    return _all_logits(model, inputs, batch_size).argmax(dim=1).cpu()


def accuracy(model: nn.Module, split: Pair, batch_size: int = _EVALUATION_BATCH) -> float:
    """The share of samples, 0 to 1, that the model classifies rightly.

    Raises:  TypeError, ValueError: data or model output of the wrong kind.
    """
    inputs, labels = _on(torch.device("cpu"), split, "evaluation")
    return _share_right(predict(model, inputs, batch_size), labels)


def plot_history(histories: dict[str, History]) -> "Figure":
    """Loss (solid training, dashed validation) and validation accuracy over the epochs, by name.

    The figure is not pyplot's: show it as the last line of a cell, or save it with `savefig`.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4), layout="constrained")
    losses, accuracies = figure.subplots(1, 2)
    for number, (name, history) in enumerate(histories.items()):
        epochs = range(1, history.recipe.epochs + 1)
        style = {"color": f"C{number}", "marker": "."}
        losses.plot(epochs, history.train_loss, label=f"{name}, training", **style)
        losses.plot(epochs, history.validation_loss, "--", label=f"{name}, validation", **style)
        accuracies.plot(epochs, history.validation_accuracy, label=name, **style)
    for axes, quantity in ((losses, "cross-entropy loss"), (accuracies, "validation accuracy")):
        axes.set(xlabel="epoch", ylabel=quantity)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
    return figure


def _epochs(
    model: nn.Module, train: Pair, validation: Pair, recipe: Recipe
) -> list[tuple[float, float, float, float]]:
    """Train; training loss, training accuracy, validation loss, validation accuracy an epoch."""
    optimiser = torch.optim.Adam(
        [weight for weight in nn.Module.parameters(model) if weight.requires_grad],
        lr=recipe.learning_rate,
    )
    shuffler = torch.Generator().manual_seed(recipe.seed)  # on the CPU: one order for all devices
    rows = []
    model.train()
    with tqdm(total=recipe.epochs, desc="training", unit="epoch", disable=not _watched()) as bar:
        for epoch in range(1, recipe.epochs + 1):
            order = torch.randperm(len(train[1]), generator=shuffler)
            trained = _one_epoch(model, optimiser, train, torch.split(order, recipe.batch_size))
            _require_finite(trained[0], "training", epoch)
            validated = _evaluate(model, validation, recipe.batch_size)
            _require_finite(validated[0], "validation", epoch)
            rows.append((*trained, *validated))
            bar.set_postfix_str(f"validation accuracy {validated[1]:.3f}", refresh=False)
            bar.update()
    model.eval()
    return rows


def _one_epoch(
    model: nn.Module, optimiser: torch.optim.Optimizer, train: Pair, batches: tuple[Tensor, ...]
) -> tuple[float, float]:
    inputs, labels = train
    # Summed where the data are: reading a number back after every batch would stall a GPU.
    loss_sum = torch.zeros((), dtype=torch.float64, device=labels.device)
    right = torch.zeros((), dtype=torch.int64, device=labels.device)
    for rows in batches:
        batch, targets = inputs[rows], labels[rows]
        logits = _logits(model, batch)
        if not logits.requires_grad:
            raise ValueError(
                "The model's output does not depend on its parameters, so nothing can be learnt. "
                "Look for detach(), no_grad(), .data or .item() in forward."
            )
        loss = functional.cross_entropy(logits, targets)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss_sum += loss.detach() * len(targets)
        right += (logits.detach().argmax(dim=1) == targets).sum()
    return loss_sum.item() / len(labels), right.item() / len(labels)


def _evaluate(model: nn.Module, split: Pair, batch_size: int) -> tuple[float, float]:
    inputs, labels = split
    logits = _all_logits(model, inputs, batch_size)
    loss = functional.cross_entropy(logits, labels)
    return loss.item(), _share_right(logits.argmax(dim=1), labels)


def _share_right(predicted: Tensor, labels: Tensor) -> float:
    return int((predicted == labels).sum()) / len(labels)


def _all_logits(model: nn.Module, inputs: Tensor, batch_size: int) -> Tensor:
    weight = next(nn.Module.parameters(model), None)
    place = inputs.device if weight is None else weight.device
    with _evaluating(model):
        return torch.cat(
            [_logits(model, part.to(place)) for part in torch.split(inputs, batch_size)]
        )


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; every module gets its own mode back (a frozen one stays so)."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _logits(model: nn.Module, batch: Tensor) -> Tensor:
    logits = model(batch)
    if not isinstance(logits, Tensor):
        raise TypeError(
            f"The model must return one tensor of logits, got {type(logits).__name__}. "
            "An nn.LSTM or nn.RNN returns a tuple: take its first part."
        )
    if logits.ndim != 2 or len(logits) != len(batch):
        raise ValueError(
            f"The model must return logits of shape (batch, classes), here ({len(batch)}, classes)"
            f", got {tuple(logits.shape)} for inputs of shape {tuple(batch.shape)}."
        )
    return logits


def _probe(model: nn.Module, inputs: Tensor, classes: int) -> None:
    """Run two samples: fills lazy layers before the optimiser is made, and shows shapes early."""
    sample = inputs[:2]
    with _evaluating(model):
        logits = _logits(model, sample)
    if logits.shape[1] < classes:
        raise ValueError(
            f"The model must return one logit for each of the {classes} classes, expected shape "
            f"({len(sample)}, {classes}), got {tuple(logits.shape)}."
        )
    for name, weight in nn.Module.named_parameters(model):
        if nn.parameter.is_lazy(weight):
            raise ValueError(f"The lazy layer of {name!r} is never used in forward: remove it.")


def _on(place: torch.device, pair: Pair, name: str) -> Pair:
    """The pair on a device, after a look at its types and sizes."""
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(torch.is_tensor, pair))):
        raise TypeError(
            f"The {name} data must be a pair of tensors (inputs, labels), "
            f"got {type(pair).__name__}. Pass digits().train or (inputs, labels)."
        )
    inputs, labels = pair
    if labels.dtype != torch.int64 or labels.ndim != 1:
        raise TypeError(
            f"The {name} labels must be class numbers, int64 of shape (N,), "
            f"got {str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}. "
            "Use labels.long(), or labels.argmax(dim=1) if they are one-hot."
        )
    if not len(labels) or inputs.ndim == 0 or len(inputs) != len(labels):
        raise ValueError(
            f"The {name} data need one label for each sample and at least one sample, "
            f"got inputs {tuple(inputs.shape)} and labels {tuple(labels.shape)}."
        )
    if labels.min() < 0:
        raise ValueError(f"The {name} labels must be class numbers from 0, got {labels.min()}.")
    return inputs.to(place), labels.to(place)


def _require_trainable(model: object) -> None:
    if isinstance(model, type):
        raise TypeError(f"fit got the class {model.__name__}: make a model, {model.__name__}().")
    if not isinstance(model, nn.Module):
        raise TypeError(f"fit needs a torch.nn.Module, got {type(model).__name__}.")
    if not any(weight.requires_grad for weight in nn.Module.parameters(model)):
        raise ValueError(
            "The model has no trainable parameters. Are its layers attributes of the module "
            "(self.layer = ...; in a list they must be in nn.ModuleList), with requires_grad on?"
        )


def _require_finite(loss: float, name: str, epoch: int) -> None:
    if not math.isfinite(loss):
        raise FloatingPointError(
            f"The {name} loss became {loss} in epoch {epoch}, so training stopped. Try a lower "
            "learning rate, inputs in the range 0 to 1, and no log, sqrt or division that can "
            "meet a zero."
        )


def _change(before: Tensor, after: Tensor) -> float:
    moved = torch.linalg.vector_norm((after.detach() - before).double())
    return float(moved / (torch.linalg.vector_norm(before.double()) + _TINY))


def _watched() -> bool:
    """Whether someone sees the progress bar: a terminal, or a notebook with a live kernel."""
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
