import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import orthogonal

from autograder.checks import CHECKS, core

SETTINGS = {"name": "Net", "input_shape": [1, 12, 12], "seed": 7}
LIMIT = {"nonlinearity": 1e-3, "convolution": 1, "pixel_order": 1e-3}


def measured(check, model):
    torch.manual_seed(1)
    evidence = core.perform(CHECKS[check], SETTINGS, {"model": model})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, model):
    settings = {**SETTINGS, "smallest": LIMIT.get(check)}
    return core.decide(CHECKS[check], settings, measured(check, model))


def judged(check, evidence, **settings):
    return core.decide(CHECKS[check], settings, evidence)


class Act(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def cnn(activation, pool=nn.MaxPool2d, wrap=lambda layer: layer):
    return lambda: nn.Sequential(
        wrap(nn.Conv2d(1, 6, 3)), activation(), pool(2), nn.Flatten(),
        wrap(nn.Linear(150, 12)), activation(), wrap(nn.Linear(12, 10)),
    )  # fmt: skip


def fnn(activation):
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 12), activation(), nn.Linear(12, 10))


# nonlinearity

ACTIVATIONS = [
    nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Tanh, nn.Sigmoid, nn.LogSigmoid, nn.Softplus, nn.Softsign, nn.Tanhshrink, nn.ReLU6,
    nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid,
]  # fmt: skip
BY_HAND = {
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "clamp": lambda x: x.clamp(min=0),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "max with zero": lambda x: torch.max(x, torch.tensor(0.0)),
    "swish": lambda x: x * torch.sigmoid(x),
    "swish as a quotient": lambda x: x / (1 + torch.exp(-x)),
    "square": lambda x: x * x,
    "power": lambda x: x**2,
    "absolute value": torch.abs,
    "half of x + |x|": lambda x: (x + x.abs()) / 2,
    "sine": torch.sin,
    "erf": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    "in place": lambda x: x.relu_(),
    "relu": F.relu,
}
BY_HAND_TOO = {
    "times a mask": lambda x: x * (x > 0),
    "times a float mask": lambda x: x * (x > 0).float(),
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "log-add-exp": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "gated": lambda x: F.glu(torch.cat([x, x], 1), 1),
}


@pytest.mark.parametrize("network", [cnn, fnn])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_of_torch_passes(activation, network):
    assert verdict("nonlinearity", network(activation)).status == "passed"


@pytest.mark.parametrize("network", [cnn, fnn])
@pytest.mark.parametrize("function", BY_HAND.values(), ids=BY_HAND)
def test_an_activation_by_hand_passes(function, network):
    assert verdict("nonlinearity", network(lambda: Act(function))).status == "passed"


@pytest.mark.parametrize("network", [cnn, fnn])
@pytest.mark.parametrize("function", BY_HAND_TOO.values(), ids=BY_HAND_TOO)
def test_a_less_usual_activation_by_hand_passes(function, network):
    assert verdict("nonlinearity", network(lambda: Act(function))).status == "passed"


def test_maxout_passes():
    model = lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(144, 12), nn.Unflatten(1, (6, 2)), Act(lambda x: x.amax(-1)),
        nn.Linear(6, 10),
    )  # fmt: skip
    assert verdict("nonlinearity", model).status == "passed"


LINEAR = {
    "cnn with maximum pooling": cnn(nn.Identity),
    "cnn with average pooling": cnn(nn.Identity, nn.AvgPool2d),
    "cnn with dropout": cnn(nn.Dropout),
    "fnn": fnn(nn.Identity),
    "fnn with dropout": fnn(nn.Dropout),
    "fnn with batch norm": fnn(lambda: nn.BatchNorm1d(12)),
    "one layer": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 10)),
    "activation after the last layer": lambda: nn.Sequential(*fnn(nn.Identity)(), nn.ReLU()),
    "softmax after the last layer": lambda: nn.Sequential(*fnn(nn.Identity)(), nn.Softmax(1)),
    "log-softmax after it": lambda: nn.Sequential(*fnn(nn.Identity)(), nn.LogSoftmax(1)),
    "activation before the first": lambda: nn.Sequential(nn.ReLU(), *fnn(nn.Identity)()),
    "scaled": fnn(lambda: Act(lambda x: 3 * x + 1)),
    "maximum over the map": lambda: nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(6, 10)),
    "no layers": nn.Flatten,
}  # fmt: skip


@pytest.mark.parametrize("model", LINEAR.values(), ids=LINEAR)
def test_a_network_without_activations_fails(model):
    decided = verdict("nonlinearity", model)
    assert decided.status == "failed"
    assert "ReLU" in decided.hint


