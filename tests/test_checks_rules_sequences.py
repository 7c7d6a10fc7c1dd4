import json

import numpy as np
import pytest
import torch
from torch import nn

from autograder.checks import core
from autograder.checks.functions import same_values
from autograder.checks.rules import RULES

TOLERANCES = {"normalise": 0.006}
NAMES = ["normalise", "to_steps", "rnn_parameters", "lstm_parameters", "encoder_layer_parameters",
         "confusion_matrix"]  # fmt: skip


def verdict(rule, function, cases=None):
    settings = {"name": rule, "rule": rule, "cases": cases or list(RULES[rule].cases), "seed": 3,
                "tolerance": TOLERANCES.get(rule, 1e-9)}  # fmt: skip
    evidence = core.perform(same_values, settings, {"function": function})
    text = json.dumps(evidence, allow_nan=False)
    assert len(text) < 8000
    return core.decide(same_values, settings, json.loads(text))


def by_clamp(positions):
    centred = positions - positions.mean(dim=1, keepdim=True)
    return centred / centred.std(dim=1, keepdim=True).clamp_min(1e-6)


def by_epsilon(positions):
    spread, mean = torch.std_mean(positions, dim=-1, correction=0, keepdim=True)
    return (positions - mean) / (spread + 1e-8)


def by_numpy(positions):
    x = np.asarray(positions, dtype=np.float32)
    still = np.ptp(x, axis=1) == 0
    x = x - x.mean(axis=1, keepdims=True)
    spread = x.std(axis=1, ddof=1)
    return np.where(still[:, None], 0, x / np.where(still, 1, spread)[:, None])


def by_rows(positions):
    rows = []
    for row in positions:
        still = torch.allclose(row, row[0].expand(len(row)))
        rows.append(torch.zeros(len(row)) if still else (row - row.mean()) / row.std())
    return torch.stack(rows)


def by_comparing_with_zero(x):
    spread = x.std(1, keepdim=True)
    return (x - x.mean(1, keepdim=True)) / torch.where(spread == 0, 1, spread)


def gates(count):
    return lambda i, h: count * (h * h + (i + 2) * h)


def of_layer(make):
    return lambda *sizes: sum(p.numel() for p in make(*sizes).parameters())


def by_bincount(truth, predicted, classes):
    pairs = classes * truth + predicted
    return torch.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def by_loop(truth, predicted, classes):
    matrix = np.zeros((classes, classes), dtype=int)
    for t, p in zip(truth, predicted, strict=True):
        matrix[t, p] += 1
    return matrix


def by_variance(x):
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True) + 1e-5).sqrt()


def by_a_large_epsilon(x):
    return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-3)


