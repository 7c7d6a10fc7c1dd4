"""Reference solution of the assignment sequence_shapes.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: B sequences, T steps, D features,
H hidden units, L layers, K outputs; series of S values, N windows of W values.
"""

import torch
from torch import Tensor, nn

from autograder.training import Recipe, Regression, fit_values, seed_everything


def sequence_to_sequence(rnn: nn.RNNBase, readout: nn.Linear, inputs: Tensor) -> Tensor:
    """An output for every step: inputs (B, T, D) -> (B, T, K)."""
    # BEGIN SOLUTION
    states, _ = rnn(inputs)  # (B, T, H)
    outputs: Tensor = readout(states)
    return outputs
    # END SOLUTION


def sequence_to_vector(rnn: nn.RNNBase, readout: nn.Linear, inputs: Tensor) -> Tensor:
    """One output, read from the last state of the top layer: inputs (B, T, D) -> (B, K)."""
    # BEGIN SOLUTION
    _, last = rnn(inputs)  # (L, B, H)
    outputs: Tensor = readout(last[-1])
    return outputs
    # END SOLUTION


def vector_to_sequence(rnn: nn.RNNBase, readout: nn.Linear, vector: Tensor, length: int) -> Tensor:
    """`length` outputs from one input, which comes at the first step: (B, D) -> (B, length, K)."""
    # BEGIN SOLUTION
    inputs = vector.new_zeros(len(vector), length, vector.shape[1])
    inputs[:, 0] = vector
    return sequence_to_sequence(rnn, readout, inputs)
    # END SOLUTION


def deep_rnn(
    layers: list[nn.RNN], inputs: Tensor, h0: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run single layers on top of each other: inputs (B, T, D), h0 (L, B, H) or None.

    Returns the states of the top layer (B, T, H), and the last states of all layers (L, B, H).
    """
    # BEGIN SOLUTION
    lasts = []
    for k, layer in enumerate(layers):
        start = None if h0 is None else h0[k : k + 1]  # (1, B, H)
        inputs, last = layer(inputs, start)  # (B, T, H), (1, B, H)
        lasts.append(last)
    return inputs, torch.cat(lasts)
    # END SOLUTION


def in_pieces(
    rnn: nn.RNNBase, inputs: Tensor, size: int, h0: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What rnn(inputs, h0) returns, with at most `size` steps at once: (B, T, H), (L, B, H)."""
    # BEGIN SOLUTION
    outputs, state = [], h0
    for piece in torch.split(inputs, size, dim=1):
        output, state = rnn(piece, state)
        outputs.append(output)
    assert state is not None
    return torch.cat(outputs, dim=1), state
    # END SOLUTION


def gru_step(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> Tensor:
    """One step of a GRU: the new state (B, H).

    x (B, D), h (B, H), w_ih (3H, D), w_hh (3H, H), b_ih and b_hh (3H,), blocks r, z, n.
    After Cho et al. (2014), Learning phrase representations using RNN encoder-decoder.
    """
    # BEGIN SOLUTION
    r_x, z_x, n_x = (x @ w_ih.T + b_ih).chunk(3, dim=1)  # (B, H) each
    r_h, z_h, n_h = (h @ w_hh.T + b_hh).chunk(3, dim=1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    n = torch.tanh(n_x + r * n_h)
    return (1 - z) * n + z * h
    # END SOLUTION


def recurrent_parameters(kind: str, inputs: int, hidden: int, layers: int = 1) -> int:
    """Parameters of an nn.RNN, nn.GRU or nn.LSTM; kind is "RNN", "GRU" or "LSTM"."""
    # BEGIN SOLUTION
    maps = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    widths = [inputs] + [hidden] * (layers - 1)
    return sum(maps * hidden * (width + hidden + 2) for width in widths)
    # END SOLUTION


def to_windows(series: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """All windows of a series with the value after each: (S,) -> (N, W, 1), (N, 1)."""
    # BEGIN SOLUTION
    windows = [series[k : k + width] for k in range(len(series) - width)]
    return torch.stack(windows)[:, :, None], series[width:, None]
    # END SOLUTION


def split_windows(
    series: Tensor, width: int, held_out: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Train inputs, train targets, test inputs, test targets, in the order of time."""
    # BEGIN SOLUTION
    inputs, targets = to_windows(series, width)
    return inputs[:-held_out], targets[:-held_out], inputs[-held_out:], targets[-held_out:]
    # END SOLUTION


def naive_forecast(inputs: Tensor) -> Tensor:
    """The last value of each window: (N, W, 1) -> (N, 1)."""
    return inputs[:, -1]  # SOLUTION


def rmse(predicted: Tensor, targets: Tensor) -> float:
    """Root of the mean squared error, each of (N, 1) or (N,)."""
    return float((predicted.flatten() - targets.flatten()).square().mean().sqrt())  # SOLUTION


class Forecaster(nn.Module):
    """Two recurrent layers; a linear layer turns what the top one gives into the forecast."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.rnn = nn.RNN(1, 32, num_layers=2, batch_first=True)
        self.readout = nn.Linear(32, 1)
        # END SOLUTION

    def forward(self, inputs: Tensor) -> Tensor:
        """Windows (B, W, 1) -> forecasts (B, 1)."""
        # BEGIN SOLUTION
        h0 = inputs.new_zeros(2, len(inputs), 32)
        states, _ = self.rnn(inputs, h0)  # (B, W, 32)
        forecasts: Tensor = self.readout(states[:, -1])
        return forecasts
        # END SOLUTION


def train_forecaster(
    series: Tensor, width: int, held_out: int, recipe: Recipe
) -> tuple[nn.Module, Regression]:
    """Seed, build and train the forecaster on the past alone."""
    seed_everything(recipe.seed)
    # BEGIN SOLUTION
    train_inputs, train_targets, _, _ = split_windows(series, width, held_out)
    # END SOLUTION
    forecaster = Forecaster()  # SOLUTION
    history = fit_values(forecaster, train_inputs, train_targets, recipe)  # SOLUTION
    return forecaster, history
