"""Measure how accurate right and wrong solutions of cnn_vs_fnn get, as tables for the record.

Run it from the repository root, where the package is installed, on an idle machine (the CPU time
of all trainings is in the last column): python docs/calibration/measure_cnn_vs_fnn.py > tables.md
Recipe and thresholds come from grading.yml; seed s seeds the weights and the shuffling.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import nn

from autograder.data import digits, hidden_images, hidden_labels
from autograder.training import Recipe, accuracy, fit, seed_everything

P = 1e-3  # probability that one more right training falls below the bound


def _conv(inputs: int, outputs: int, kernel: int, act: Callable[[], nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel), act())


def _cnn(
    act: Callable[[], nn.Module] = nn.ReLU,
    dropout: float = 0.0,
    norm: Callable[[int], nn.Module] = lambda channels: nn.Identity(),
) -> nn.Sequential:
    """The reference solution's CNN, 8-16 channels of 5x5, and what students add to it."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 5), norm(8), act(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 5), norm(16), act(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Dropout(dropout), nn.Linear(256, 62), act(), nn.Dropout(dropout), nn.Linear(62, 10)),
    )


def _zero_last() -> nn.Sequential:
    model = _cnn()
    for weight in model[-1].parameters():
        nn.init.zeros_(weight)
    return model


def _small_kernels() -> nn.Sequential:
    return nn.Sequential(
        *(_conv(1, 16, 3, nn.ReLU), nn.MaxPool2d(2), _conv(16, 32, 3, nn.ReLU), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 10)),
    )


def _global(pool: Callable[[int], nn.Module]) -> nn.Sequential:
    return nn.Sequential(
        *(_conv(1, 16, 3, nn.ReLU), nn.MaxPool2d(2), _conv(16, 32, 3, nn.ReLU), nn.MaxPool2d(2)),
        *(_conv(32, 32, 3, nn.ReLU), pool(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def _two_convolutions() -> nn.Sequential:
    return nn.Sequential(
        *(_conv(1, 16, 5, nn.ReLU), _conv(16, 32, 5, nn.ReLU)),
        *(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )


def _lenet() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(_conv(6, 16, 5, nn.Tanh), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 40), nn.Tanh(), nn.Linear(40, 10)),
    )


def _fnn(*widths: int, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in zip((784, *widths), widths, strict=False):
        layers += [nn.Linear(inputs, outputs), act()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 10))


OPPONENT = "FNN 784-25-10"
RIGHT: dict[str, tuple[int, Callable[[], nn.Module]]] = {  # seeds, model
    OPPONENT: (30, lambda: _fnn(25)),
    "FNN 784-16-10": (12, lambda: _fnn(16)),
    "FNN 784-13-10": (12, lambda: _fnn(13)),
    "FNN 784-16-16-10": (12, lambda: _fnn(16, 16)),
    "CNN 8-16 5x5 fc62": (30, _cnn),
    "CNN 8-16 5x5 fc62, dropout .5": (12, lambda: _cnn(dropout=0.5)),
    "CNN 8-16 5x5 fc62, BatchNorm": (12, lambda: _cnn(norm=nn.BatchNorm2d)),
    "CNN 8-16 5x5 fc62, GELU": (12, lambda: _cnn(nn.GELU)),
    "CNN 8-16 5x5 fc62, last layer starts at zero": (12, _zero_last),
    "CNN 16-32 3x3 fc10": (12, _small_kernels),
    "CNN 16-32-32 3x3, global average": (12, lambda: _global(nn.AdaptiveAvgPool2d)),
    "CNN 16-32-32 3x3, global maximum": (12, lambda: _global(nn.AdaptiveMaxPool2d)),
    "CNN 16-32 5x5, no pooling but global maximum": (12, _two_convolutions),
    "CNN LeNet 6-16 5x5 fc40, tanh, average pooling": (12, _lenet),
}
WRONG: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "CNN 8-16 5x5 fc62, softmax output": (6, lambda: nn.Sequential(_cnn(), nn.Softmax(dim=1))),
    "CNN 8-16 5x5 fc62, no activation": (6, lambda: _cnn(nn.Identity)),
    "FNN 784-25-10, no activation": (6, lambda: _fnn(25, act=nn.Identity)),
}


@dataclass(frozen=True)
class Measured:
    """One number a training: hidden accuracy, last / first training loss, and CPU seconds."""

    accuracy: np.ndarray
    loss_ratio: np.ndarray
    seconds: np.ndarray
    parameters: int


def measure(make: Callable[[], nn.Module], seeds: int, settings: dict[str, Any]) -> Measured:
    """Train once a seed on the CPU, in one thread."""
    given, hidden = digits(), (hidden_images(), hidden_labels())
    numbers = {k: settings[k] for k in ("epochs", "batch_size", "learning_rate")}
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        recipe = Recipe(**numbers, seed=seed, device="cpu")
        seed_everything(seed)
        model = make()
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


def line(name: str, values: np.ndarray, threshold: float, *more: str) -> None:
    """Print one row of a table."""
    bound, probability = predictive(values, threshold)
    numbers = (values.mean(), values.std(ddof=1), values.min(), values.max(), bound)
    # So few trainings say nothing of the tail farther out.
    chance = f"{probability:.0e}" if probability > 1e-6 else "< 1e-06"
    cells = (*(f"{x:.4f}" for x in numbers), f"{threshold:g}", chance)
    failed = f"{(values < threshold).sum()} of {len(values)}"
    print("|", " | ".join((name, str(len(values)), *cells, failed, *more)), "|", flush=True)


def main() -> None:
    """Print the tables, a row as soon as it is measured."""
    torch.set_num_threads(1)
    grading = yaml.safe_load(Path("grading.yml").read_text(encoding="utf-8"))
    question = grading["assignments"]["cnn_vs_fnn"]["questions"]["training"]
    checks, results = question["checks"], {}
    start = "| n | mean | sd | min | max | bound | threshold | P(below) | below"
    print(f"| model {start} | parameters | loss ratio, max | CPU s |\n|{' --- |' * 13}")
    for name, (seeds, make) in (RIGHT | WRONG).items():
        results[name] = seen = measure(make, seeds, question["settings"])
        smallest = checks[f"{name[:3].lower()}_accuracy"]["smallest"]
        more = f"{seen.parameters:,}", f"{seen.loss_ratio.max():.2f}", f"{seen.seconds.mean():.1f}"
        line(name, seen.accuracy, smallest, *more)
    print(f"\n| gap to {OPPONENT} {start} |\n|{' --- |' * 10}")
    for name in (name for name in results if name.startswith("CNN")):
        ahead = results[name].accuracy - results[OPPONENT].accuracy[: len(results[name].accuracy)]
        line(name, ahead, checks["gap"]["smallest_gap"])
    print("\nAccuracy of each seed, from 0:\n")
    for name, seen in results.items():
        print(f"- {name}:", " ".join(f"{value:.3f}" for value in seen.accuracy))


if __name__ == "__main__":
    main()
