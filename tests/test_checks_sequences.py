import json
import math

import pytest
import torch
from torch import nn

from autograder.checks import CHECKS, core
from autograder.checks.models import build, nudged, samples
from tests.test_checks_attention import Attention, Encoder, MultiHead, encoder
from tests.test_checks_recurrence import BOTH, GATED, SIMPLE, Loop, Sum, Within, last, layer, loop

SETTINGS = {"name": "RNN", "input_shape": [25, 4], "seed": 7, "smallest": 1e-4}


def measured(check, model):
    evidence = core.perform(CHECKS[check], SETTINGS, {"model": model})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, model):
    return core.decide(CHECKS[check], SETTINGS, measured(check, model))


class Pooled(nn.Module):
    """A layer on each step, and its mean, maximum or sum over the steps."""

    pool = "mean"

    def __init__(self):
        super().__init__()
        self.steps = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        hidden = self.steps(x)
        return self.head(
            getattr(hidden, {"mean": "mean", "max": "amax", "sum": "sum"}[self.pool])(1)
        )


def pooled(pool):
    return type("Bag", (Pooled,), {"pool": pool})


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 3))


TRANSFORMERS = {
    "encoder": Encoder,
    "class token": encoder(token=True, read="first"),
    "last": encoder(read="last"),
    "maximum": encoder(read="max"),
    "flat": encoder(read="flat"),
    "norm first": encoder(norm_first=True),
    "positions from zero": encoder(position="zero"),
    "positions from zero, scaled, norm first": encoder(
        position="zero", scale=math.sqrt(32), norm_first=True
    ),
    "every position": encoder(steps=100),
    "causal without positions": encoder(
        lambda s, x: s.encoder(x, mask=torch.full((25, 25), float("-inf")).triu(1).to(x.dtype)),
        position=None, read="last",
    ),
    "multi-head": MultiHead,
    "double": lambda: Encoder().double(),
}  # fmt: skip
RECURRENT = {f"{kind}: {name}": model for kind, bank in (("RNN", SIMPLE), ("LSTM", GATED))
             for name, model in (bank | (BOTH if kind == "RNN" else {})).items()}  # fmt: skip
RIGHT = {**RECURRENT, **TRANSFORMERS, "flat MLP": flat}


@pytest.mark.parametrize("check", ["sequence_order", "sequence_reach"])
@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_a_model_that_sees_the_whole_sequence_passes(model, check):
    decided = verdict(check, model)
    assert decided.status == "passed", decided


# order

BLIND = {
    "no positions": encoder(position=None),
    "no positions, last": encoder(position=None, read="last"),
    "no positions, first": encoder(position=None, read="first"),
    "no positions, class token": encoder(position=None, read="first", token=True),
    "no positions, maximum": encoder(position=None, read="max"),
    "no positions, six layers": encoder(position=None, layers=6),
    "no positions, every position": encoder(position=None, steps=100),
    "no positions, scaled": encoder(position=None, scale=math.sqrt(32)),
    "no positions, multi-head": type("T", (MultiHead,), {"position": None}),
    "no positions, double": lambda: encoder(position=None)().double(),
    "the same position everywhere": encoder(position="same"),
    "bag": pooled("mean"),
    "bag, maximum": pooled("max"),
    "state set back at each step, mean": loop(reset=1, mean=True),
    "batch_first forgotten, last": layer(batch_first=False, forward=last),
    "last step alone": lambda: nn.Sequential(Last(), nn.Linear(4, 3)),
    "sorted": lambda: nn.Sequential(Sorted(), nn.Flatten(), nn.Linear(100, 3)),
    "constant": lambda: nn.Sequential(Zeros(), nn.Flatten(), nn.Linear(100, 3)),
}


class Last(nn.Module):
    def forward(self, x):
        return x[:, -1]


class Sorted(nn.Module):
    def forward(self, x):
        return x.sort(1).values


class Zeros(nn.Module):
    def forward(self, x):
        return 0 * x


