"""Reference solution of the assignment gradient_flow.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: B sequences, T steps, D features,
H hidden units. Everything is float64 on the CPU.
"""

from collections.abc import Iterable

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn


def recurrence(inputs: Tensor, h0: Tensor, w_xh: Tensor, w_hh: Tensor) -> Tensor:
    """States of the recurrence h = tanh(W_xh x + W_hh h) after each step.

    inputs (B, T, D), h0 (B, H), w_xh (H, D), w_hh (H, H) -> states (B, T, H).
    """
    # BEGIN SOLUTION
    h, states = h0, []
    for x in inputs.unbind(dim=1):  # (B, D)
        h = torch.tanh(x @ w_xh.T + h @ w_hh.T)  # (B, H)
        states.append(h)
    return torch.stack(states, dim=1)
    # END SOLUTION


def recurrent_shapes(
    batch: int,
    length: int,
    hidden: int,
    layers: int = 1,
    bidirectional: bool = False,
    batch_first: bool = True,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of `output` and of `h_n` that such an nn.RNN returns."""
    # BEGIN SOLUTION
    directions = 2 if bidirectional else 1
    front = (batch, length) if batch_first else (length, batch)
    return (*front, directions * hidden), (layers * directions, batch, hidden)
    # END SOLUTION


def state_gradient(rnn: nn.RNN, inputs: Tensor, h0: Tensor) -> Tensor:
    """Gradient of the loss with respect to h0: inputs (B, T, D), h0 (1, B, H) -> (1, B, H).

    The loss is the mean of the squared last output.
    """
    # BEGIN SOLUTION
    h0 = h0.detach().clone().requires_grad_()
    output, _ = rnn(inputs, h0)
    loss = output[:, -1].square().mean()
    (gradient,) = torch.autograd.grad(loss, h0)
    return gradient
    # END SOLUTION


def gradient_norm(length: int, seed: int) -> float:
    """Norm of the gradient with respect to h0 for `length` steps of zeros.

    After Bengio, Simard and Frasconi (1994), Learning long-term dependencies with gradient
    descent is difficult.
    """
    torch.manual_seed(seed)
    rnn = nn.RNN(1, 5, batch_first=True)
    h0 = torch.randn(1, 1, 5)
    # BEGIN SOLUTION
    return float(state_gradient(rnn, torch.zeros(1, length, 1), h0).norm())
    # END SOLUTION


def plot_vanishing(lengths: Iterable[int], seed: int) -> Figure:
    """Norm of the gradient against the length of the sequence."""
    vanishing_figure, axes = plt.subplots(figsize=(6, 4))
    # BEGIN SOLUTION
    axes.semilogy(lengths, [gradient_norm(length, seed) for length in lengths])
    axes.set_xlabel("length of the sequence")
    axes.set_ylabel("norm of the gradient")
    # END SOLUTION
    return vanishing_figure


def lstm_step(
    x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the new h and the new c.

    x (B, D), h and c (B, H), w_ih (4H, D), w_hh (4H, H), b_ih and b_hh (4H,), blocks i, f, g, o.
    After Hochreiter and Schmidhuber (1997), Long short-term memory, with the forget gate of Gers,
    Schmidhuber and Cummins (2000), Learning to forget.
    """
    # BEGIN SOLUTION
    i, f, g, o = (x @ w_ih.T + b_ih + h @ w_hh.T + b_hh).chunk(4, dim=1)  # (B, H) each
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return h, c
    # END SOLUTION


def add_forget_bias(lstm: nn.LSTM, value: float) -> nn.LSTM:
    """Add `value` to the forget gate's part of both bias vectors, and return the LSTM.

    After Jozefowicz, Zaremba and Sutskever (2015), An empirical exploration of recurrent network
    architectures.
    """
    # BEGIN SOLUTION
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with torch.no_grad():
        for name in ("bias_ih_l0", "bias_hh_l0"):
            lstm.get_parameter(name)[forget] += value
    return lstm
    # END SOLUTION


def memory_norm(length: int, bias: float, seed: int) -> float:
    """Norm of the gradient with respect to c0 for `length` steps of zeros."""
    torch.manual_seed(seed)
    lstm = nn.LSTM(1, 5, batch_first=True)
    h0, c0 = torch.randn(1, 1, 5), torch.randn(1, 1, 5)
    # BEGIN SOLUTION
    c0.requires_grad_()
    output, _ = add_forget_bias(lstm, bias)(torch.zeros(1, length, 1), (h0, c0))
    loss = output[:, -1].square().mean()
    (gradient,) = torch.autograd.grad(loss, c0)
    return float(gradient.norm())
    # END SOLUTION


def plot_memory(memory_lengths: Iterable[int], biases: list[float], seed: int) -> Figure:
    """Norm of the gradient against the length, a curve for each forget bias."""
    memory_figure, axes = plt.subplots(figsize=(6, 4))
    # BEGIN SOLUTION
    for bias in biases:
        norms = [memory_norm(length, bias, seed) for length in memory_lengths]
        axes.semilogy(memory_lengths, norms, label=f"forget bias {bias}")
    axes.set_xlabel("length of the sequence")
    axes.set_ylabel("norm of the gradient")
    axes.legend()
    # END SOLUTION
    return memory_figure


class DeepRNN(nn.Module):
    """Three recurrent layers, and a readout of the top layer's last state."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.rnn = nn.RNN(1, 16, num_layers=3, batch_first=True)
        self.readout = nn.Linear(16, 3)
        # END SOLUTION

    def forward(self, inputs: Tensor) -> Tensor:
        """Sequences (B, T, 1) -> (B, 3)."""
        # BEGIN SOLUTION
        _, last = self.rnn(inputs)  # (3 layers, B, 16)
        outputs: Tensor = self.readout(last[-1])
        return outputs
        # END SOLUTION


class BiRNN(nn.Module):
    """A recurrent layer in each direction; what both have at their end, side by side.

    After Schuster and Paliwal (1997), Bidirectional recurrent neural networks.
    """

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.rnn = nn.RNN(1, 8, bidirectional=True, batch_first=True)
        # END SOLUTION

    def forward(self, inputs: Tensor) -> Tensor:
        """Sequences (B, T, 1) -> (B, 16)."""
        # BEGIN SOLUTION
        _, last = self.rnn(inputs)  # (2 directions, B, 8)
        return torch.cat([last[0], last[1]], dim=1)
        # END SOLUTION


def influence(layer: nn.Module, inputs: Tensor) -> Tensor:
    """How strongly each output depends on each input: one sequence (1, T, D) -> (T, T).

    Entry [t, s] is the square root of the sum of squares of all derivatives of the features of
    output t with respect to the features of input s.
    """
    # BEGIN SOLUTION
    inputs = inputs.detach().clone().requires_grad_()
    result = layer(inputs)
    output = result[0] if isinstance(result, tuple) else result  # (1, T, H)
    rows = []
    for features in output[0]:  # (H,)
        gradients = [torch.autograd.grad(f, inputs, retain_graph=True)[0][0] for f in features]
        rows.append(torch.stack(gradients).square().sum(dim=(0, 2)).sqrt())  # (T,)
    return torch.stack(rows)
    # END SOLUTION


def is_causal(layer: nn.Module, inputs: Tensor) -> bool:
    """Whether no output depends on a later input."""
    # BEGIN SOLUTION
    return influence(layer, inputs).triu(diagonal=1).max().item() < 1e-12
    # END SOLUTION
