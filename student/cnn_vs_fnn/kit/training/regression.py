"""The given training loop for values instead of classes: a forecast, for instance."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam
from torch.optim.lr_scheduler import OneCycleLR

from autograder.data import fingerprints
from autograder.training.environment import device
from autograder.training.record import Recipe
from autograder.training.trainable import require_trainable

LONGEST = 0.5  # norm of a gradient; without it recurrent layers with ReLU sometimes jump away


@dataclass(frozen=True)
class Regression:
    """What happened in one training on values.

    Attributes:
        loss: mean squared error of each epoch, while the weights move.
        recipe: how it was trained.
        fingerprints: of each input together with its target.
    """

    loss: list[float]
    recipe: Recipe
    fingerprints: list[str] = field(repr=False)


def fit_values(model: nn.Module, inputs: Tensor, targets: Tensor, recipe: Recipe) -> Regression:
    """Train on the mean squared error; leaves the model in eval mode on the recipe's device.

    Adam with the one-cycle schedule, as in `fit`, and gradients of norm 0.5 at most. The order of
    samples depends on `recipe.seed` alone; what the model draws comes from PyTorch itself.

    Shapes:  inputs (N, ...), targets (N, K); the model maps (B, ...) to (B, K).
    Raises:  TypeError, ValueError: a model or data that cannot be trained.
             FloatingPointError: the loss became infinite or NaN.
             RuntimeError: no such device.
    """
    _require_pairs(inputs, targets)
    require_trainable(model)
    place = device(recipe.device)
    model.to(place)
    moved = inputs.to(place), targets.to(place)
    shuffler = torch.Generator().manual_seed(recipe.seed)  # on the CPU: one order for all devices
    steps = recipe.epochs * math.ceil(len(targets) / recipe.batch_size)
    optimiser = Adam(nn.Module.parameters(model), lr=recipe.learning_rate)
    schedule = OneCycleLR(optimiser, recipe.learning_rate, total_steps=max(2, steps))
    model.train()
    losses = []
    for epoch in range(1, recipe.epochs + 1):
        order = torch.randperm(len(targets), generator=shuffler)
        losses.append(
            _epoch(model, optimiser, schedule, moved, torch.split(order, recipe.batch_size))
        )
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"The loss became {losses[-1]} in epoch {epoch}.")
    model.eval()
    return Regression(losses, recipe, pair_fingerprints(inputs, targets))


def pair_fingerprints(inputs: Tensor, targets: Tensor) -> list[str]:
    """One hash for each input (N, ...) together with its target (N, K)."""
    return fingerprints(torch.cat([inputs.flatten(1), targets.flatten(1)], dim=1))


def _require_pairs(inputs: object, targets: object) -> None:
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        raise TypeError(
            "fit_values needs two tensors, inputs and targets, got "
            f"{type(inputs).__name__} and {type(targets).__name__}."
        )
    if not inputs.ndim or targets.ndim != 2 or not 0 < len(inputs) == len(targets):
        raise ValueError(
            "fit_values needs inputs (N, ...) and targets (N, K), got "
            f"{tuple(inputs.shape)} and {tuple(targets.shape)}."
        )


def _epoch(
    model: nn.Module,
    optimiser: Adam,
    schedule: OneCycleLR,
    pairs: tuple[Tensor, Tensor],
    batches: tuple[Tensor, ...],
) -> float:
    inputs, targets = pairs
    total = 0.0
    for rows in batches:
        predicted = model(inputs[rows])
        if not isinstance(predicted, Tensor) or predicted.shape != targets[rows].shape:
            shape = tuple(getattr(predicted, "shape", ()))
            raise ValueError(
                f"The model returns a {type(predicted).__name__} of shape {shape} for a batch, "
                f"the targets have shape {tuple(targets[rows].shape)}: unequal shapes would be "
                "broadcast, and every forecast compared with every target."
            )
        loss = functional.mse_loss(predicted, targets[rows])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(nn.Module.parameters(model), LONGEST)
        optimiser.step()
        schedule.step()
        total += loss.item() * len(rows)
    return total / len(targets)