class Steps(nn.Module):
    """A state that goes through a matrix at each step, with or without an activation."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation
        self.new, self.old, self.head = nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x):
        state = torch.zeros(len(x), 16)
        for step in x.unbind(1):
            state = self.activation(self.new(step) + self.old(state))
        return self.head(state)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer, self.head = kind(4, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


@pytest.mark.parametrize(
    ("model", "status"),
    [
        (lambda: Recurrent(nn.RNN), "passed"), (lambda: Recurrent(nn.LSTM), "passed"),
        (lambda: Steps(torch.tanh), "passed"), (lambda: Steps(torch.relu), "passed"),
        (lambda: Steps(lambda state: state), "failed"),
    ],
)  # fmt: skip
def test_nonlinearity_of_a_recurrent_network(model, status):
    settings = {**SETTINGS, "input_shape": [25, 4], "smallest": 0.05}
    was = torch.backends.mkldnn.enabled
    evidence = core.perform(CHECKS["nonlinearity"], settings, {"model": model})
    assert core.decide(CHECKS["nonlinearity"], settings, evidence).status == status
    assert torch.backends.mkldnn.enabled is was


class Discarded(nn.Module):
    """Calls F.relu, but doesn't use what it returns."""

    def __init__(self, features):
        super().__init__()
        self.features, self.head = features, nn.LazyLinear(10)

    def forward(self, x):
        x = self.features(x)
        F.relu(x)
        return self.head(x.flatten(1))


def test_a_result_that_is_thrown_away_is_no_activation():
    flat = lambda: Discarded(nn.Sequential(nn.Flatten(), nn.Linear(144, 12)))
    assert verdict("nonlinearity", flat).status == "failed"


def test_a_result_that_is_thrown_away_is_none_beside_maximum_pooling_either():
    pooled = lambda: Discarded(nn.Sequential(nn.Conv2d(1, 6, 3), nn.MaxPool2d(2)))
    assert verdict("nonlinearity", pooled).status == "failed"


def test_computing_weights_is_no_activation():
    linear = cnn(nn.Identity, wrap=orthogonal)
    assert verdict("nonlinearity", linear).status == "failed"


def test_a_deviation_below_the_limit_fails_beside_it():
    weak = fnn(lambda: Act(lambda x: x + 1e-4 * x.relu()))
    decided = verdict("nonlinearity", weak)
    assert decided.status == "failed"
    assert "at least 0.001" in decided.rationale


def test_outputs_that_are_not_finite_never_pass():
    broken = fnn(lambda: Act(lambda x: x.relu() / 0))
    assert verdict("nonlinearity", broken).status == "failed"


# convolution


@pytest.mark.parametrize(
    ("layer", "kernel", "output"),
    [
        (nn.Conv2d(1, 2, 5), [5, 5], [8, 8]),
        (nn.Conv2d(1, 2, 3, stride=2), [3, 3], [5, 5]),
        (nn.Conv2d(1, 2, 3, padding="same"), [3, 3], [12, 12]),
        (nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), [3, 3], [12, 12]),
        (nn.Conv2d(1, 2, 3, dilation=2), [3, 3], [8, 8]),
        (nn.Conv2d(1, 2, (1, 5)), [1, 5], [12, 8]),
        (nn.Conv2d(1, 2, 12), [12, 12], [1, 1]),
        (nn.Unfold(5), [5, 5], [8, 8]),
        (nn.Unfold(3, stride=2, padding=1, dilation=2), [3, 3], [5, 5]),
        (Act(lambda x: F.conv2d(x, torch.ones(1, 1, 4, 4))), [4, 4], [9, 9]),
    ],
)
def test_kernel_and_output_are_those_of_the_layer(layer, kernel, output):
    seen = measured("convolution", layer)
    assert (seen["kernels"], seen["outputs"]) == ([kernel], [output])


def flattened(*layers):
    return lambda: nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(10))


CONVOLUTIONS = {
    "3×3": flattened(nn.Conv2d(1, 4, 3)),
    "patches": flattened(nn.Conv2d(1, 4, 4, 4)),
    "1×5 and 5×1": flattened(nn.Conv2d(1, 4, (1, 5)), nn.Conv2d(4, 4, (5, 1))),
    "1×1 beside 3×3": flattened(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3)),
    "depthwise": flattened(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 1)),
    "unfold": flattened(nn.Unfold(3)),
}


@pytest.mark.parametrize("model", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_a_convolution_over_the_image_is_found(model):
    assert verdict("convolution", model).status == "passed"
    assert verdict("no_convolution", model).status == "failed"


NO_CONVOLUTIONS = {
    "none": (fnn(nn.ReLU), "none"),
    "1×1": (flattened(nn.Conv2d(1, 4, 1)), "1×1"),
    "as large as the image": (flattened(nn.Conv2d(1, 4, 12)), "12×12"),
    "of the flat image": (
        lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (144, 1, 1)), nn.Conv2d(144, 8, 1),
                              nn.Flatten(), nn.Linear(8, 10)), "1×1"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "kernels"), NO_CONVOLUTIONS.values(), ids=NO_CONVOLUTIONS)
