import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks import CHECKS, core
from autograder.checks.models import samples
from tests.test_checks_models import changed, judged, layers, settings_for, verdict

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
    x = samples([1, 12, 12], 5, 7).flatten(1).mean(1).double()
    others = torch.cat([x[:1], samples([1, 12, 12], 4, 8).flatten(1).mean(1).double()])
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


class Remembering(nn.Module):
    """A recurrence that forgets where it started, unless its weights are large."""

    kept = None

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.RNN(4, 60, batch_first=True), nn.Linear(60, 3)

    def start(self, x):
        return torch.zeros(1, len(x), 60)

    def forward(self, x):
        output, state = self.rnn(x, self.start(x))
        self.kept = state.detach()
        return self.head(output[:, -1])


def from_the_last_call(self, x):
    new = self.kept is None or self.kept.shape[1] != len(x)
    return torch.zeros(1, len(x), 60) if new else self.kept


STARTS = {
    "zeros": (Remembering.start, "passed"),
    "the last call": (from_the_last_call, "failed"),
    "random": (lambda s, x: 1e-3 * torch.randn(1, len(x), 60), "failed"),
}


@pytest.mark.parametrize(("start", "status"), STARTS.values(), ids=STARTS)
def test_a_state_from_elsewhere_is_noticed_though_it_fades(start, status):
    model = type("RNN", (Remembering,), {"start": start})
    settings = {"name": "RNN", "input_shape": [25, 4], "seed": 7, "tolerance": 1e-7}
    check = CHECKS["evaluation_mode"]
    decided = core.decide(check, settings, core.perform(check, settings, {"model": model}))
    assert decided.status == status
    assert "no state from one call" in decided.hint or status == "passed"


def test_large_weights_that_overflow_are_no_fault():
    def forward(self, x):
        return self.net(x).square().square().square().square().square().square()

    assert verdict("evaluation_mode", changed(forward=forward)).status == "passed"


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
    assert judged("logits", evidence, row_sum=1e-3).status == status


class Biased(nn.Module):
    """Logits of three classes that hardly hang on the input: all positive, or all negative."""

    def __init__(self):
        super().__init__()
        self.steps, self.head = nn.Linear(4, 16), nn.Linear(16, 3)
        nn.init.constant_(self.steps.bias, 2.0), nn.init.constant_(self.head.weight, 0.5)

    def forward(self, x):
        return self.head(self.steps(x).tanh().sum(1))


class Overflowing(nn.Module):
    """A softmax by hand without the largest value taken off, which large weights overflow."""

    def __init__(self):
        super().__init__()
        self.queries, self.values, self.head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        weights = torch.exp(self.queries(x) @ self.queries(x).mT)
        return self.head((weights / weights.sum(-1, keepdim=True) @ self.values(x)).mean(1))


class Growing(nn.Module):
    """A ReLU network with a state, whose outputs reach the end of single precision."""

    def __init__(self):
        super().__init__()
        self.steps, self.head = (
            nn.RNN(4, 64, nonlinearity="relu", batch_first=True),
            nn.Linear(64, 3),
        )

    def forward(self, x):
        return self.head(self.steps(x)[0][:, -1])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [Biased, Overflowing, Growing])
def test_unusual_logits_of_a_sequence_are_logits(model, seed):
    settings = {**settings_for("logits"), "input_shape": [25, 4], "seed": seed}
    decided = core.decide(
        CHECKS["logits"], settings, core.perform(CHECKS["logits"], settings, {"model": model})
    )
    assert decided.status == "passed", decided


def test_the_limit_of_row_sums_is_a_setting():
    evidence = {"smallest": 0.0, "largest": 3.0, "row_sum_error": 0.01}
    assert "sums to 1" in judged("logits", evidence, row_sum=0.02).rationale
    assert "ReLU" in judged("logits", evidence, row_sum=1e-3).rationale


class Forgotten(nn.Module):
    """A recurrent layer or a Transformer that takes the samples for steps."""

    def __init__(self, part):
        super().__init__()
        self.part, self.head = part(), nn.Linear(8, 3)

    def forward(self, x):
        output = self.part(torch.cat([x, x], 2))
        return self.head((output[0] if isinstance(output, tuple) else output).mean(1))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "part",
    [
        lambda first: nn.RNN(8, 8, batch_first=first),
        lambda first: nn.LSTM(8, 8, batch_first=first),
        lambda first: nn.TransformerEncoderLayer(8, 2, 16, batch_first=first),
    ],
)
def test_a_forgotten_batch_first_mixes_the_samples(part, first):
    settings = {**settings_for("batch_independence"), "input_shape": [25, 4]}
    model = lambda: Forgotten(lambda: part(first))
    evidence = core.perform(CHECKS["batch_independence"], settings, {"model": model})
    decided = core.decide(CHECKS["batch_independence"], settings, evidence)
    assert decided.status == ("passed" if first else "failed")
