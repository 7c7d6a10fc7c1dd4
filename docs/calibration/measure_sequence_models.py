"""Measure how accurate right and wrong solutions of sequence_models get, as tables for the record.

Run it from the repository root, where the package is installed, on an idle machine (the CPU time
of all trainings is in the last column): python docs/calibration/measure_sequence_models.py
Recipe and thresholds come from grading.yml; seed s seeds the weights and the shuffling. A name
starts with the network that it is, or pretends to be: the threshold of that network holds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from measuring import Models, accuracy_head, accuracy_line, every_training, measure
from torch import Tensor, nn

from reference import sequence_models as reference

STEPS, POSITIONS, CLASSES = 25, 4, 3


def _last(states: Tensor) -> Tensor:
    return states[:, -1]


def _mean(states: Tensor) -> Tensor:
    return states.mean(dim=1)


def _maximum(states: Tensor) -> Tensor:
    return states.amax(dim=1)


def _both_ends(states: Tensor) -> Tensor:
    """The last state of each direction."""
    forward, backward = states.chunk(2, dim=2)
    return torch.cat([forward[:, -1], backward[:, 0]], dim=1)


class _Recurrent(nn.Module):
    """A recurrent layer, states taken together by `pool`, a linear classifier."""

    def __init__(self, cell: nn.RNNBase, pool: Callable[[Tensor], Tensor] = _last) -> None:
        super().__init__()
        self.cell, self.pool = cell, pool
        self.classifier = nn.Linear(cell.hidden_size * (1 + cell.bidirectional), CLASSES)

    def forward(self, steps: Tensor) -> Tensor:
        batch = len(steps)
        states, _ = self.cell(steps.reshape(batch, -1, self.cell.input_size))
        return self.classifier(self.pool(states))


def _rnn(hidden: int, inputs: int = POSITIONS, **options: Any) -> nn.RNN:
    return nn.RNN(inputs, hidden, batch_first=True, **options)


def _lstm(hidden: int, inputs: int = POSITIONS, **options: Any) -> nn.LSTM:
    return nn.LSTM(inputs, hidden, batch_first=True, **options)


def _orthogonal(hidden: int, **options: Any) -> nn.RNN:
    cell = _rnn(hidden, **options)
    for name, weight in cell.named_parameters():
        if name.startswith("weight_hh"):
            nn.init.orthogonal_(weight)
    return cell


class _ByHand(nn.Module):
    """The recurrence written as a loop; `detached` breaks the chain of gradients, a fault."""

    def __init__(self, hidden: int = 126, detached: bool = False) -> None:
        super().__init__()
        self.cell, self.detached = nn.RNNCell(POSITIONS, hidden), detached
        nn.init.orthogonal_(self.cell.weight_hh)
        self.classifier = nn.Linear(hidden, CLASSES)

    def forward(self, steps: Tensor) -> Tensor:
        state = steps.new_zeros(len(steps), self.cell.hidden_size)
        for step in steps.unbind(dim=1):
            state = self.cell(step, state.detach() if self.detached else state)
        return self.classifier(state)


class _Sinusoids(nn.Module):
    """Add the sinusoidal encoding of the place in the sequence."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)
        self.register_buffer("encoding", encoding)

    def forward(self, states: Tensor) -> Tensor:
        return states + self.encoding


class _Learned(nn.Module):
    """Add a learned encoding of the place in the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.encoding = nn.Parameter(0.02 * torch.randn(STEPS, 32))

    def forward(self, states: Tensor) -> Tensor:
        return states + self.encoding


class _Attentive(nn.Module):
    """A Transformer encoder on steps of `positions`; options go to its layers."""

    def __init__(
        self,
        pool: Callable[[Tensor], Tensor] = _mean,
        width: int = 32,
        positions: int = POSITIONS,
        layers: int = 2,
        **options: Any,
    ) -> None:
        super().__init__()
        options = {"nhead": 2, "dim_feedforward": 64, "dropout": 0.0} | options
        layer = nn.TransformerEncoderLayer(width, batch_first=True, **options)
        self.positions, self.pool = positions, pool
        self.embedding = nn.Linear(positions, width)
        self.places: nn.Module = _Sinusoids(STEPS * POSITIONS // positions, width)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, steps: Tensor) -> Tensor:
        states = self.embedding(steps.reshape(len(steps), -1, self.positions))
        return self.classifier(self.pool(self.encoder(self.places(states))))


class _WithClassToken(_Attentive):
    """The classifier reads a token of its own, before the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, 32))

    def forward(self, steps: Tensor) -> Tensor:
        states = self.places(self.embedding(steps))
        token = self.token.expand(len(steps), -1, -1)
        return self.classifier(self.encoder(torch.cat([token, states], dim=1))[:, 0])