RIGHT = {
    "normalise": [
        by_variance,
        by_a_large_epsilon,
        by_clamp,
        by_epsilon,
        by_numpy,
        by_rows,
        by_comparing_with_zero,
    ],
    "to_steps": [
        lambda x, n: x.reshape(len(x), -1, n),
        lambda x, n: x.unfold(1, n, n),
        lambda x, n: [[list(row[k : k + n]) for k in range(0, len(row), n)] for row in x.tolist()],
        lambda x, n: np.stack(np.split(x.numpy(), x.shape[1] // n, axis=1), axis=1),
    ],
    "rnn_parameters": [gates(1), of_layer(nn.RNN)],
    "lstm_parameters": [gates(4), of_layer(nn.LSTM), lambda i, h: float(4 * h * (i + h + 2))],
    "encoder_layer_parameters": [
        lambda d, f: 4 * d * d + 9 * d + 2 * d * f + f,
        of_layer(lambda d, f: nn.TransformerEncoderLayer(d, 1, dim_feedforward=f)),
    ],
    "confusion_matrix": [by_bincount, by_loop, lambda *a: by_loop(*a).tolist()],
}


def unguarded(x):
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def kept_where_still(x):
    return torch.where(x.std(1, keepdim=True) == 0, x, unguarded(x))


def by_largest(x):
    centred = x - x.mean(1, keepdim=True)
    return centred / centred.abs().amax(1, keepdim=True).clamp_min(1e-9)


def steps_of_four_at_most(positions, size):
    return positions.reshape(len(positions), -1, min(size, 4))


def counted_once(truth, predicted, classes):
    matrix = torch.zeros(classes, classes)
    matrix[truth, predicted] += 1
    return matrix


def without_empty(truth, predicted, classes):
    matrix = by_loop(truth, predicted, classes)
    keep = np.union1d(truth.numpy(), predicted.numpy())
    return matrix[np.ix_(keep, keep)]


MOVING = {"random walks", "one trajectory", "trajectories of very different scales",
          "a large offset"}  # fmt: skip

# By rule: wrong function, words of the message, cases that it passes nevertheless.
WRONG = {
    "normalise": [
        (lambda x: (x - x.mean()) / x.std(), "of its own", {"one trajectory"}),
        (lambda x: (x - x.mean(0)) / x.std(0), "not over trajectories", set()),
        (lambda x: x - x.mean(1, keepdim=True), "now divide", {"trajectories that never move"}),
        (lambda x: x / x.std(1, keepdim=True), "subtract its mean", set()),
        (by_largest, "standard deviation", {"trajectories that never move"}),
        (unguarded, "0 / 0", MOVING),
        (kept_where_still, "must become zeros", MOVING),
    ],
    "to_steps": [
        (lambda x, n: x.reshape(len(x), n, -1).transpose(1, 2), "every second",
         {"steps of one position", "one step"}),
        (lambda x, n: x.reshape(len(x), n, -1), "how many steps", {"16 positions in steps of 4"}),
        (lambda x, n: x.unfold(1, n, 1), "Keep the order", {"steps of one position", "one step"}),
        (lambda x, n: x.reshape(-1, len(x), n), "Keep the order", set()),
        (lambda x, n: x.reshape(-1, n), "Keep the order", set()),
        (lambda x, n: x.flip(1).reshape(len(x), -1, n), "Keep the order", set()),
        (steps_of_four_at_most, "Keep the order", set(RULES["to_steps"].cases) - {"one step"}),
    ],
    "rnn_parameters": [
        (lambda i, h: h * (h + i + 1), "two biases", set()),
        (lambda i, h: h * (h + i), "biases are parameters", set()),
        (lambda i, h: h * (i + 2), "count both", set()),
        (lambda i, h: h * (h + i + 2) + h + 1, "weight_hh", set()),
        (lambda h, i: h * (h + i + 2), "weight_hh", {"1 input and 1 hidden unit"}),
        (gates(4), "weight_hh", set()),
    ],
    "lstm_parameters": [
        (gates(1), "four such maps", set()),
        (gates(3), "candidate for the cell", set()),
        (lambda i, h: 3 * h * (h + i + 1), "four maps. PyTorch's layer has two biases", set()),
        (lambda i, h: 4 * h * (h + i + 1), "two biases", set()),
    ],
    "encoder_layer_parameters": [
        (lambda d, f: 4 * d * d + 5 * d + 2 * d * f + f, "layer norms", set()),
        (lambda d, f: 4 * d * d + 7 * d + 2 * d * f + f, "two layer norms: one after", set()),
        (lambda d, f: 4 * d * d + 8 * d + 2 * d * f, "feed-forward part have biases", set()),
        (lambda d, f: 4 * d * d + 2 * d * f + 4 * d, "biases too", set()),
        (lambda d, f: 3 * d * d + 8 * d + 2 * d * f + f, "four square", set()),
        (lambda d, f: 4 * d * d + 8 * d + d * f, "two maps", set()),
        (lambda d, f: 8544, "its biases", set()),
    ],
    "confusion_matrix": [
        (lambda t, p, k: by_loop(p, t, k), "transposed", set()),
        (counted_once, "bincount", {"one sample"}),
        (lambda t, p, k: by_loop(t, p, k) / len(t), "of all samples", {"one sample"}),
        (without_empty, "for every class",
         set(RULES["confusion_matrix"].cases) - {"one sample"}),
    ],
}  # fmt: skip
WRONG_ONES = [(rule, *row) for rule, rows in WRONG.items() for row in rows]


@pytest.mark.parametrize("rule", NAMES)
def test_right_functions_pass_every_case(rule):
    for function in RIGHT[rule]:
        assert verdict(rule, function).status == "passed", verdict(rule, function)


@pytest.mark.parametrize(("rule", "function", "words", "passes"), WRONG_ONES)
def test_wrong_functions_fail_with_their_hint(rule, function, words, passes):
    decided = verdict(rule, function)
    assert decided.status == "failed"
    assert words in str(decided)
    passed = {c for c in RULES[rule].cases if verdict(rule, function, [c]).status == "passed"}
    assert passed == passes


@pytest.mark.parametrize("rule", NAMES)
def test_no_slip_equals_the_oracle_everywhere(rule):
    for hint, slip in RULES[rule].slips.items():
        decided = verdict(rule, slip)
        assert decided.status == "failed", hint
        assert hint in str(decided)


def test_row_shares_are_called_shares():
    def shares(truth, predicted, classes):
        matrix = torch.as_tensor(by_loop(truth, predicted, classes))
        return matrix / matrix.sum(1, keepdim=True)

    assert "not shares of a row" in str(verdict("confusion_matrix", shares))


def test_oracles_on_numbers_by_hand():
    assert RULES["rnn_parameters"].oracle(4, 126) == 126 * 126 + 6 * 126
    assert RULES["lstm_parameters"].oracle(4, 63) == 17388
    assert RULES["encoder_layer_parameters"].oracle(32, 64) == 8544
    row = RULES["normalise"].oracle(torch.tensor([[1.0, 3.0], [2.0, 2.0]])).tolist()
    assert row == [[-1, 1], [0, 0]]
    steps = RULES["to_steps"].oracle(torch.tensor([[1, 2, 3, 4]]), 2).tolist()
    assert steps == [[[1, 2], [3, 4]]]
    matrix = RULES["confusion_matrix"].oracle(torch.tensor([0, 0, 1]), torch.tensor([1, 0, 1]), 2)
    assert matrix.tolist() == [[1, 1], [0, 1]]


def test_sizes_are_drawn_anew_for_another_seed():
    def sizes(rule, seed):
        torch.manual_seed(seed)
        return RULES[rule].cases["some sizes"]()

    for rule in ("rnn_parameters", "encoder_layer_parameters"):
        assert len({sizes(rule, seed) for seed in range(5)}) > 1
        assert all(min(sizes(rule, seed)) >= 2 for seed in range(50))
