import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks.rules.architectures import run_by_hand
from reference import sequence_shapes as reference
from tests.rules import decided

FUNCTIONS = {
    "sequence_to_sequence": reference.sequence_to_sequence,
    "sequence_to_vector": reference.sequence_to_vector,
    "vector_to_sequence": reference.vector_to_sequence,
    "deep_rnn": reference.deep_rnn,
    "in_pieces": reference.in_pieces,
    "gru_step": reference.gru_step,
    "recurrent_parameters": reference.recurrent_parameters,
    "to_windows": reference.to_windows,
    "split_windows": reference.split_windows,
    "naive_forecast": reference.naive_forecast,
    "rmse": reference.rmse,
}


@pytest.mark.parametrize(("kind", "layers"), [(nn.RNN, 1), (nn.RNN, 3), (nn.GRU, 1), (nn.GRU, 3)])
@pytest.mark.parametrize("given", [False, True])
def test_the_run_by_hand_is_that_of_torch(kind, layers, given):
    torch.manual_seed(4)
    rnn = kind(3, 5, layers, batch_first=True).double()
    inputs = torch.randn(2, 6, 3, dtype=torch.float64)
    h0 = torch.randn(layers, 2, 5, dtype=torch.float64) if given else None
    for ours, theirs in zip(run_by_hand(rnn, inputs, h0), rnn(inputs, h0), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


# Other right ways.


def step_by_step(rnn, readout, inputs):
    h, outputs = None, []
    for x in inputs.split(1, dim=1):
        y, h = rnn(x, h)
        outputs.append(readout(y[:, 0]))
    return torch.stack(outputs, dim=1)


def from_explicit_zeros(rnn, readout, inputs):
    h0 = torch.zeros(rnn.num_layers, inputs.size(0), rnn.hidden_size)
    out, _ = rnn(inputs, h0)
    return readout(out[:, -1, :])


def sequence_by_sequence(rnn, readout, inputs):
    return torch.stack([readout(rnn(one)[1][-1]) for one in inputs])


def generated_by_padding(rnn, readout, vector, length):
    return readout(rnn(F.pad(vector[:, None], (0, 0, 0, length - 1)))[0])


def generated_in_a_loop(rnn, readout, vector, length):
    out, h = rnn(vector.unsqueeze(1))
    outputs = [readout(out)]
    for _ in range(length - 1):
        out, h = rnn(torch.zeros_like(vector).unsqueeze(1), h)
        outputs.append(readout(out))
    return torch.cat(outputs, dim=1)


def deep_in_torch(layers, inputs, h0=None):
    deep = nn.RNN(layers[0].input_size, layers[0].hidden_size, len(layers), batch_first=True)
    for k, layer in enumerate(layers):
        for name, weight in layer.named_parameters():
            deep.get_parameter(name.replace("_l0", f"_l{k}")).data = weight.data
    return deep(inputs, h0)


def deep_from_zeros(layers, inputs, h0=None):
    if h0 is None:
        h0 = torch.zeros(len(layers), inputs.shape[0], layers[0].hidden_size)
    last = h0.clone()
    for k, layer in enumerate(layers):
        inputs, state = layer(inputs, h0[k].unsqueeze(0).contiguous())
        last[k] = state.squeeze(0)
    return inputs, last


def deep_by_cells(layers, inputs, h0=None):
    states = [None] * len(layers) if h0 is None else [h[None] for h in h0]
    outputs, below = [], None
    for x in inputs.split(1, dim=1):
        for k, layer in enumerate(layers):
            below = x if k == 0 else below
            below, states[k] = layer(below, states[k])
        outputs.append(below)
    return [torch.cat(outputs, dim=1), torch.cat(states)]


def pieces_by_slices(rnn, inputs, size, h0=None):
    state = h0 if h0 is not None else torch.zeros(rnn.num_layers, len(inputs), rnn.hidden_size)
    output = inputs.new_empty(*inputs.shape[:2], rnn.hidden_size)
    for t in range(0, inputs.shape[1], size):
        with torch.no_grad():
            output[:, t : t + size], state = rnn(inputs[:, t : t + size], hx=state)
    return output, state


def pieces_of_each_sequence(rnn, inputs, size, h0=None):
    rows = []
    for b in range(len(inputs)):
        h, outs = None if h0 is None else h0[:, b].contiguous(), []
        for piece in inputs[b].split(size):
            out, h = rnn(input=piece, hx=h)
            outs.append(out)
        rows.append((torch.cat(outs), h))
    return torch.stack([o for o, _ in rows]), torch.stack([h for _, h in rows], dim=1)


def pieces_detached(rnn, inputs, size, h0=None):
    outputs, h = [], h0
    for piece in torch.split(inputs, size, 1):
        out, h = rnn.forward(piece, h)
        h = h.detach()
        outputs.append(out.detach())
    return torch.cat(outputs, 1), h


def gru_by_slices(x, h, w_ih, w_hh, b_ih, b_hh):
    n = h.shape[1]
    gi, gh = F.linear(x, w_ih, b_ih), F.linear(h, w_hh, b_hh)
    r = torch.sigmoid(gi[:, :n] + gh[:, :n])
    z = torch.sigmoid(gi[:, n : 2 * n] + gh[:, n : 2 * n])
    new = torch.tanh(gi[:, 2 * n :] + r * gh[:, 2 * n :])
    return new + z * (h - new)


def gru_by_cell(x, h, w_ih, w_hh, b_ih, b_hh):
    cell = nn.GRUCell(x.shape[1], h.shape[1])
    given = {"weight_ih": w_ih, "weight_hh": w_hh, "bias_ih": b_ih, "bias_hh": b_hh}
    return torch.func.functional_call(cell, given, (x, h))


def counted_from_layers(kind, inputs, hidden, layers=1):
    return sum(p.numel() for p in getattr(nn, kind)(inputs, hidden, layers).parameters())


def windows_unfolded(series, width):
    return series[:-1].unfold(0, width, 1).unsqueeze(-1), series[width:].unsqueeze(-1)


def windows_in_lists(series, width):
    values = series.tolist()
    pairs = [(values[k - width : k], values[k]) for k in range(width, len(values))]
    return [[[v] for v in w] for w, _ in pairs], [[t] for _, t in pairs]


def windows_filled(series, width):
    count = len(series) - width
    inputs, targets = torch.empty(count, width, 1), torch.empty(count, 1)
    for i in range(count):
        inputs[i, :, 0], targets[i, 0] = series[i : i + width], series[i + width]
    return inputs, targets


def split_before_windows(series, width, held_out):
    return *windows_unfolded(series[:-held_out], width), *windows_unfolded(
        series[-held_out - width :], width
    )


RIGHT = [
    ("sequence_to_sequence", step_by_step),
    ("sequence_to_vector", from_explicit_zeros),
    ("sequence_to_vector", sequence_by_sequence),
    ("sequence_to_vector", lambda rnn, readout, x: readout(rnn(x)[0])[:, -1]),
    ("vector_to_sequence", generated_by_padding),
    ("vector_to_sequence", generated_in_a_loop),
    ("deep_rnn", deep_in_torch),
    ("deep_rnn", deep_from_zeros),
    ("deep_rnn", deep_by_cells),
    ("in_pieces", pieces_by_slices),
    ("in_pieces", pieces_of_each_sequence),
    ("in_pieces", pieces_detached),
    ("in_pieces", lambda rnn, x, size, h0=None: pieces_by_slices(copy.deepcopy(rnn), x, 1, h0)),
    ("gru_step", gru_by_slices),
    ("gru_step", gru_by_cell),
    ("recurrent_parameters", counted_from_layers),
    ("recurrent_parameters", lambda *a: torch.tensor(counted_from_layers(*a))),
    ("to_windows", windows_unfolded),
    ("to_windows", windows_in_lists),
    ("to_windows", windows_filled),
    ("split_windows", split_before_windows),
    ("naive_forecast", lambda x: x[:, -1, 0].unsqueeze(1)),
    ("naive_forecast", lambda x: x.squeeze(-1)[:, -1:]),
    ("rmse", lambda p, t: F.mse_loss(p.reshape(-1), t.reshape(-1)).sqrt()),
    ("rmse", lambda p, t: (sum((p.reshape(-1, 1) - t.reshape(-1, 1)) ** 2) / len(t)) ** 0.5),
    ("rmse", lambda p, t: torch.dist(p.ravel(), t.ravel()).item() / len(t) ** 0.5),
]


@pytest.mark.parametrize(("rule", "function"), RIGHT)
def test_other_right_ways_pass(rule, function):
    verdict = decided(rule, function)
    assert verdict.status == "passed", str(verdict)


# Mistakes that raise, or that have a message of their own.


def test_a_whole_sequence_at_once_is_no_piece():
    verdict = decided("in_pieces", lambda rnn, inputs, size, h0=None: rnn(inputs, h0))
    assert verdict.status == "failed"
    assert "For 9 steps in pieces of 3: the layer got 9 steps at once, and only 3" in str(verdict)


@pytest.mark.parametrize(("rule", "function", "cases"), [
    ("sequence_to_vector", lambda rnn, readout, x: readout(rnn(x)[1][-1]).squeeze(),
     ["a batch of one", "one feature and one output"]),
    ("deep_rnn", lambda layers, x, h0: reference.deep_rnn(layers, x, h0 + 0),
     ["two layers, without h0"]),
    ("deep_rnn", lambda layers, x, h0=None: reference.deep_rnn(layers, x, h0.contiguous()),
     ["three layers, h0=None"]),
    ("in_pieces", lambda rnn, x, size, h0=None: pieces_by_slices(
        rnn, x[:, : x.shape[1] // size * size], size, h0), ["a batch of one"]),
    ("gru_step", lambda *a: gru_by_slices(*a).squeeze(), ["a batch of one"]),
    ("to_windows", lambda s, w: windows_unfolded(s.float(), w)[::-1], ["a single window"]),
    ("naive_forecast", lambda x: x.squeeze()[:, -1:], ["one window", "windows of one value"]),
    ("rmse", lambda p, t: float((p - t).square().mean().sqrt()),
     ["a column and a row of values", "a row of values and a column"]),
    ("rmse", lambda p, t: (p.flatten() - t.flatten()).abs(), ["two columns"]),
])  # fmt: skip
def test_what_breaks_in_some_cases_fails_there(rule, function, cases):
    for case in cases:
        assert decided(rule, function, [case]).status == "failed", case