@pytest.mark.parametrize("model", BLIND.values(), ids=BLIND)
def test_a_model_that_is_blind_to_order_fails(model):
    decided = verdict("sequence_order", model)
    assert decided.status == "failed"
    assert "at least 0.0001" in decided.rationale
    assert measured("sequence_order", model)["relative"] < 1e-5


def test_positions_alone_make_the_difference():
    """The Transformer without positions fails this check and passes the others."""
    model = encoder(position=None)
    settings = {**SETTINGS, "steps": 25, "smallest": 1e-3, "outputs": 3, "row_sum": 1e-3,
                "tolerance": 1e-5, "batches": [1, 3]}  # fmt: skip
    for check in ("self_attention", "sequence_reach", "gradient_reach", "batch_independence",
                  "output_shape", "logits"):  # fmt: skip
        evidence = core.perform(CHECKS[check], settings, {"model": model})
        assert core.decide(CHECKS[check], settings, evidence).status == "passed"
    assert verdict("sequence_order", model).status == "failed"


def test_first_and_last_step_keep_their_place():
    """A model of the first and the last step alone must see no change at all."""

    class Ends(nn.Module):
        def forward(self, x):
            return torch.cat([x[:, 0], x[:, -1]], 1)

    assert measured("sequence_order", Ends)["relative"] == 0


def test_the_change_is_that_of_a_weighted_sum():
    """For Σ t·x(t) the spread is known, and the change is of its size."""

    class Ramp(nn.Module):
        def forward(self, x):
            return (x * torch.arange(25.0)[:, None]).sum(1)

    x, y = samples([25, 4], 16, 7), samples([25, 4], 16, 8)
    spread = float((Ramp()(x) - Ramp()(y)).abs().max())
    generator = torch.Generator().manual_seed(7)
    changes = []
    for _ in range(5):
        order = [0, *(1 + torch.randperm(23, generator=generator)).tolist(), 24]
        changes.append(float((Ramp()(x[:, order]) - Ramp()(x)).abs().max()))
    seen = measured("sequence_order", Ramp)["relative"]
    assert seen == pytest.approx(max(changes) / spread, rel=1e-5)


@pytest.mark.parametrize(
    ("relative", "status"),
    [(1e-4, "passed"), (9.9e-5, "failed"), (0.0, "failed"), (-1.0, "failed"), (None, "failed")],
)
def test_limit_of_sequence_order(relative, status):
    evidence = {"relative": relative}
    assert core.decide(CHECKS["sequence_order"], SETTINGS, evidence).status == status


# reach

UNREACHED = {
    "detached": (loop(detach=True), "only the last step reaches"),
    "reset each step": (loop(reset=1), "only the last step reaches"),
    "reset every fifth step": (loop(reset=5), "only the last 5 steps reach"),
    "last step": (lambda: nn.Sequential(Last(), nn.Linear(4, 3)), "only the last step reaches"),
    "batch_first forgotten": (layer(batch_first=False, forward=last), "only the last step reaches"),
    "first state": (
        layer(forward=lambda s, x: s.head(s.rnn(x)[0][:, 0])), "only the first step reaches"
    ),
    "first ten": (layer(forward=lambda s, x: last(s, x[:, :10])), "only the first 10 steps"),
    "every second step": (layer(forward=lambda s, x: last(s, x[:, ::2])), "Steps 2, 4, 6"),
    "constant": (lambda: nn.Sequential(Zeros(), nn.Flatten(), nn.Linear(100, 3)), "None of the 25"),
    "no gradient": (layer(forward=torch.no_grad()(last)), "None of the 25"),
    "data": (layer(forward=lambda s, x: last(s, x.data)), "None of the 25"),
}  # fmt: skip


@pytest.mark.parametrize(("model", "words"), UNREACHED.values(), ids=UNREACHED)
def test_a_step_that_does_not_reach_the_output_is_named(model, words):
    decided = verdict("sequence_reach", model)
    assert decided.status == "failed"
    assert words in decided.rationale
    assert decided.hint


@pytest.mark.parametrize("model", [pooled("mean"), pooled("max"), Sum, Within, Attention])
def test_pooling_over_steps_lets_all_of_them_through(model):
    model = encoder() if model is Attention else model
    assert verdict("sequence_reach", model).status == "passed"


