"""Reference solution of the assignment sequence_models.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: N or B trajectories, T = 25 steps,
D = 4 positions a step, K = 3 classes.
"""

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from autograder.data import CLASSES, Trajectories
from autograder.training import History, Recipe, fit, seed_everything


def look(data: Trajectories) -> Figure:
    """One trajectory of each class, side by side."""
    examples, panels = plt.subplots(1, 3, figsize=(10, 2.5), sharey=True)
    # BEGIN SOLUTION
    positions, labels = data.train.inputs.flatten(1), data.train.labels
    for number, panel in enumerate(panels):
        panel.plot(positions[labels == number][0])
        panel.set(title=CLASSES[number], xlabel="time", ylabel="position")
    # END SOLUTION
    return examples


def normalise(positions: Tensor) -> Tensor:
    """Give each trajectory mean 0 and standard deviation 1: (N, T) -> (N, T)."""
    # BEGIN SOLUTION
    centred = positions - positions.mean(dim=1, keepdim=True)
    spread = centred.std(dim=1, keepdim=True)
    return centred / torch.where(spread > 1e-9, spread, 1)
    # END SOLUTION


def to_steps(positions: Tensor, size: int) -> Tensor:
    """Put each `size` successive positions into one step: (N, T) -> (N, T / size, size)."""
    # BEGIN SOLUTION
    return positions.reshape(len(positions), -1, size)
    # END SOLUTION


def rnn_parameters(inputs: int, hidden: int) -> int:
    """Parameters of nn.RNN(inputs, hidden)."""
    # BEGIN SOLUTION
    return hidden * (inputs + hidden + 2)
    # END SOLUTION


def lstm_parameters(inputs: int, hidden: int) -> int:
    """Parameters of nn.LSTM(inputs, hidden)."""
    # BEGIN SOLUTION
    return 4 * rnn_parameters(inputs, hidden)
    # END SOLUTION


def encoder_layer_parameters(width: int, feedforward: int) -> int:
    """Parameters of nn.TransformerEncoderLayer(width, nhead, feedforward), for any nhead."""
    # BEGIN SOLUTION
    attention = 4 * (width * width + width)
    mlp = (width * feedforward + feedforward) + (feedforward * width + width)
    norms = 2 * 2 * width
    return attention + mlp + norms
    # END SOLUTION


class RNN(nn.Module):
    """Classify sequences (B, 25, 4) with a plain recurrence; logits (B, 3).

    Source: Elman 1990, Finding Structure in Time, https://doi.org/10.1207/s15516709cog1402_1
    """

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.recurrence = nn.RNN(4, 126, batch_first=True)
        nn.init.orthogonal_(self.recurrence.get_parameter("weight_hh_l0"))  # keeps the state's size
        self.classifier = nn.Linear(126, 3)
        # END SOLUTION

    def forward(self, steps: Tensor) -> Tensor:
        """Steps (B, 25, 4) -> logits (B, 3)."""
        # BEGIN SOLUTION
        states, _ = self.recurrence(steps)  # (B, 25, 126)
        logits: Tensor = self.classifier(states[:, -1])  # (B, 3)
        return logits
        # END SOLUTION


class LSTM(nn.Module):
    """Classify sequences (B, 25, 4) with a gated memory; logits (B, 3).

    Source: Hochreiter & Schmidhuber 1997, Long Short-Term Memory,
    https://doi.org/10.1162/neco.1997.9.8.1735
    """

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.recurrence = nn.LSTM(4, 63, batch_first=True)
        self.classifier = nn.Linear(63, 3)
        # END SOLUTION

    def forward(self, steps: Tensor) -> Tensor:
        """Steps (B, 25, 4) -> logits (B, 3)."""
        # BEGIN SOLUTION
        states, _ = self.recurrence(steps)  # (B, 25, 63)
        logits: Tensor = self.classifier(states[:, -1])  # (B, 3)
        return logits
        # END SOLUTION


class Transformer(nn.Module):
    """Classify sequences (B, 25, 4) with self-attention; logits (B, 3).

    Source: Vaswani et al. 2017, Attention Is All You Need, https://arxiv.org/abs/1706.03762
    """

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        width, length = 32, 25
        self.embedding = nn.Linear(4, width)
        layer = nn.TransformerEncoderLayer(
            width, nhead=2, dim_feedforward=64, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.classifier = nn.Linear(width, 3)

        step = torch.arange(length).unsqueeze(1)  # (25, 1)
        angles = step / 10_000 ** (torch.arange(0, width, 2) / width)  # (25, 16)
        encoding = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)  # (25, 32)
        self.register_buffer("encoding", encoding)
        # END SOLUTION

    def forward(self, steps: Tensor) -> Tensor:
        """Steps (B, 25, 4) -> logits (B, 3)."""
        # BEGIN SOLUTION
        states = self.encoder(self.embedding(steps) + self.encoding)  # (B, 25, 32)
        logits: Tensor = self.classifier(states.mean(dim=1))  # (B, 3)
        return logits
        # END SOLUTION


def train_rnn(data: Trajectories, recipe: Recipe) -> tuple[nn.Module, History]:
    """Seed, build and train the RNN."""
    seed_everything(recipe.seed)
    rnn = RNN()  # SOLUTION
    rnn_history = fit(rnn, data.train, data.validation, recipe)  # SOLUTION
    return rnn, rnn_history


def train_lstm(data: Trajectories, recipe: Recipe) -> tuple[nn.Module, History]:
    """Seed, build and train the LSTM."""
    seed_everything(recipe.seed)
    lstm = LSTM()  # SOLUTION
    lstm_history = fit(lstm, data.train, data.validation, recipe)  # SOLUTION
    return lstm, lstm_history


def train_transformer(data: Trajectories, recipe: Recipe) -> tuple[nn.Module, History]:
    """Seed, build and train the Transformer."""
    seed_everything(recipe.seed)
    transformer = Transformer()  # SOLUTION
    transformer_history = fit(transformer, data.train, data.validation, recipe)  # SOLUTION
    return transformer, transformer_history


def compare(rnn_history: History, lstm_history: History, transformer_history: History) -> Figure:
    """Training loss of the three networks, epoch by epoch, in one panel."""
    figure, axes = plt.subplots(figsize=(6, 4))
    # BEGIN SOLUTION
    histories = {"RNN": rnn_history, "LSTM": lstm_history, "Transformer": transformer_history}
    for name, history in histories.items():
        epochs = torch.arange(1, len(history.train_loss) + 1)
        axes.plot(epochs, history.train_loss, marker="o", label=name)
    axes.set(xlabel="epoch", ylabel="training loss")
    axes.legend()
    # END SOLUTION
    return figure


def confusion_matrix(truth: Tensor, predicted: Tensor, classes: int) -> Tensor:
    """How often each true class (row) was predicted as each class (column).

    Truth and prediction are class numbers (N,); the result has shape (classes, classes).
    """
    # BEGIN SOLUTION
    matrix = torch.zeros(classes, classes, dtype=torch.int64)
    for true, guess in zip(truth.tolist(), predicted.tolist(), strict=True):
        matrix[true, guess] += 1
    return matrix
    # END SOLUTION