def _with_places(places: nn.Module, **options: Any) -> nn.Module:
    model = _Attentive(**options)
    model.places = places
    return model


class _Bag(nn.Module):
    """Each step by itself through one MLP, then the mean: order plays no part."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.each = nn.Sequential(
            *(nn.Linear(POSITIONS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        )
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, steps: Tensor) -> Tensor:
        return self.classifier(self.each(steps).mean(dim=1))


def _mlp() -> nn.Module:
    layers = nn.Linear(100, 110), nn.ReLU(), nn.Linear(110, 54), nn.ReLU(), nn.Linear(54, CLASSES)
    return nn.Sequential(nn.Flatten(), *layers)


def _softmax(model: nn.Module) -> nn.Module:
    return nn.Sequential(model, nn.Softmax(dim=1))


RIGHT: Models = {
    "RNN 126, orthogonal": (16, reference.RNN),
    "RNN 126": (12, lambda: _Recurrent(_rnn(126))),
    "RNN 126, ReLU": (6, lambda: _Recurrent(_rnn(126, nonlinearity="relu"))),
    "RNN 126, mean over time": (6, lambda: _Recurrent(_rnn(126), _mean)),
    "RNN 126, as a loop": (6, _ByHand),
    "RNN 73-73": (6, lambda: _Recurrent(_rnn(73, num_layers=2))),
    "RNN 73-73, orthogonal": (6, lambda: _Recurrent(_orthogonal(73, num_layers=2))),
    "RNN 88 in both directions": (
        6,
        lambda: _Recurrent(_rnn(88, bidirectional=True), _both_ends),
    ),
    "RNN 129, one position a step": (4, lambda: _Recurrent(_rnn(129, 1))),
    "LSTM 63": (16, reference.LSTM),
    "LSTM 36-36": (6, lambda: _Recurrent(_lstm(36, num_layers=2))),
    "LSTM 63, mean over time": (6, lambda: _Recurrent(_lstm(63), _mean)),
    "LSTM 63, maximum over time": (6, lambda: _Recurrent(_lstm(63), _maximum)),
    "LSTM 43 in both directions": (
        6,
        lambda: _Recurrent(_lstm(43, bidirectional=True), _both_ends),
    ),
    "LSTM 64, one position a step": (4, lambda: _Recurrent(_lstm(64, 1))),
    "Transformer 32-64": (12, reference.Transformer),
    "Transformer 32-60, learned places": (6, lambda: _with_places(_Learned(), dim_feedforward=60)),
    "Transformer 32-64, class token": (6, _WithClassToken),
    "Transformer 32-64, maximum over time": (6, lambda: _Attentive(_maximum)),
    "Transformer 32-64, norm first": (6, lambda: _Attentive(norm_first=True)),
    "Transformer 32-64, dropout .1": (6, lambda: _Attentive(dropout=0.1)),
    "Transformer 32-64, four heads, GELU": (6, lambda: _Attentive(nhead=4, activation="gelu")),
    "Transformer 48-78, one layer": (
        6,
        lambda: _Attentive(width=48, dim_feedforward=78, layers=1),
    ),
    "Transformer 32-64, one position a step": (4, lambda: _Attentive(positions=1)),
}
WRONG: Models = {
    "RNN 126, state detached": (4, lambda: _ByHand(detached=True)),
    "RNN 126, softmax output": (4, lambda: _softmax(reference.RNN())),
    "LSTM 63, softmax output": (4, lambda: _softmax(reference.LSTM())),
    "LSTM: an MLP on the flat input": (4, _mlp),
    "Transformer 32-64, no places": (4, lambda: _with_places(nn.Identity())),
    "Transformer 32-64, softmax output": (4, lambda: _softmax(reference.Transformer())),
    "Transformer: a bag of steps": (4, _Bag),
}


def main() -> None:
    """Print the tables, a row as soon as it is measured."""
    torch.set_num_threads(1)
    grading = yaml.safe_load(Path("grading.yml").read_text(encoding="utf-8"))
    question = grading["assignments"]["sequence_models"]["questions"]["training"]
    numbers = {k: question["settings"][k] for k in ("epochs", "batch_size", "learning_rate")}
    checks, results = question["checks"], {}
    accuracy_head()
    for name, (seeds, make) in (RIGHT | WRONG).items():
        network = name.replace(":", " ").split()[0].lower()
        results[name] = measure(make, seeds, "trajectories", numbers)
        accuracy_line(name, results[name], checks[f"{network}_accuracy"]["smallest"])
    every_training(results)


if __name__ == "__main__":
    main()
