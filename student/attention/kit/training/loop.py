"""The given training loop: one recipe and one loop for images and for sequences."""

import math
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam
from torch.optim.lr_scheduler import OneCycleLR
from tqdm import tqdm

from autograder.data import fingerprints
from autograder.training import checkpoints
from autograder.training.environment import device
from autograder.training.evaluation import all_logits, logits_of, share_right
from autograder.training.record import History, Recipe
from autograder.training.samples import Pair, on
from autograder.training.trainable import probe, require_trainable

_TINY = 1e-12  # keeps the relative change of a tensor that starts at zero finite


def fit(model: nn.Module, train: Pair, validation: Pair, recipe: Recipe) -> History:
    """Train a classifier on cross-entropy; leaves it in eval mode on the recipe's device.

    Adam with the one-cycle schedule: the learning rate rises to `recipe.learning_rate` in the
    first 30 % of the batches and falls to almost zero in the others, while momentum goes the other
    way. So architectures that learn slowly at a constant rate need few epochs too.

    The order of the samples depends on `recipe.seed` alone. What the model itself draws (initial
    weights, dropout) comes from PyTorch's global generator: call `seed_everything` for that.

    Where a batch is graded by checkpoints, weights and History come from what was handed in; see
    `checkpoints`.

    Shapes:  inputs (N, ...), labels (N,); the model maps (B, ...) to logits (B, classes).
    Raises:  TypeError, ValueError: a model or data that cannot be trained.
             FloatingPointError: the loss became infinite or NaN.
             RuntimeError: no such device; a CheckpointError, which is one: nothing to load.
    Source:  Smith and Topin 2017, Super-Convergence, arXiv:1708.07120.
    """
    started = time.perf_counter()
    place = device(recipe.device)
    moved, held_out = on(place, train, "training"), on(place, validation, "validation")
    require_trainable(model)
    model.to(place)
    probe(model, moved[0], classes=int(max(moved[1].max(), held_out[1].max())) + 1)
    if loaded := checkpoints.handed_in(model, recipe, train[0]):
        return loaded

    weights = dict(nn.Module.named_parameters(model))
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    rows = _epochs(model, moved, held_out, recipe)
    train_loss, train_accuracy, validation_loss, validation_accuracy = (
        list(curve) for curve in zip(*rows, strict=True)
    )
    history = History(
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
    checkpoints.keep(model, history)
    return history


def _epochs(
    model: nn.Module, train: Pair, validation: Pair, recipe: Recipe
) -> list[tuple[float, float, float, float]]:
    """Train; training loss, training accuracy, validation loss, validation accuracy an epoch."""
    optimiser, schedule = _one_cycle(model, recipe, math.ceil(len(train[1]) / recipe.batch_size))
    shuffler = torch.Generator().manual_seed(recipe.seed)  # on the CPU: one order for all devices
    rows = []
    model.train()
    with tqdm(total=recipe.epochs, desc="training", unit="epoch", disable=not _watched()) as bar:
        for epoch in range(1, recipe.epochs + 1):
            order = torch.randperm(len(train[1]), generator=shuffler)
            batches = torch.split(order, recipe.batch_size)
            trained = _one_epoch(model, optimiser, schedule, train, batches)
            _require_finite(trained[0], "training", epoch)
            validated = _evaluate(model, validation, recipe.batch_size)
            _require_finite(validated[0], "validation", epoch)
            rows.append((*trained, *validated))
            bar.set_postfix_str(f"validation accuracy {validated[1]:.3f}", refresh=False)
            bar.update()
    model.eval()
    return rows


def _one_cycle(model: nn.Module, recipe: Recipe, batches: int) -> tuple[Adam, OneCycleLR]:
    """The optimiser, and the schedule that is to be stepped after every batch."""
    weights = [weight for weight in nn.Module.parameters(model) if weight.requires_grad]
    # No weight decay: it would move even a tensor that gets no gradient, and hide that fault.
    optimiser = Adam(weights, lr=recipe.learning_rate)
    # A cycle of one step would be its end, at a rate of almost zero: two steps at least.
    steps = max(2, recipe.epochs * batches)
    return optimiser, OneCycleLR(optimiser, max_lr=recipe.learning_rate, total_steps=steps)


def _one_epoch(
    model: nn.Module,
    optimiser: Adam,
    schedule: OneCycleLR,
    train: Pair,
    batches: tuple[Tensor, ...],
) -> tuple[float, float]:
    inputs, labels = train
    # Summed where the data are: reading a number back after every batch would stall a GPU.
    loss_sum = torch.zeros((), dtype=torch.float64, device=labels.device)
    right = torch.zeros((), dtype=torch.int64, device=labels.device)
    for rows in batches:
        batch, targets = inputs[rows], labels[rows]
        logits = logits_of(model, batch)
        if not logits.requires_grad:
            raise ValueError(
                "The model's output does not depend on its parameters, so nothing can be learnt. "
                "Look for detach(), no_grad(), .data or .item() in forward."
            )
        loss = functional.cross_entropy(logits, targets)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        loss_sum += loss.detach() * len(targets)
        right += (logits.detach().argmax(dim=1) == targets).sum()
    return loss_sum.item() / len(labels), right.item() / len(labels)


def _evaluate(model: nn.Module, split: Pair, batch_size: int) -> tuple[float, float]:
    inputs, labels = split
    logits = all_logits(model, inputs, batch_size)
    loss = functional.cross_entropy(logits, labels)
    return loss.item(), share_right(logits.argmax(dim=1), labels)


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
