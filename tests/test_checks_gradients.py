import json

import pytest
import torch
from torch import nn

from autograder.checks import CHECKS, core
from autograder.checks.models import build, nudged, samples

SETTINGS = {"name": "Net", "input_shape": [1, 6, 6], "outputs": 4, "seed": 5}


def measured(model):
    torch.manual_seed(2)
    evidence = core.perform(CHECKS["gradient_reach"], SETTINGS, {"model": model})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(model):
    return core.decide(CHECKS["gradient_reach"], SETTINGS, measured(model))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(36, 8), nn.Linear(8, 4)
        self.extra()

    def extra(self):
        pass

    def forward(self, x):
        return self.last(self.first(x.flatten(1)).relu())


def changed(**members):
    return type("Net", (Net,), members)


def zero_head(self):
    nn.init.zeros_(self.last.weight), nn.init.zeros_(self.last.bias)


def everywhere(value):
    def extra(self):
        for p in self.parameters():
            nn.init.constant_(p, value)

    return extra


@pytest.mark.parametrize(
    "model",
    [
        Net,
        Net(),
        changed(extra=zero_head),
        changed(extra=everywhere(0.0)),
        changed(extra=everywhere(1e-4)),
        changed(forward=lambda s, x: Net.forward(s, x).log_softmax(1)),
        lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.Tanh(), nn.Linear(6, 4)),
        lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(),
                              nn.Dropout(0.5), nn.Linear(48, 4)),
    ],
)  # fmt: skip
def test_a_gradient_that_reaches_everything_passes(model):
    assert verdict(model).status == "passed"


def test_norms_are_those_of_the_loss_by_hand():
    """Softmax regression: d loss / d W = (p − onehot)ᵀ x / n."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
    norms = measured(model)["norms"]
    x = samples([1, 6, 6], 32, 5).flatten(1)
    by_hand = {"1.weight": [], "1.bias": []}
    for seed in (5, 6, 7):  # the largest of three starts counts
        used = nudged(build(model, "Net", [1, 6, 6]), seed)
        with torch.no_grad():
            p = (x @ used[1].weight.T + used[1].bias).softmax(1)
        error = p - nn.functional.one_hot(torch.arange(32) % 4, 4)
        by_hand["1.weight"].append(float((error.T @ x / 32).norm()))
        by_hand["1.bias"].append(float(error.mean(0).norm()))
    for name, values in by_hand.items():
        assert norms[name] == pytest.approx(max(values), rel=1e-4)


UNREACHED = {
    "unused layer": (changed(extra=lambda s: setattr(s, "spare", nn.Linear(3, 3))), "spare.weight"),
    "detach": (
        changed(forward=lambda s, x: s.last(s.first(x.flatten(1)).relu().detach())), "first.weight"
    ),
    "data": (changed(forward=lambda s, x: s.last(s.first(x.flatten(1)).data)), "first.bias"),
    "numpy": (
        changed(forward=lambda s, x: torch.from_numpy(
            Net.forward(s, x).detach().numpy())), "last.weight"
    ),
    "no_grad": (changed(forward=torch.no_grad()(Net.forward)), "last.bias"),
    "inference mode": (changed(forward=torch.inference_mode()(Net.forward)), "last.bias"),
    "times zero": (
        changed(extra=lambda s: setattr(s, "gate", nn.Parameter(torch.ones(4))),
                forward=lambda s, x: Net.forward(s, x) + 0 * s.gate), "gate"
    ),
    "step": (
        changed(forward=lambda s, x: s.last(s.first(x.flatten(1)).sign())), "first.weight"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "name"), UNREACHED.values(), ids=UNREACHED)
def test_an_unreached_tensor_is_named(model, name):
    decided = verdict(model)
    assert decided.status == "failed"
    assert f"no gradient reaches {name}" in decided.rationale or f", {name}" in decided.rationale
    assert "detach" in decided.hint


def test_only_the_unreached_tensors_are_named():
    assert "last" not in verdict(UNREACHED["detach"][0]).rationale


def test_a_frozen_tensor_is_named():
    decided = verdict(changed(extra=lambda s: s.first.weight.requires_grad_(False)))
    assert decided.status == "failed"
    assert "first.weight can't learn" in decided.rationale
    assert "first.bias" not in decided.rationale


def test_a_frozen_tensor_is_told_where_to_lie():
    decided = verdict(changed(extra=lambda s: s.first.weight.requires_grad_(False)))
    assert "register_buffer" in decided.hint


class Recurrent(nn.Module):
    """One state of two layers in both directions, or of each."""

    layers, reverse = 1, False

    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(4, 6, self.layers, batch_first=True, bidirectional=self.reverse)
        self.head = nn.LazyLinear(3)

    def read(self, output, state):
        return state[-1]

    def forward(self, x):
        return self.head(self.read(*self.rnn(x)))


SILENT = {
    "reversed": ({"reverse": True, "read": lambda s, o, h: o[:, -1]}, "h_n[-2] and h_n[-1]"),
    "first layer": ({"layers": 2, "read": lambda s, o, h: h[0]}, "the top one is h_n[-1]"),
    "cut": ({"read": lambda s, o, h: h[-1].detach()}, "detach()"),
}


@pytest.mark.parametrize(("members", "words"), SILENT.values(), ids=SILENT)
def test_a_silent_recurrent_layer_is_told_where_its_state_lies(members, words):
    settings = {"name": "RNN", "input_shape": [25, 4], "outputs": 3, "seed": 7}
    check, model = CHECKS["gradient_reach"], type("RNN", (Recurrent,), members)
    decided = core.decide(check, settings, core.perform(check, settings, {"model": model}))
    assert decided.status == "failed"
    assert words in decided.hint


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_never_passes(value):
    decided = verdict(changed(forward=lambda s, x: Net.forward(s, x) * value))
    assert decided.status == "failed"
    assert "first.weight" in decided.rationale
    assert "not finite" in decided.rationale


def test_a_network_without_parameters_fails():
    decided = verdict(lambda: nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten()))
    assert decided.status == "failed"
    assert "no parameters" in decided.rationale


def test_a_wrong_shape_is_named_first():
    decided = verdict(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 5)))
    assert decided.status == "failed"
    assert "(32, 5)" in decided.rationale


def test_a_backward_pass_that_breaks_fails_in_words():
    def forward(self, x):
        hidden = self.first(x.flatten(1)).sigmoid()
        hidden += 1  # sigmoid's gradient needs what was overwritten
        return self.last(hidden)

    decided = verdict(changed(forward=forward))
    assert decided.status == "failed"
    assert "inplace" in decided.rationale


@pytest.mark.parametrize(
    ("norms", "missing", "frozen", "status"),
    [
        ({"w": 1e-30}, [], [], "passed"), ({"w": 0.0}, [], [], "failed"),
        ({"w": None}, [], [], "failed"), ({"w": 1.0}, ["b"], [], "failed"),
        ({"w": 1.0}, [], ["b"], "failed"), ({}, [], [], "failed"), ({}, [], ["b"], "failed"),
    ],
)  # fmt: skip
def test_limits(norms, missing, frozen, status):
    evidence = {"norms": norms, "missing": missing, "frozen": frozen}
    assert core.decide(CHECKS["gradient_reach"], SETTINGS, evidence).status == status


def test_the_gradients_of_an_instance_stay_as_they_were():
    model = Net()
    model(torch.rand(2, 1, 6, 6)).sum().backward()
    before = [p.grad.clone() for p in model.parameters()]
    assert verdict(model).status == "passed"
    assert all(torch.equal(g, p.grad) for g, p in zip(before, model.parameters(), strict=True))
