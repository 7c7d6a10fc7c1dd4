"""Train models many times over and print what accuracies they get, as tables for the record."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from autograder import data
from autograder.training import Recipe, accuracy, fit, seed_everything

P = 1e-3  # probability that one more right training falls below the bound
COLUMNS = "n | mean | sd | min | max | bound | threshold | P(below) | below"

Models = dict[str, tuple[int, Callable[[], nn.Module]]]
"""Number of seeds, and how to make the model, for each name."""


@dataclass(frozen=True)
class Measured:
    """One number a training: hidden accuracy, last / first training loss, and CPU seconds."""

    accuracy: np.ndarray
    loss_ratio: np.ndarray
    seconds: np.ndarray
    parameters: int


def measure(
    make: Callable[[], nn.Module], seeds: int, dataset: str, numbers: dict[str, Any]
) -> Measured:
    """Train once a seed on the CPU; `numbers` are epochs, batch_size and learning_rate.

    Seed s (0, 1, ...) seeds the weights and the shuffling.
    """
    given, hidden = data.load(dataset), (data.hidden_inputs(dataset), data.hidden_labels(dataset))
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        seed_everything(seed)
        model = make()
        recipe = Recipe(**numbers, seed=seed, device="cpu")
        history = fit(model, given.train, given.validation, recipe)
        seconds = time.process_time() - started
        loss_ratio = history.train_loss[-1] / history.train_loss[0]
        rows.append((accuracy(model, hidden), loss_ratio, seconds))
    accuracies, loss_ratios, times = np.array(rows).T
    return Measured(accuracies, loss_ratios, times, history.parameters)


def predictive(values: np.ndarray, threshold: float) -> tuple[float, float]:
    """Student t: the bound of one more value at P, and the probability that it is below threshold.

    The substitution t = sqrt(df) tan(angle) turns t's density into cos(angle) ** (df - 1).
    """
    df = len(values) - 1
    centre, width = values.mean(), values.std(ddof=1) * np.sqrt(1 + 1 / len(values))
    angles = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    below = np.cumsum(np.cos(angles) ** (df - 1))
    below /= below[-1]
    bound = centre + width * np.sqrt(df) * np.tan(np.interp(P, below, angles))
    angle = np.arctan((threshold - centre) / width / np.sqrt(df))
    return float(bound), float(np.interp(angle, angles, below))


def head(first: str, *more: str) -> None:
    """Print the first two lines of a table."""
    names = " | ".join((first, COLUMNS, *more))
    print(f"\n| {names} |\n|{' --- |' * (names.count('|') + 1)}", flush=True)


def line(name: str, values: np.ndarray, threshold: float, *more: str) -> None:
    """Print one row of a table."""
    bound, probability = predictive(values, threshold)
    numbers = (values.mean(), values.std(ddof=1), values.min(), values.max(), bound)
    # So few trainings say nothing of the tail farther out.
    chance = f"{probability:.0e}" if probability > 1e-6 else "< 1e-06"
    cells = (*(f"{x:.4f}" for x in numbers), f"{threshold:g}", chance)
    failed = f"{(values < threshold).sum()} of {len(values)}"
    print("|", " | ".join((name, str(len(values)), *cells, failed, *more)), "|", flush=True)


def accuracy_head() -> None:
    """Print the first two lines of the table that `accuracy_line` fills."""
    head("model", "parameters", "loss ratio, max", "CPU s")


def accuracy_line(name: str, seen: Measured, threshold: float) -> None:
    """Print what is known of one model."""
    more = f"{seen.parameters:,}", f"{seen.loss_ratio.max():.2f}", f"{seen.seconds.mean():.1f}"
    line(name, seen.accuracy, threshold, *more)


def every_training(results: dict[str, Measured]) -> None:
    """Print the accuracy of every seed."""
    print("\nAccuracy of each seed, from 0:\n")
    for name, seen in results.items():
        print(f"- {name}:", " ".join(f"{value:.3f}" for value in seen.accuracy))