def test_the_sum_of_normalised_outputs_is_no_trap():
    """Behind a layer norm the plain sum of the outputs has no gradient at all."""
    model = lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 8), nn.LayerNorm(8))
    assert verdict("sequence_reach", model).status == "passed"


def test_what_vanishes_in_single_precision_still_reaches():
    class Forgetful(Loop):
        def step(self, x, h):
            return torch.tanh(self.w(x) + 5e-3 * self.u(h))

    norms = measured("sequence_reach", Forgetful)["norms"]
    assert 0 < norms[0] < 1e-45
    assert verdict("sequence_reach", Forgetful).status == "passed"


def test_a_gradient_that_grows_is_not_called_infinite():
    class Growing(Loop):
        def step(self, x, h):
            return self.w(x) + 20 * self.u(h)

    norms = measured("sequence_reach", Growing)["norms"]
    assert norms[0] > 1e18
    assert verdict("sequence_reach", Growing).status == "passed"


def test_units_that_are_off_hide_no_step():
    class Off(Pooled):
        def __init__(self):
            super().__init__()
            nn.init.constant_(self.steps[0].bias, -1.0)  # most units are off

    assert verdict("sequence_reach", Off).status == "passed"


def test_norms_are_those_of_a_linear_model_by_hand():
    """For W x the gradient of Σ r·(W x) is rᵀ W, in the columns that belong to a step."""
    model = lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 3))
    norms = measured("sequence_reach", model)["norms"]
    torch.manual_seed(SETTINGS["seed"])
    net = build(model, "RNN", [25, 4])
    generator = torch.Generator().manual_seed(7)
    r = torch.randn(64, 3, generator=generator, dtype=torch.float64)
    by_hand = []
    for k in range(3):
        gradient = (r @ nudged(net, 7 + k)[1].weight.double()).unflatten(1, (25, 4))
        by_hand.append(gradient.transpose(0, 1).flatten(1).norm(dim=1))
    assert norms == pytest.approx(torch.stack(by_hand).amax(0).tolist(), rel=1e-5)


def norms(*values):
    return core.decide(CHECKS["sequence_reach"], SETTINGS, {"norms": list(values)})


def test_verdicts_of_sequence_reach():
    assert norms(1e-300, 0.5, 1.0).status == "passed"
    assert "None of the 2" in norms(0.0, 0.0).rationale
    assert "last 2 steps" in norms(0.0, 1.0, 1.0).rationale
    assert "first step" in norms(1.0, 0.0, 0.0).rationale
    assert "Steps 2, 3 of 4" in norms(1.0, 0.0, 0.0, 1.0).rationale
    assert "finite" in norms(1.0, None).rationale
    assert norms(1.0, None).status == "failed"


@pytest.mark.parametrize("values", [[], [1.0, -1.0]])
def test_impossible_norms_are_refused(values):
    with pytest.raises(ValueError, match="negative"):
        norms(*values)


@pytest.mark.parametrize("check", ["sequence_order", "sequence_reach"])
def test_a_missing_or_broken_network(check):
    assert verdict(check, ...).status == "not_answered"
    assert verdict(check, lambda: nn.Linear(9, 9)).status == "failed"
    nan = layer(forward=lambda s, x: last(s, x * float("nan")))
    assert verdict(check, nan).status == "failed"


@pytest.mark.parametrize("check", ["sequence_order", "sequence_reach"])
def test_models_made_in_double_precision_pass(check):
    torch.set_default_dtype(torch.float64)
    try:
        for model in (Encoder, layer(nn.LSTM, forward=last), Loop):
            assert verdict(check, model).status == "passed"
    finally:
        torch.set_default_dtype(torch.float32)


def test_nothing_of_the_student_changes():
    model = layer(forward=last)()
    model(torch.rand(2, 25, 4)).sum().backward()
    before = [(p.clone(), p.grad) for p in model.parameters()]
    state = torch.get_rng_state()
    for check in ("sequence_order", "sequence_reach"):
        verdict(check, model)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, p) and p.grad is g
               for (v, g), p in zip(before, model.parameters(), strict=True))  # fmt: skip
