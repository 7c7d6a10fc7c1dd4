"""What a model says of samples: logits, classes and the share that is right."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from autograder.training.samples import Pair, on

_BATCH = 256  # samples at once where no recipe says otherwise: speed only


def predict(model: nn.Module, inputs: Tensor, batch_size: int = _BATCH) -> Tensor:
    """The most likely class of each sample, in eval mode; the model's mode is put back.

    Shapes:  inputs (N, ...) on any device; returns int64 (N,) on the CPU.
    Raises:  TypeError, ValueError: the model returns no logits (N, classes).
    """
    return all_logits(model, inputs, batch_size).argmax(dim=1).cpu()


def accuracy(model: nn.Module, split: Pair, batch_size: int = _BATCH) -> float:
    """The share of samples, 0 to 1, that the model classifies rightly.

    Raises:  TypeError, ValueError: data or model output of the wrong kind.
    """
    inputs, labels = on(torch.device("cpu"), split, "evaluation")
    return share_right(predict(model, inputs, batch_size), labels)


def share_right(predicted: Tensor, labels: Tensor) -> float:
    """The share of classes, 0 to 1, that equal the labels; both (N,)."""
    return int((predicted == labels).sum()) / len(labels)


def all_logits(model: nn.Module, inputs: Tensor, batch_size: int) -> Tensor:
    """Logits (N, classes) of all samples in eval mode, on the model's device."""
    weight = next(nn.Module.parameters(model), None)
    place = inputs.device if weight is None else weight.device
    with evaluating(model):
        return torch.cat(
            [logits_of(model, part.to(place)) for part in torch.split(inputs, batch_size)]
        )


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; every module gets its own mode back (a frozen one stays so)."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def logits_of(model: nn.Module, batch: Tensor) -> Tensor:
    """What the model returns for one batch, refused if it is not (batch, classes).

    Raises:  TypeError, ValueError: no tensor, or one of another shape.
    """
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
