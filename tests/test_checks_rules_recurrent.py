import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks.rules import RULES
from reference import gradient_flow as reference
from tests.rules import decided

FUNCTIONS = {
    "recurrence": reference.recurrence,
    "recurrence_gradient": reference.recurrence,
    "recurrent_shapes": reference.recurrent_shapes,
    "state_gradient": reference.state_gradient,
    "lstm_step": reference.lstm_step,
    "gradient_norm": reference.gradient_norm,
    "memory_norm": reference.memory_norm,
    "forget_bias": reference.add_forget_bias,
    "influence": reference.influence,
    "is_causal": reference.is_causal,
}


# Other right ways.


def in_place(inputs, h0, w_xh, w_hh):
    states = torch.zeros(*inputs.shape[:2], len(w_hh))
    h = h0
    for t in range(inputs.shape[1]):
        h = torch.tanh(F.linear(inputs[:, t], w_xh) + F.linear(h, w_hh))
        states[:, t] = h
    return states


def by_einsum(inputs, h0, w_xh, w_hh):
    states = [h0]
    for t in range(inputs.shape[1]):
        x = torch.einsum("hd,bd->bh", w_xh, inputs[:, t])
        states.append(torch.tanh(x + torch.einsum("hk,bk->bh", w_hh, states[-1])))
    return torch.stack(states[1:], 1)


def by_exponentials(inputs, h0, w_xh, w_hh):
    h, states = h0, []
    for x in inputs.transpose(0, 1):
        z = x @ w_xh.mT + h @ w_hh.mT
        h = 1 - 2 / (torch.exp(2 * z) + 1)
        states.append(h.unsqueeze(1))
    return torch.cat(states, dim=1)


def row_by_row(inputs, h0, w_xh, w_hh):
    rows = []
    for sequence, start in zip(inputs, h0, strict=True):
        h, states = start, []
        for x in sequence:
            h = torch.tanh(w_xh @ x + w_hh @ h)
            states.append(h)
        rows.append(torch.stack(states))
    return torch.stack(rows)


@pytest.mark.parametrize("function", [in_place, by_einsum, by_exponentials, row_by_row])
def test_a_right_recurrence_passes(function):
    assert decided("recurrence", function).status == "passed"
    assert decided("recurrence_gradient", function).status == "passed"


def detached(inputs, h0, w_xh, w_hh):
    h, states = h0, []
    for x in inputs.unbind(1):
        h = torch.tanh(x @ w_xh.T + h.detach() @ w_hh.T)
        states.append(h)
    return torch.stack(states, 1)


def through_numpy(inputs, h0, w_xh, w_hh):
    return torch.from_numpy(reference.recurrence(inputs, h0, w_xh, w_hh).detach().numpy())


def without_gradient(inputs, h0, w_xh, w_hh):
    with torch.no_grad():
        return reference.recurrence(inputs, h0, w_xh, w_hh)


@pytest.mark.parametrize("function", [detached, through_numpy, without_gradient])
def test_a_state_without_history_has_right_values_and_fails_the_gradient(function):
    assert decided("recurrence", function).status == "passed"
    verdict = decided("recurrence_gradient", function)
    assert verdict.status == "failed"
    assert "detach()" in verdict.hint


def test_a_detached_h0_alone_fails_the_gradient():
    verdict = decided(
        "recurrence_gradient", lambda x, h, w, u: reference.recurrence(x, h.detach(), w, u)
    )
    assert verdict.status == "failed"


def test_the_gradient_of_a_wrong_shape_asks_for_the_values_first():
    verdict = decided("recurrence_gradient", lambda x, h, w, u: h)
    assert (verdict.status, verdict.hint) == ("failed", "Mend the values first.")


def test_float32_states_are_told_so():
    verdict = decided(
        "recurrence", lambda *a: reference.recurrence(*(t.float() for t in a)), ["three features"]
    )
    assert verdict.status == "failed"
    assert "float32" in verdict.hint


def last_alone(inputs, h0, w_xh, w_hh):
    states = reference.recurrence(inputs, h0, w_xh, w_hh)
    return torch.cat([states[:, :-1].detach(), states[:, -1:]], 1)


