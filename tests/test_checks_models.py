import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from autograder.checks import CHECKS, core
from autograder.checks.models import samples, scaled

SETTINGS = {
    "name": "CNN", "input_shape": [1, 12, 12], "outputs": 10, "seed": 7, "batches": [1, 2, 7],
    "smallest": 1e-3, "row_sum": 1e-3,
}  # fmt: skip
TOLERANCE = {"batch_independence": 1e-5, "evaluation_mode": 1e-7}
KIND = ["output_shape", "batch_independence", "evaluation_mode", "logits"]
FITTING = [*KIND, "nonlinearity", "pixel_order", "gradient_reach"]


def settings_for(check):
    return {**SETTINGS, "tolerance": TOLERANCE.get(check)}


def verdict(check, model):
    torch.manual_seed(1)
    settings = settings_for(check)
    evidence = core.perform(CHECKS[check], settings, {"model": model})
    return core.decide(CHECKS[check], settings, json.loads(json.dumps(evidence, allow_nan=False)))


def judged(check, evidence, **settings):
    return core.decide(CHECKS[check], settings, evidence)


def layers(activation=nn.ReLU, pool=nn.MaxPool2d, wrap=lambda layer: layer):
    return nn.Sequential(
        wrap(nn.Conv2d(1, 6, 3)), activation(), pool(2), nn.Flatten(),
        wrap(nn.Linear(150, 12)), activation(), wrap(nn.Linear(12, 10)),
    )  # fmt: skip


class Wrapped(nn.Module):
    """The ordinary network, with something done before and after it."""

    def __init__(self):
        super().__init__()
        self.net = layers()
        self.extra()

    def extra(self):
        pass

    def forward(self, images):
        return self.net(images)


def changed(**members):
    return type("CNN", (Wrapped,), members)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding="same", padding_mode="circular")
        self.blocks = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(3))
        self.head = nn.Linear(4 * 36, 10)

    def forward(self, images):
        images = self.stem(images)
        for block in self.blocks:
            images = images + block(images.relu())
        return self.head(F.max_pool2d(images.relu(), 2).flatten(1))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.high = nn.Conv2d(1, 3, (1, 5), padding=(0, 2)), nn.Conv2d(1, 3, (5, 1))
        self.point = nn.Conv2d(1, 3, 1)
        self.head = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))

    def forward(self, x):
        high = F.pad(self.high(x), (0, 0, 2, 2))
        return self.head(torch.cat([self.wide(x), high, self.point(x)], 1).relu())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(12, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, images):
        return self.head(self.rnn(images[:, 0])[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.1, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(12, 10)

    def forward(self, images):
        return self.head(self.encoder(images[:, 0]).mean(1))


def normalised(kind):
    return lambda: nn.Sequential(nn.Conv2d(1, 4, 3), kind(4), nn.ReLU(), nn.Flatten(),
                                 nn.Linear(400, 12), nn.LayerNorm(12), nn.GELU(), nn.Dropout(0.5),
                                 nn.Linear(12, 10))  # fmt: skip


def with_zero_head():
    net = layers()
    nn.init.zeros_(net[-1].weight), nn.init.zeros_(net[-1].bias)
    return net


RIGHT = {
    "function": layers,
    "function with a default": lambda activation=nn.SiLU: layers(activation),
    "instance": layers(),
    "class": Wrapped,
    "residual": Residual,
    "branches": Branches,
    "batch norm": normalised(nn.BatchNorm2d),
    "group norm": normalised(lambda c: nn.GroupNorm(2, c)),
    "instance norm": normalised(nn.InstanceNorm2d),
    "weight norm": lambda: layers(wrap=weight_norm),
    "spectral norm": lambda: layers(wrap=spectral_norm),
    "average pooling": lambda: layers(pool=nn.AvgPool2d),
    "softplus": lambda: layers(nn.Softplus),
    "prelu": lambda: layers(nn.PReLU),
    "elu": lambda: layers(nn.ELU),
    "custom activation": lambda: layers(type("A", (nn.Module,), {
        "forward": lambda s, x: torch.where(x > 0, x, 0.1 * x)})),
    "scaled inputs": changed(forward=lambda s, x: s.net(2 * x.float() - 1)),
    "log-softmax": lambda: nn.Sequential(*layers(), nn.LogSoftmax(1)),
    "zero head": with_zero_head,
    "double": lambda: layers().double(),
    "bfloat16": lambda: layers().bfloat16(),
    "channels last": lambda: layers().to(memory_format=torch.channels_last),
    "prints": changed(forward=lambda s, x: (print(x.shape), s.net(x))[1]),
    "counts its calls": changed(calls=0, forward=lambda s, x: (
        setattr(s, "calls", s.calls + 1), s.net(x))[1]),
    "keeps its activations": changed(forward=lambda s, x: (
        setattr(s, "kept", s.net(x)), s.kept)[1]),
    "attributes named like checks": changed(name="x", logits=3, kind="failed", seed=None,
                                            output_shape=(1,), convolution="no"),
    "branches on the batch size": changed(forward=lambda s, x: (
        s.net(x) if len(x) > 1 else s.net(torch.cat([x, x]))[:1])),
    "reports nothing as parameters": changed(parameters=lambda s, recurse=True: iter(())),
    "is equal to everything": changed(__eq__=lambda s, o: True, __hash__=object.__hash__),
}  # fmt: skip


@pytest.mark.parametrize("check", FITTING)
@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_a_right_network_passes(model, check):
    decided = verdict(check, model)
    assert decided.status == "passed", decided


@pytest.mark.parametrize("check", ["output_shape", "batch_independence", "evaluation_mode"])
@pytest.mark.parametrize("model", [Recurrent, Attention])
def test_recurrent_and_attention_networks_pass(model, check):
    assert verdict(check, model).status == "passed"


SATURATED = {
    "tanh": lambda: layers(nn.Tanh, nn.AvgPool2d),
    "sigmoid": lambda: layers(nn.Sigmoid, nn.AvgPool2d),
    "softsign": lambda: layers(nn.Softsign),
    "dark images": changed(forward=lambda s, x: s.net(x / 255)),
    "clamped images": changed(forward=lambda s, x: s.net(x.clamp(0, 1))),
    "deep": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), *[m for _ in range(6) for m in (
            nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)),
    "attention": Attention,
    "insists on images": changed(forward=lambda s, x: s.net(x) if 0 <= x.min() <= x.max() <= 1
                                 else 1 / 0),
}  # fmt: skip


@pytest.mark.parametrize("model", SATURATED.values(), ids=SATURATED)
def test_small_logits_are_logits(model):
    decided = verdict("logits", model)
    assert decided.status == "passed", decided


# kinds of objects that aren't networks that can be measured


@pytest.mark.parametrize("check", KIND)
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: 5, "int"),
        ("CNN", "str"),
        (changed(__init__=lambda s, width: None), "width"),
        (changed(__init__=lambda s: setattr(s, "net", nn.Linear(1, 1))), "__init__"),
        (changed(forward=lambda s, x: (s.net(x), x)), "tuple"),
        (changed(forward=lambda s, x: {"logits": s.net(x)}), "dict"),
        (changed(forward=lambda s, x: s.net(x).argmax(1)), "float"),
        (changed(forward=lambda s, x: torch.fft.fft(s.net(x))), "float"),
        (changed(forward=lambda s, x: s.net(x.flatten(1))), "(2, 1, 12, 12)"),
        (changed(forward=lambda s, x: s.net[4](x.flatten(1))), "144"),
        (changed(forward=lambda s, x: undefined_name), "undefined_name"),  # noqa: F821
    ],
)
def test_what_is_no_network_fails_with_words_that_help(model, words, check):
    decided = verdict(check, model)
    assert decided.status == "failed"
    assert words in str(decided)


