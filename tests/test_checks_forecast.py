import json
import math

import pytest
import torch
from torch import nn

from autograder import data
from autograder.checks import CHECKS, core
from autograder.training import Recipe, fit_values

SERIES = {"seed": 5, "first": 0, "steps": 120, "width": 6, "held_out": 40}
FORECAST = {"name": "forecaster", **SERIES, "largest_ratio": 0.6}
PAST = {"name": "history", **SERIES}


def values():
    return data.oscillation(120, 5)


class Knowing(nn.Module):
    """Finds the window in the series by heart, and adds `off` to the value after it."""

    def __init__(self, off=0.0):
        super().__init__()
        self.register_buffer("series", values())
        self.off = nn.Parameter(torch.tensor(off))

    def forward(self, windows):
        known = self.series.unfold(0, 6, 1)[:-1]
        return self.series[6:][torch.cdist(windows[..., 0], known).argmin(1)][:, None] + self.off


class Wrapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.one, self.function = nn.Parameter(torch.ones(())), function

    def forward(self, windows):
        return self.function(windows) * self.one


def decided(check, settings, objects):
    evidence = core.perform(CHECKS[check], settings, objects)
    assert len(json.dumps(evidence, allow_nan=False)) < 4000
    return core.decide(CHECKS[check], settings, evidence)


def naive_error():
    series = values()
    return (series[-40:] - series[-41:-1]).double().square().mean().sqrt().item()


def forecast(model, **changes):
    return decided("forecast", {**FORECAST, **changes}, {"model": model})


def test_knowing_the_future_has_no_error():
    verdict = forecast(Knowing())
    assert verdict.status == "passed", str(verdict)
    assert "The ratio is 0.00" in verdict.rationale


@pytest.mark.parametrize(("share", "status"), [(0.59, "passed"), (0.61, "failed")])
def test_the_ratio_is_that_of_the_errors(share, status):
    verdict = forecast(Knowing(share * naive_error()))
    assert verdict.status == status
    assert f"The ratio is {share:.2f} (at most 0.6)" in verdict.rationale


def test_the_naive_forecast_is_recognised():
    verdict = forecast(Wrapped(lambda windows: windows[:, -1]))
    assert verdict.status == "failed"
    assert "ratio is 1.00" in verdict.rationale
    assert "repeating the last value" in verdict.hint


@pytest.mark.parametrize("function", [
    lambda w: w[:, -1] * 0, lambda w: w.mean(1), lambda w: 2 * w[:, -1] - w[:, -2],
    lambda w: w[:, 0], lambda w: w[:, -1] + math.nan, lambda w: w[:, -1] + math.inf,
])  # fmt: skip
def test_other_simple_forecasts_fail(function):
    assert forecast(Wrapped(function)).status == "failed"


@pytest.mark.parametrize(
    "function", [lambda w: w[:, -1, 0], lambda w: w, lambda w: w[:1, -1], lambda w: w[..., 0]]
)
def test_another_shape_is_named(function):
    verdict = forecast(Wrapped(function))
    assert verdict.status == "failed"
    assert "(40, 1)" in verdict.hint


def test_a_later_part_is_another_series():
    later = {"seed": 6, "first": 120, "steps": 46}
    verdict = forecast(Knowing(), **later)
    assert "over 40 values" in verdict.rationale
    assert "The ratio is 0.00" not in verdict.rationale  # its noise is not known


@pytest.mark.parametrize("forecasts", [[], [0.0] * 39, [0.0] * 41])
def test_forged_forecasts_of_another_number_are_refused(forecasts):
    with pytest.raises(ValueError, match="not one forecast"):
        core.decide(CHECKS["forecast"], FORECAST, {"values": forecasts})


@pytest.mark.parametrize("value", [None, 1e308, -1e308, 0.0])
def test_forged_forecasts_do_not_pass(value):
    verdict = core.decide(CHECKS["forecast"], FORECAST, {"values": [value] * 40})
    assert verdict.status == "failed"


def test_the_truth_stands_in_no_evidence():
    evidence = core.perform(CHECKS["forecast"], FORECAST, {"model": Wrapped(lambda w: w[:, -1])})
    assert list(evidence) == ["values"]
    assert evidence["values"][1:] == pytest.approx(values()[-40:-1].tolist(), abs=1e-5)