def weights_detached(inputs, h0, w_xh, w_hh):
    return reference.recurrence(inputs, h0, w_xh.detach(), w_hh.detach())


@pytest.mark.parametrize("function", [last_alone, weights_detached])
def test_every_state_has_a_gradient_to_every_argument(function):
    assert decided("recurrence", function).status == "passed"
    assert decided("recurrence_gradient", function).status == "failed"


def test_states_beside_the_last_state_are_told_so():
    verdict = decided("recurrence", lambda *a: (reference.recurrence(*a), a[1]))
    assert (verdict.status, verdict.hint) == ("failed", "Return the states alone.")


# Shapes: the rule asks torch; here they are counted.


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_shapes_are_those_of_the_documentation(layers, both, first):
    output, last = RULES["recurrent_shapes"].oracle(2, 7, 5, layers, both, first)
    assert tuple(output) == (*((2, 7) if first else (7, 2)), 10 if both else 5)
    assert tuple(last) == (layers * (2 if both else 1), 2, 5)


def by_trial(batch, length, hidden, layers=1, bidirectional=False, batch_first=True):
    rnn = nn.RNN(1, hidden, layers, bidirectional=bidirectional, batch_first=batch_first)
    size = (batch, length, 1) if batch_first else (length, batch, 1)
    output, last = rnn(torch.zeros(size))
    return output.shape, last.shape


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda *a: (torch.zeros(4, 7, 5), torch.zeros(1, 4, 5)), ".shape"),
        (lambda *a: ((4, 7, 5), (4, 5)), "h_n has 2 numbers, not 3"),
    ],
)
def test_what_can_not_be_shapes_is_named(function, words):
    verdict = decided("recurrent_shapes", function)
    assert verdict.status == "failed"
    assert words in str(verdict)


def test_shapes_by_trial_pass():
    assert decided("recurrent_shapes", by_trial).status == "passed"


# The gradient at the beginning.


def by_backward(rnn, inputs, h0):
    h0.requires_grad_()
    output = rnn(inputs, h0)[0][:, -1]
    F.mse_loss(output, torch.zeros_like(output)).backward()
    return h0.grad


def of_last_state(rnn, inputs, h0):
    start = nn.Parameter(h0)
    return torch.autograd.grad((rnn(inputs, start)[1] ** 2).mean(), start)[0]


def by_jacobian(rnn, inputs, h0):
    return torch.autograd.functional.jacobian(lambda h: rnn(inputs, h)[1].pow(2).mean(), h0)


@pytest.mark.parametrize("function", [by_backward, of_last_state, by_jacobian])
def test_a_right_gradient_passes(function):
    assert decided("state_gradient", function).status == "passed"


def test_the_oracle_is_what_finite_differences_give():
    torch.manual_seed(0)
    with torch.no_grad():
        rnn = nn.RNN(2, 3, batch_first=True).double()
        inputs, h0 = torch.randn(2, 6, 2).double(), torch.randn(1, 2, 3).double()
        expected = RULES["state_gradient"].oracle(rnn, inputs, h0)
        loss = lambda h: float(rnn(inputs, h)[0][:, -1].square().mean())
        for place in np.ndindex(*h0.shape):
            step = torch.zeros_like(h0)
            step[place] = 1e-5
            slope = (loss(h0 + step) - loss(h0 - step)) / 2e-5
            assert float(expected[place]) == pytest.approx(slope, rel=1e-6, abs=1e-10)


def test_a_detached_loss_is_quoted():
    def cut(rnn, inputs, h0):
        h0.requires_grad_()
        loss = rnn(inputs, h0)[0][:, -1].square().mean().detach()
        return torch.autograd.grad(loss, h0)[0]

    verdict = decided("state_gradient", cut)
    assert verdict.status == "failed"
    assert "does not require grad" in verdict.rationale


def test_float32_underflows_over_100_steps():
    def single(rnn, inputs, h0):
        return reference.state_gradient(rnn.float(), inputs.float(), h0.float())

    assert decided("state_gradient", single, ["100 steps"]).status == "failed"


# The experiments.


