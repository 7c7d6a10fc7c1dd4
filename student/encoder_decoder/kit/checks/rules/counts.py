"""Rules for whole numbers: parameters of torch's layers, and the confusion matrix."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autograder.checks.rules.rule import Rule


def _size(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def _drawn(*largest: int) -> Callable[[], tuple[int, ...]]:
    """Sizes from 2 up to the largest ones."""
    return lambda: tuple(int(torch.randint(2, n + 1, ())) for n in largest)


_RECURRENT_CASES = {
    "4 inputs and 10 hidden units": lambda: (4, 10),
    "1 input and 64 hidden units": lambda: (1, 64),
    "1 input and 1 hidden unit": lambda: (1, 1),
    "some sizes": _drawn(40, 200),
    "other sizes": _drawn(200, 40),
}

_TWO_BIASES = "PyTorch's layer has two biases of length hidden: bias_ih and bias_hh."


def _recurrent(layer: type[nn.Module], gates: int, slips: dict[str, Callable[..., int]]) -> Rule:
    """A recurrent layer of torch, whose `gates` have all the sizes of a plain recurrence."""
    return Rule(
        cases=_RECURRENT_CASES,
        oracle=lambda inputs, hidden: _size(layer(inputs, hidden, device="meta")),
        hint="Count the values of weight_ih, weight_hh and of the two biases.",
        slips={
            _TWO_BIASES: lambda i, h: gates * h * (h + i + 1),
            f"The biases are parameters too. {_TWO_BIASES}": lambda i, h: gates * h * (h + i),
            "weight_ih maps the inputs, and weight_hh the hidden state: count both.": (
                lambda i, h: gates * h * (i + 2)
            ),
            **slips,
        },
    )


RNN = _recurrent(nn.RNN, 1, {})
LSTM = _recurrent(
    nn.LSTM,
    4,
    {
        "That is a plain recurrence. An LSTM computes four such maps: three gates and the "
        "candidate.": lambda i, h: h * (h + i + 2),
        "Three gates, and the candidate for the cell as well: four maps.": (
            lambda i, h: 3 * h * (h + i + 2)
        ),
        f"Three gates, and the candidate for the cell as well: four maps. {_TWO_BIASES}": (
            lambda i, h: 3 * h * (h + i + 1)
        ),
    },
)


def _encoder_layer(width: int, feedforward: int) -> int:
    return _size(nn.TransformerEncoderLayer(width, 1, feedforward, device="meta"))


ENCODER_LAYER = Rule(
    cases={
        "width 8 and feed-forward width 16": lambda: (8, 16),
        "width 64 and feed-forward width 32": lambda: (64, 32),
        "width 1 and feed-forward width 1": lambda: (1, 1),
        "some sizes": _drawn(60, 300),
        "other sizes": _drawn(300, 60),
    },
    oracle=_encoder_layer,
    hint="Four square maps of the attention, two maps of the feed-forward part, two layer norms: "
    "each with its biases.",
    slips={
        "Each of the two layer norms has a scale and a shift for every channel.": (
            lambda d, f: _encoder_layer(d, f) - 4 * d
        ),
        "There are two layer norms: one after the attention, one after the feed-forward part.": (
            lambda d, f: _encoder_layer(d, f) - 2 * d
        ),
        "The two maps of the feed-forward part have biases too.": (
            lambda d, f: _encoder_layer(d, f) - (d + f)
        ),
        "The maps have biases too.": lambda d, f: 4 * d * d + 2 * d * f + 4 * d,
        "The attention has four square maps: for queries, keys, values, and for the output.": (
            lambda d, f: _encoder_layer(d, f) - d * (d + 1)
        ),
        "The feed-forward part has two maps: from width to feedforward, and back.": (
            lambda d, f: _encoder_layer(d, f) - (d * f + d)
        ),
    },
)


def _classes(count: int, truths: int, guesses: int, classes: int) -> tuple[Tensor, Tensor, int]:
    """Random samples, of the first `truths` classes, predicted as the first `guesses` ones."""
    return torch.randint(truths, (count,)), torch.randint(guesses, (count,)), classes


def _confusion(truth: Tensor, predicted: Tensor, classes: int) -> Tensor:
    pairs = list(zip(truth.tolist(), predicted.tolist(), strict=True))
    return torch.tensor([[pairs.count((t, p)) for p in range(classes)] for t in range(classes)])


def _shares(truth: Tensor, predicted: Tensor, classes: int) -> Tensor:
    matrix = _confusion(truth, predicted, classes)
    return matrix / matrix.sum(1, keepdim=True)


_BINARY = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 0]])

CONFUSION = Rule(
    cases={
        "8 samples of 2 classes": lambda: (_BINARY[0].clone(), _BINARY[1].clone(), 2),
        "60 samples of 3 classes": lambda: _classes(60, 3, 3, 3),
        "one sample": lambda: (torch.tensor([2]), torch.tensor([0]), 3),
        "a class that does not occur": lambda: _classes(50, 2, 4, 4),
        "a class that is never predicted": lambda: _classes(50, 4, 2, 4),
        "300 samples of 7 classes": lambda: _classes(300, 7, 7, 7),
    },
    oracle=_confusion,
    hint="Row t, column p: how many samples of class t were predicted as class p. The matrix has a "
    "row and a column for every class, whether it occurs or not.",
    slips={
        "Rows are the true classes, columns the predicted ones: yours is transposed.": (
            lambda t, p, k: _confusion(t, p, k).T
        ),
        "Return counts, not shares of a row.": _shares,
        "Return counts, not shares of all samples.": lambda t, p, k: _confusion(t, p, k) / len(t),
        "matrix[truth, predicted] += 1 adds to each entry once, however often it is named: count "
        "in a loop, or by torch.bincount.": lambda t, p, k: _confusion(t, p, k).clamp(max=1),
    },
)

RULES = {
    "rnn_parameters": RNN,
    "lstm_parameters": LSTM,
    "encoder_layer_parameters": ENCODER_LAYER,
    "confusion_matrix": CONFUSION,
}