@pytest.mark.parametrize("check", KIND)
def test_a_forward_that_returns_nothing_is_not_answered(check):
    assert verdict(check, changed(forward=lambda s, x: None)).status == "not_answered"
    assert verdict(check, changed(forward=lambda s, x: ...)).status == "not_answered"


# networks that are hard to copy or to switch: never a fault of ours


@pytest.mark.parametrize("check", FITTING)
@pytest.mark.parametrize(
    "model",
    [
        changed(train=lambda s, loader, epochs: None),
        changed(eval=lambda s, loader: None),
        changed(extra=lambda s: setattr(s, "parameters", 2002)),
        changed(parameters=lambda s: 2002),
        changed(extra=lambda s: setattr(s, "losses", (x for x in ()))),
    ],
    ids=["own train", "own eval", "parameters is a number", "parameters() is one", "generator"],
)
def test_own_methods_and_attributes_do_not_break_a_check(model, check):
    decided = verdict(check, model)
    assert decided.status in ("passed", "failed"), decided


@pytest.mark.parametrize("check", FITTING)
def test_an_instance_that_keeps_a_graph_is_measured(check):
    def forward(self, x):
        self.kept = self.net(x)
        return self.kept

    model = changed(forward=forward)()
    model(torch.rand(2, 1, 12, 12))
    assert verdict(check, model).status == "passed"


@pytest.mark.parametrize("check", FITTING)
def test_a_lazy_layer_that_is_never_used_is_no_fault_of_ours(check):
    model = changed(extra=lambda s: setattr(s, "unused", nn.LazyLinear(3)))
    assert verdict(check, model).status in ("passed", "failed")


# inputs and copies


def test_images_are_smooth_and_lie_between_0_and_1():
    images = samples([1, 28, 28], 16, 3)
    assert images.shape == (16, 1, 28, 28)
    assert 0 <= images.min() < 0.2
    assert 0.8 < images.max() <= 1
    neighbours = (images[..., 1:] - images[..., :-1]).std()
    assert neighbours < 0.8 * images.std()  # √2 times for noise


def test_sequences_are_standard_normal():
    steps = samples([25, 4], 400, 3)
    assert steps.shape == (400, 25, 4)
    assert float(steps.mean()) == pytest.approx(0, abs=0.02)
    assert float(steps.std()) == pytest.approx(1, abs=0.02)
    assert float((steps[:, 1:] * steps[:, :-1]).mean()) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("shape", [[1, 12, 12], [25, 4]])
def test_samples_hang_on_the_seed_alone(shape):
    expected, other = samples(shape, 4, 3), samples(shape, 4, 4)
    torch.set_default_dtype(torch.float64)
    try:
        again = samples(shape, 4, 3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert again.dtype == torch.float32
    assert torch.equal(again, expected)
    assert not torch.equal(other, expected)


def test_scaled_parameters_keep_their_size_but_not_their_sign():
    layer = nn.Linear(30, 30)
    large = scaled(layer, {"weight": 8.0}, 1)
    assert torch.equal(large.weight.abs(), 8 * layer.weight.abs())
    assert torch.equal(large.bias, layer.bias)
    flipped = (large.weight * layer.weight < 0).float().mean()
    assert 0.4 < flipped < 0.6


def test_a_forward_that_writes_into_its_input_changes_nothing_of_ours():
    model = changed(forward=lambda s, x: s.net(x.mul_(0.5)))
    for check in FITTING:
        assert verdict(check, model).status == "passed"