def test_what_does_not_slide_is_no_convolution(model, kernels):
    decided = verdict("convolution", model)
    assert decided.status == "failed"
    assert "0 (at least 1)" in decided.rationale
    assert decided.rationale.count(kernels)
    assert verdict("no_convolution", model).status == "passed"


def test_one_direction_is_not_enough_for_a_convolutional_network():
    rows = flattened(nn.Conv2d(1, 4, (1, 5)))
    decided = verdict("convolution", rows)
    assert decided.status == "failed"
    assert "1×5" in decided.rationale
    assert verdict("no_convolution", rows).status == "failed"


class Patches(nn.Module):
    """A convolution by hand: one linear layer on every patch of 4×4 pixels."""

    def __init__(self, size):
        super().__init__()
        self.size = size
        self.first, self.last = nn.Linear(size, 3), nn.LazyLinear(10)

    def forward(self, images):
        pixels = images.flatten(1)
        return self.last(self.first(pixels.unfold(1, self.size, self.size)).relu().flatten(1))


@pytest.mark.parametrize(("size", "places"), [(144, 1), (72, 2), (12, 12)])
def test_weights_used_at_several_places_are_counted(size, places):
    assert measured("no_convolution", lambda: Patches(size))["places"] == places
    expected = "passed" if places == 1 else "failed"
    assert verdict("no_convolution", lambda: Patches(size)).status == expected


def test_a_convolution_along_the_flat_image_is_one():
    along = lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(1, 4, 5, 2), nn.Flatten(),
                                  nn.LazyLinear(10))  # fmt: skip
    assert verdict("no_convolution", along).status == "failed"
    assert verdict("convolution", along).status == "failed"


@pytest.mark.parametrize(
    ("kernels", "outputs", "smallest", "status"),
    [
        ([[3, 3]], [[10, 10]], 1, "passed"), ([[3, 3]], [[10, 10]], 2, "failed"),
        ([[3, 3], [3, 3]], [[10, 10], [8, 8]], 2, "passed"), ([], [], 1, "failed"),
        ([[3, 1]], [[10, 10]], 1, "failed"), ([[2, 2]], [[2, 2]], 1, "passed"),
        ([[5, 5]], [[1, 1]], 1, "failed"), ([[5, 5]], [[1, 2]], 1, "failed"),
    ],
)  # fmt: skip
def test_limit_of_convolution(kernels, outputs, smallest, status):
    evidence = {"kernels": kernels, "outputs": outputs, "places": 1}
    assert judged("convolution", evidence, smallest=smallest).status == status


# pixel_order


class Blind(nn.Module):
    """A 1×1 convolution and a mean: the order of the pixels can't matter."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 6, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                 nn.Flatten(), nn.Linear(6, 10))  # fmt: skip

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize(
    "model",
    [
        Blind,
        lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(1, 10)),
        lambda: nn.Sequential(nn.Flatten(), Act(lambda x: x.sort(1).values), nn.Linear(144, 10)),
    ],
)
def test_a_network_that_sees_no_arrangement_fails(model):
    decided = verdict("pixel_order", model)
    assert decided.status == "failed"
    assert "at least 0.001" in decided.rationale
    assert measured("pixel_order", model)["relative"] < 1e-5


@pytest.mark.parametrize(
    "model",
    [
        cnn(nn.ReLU), cnn(nn.Tanh, nn.AvgPool2d), fnn(nn.ReLU),
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                              nn.Linear(8, 10)),
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
                              nn.Linear(8, 10)),
    ],
)  # fmt: skip
def test_a_network_that_sees_the_arrangement_passes(model):
    assert verdict("pixel_order", model).status == "passed"


@pytest.mark.parametrize(
    ("relative", "status"),
    [(1e-3, "passed"), (9.9e-4, "failed"), (0.0, "failed"), (None, "failed")],
)
def test_limit_of_pixel_order(relative, status):
    assert judged("pixel_order", {"relative": relative}, smallest=1e-3).status == status


@pytest.mark.parametrize("check", ["nonlinearity", "convolution", "no_convolution", "pixel_order"])
def test_a_broken_or_missing_network(check):
    assert verdict(check, ...).status == "not_answered"
    assert verdict(check, lambda: Act(lambda x: None)).status == "not_answered"
    assert verdict(check, lambda: nn.Linear(5, 5)).status == "failed"