@pytest.mark.parametrize("seed", range(20))
def test_norms_by_hand_are_those_of_autograd_to_the_last_digits(seed):
    torch.set_default_dtype(torch.float64)
    try:
        for length in (1, 2, 30, 100):
            of_rnn = RULES["gradient_norm"].oracle(length, seed)
            assert reference.gradient_norm(length, seed) == pytest.approx(float(of_rnn), rel=1e-12)
            for bias in (-20, 0, 0.5, 2):
                of_lstm = RULES["memory_norm"].oracle(length, bias, seed)
                assert reference.memory_norm(length, bias, seed) == pytest.approx(
                    float(of_lstm), rel=1e-9
                )
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("length", [2, 100])
def test_every_norm_is_compared_on_its_own(length):
    wrong = lambda n, seed: reference.gradient_norm(n, seed) * (1 + 1e-5 * (n == length))
    verdict = decided("gradient_norm", wrong)
    assert verdict.status == "failed"
    assert f"for {length} steps" in verdict.rationale.lower()


@pytest.mark.parametrize("kind", [torch.tensor, lambda v: torch.tensor([[v]]), np.float64])
def test_a_norm_may_come_as_any_kind_of_number(kind):
    function = lambda n, seed: kind(reference.gradient_norm(n, seed))
    assert decided("gradient_norm", function).status == "passed"


@pytest.mark.parametrize("result", [float("nan"), torch.zeros(5), "0.1"])
def test_what_is_no_norm_is_named(result):
    verdict = decided("gradient_norm", lambda n, seed: result)
    assert verdict.status == "failed"
    assert "norm().item()" in verdict.hint


# The LSTM.


def gate_by_gate(x, h, c, w_ih, w_hh, b_ih, b_hh):
    size = h.shape[1]
    z = F.linear(x, w_ih, b_ih) + F.linear(h, w_hh, b_hh)
    i, f, g, o = (z[:, k * size : (k + 1) * size] for k in range(4))
    squash = lambda v: 1 / (1 + (-v).exp())
    c = squash(f) * c + squash(i) * g.tanh()
    return squash(o) * c.tanh(), c


