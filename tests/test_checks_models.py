import json
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from autograder.checks import CHECKS, core

SETTINGS = {
    "name": "CNN", "input_shape": [1, 12, 12], "outputs": 10, "seed": 7, "batches": [1, 2, 7],
    "smallest": 1e-3,
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


# output_shape


@pytest.mark.parametrize(
    ("forward", "batch", "seen"),
    [
        (lambda s, x: s.net(x).squeeze(), 1, "(10,)"),
        (lambda s, x: s.net(x)[:, :9], 2, "(2, 9)"),
        (lambda s, x: s.net(x)[:1], 7, "(1, 10)"),
        (lambda s, x: s.net(x)[..., None], 1, "(1, 10, 1)"),
        (lambda s, x: s.net(x).sum(), 2, "()"),
    ],
)
def test_a_wrong_shape_is_named_beside_the_expected_one(forward, batch, seen):
    decided = verdict("output_shape", changed(forward=forward))
    assert decided.status == "failed"
    assert f"a batch of {batch} gives shape {seen}" in decided.rationale
    assert f"({batch}, 10)" in decided.rationale


def test_only_the_batch_of_one_is_named_when_only_that_is_wrong():
    decided = verdict("output_shape", changed(forward=lambda s, x: s.net(x).squeeze()))
    assert "batch of 2" not in decided.rationale


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


# batch_independence


@pytest.mark.parametrize(
    "model",
    [
        changed(forward=lambda s, x: s.net(x - x.mean())),
        changed(forward=lambda s, x: s.net(x) + s.net(x).sum(0)),
        changed(forward=lambda s, x: s.net(x.flip(0))),
        lambda: nn.Sequential(
            layers()[0], nn.BatchNorm2d(6, track_running_stats=False), *layers()[1:]
        ),
        changed(forward=lambda s, x: s.net(x) + torch.rand(1)),
        lambda: nn.Sequential(*layers(), nn.Softmax(0)),
    ],
)  # fmt: skip
def test_samples_that_depend_on_each_other_fail(model):
    decided = verdict("batch_independence", model)
    assert decided.status == "failed"
    seen, allowed = re.search(r"by (\S+) \(allowed: (\S+)\)", decided.rationale).groups()
    assert float(seen) > float(allowed) >= 1e-5


@pytest.mark.parametrize(
    ("difference", "scale", "status"),
    [
        (1e-5, 0.0, "passed"), (1.01e-5, 1.0, "failed"),
        (9.9e-5, 10.0, "passed"), (1.01e-4, 10.0, "failed"),  # relative to large outputs
        (None, 1.0, "failed"), (0.0, None, "failed"),
    ],
)  # fmt: skip
def test_limit_of_batch_independence(difference, scale, status):
    evidence = {"difference": difference, "scale": scale}
    assert judged("batch_independence", evidence, tolerance=1e-5).status == status


def test_the_measured_dependence_is_the_true_one():
    class Mean(nn.Module):  # f(x) = mean of x + 0.5 · mean over the batch
        def forward(self, x):
            means = x.flatten(1).mean(1, keepdim=True)
            return (means + 0.5 * means.mean()).expand(-1, 10)

    evidence = core.perform(
        CHECKS["batch_independence"], settings_for("batch_independence"), {"model": Mean}
    )
    from autograder.checks.models import pictures

    x = pictures([1, 12, 12], 5, 7).flatten(1).mean(1).double()
    others = torch.cat([x[:1], 1 - x[1:]])
    alone = (0.5 * (x.mean() - x)).abs().max()
    beside = 0.5 * (x.mean() - others.mean()).abs()
    assert evidence["difference"] == pytest.approx(float(max(alone, beside)), rel=1e-4)


# evaluation_mode


@pytest.mark.parametrize(
    "forward",
    [
        lambda s, x: s.net(F.dropout(x, 0.3)),
        lambda s, x: s.net(x) + torch.rand(len(x), 1),
        lambda s, x: s.net(x + 0.1 * torch.randn_like(x)),
        lambda s, x: nn.Linear(10, 10)(s.net(x)),
        lambda s, x: (setattr(s, "n", getattr(s, "n", 0) + 1), s.net(x) * s.n)[1],
    ],
)
def test_an_evaluation_that_changes_fails(forward):
    decided = verdict("evaluation_mode", changed(forward=forward))
    assert decided.status == "failed"
    assert float(re.search(r"differ by (\S+)", decided.rationale)[1]) > 1e-7
    assert "1e-07" in decided.rationale


def test_dropout_that_follows_the_mode_passes():
    def forward(self, x):
        return self.net(F.dropout(x, 0.5, self.training))

    assert verdict("evaluation_mode", changed(forward=forward)).status == "passed"


@pytest.mark.parametrize(
    ("difference", "status"),
    [(0.0, "passed"), (1e-7, "passed"), (1.1e-7, "failed"), (None, "failed")],
)
def test_limit_of_evaluation_mode(difference, status):
    assert judged("evaluation_mode", {"difference": difference}, tolerance=1e-7).status == status


# logits


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (nn.Softmax(1), "sums to 1"), (nn.Sigmoid(), "between 0 and 1"), (nn.ReLU(), "negative"),
        (nn.Softplus(), "negative"), (nn.ReLU6(), "negative"), (nn.Tanh(), "between -1 and 1"),
        (nn.Hardtanh(), "between -1 and 1"), (nn.Softmin(1), "sums to 1"),
    ],
)  # fmt: skip
def test_a_squashed_output_fails(last, words):
    decided = verdict("logits", lambda: nn.Sequential(*layers(), last))
    assert decided.status == "failed"
    assert words in decided.rationale
    tanh = verdict("logits", lambda: nn.Sequential(*layers(nn.Tanh), last))
    assert tanh.status == "failed"


def test_softmax_by_hand_fails():
    def forward(self, x):
        e = self.net(x).exp()
        return e / e.sum(1, keepdim=True)

    assert verdict("logits", changed(forward=forward)).status == "failed"


@pytest.mark.parametrize("check", ["batch_independence", "evaluation_mode", "logits"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_never_pass(check, value):
    decided = verdict(check, changed(forward=lambda s, x: s.net(x) * 0 + value))
    assert decided.status == "failed"
    assert "finite" in decided.rationale


@pytest.mark.parametrize(
    ("smallest", "largest", "row_sum_error", "status"),
    [
        (-3.0, 4.0, 5.0, "passed"),
        (-1e-6, 4.0, 5.0, "passed"),
        (0.0, 4.0, 5.0, "failed"),
        (0.0, 1.0, 1e-7, "failed"),
        (-1.0, 1.0, 5.0, "failed"),
        (-1.001, 1.0, 5.0, "passed"),
        (-1.0, 1.001, 5.0, "passed"),
        (-9.0, -0.1, 5.0, "passed"),  # log-probabilities
        (None, 1.0, 5.0, "failed"),
    ],
)
def test_limits_of_logits(smallest, largest, row_sum_error, status):
    evidence = {"smallest": smallest, "largest": largest, "row_sum_error": row_sum_error}
    assert judged("logits", evidence).status == status


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
