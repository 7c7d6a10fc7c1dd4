"""Measure how accurate right and wrong solutions of cnn_vs_fnn get, as tables for the record.

Run it from the repository root, where the package is installed, on an idle machine (the CPU time
of all trainings is in the last column): python docs/calibration/measure_cnn_vs_fnn.py > tables.md
Recipe and thresholds come from grading.yml; seed s seeds the weights and the shuffling.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import yaml
from measuring import Models, accuracy_head, accuracy_line, every_training, head, line, measure
from torch import nn


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
RIGHT: Models = {
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
WRONG: Models = {
    "CNN 8-16 5x5 fc62, softmax output": (6, lambda: nn.Sequential(_cnn(), nn.Softmax(dim=1))),
    "CNN 8-16 5x5 fc62, no activation": (6, lambda: _cnn(nn.Identity)),
    "FNN 784-25-10, no activation": (6, lambda: _fnn(25, act=nn.Identity)),
}


def main() -> None:
    """Print the tables, a row as soon as it is measured."""
    torch.set_num_threads(1)
    grading = yaml.safe_load(Path("grading.yml").read_text(encoding="utf-8"))
    question = grading["assignments"]["cnn_vs_fnn"]["questions"]["training"]
    numbers = {k: question["settings"][k] for k in ("epochs", "batch_size", "learning_rate")}
    checks, results = question["checks"], {}
    accuracy_head()
    for name, (seeds, make) in (RIGHT | WRONG).items():
        results[name] = measure(make, seeds, "digits", numbers)
        accuracy_line(name, results[name], checks[f"{name[:3].lower()}_accuracy"]["smallest"])
    head(f"gap to {OPPONENT}")
    for name in (name for name in results if name.startswith("CNN")):
        ahead = results[name].accuracy - results[OPPONENT].accuracy[: len(results[name].accuracy)]
        line(name, ahead, checks["gap"]["smallest_gap"])
    every_training(results)


if __name__ == "__main__":
    main()
