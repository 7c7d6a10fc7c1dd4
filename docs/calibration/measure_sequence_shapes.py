"""Measure how good right and wrong forecasters of sequence_shapes get, as a table for the record.

Run it from the repository root, where the package is installed, on an idle machine:
python docs/calibration/measure_sequence_shapes.py
Recipe, series and threshold come from grading.yml; seed s (0, 1, ...) seeds weights and shuffling.
The number is the error on the later part of the series by that of the naive forecast.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from measuring import Models, predictive
from torch import Tensor, nn

from autograder.data import oscillation
from autograder.training import Recipe, fit_values, seed_everything
from reference import sequence_shapes as reference


class _Recurrent(nn.Module):
    """Recurrent layers of torch, a readout of the last output, `after` around it."""

    def __init__(self, layer: nn.RNNBase, after: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.layer, self.readout = layer, nn.Linear(layer.hidden_size, 1)
        self.after = after or nn.Identity()

    def forward(self, windows: Tensor) -> Tensor:
        output: Tensor = self.after(self.readout(self.layer(windows)[0][:, -1]))
        return output


class _Cells(nn.Module):
    """Two cells in a loop; `detached` cuts the state at every step, a fault."""

    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.RNNCell(1, 32), nn.RNNCell(32, 32)])
        self.readout, self.detached = nn.Linear(32, 1), detached

    def forward(self, windows: Tensor) -> Tensor:
        states = [windows.new_zeros(len(windows), 32) for _ in self.cells]
        for value in windows.unbind(1):
            below = value
            for k, cell in enumerate(self.cells):
                before = states[k].detach() if self.detached else states[k]
                below = states[k] = cell(below, before)
        forecast: Tensor = self.readout(states[-1])
        return forecast


class _Change(nn.Module):
    """Forecasts the change, and adds the last value."""

    def __init__(self) -> None:
        super().__init__()
        self.network = reference.Forecaster()

    def forward(self, windows: Tensor) -> Tensor:
        forecast: Tensor = windows[:, -1] + self.network(windows)
        return forecast


def _layers(kind: type[nn.RNNBase], **options: Any) -> nn.RNNBase:
    return kind(1, 32, 2, batch_first=True, **options)


MODELS: Models = {
    "RNN (reference)": (12, reference.Forecaster),
    "LSTM": (12, lambda: _Recurrent(_layers(nn.LSTM))),
    "GRU": (8, lambda: _Recurrent(_layers(nn.GRU))),
    "RNN, ReLU": (8, lambda: _Recurrent(_layers(nn.RNN, nonlinearity="relu"))),
    "RNN, change": (6, _Change),
    "wrong: tanh at the end": (4, lambda: _Recurrent(_layers(nn.RNN), torch.tanh)),
    "wrong: state detached": (4, lambda: _Cells(detached=True)),
}


def _ratio(model: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    with torch.no_grad():
        forecasts = model(inputs)
    return reference.rmse(forecasts, targets) / reference.rmse(inputs[:, -1], targets)


def main() -> None:
    """Print the table, a row as soon as it is measured."""
    torch.set_num_threads(1)
    whole = yaml.safe_load(Path("grading.yml").read_text(encoding="utf-8"))
    assignment = whole["assignments"]["sequence_shapes"]
    training, numbers = assignment["questions"]["training"], assignment["values"]
    given, later = training["settings"], training["checks"]["later"]
    threshold, width = given["largest_ratio"], given["width"]
    recipe = {k: numbers[k] for k in ("epochs", "batch_size", "learning_rate")}
    series = oscillation(given["steps"], given["seed"])
    train, targets, *_ = reference.split_windows(series, width, given["held_out"])
    test = reference.to_windows(oscillation(later["steps"], later["seed"], later["first"]), width)
    print("| model | n | mean | sd | min | max | bound | P(above) | CPU s |\n|" + " --- |" * 9)
    for name, (seeds, make) in MODELS.items():
        ratios, started = [], time.process_time()
        for seed in range(seeds):
            seed_everything(seed)
            model = make()
            fit_values(model, train, targets, Recipe(**recipe, seed=seed, device="cpu"))
            ratios.append(_ratio(model, *test))
        seconds, values = (time.process_time() - started) / seeds, np.array(ratios)
        bound, above = predictive(-values, -threshold)
        cells = (values.mean(), values.std(ddof=1), values.min(), values.max(), -bound)
        numbers_shown = " | ".join(f"{value:.3f}" for value in cells)
        print(f"| {name} | {seeds} | {numbers_shown} | {above:.0e} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