@pytest.mark.parametrize(("model", "status"), [
    (Knowing, "failed"), (3, "failed"), (None, "not_answered"), (..., "not_answered"),
])  # fmt: skip
def test_what_is_no_model(model, status):
    assert forecast(model).status == status


# past_only


def trained_on(inputs, targets):
    recipe = Recipe(1, 64, 0.01, 3, "cpu")
    return fit_values(nn.Sequential(nn.Flatten(), nn.Linear(6, 1)), inputs, targets, recipe)


def pairs():
    series = values()
    return torch.stack([series[k : k + 6, None] for k in range(114)]), series[6:, None]


def past_only(inputs, targets):
    return decided("past_only", PAST, {"history": trained_on(inputs, targets)})


@pytest.mark.parametrize("chosen", [slice(0, 74), slice(0, 60), slice(10, 74, 2)])
def test_training_on_the_past_passes(chosen):
    inputs, targets = pairs()
    verdict = past_only(inputs[chosen], targets[chosen])
    assert verdict.status == "passed", str(verdict)


def test_training_on_the_past_in_any_order_passes():
    inputs, targets = pairs()
    order = torch.randperm(74)
    assert past_only(inputs[order], targets[order]).status == "passed"


@pytest.mark.parametrize(
    ("chosen", "later"),
    [(slice(0, 75), 1), (slice(0, None), 40), (slice(0, None, 2), 20), (slice(74, None), 40)],
)
def test_a_held_out_target_is_found(chosen, later):
    inputs, targets = pairs()
    verdict = past_only(inputs[chosen], targets[chosen])
    assert verdict.status == "failed"
    assert f"{later} of {len(targets[chosen])} training targets are held-out" in verdict.rationale


@pytest.mark.parametrize("change", [
    lambda x, y: (x, x[:, -1]), lambda x, y: (x[:-1], y[1:]), lambda x, y: (x.flip(1), y),
    lambda x, y: (2 * x, 2 * y), lambda x, y: (x, y.flip(0)), lambda x, y: (x[:, :, :] + 1, y),
])  # fmt: skip
def test_other_pairs_are_found(change):
    inputs, targets = pairs()
    verdict = past_only(*change(inputs[:74], targets[:74]))
    assert verdict.status == "failed"
    assert "not pairs of the given series" in verdict.rationale


def test_repeated_pairs_are_found():
    inputs, targets = (part[:74].repeat(2, *[1] * (part.dim() - 1)) for part in pairs())
    assert "74 training pairs are there more than once" in past_only(inputs, targets).rationale


@pytest.mark.parametrize("history", [[1.0], nn.Linear(1, 1)])
def test_what_is_no_record_is_named(history):
    verdict = decided("past_only", PAST, {"history": history})
    assert verdict.status == "failed"
    assert "fit_values" in verdict.rationale


@pytest.mark.parametrize("change", [
    {"samples": -1}, {"different": 80}, {"past": 80}, {"later": -1}, {"later": 40},
])  # fmt: skip
def test_forged_counts_are_refused(change):
    evidence = {"samples": 74, "different": 74, "past": 74, "later": 0, **change}
    with pytest.raises(ValueError, match="counts"):
        core.decide(CHECKS["past_only"], PAST, evidence)


def test_no_samples_is_no_training():
    evidence = {"samples": 0, "different": 0, "past": 0, "later": 0}
    assert core.decide(CHECKS["past_only"], PAST, evidence).status == "failed"


# recurrent_layers, unbounded, gradient_reach of one output


class Reader(nn.Module):
    def __init__(self, layer, last=None):
        super().__init__()
        self.layer, self.last = layer, nn.Linear(layer.hidden_size, 1)
        self.after = last or nn.Identity()

    def forward(self, x):
        return self.after(self.last(self.layer(x)[0][:, -1]))


class Linear(nn.Module):
    """A recurrence without activation."""

    hidden_size = 5

    def __init__(self):
        super().__init__()
        self.into, self.on = nn.Linear(1, 5), nn.Linear(5, 5)

    def forward(self, x):
        h = x.new_zeros(len(x), 5)
        for step in x.unbind(1):
            h = self.into(step) + self.on(h)
        return h[:, None], h