def by_concatenation(x, h, c, w_ih, w_hh, b_ih, b_hh):
    z = torch.cat([x, h], 1) @ torch.cat([w_ih, w_hh], 1).T + (b_ih + b_hh)
    i, f, g, o = z.reshape(len(x), 4, -1).unbind(1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return [o.sigmoid() * c.tanh(), c]


@pytest.mark.parametrize("function", [gate_by_gate, by_concatenation])
def test_a_right_step_passes(function):
    assert decided("lstm_step", function).status == "passed"


def by_data(lstm, value):
    size = lstm.hidden_size
    for bias in (lstm.bias_ih_l0, lstm.bias_hh_l0):
        bias.data[size : 2 * size] += value
    return lstm


def by_new_parameters(lstm, value):
    more = torch.zeros(4, lstm.hidden_size)
    more[1] = value
    lstm.bias_ih_l0 = nn.Parameter(lstm.bias_ih_l0 + more.flatten())
    lstm.bias_hh_l0 = nn.Parameter(lstm.bias_hh_l0 + more.flatten())
    return lstm


def by_names(lstm, value):
    with torch.no_grad():
        for name, parameter in lstm.named_parameters():
            if "bias" in name:
                parameter.chunk(4)[1].add_(value)
    return lstm


@pytest.mark.parametrize("function", [by_data, by_new_parameters, by_names])
def test_a_right_forget_bias_passes(function):
    assert decided("forget_bias", function).status == "passed"


def test_changed_weights_fail():
    def spoil(lstm, value):
        lstm.weight_hh_l0.data[0, 0] += 1e-6
        return by_data(lstm, value)

    assert decided("forget_bias", spoil).status == "failed"


@pytest.mark.parametrize("result", [torch.zeros(20), nn.RNN(1, 5), (1, 2), nn.Linear(1, 1), "lstm"])
def test_what_is_no_lstm_is_named(result):
    verdict = decided("forget_bias", lambda lstm, value: result)
    assert verdict.status == "failed"
    assert "return it" in verdict.hint


def test_a_parameter_changed_outside_of_no_grad_is_quoted():
    def careless(lstm, value):
        lstm.bias_ih_l0[5:10] += value
        return lstm

    verdict = decided("forget_bias", careless)
    assert verdict.status == "failed"
    assert "in-place" in verdict.rationale


# Causality.


def outputs_of(layer, inputs):
    result = layer(inputs)
    return result[0] if isinstance(result, tuple) else result


def by_unit_vectors(layer, inputs):
    inputs = inputs.clone().requires_grad_()
    output = outputs_of(layer, inputs)[0]
    squares = torch.zeros(len(output), inputs.shape[1])
    for t in range(len(output)):
        for k in range(output.shape[1]):
            layer.zero_grad()
            inputs.grad = None
            output[t, k].backward(retain_graph=True)
            squares[t] += (inputs.grad[0] ** 2).sum(1)
    return squares**0.5


def by_torch(layer, inputs):
    found = torch.autograd.functional.jacobian(lambda x: outputs_of(layer, x), inputs)
    return found[0, :, :, 0].pow(2).sum(dim=(1, 3)).sqrt()


@pytest.mark.parametrize("function", [by_unit_vectors, by_torch])
def test_a_right_influence_passes(function):
    assert decided("influence", function).status == "passed"


def by_changed_inputs(layer, inputs):
    """No gradient at all: does a changed later input change an output?"""
    with torch.no_grad():
        before = outputs_of(layer, inputs)[0]
        for s in range(1, inputs.shape[1]):
            other = inputs.clone()
            other[0, s] += torch.randn(inputs.shape[2])
            if not torch.allclose(outputs_of(layer, other)[0, :s], before[:s], rtol=0, atol=1e-12):
                return False
    return True


@pytest.mark.parametrize(
    "function",
    [
        by_changed_inputs,
        lambda layer, x: torch.all(by_torch(layer, x).triu(1) == 0),
        lambda layer, x: bool(np.triu(by_torch(layer, x), 1).max() < 1e-9),
    ],
)
def test_a_right_decision_passes(function):
    assert decided("is_causal", function).status == "passed"


def test_a_diagonal_that_counts_as_future_is_told_so():
    verdict = decided("is_causal", lambda layer, x: bool((by_torch(layer, x).triu() == 0).all()))
    assert verdict.status == "failed"
    assert "diagonal itself is the present" in verdict.hint


@pytest.mark.parametrize("result", ["True", torch.ones(5, 5) > 0, (True, False)])
def test_what_is_no_decision_is_named(result):
    verdict = decided("is_causal", lambda layer, x: result)
    assert verdict.status == "failed"
    assert "one True or False" in verdict.hint


@pytest.mark.parametrize(
    "future",
    [
        lambda matrix: matrix[:-1, -1],
        lambda matrix: matrix[0, 1:],
        lambda matrix: matrix.diagonal(1),
        lambda matrix: (matrix.triu(1) > 1e-3) * matrix,
    ],
)
def test_who_looks_at_part_of_the_future_alone_fails(future):
    decide = lambda layer, x: bool((future(by_torch(layer, x)) < 1e-12).all())
    assert decided("is_causal", decide).status == "failed"


def by_beginnings(layer, inputs):
    whole = outputs_of(layer, inputs)
    return all(
        torch.allclose(outputs_of(layer, inputs[:, :n]), whole[:, :n], rtol=0, atol=1e-9)
        for n in range(1, inputs.shape[1])
    )


def test_beginnings_of_the_sequence_decide_as_well():
    assert decided("is_causal", by_beginnings).status == "passed"


def test_no_answer_is_always_right():
    for answer in (True, False):
        assert decided("is_causal", lambda layer, x, a=answer: a).status == "failed"


@pytest.mark.parametrize("seed", range(20))
def test_future_influence_is_far_from_rounding(seed):
    """The text promises that it is above 1e-6, or not there at all."""
    torch.set_default_dtype(torch.float64)
    try:
        for make in RULES["influence"].cases.values():
            torch.manual_seed(seed)
            future = RULES["influence"].oracle(*make()).triu(1).max().item()
            assert future == 0 or future > 1e-6
    finally:
        torch.set_default_dtype(torch.float32)