LAYERS = {"name": "F", "input_shape": [12, 1], "seed": 3, "layers": 2, "units": 8}
ONE = {"name": "F", "input_shape": [12, 1], "seed": 3, "outputs": 1, "row_sum": 1e-3}


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("bias", [True, False])
def test_two_layers_of_each_kind_are_recurrent_layers(kind, bias):
    model = Reader(kind(1, 8, 2, batch_first=True, bias=bias))
    for check, settings in (("recurrent_layers", LAYERS), ("unbounded", ONE),
                            ("gradient_reach", ONE)):  # fmt: skip
        verdict = decided(check, settings, {"model": model})
        assert verdict.status == "passed", f"{check}: {verdict}"


@pytest.mark.parametrize("layer", [
    lambda: nn.RNN(1, 8, 1, batch_first=True), lambda: nn.LSTM(1, 8, 1, batch_first=True),
    lambda: nn.GRU(1, 8, 2),
])  # fmt: skip
def test_fewer_layers_or_another_direction_are_not_two(layer):
    assert decided("recurrent_layers", LAYERS, {"model": Reader(layer())}).status == "failed"


@pytest.mark.parametrize("layer", [
    lambda: nn.RNN(1, 16, 2, batch_first=True), lambda: nn.RNN(1, 8, 3, batch_first=True),
    lambda: nn.GRU(1, 9, 2, batch_first=True), lambda: nn.LSTM(1, 4, 2, batch_first=True),
])  # fmt: skip
def test_layers_of_another_width_and_a_third_layer_are_told(layer):
    verdict = decided("recurrent_layers", LAYERS, {"model": Reader(layer())})
    assert verdict.status == "failed"
    assert "2 recurrent layers with 8 hidden units" in verdict.hint


class Joined(nn.Module):
    """State and input side by side, as (x h) W, with or without gates; a stack of matrices."""

    hidden_size = 8

    def __init__(self, gates):
        super().__init__()
        self.gates = gates
        self.first = nn.Parameter(torch.randn(9, 8 * (1 + 3 * gates)) / 3)
        self.second = nn.Parameter(torch.randn(1, 16, 8 * (1 + 3 * gates)) / 4)

    def forward(self, x):
        states = cells = [x.new_zeros(len(x), 8)] * 2
        for step in x.unbind(1):
            below = step
            for k, weight in enumerate((self.first, self.second[0])):
                made = torch.cat([below, states[k]], 1) @ weight
                if self.gates:
                    i, f, o, g = made.chunk(4, 1)
                    c = f.sigmoid() * cells[k] + i.sigmoid() * g.tanh()
                    cells = [c, cells[1]] if k == 0 else [cells[0], c]
                below = o.sigmoid() * c.tanh() if self.gates else made.tanh()
                states = [below, states[1]] if k == 0 else [states[0], below]
        return states[1][:, None], None


@pytest.mark.parametrize("gates", [False, True])
def test_matrices_for_state_and_input_together_have_the_right_width(gates):
    verdict = decided("recurrent_layers", LAYERS, {"model": Reader(Joined(gates))})
    assert verdict.status == "passed", str(verdict)


def test_a_linear_recurrence_is_no_recurrent_layer():
    settings = {**LAYERS, "layers": 1, "units": 5}
    verdict = decided("recurrent_layers", settings, {"model": Reader(Linear())})
    assert verdict.status == "failed"
    assert "linear" in verdict.hint


@pytest.mark.parametrize("last", [nn.Tanh(), nn.Sigmoid(), nn.ReLU(), nn.Softmax(1)])
def test_a_bounded_forecast_is_told_as_one(last):
    model = Reader(nn.RNN(1, 8, batch_first=True), last)
    verdict = decided("unbounded", ONE, {"model": model})
    assert verdict.status == "failed"
    assert "forecast" in verdict.hint


def test_a_parameter_that_one_output_does_not_reach_is_found():
    model = Reader(nn.RNN(1, 8, batch_first=True))
    model.spare = nn.Linear(2, 2)
    verdict = decided("gradient_reach", ONE, {"model": model})
    assert verdict.status == "failed"
    assert "spare" in verdict.rationale
