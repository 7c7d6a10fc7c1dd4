import json
import math
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from autograder.checks import CHECKS, core
from autograder.checks.models import build, nudged, samples
from tests.test_checks_recurrence import layer

SETTINGS = {
    "name": "Transformer", "input_shape": [25, 4], "seed": 7, "steps": 25, "smallest": 1e-3,
}  # fmt: skip


def measured(model):
    evidence = core.perform(CHECKS["self_attention"], SETTINGS, {"model": model})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(model):
    return core.decide(CHECKS["self_attention"], SETTINGS, measured(model))


def sinusoidal(steps, width):
    angles = torch.arange(steps)[:, None] / 1e4 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


class Encoder(nn.Module):
    """Tokens, positions, Transformer encoder, mean over steps, linear layer."""

    width, layers, batch_first, steps, token, scale = 32, 2, True, 25, False, 1.0
    position, options, read = "sinusoidal", {}, "mean"

    def __init__(self):
        super().__init__()
        length = self.steps + self.token
        self.embed = nn.Linear(100 // self.steps, self.width)
        self.register_buffer("sines", sinusoidal(length, self.width))
        if self.position == "zero":
            self.learned = nn.Parameter(torch.zeros(1, length, self.width))
        if self.position == "same":
            self.learned = nn.Parameter(torch.randn(1, 1, self.width))
        if self.token:
            self.first = nn.Parameter(torch.randn(1, 1, self.width))
        self.make()
        self.head = nn.LazyLinear(3)

    def make(self):
        options = {"dropout": 0.1, "batch_first": self.batch_first, **self.options}
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(self.width, 2, 2 * self.width, **options), self.layers
        )

    def tokens(self, x):
        x = self.scale * self.embed(x.reshape(len(x), self.steps, -1))
        if self.token:
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        if self.position == "sinusoidal":
            x = x + self.sines.to(x.dtype)
        return x + self.learned if hasattr(self, "learned") else x

    def mix(self, x):
        return self.encoder(x)

    def forward(self, x):
        x = self.mix(self.tokens(x))
        reads = {"mean": lambda: x.mean(1), "first": lambda: x[:, 0], "last": lambda: x[:, -1],
                 "flat": lambda: x.flatten(1), "max": lambda: x.amax(1)}  # fmt: skip
        return self.head(reads[self.read]())


def called(model):
    """The model after a first pass, which makes its lazy layer."""
    model(torch.rand(2, 25, 4))
    return model


def encoder(mix=None, **members):
    own = {"mix": mix} if mix else {}
    options = {k: members.pop(k) for k in list(members) if not hasattr(Encoder, k)}
    return type("Transformer", (Encoder,), {"options": options, **members, **own})


def masked(mask):
    return encoder(lambda s, x: s.encoder(x, mask=mask.to(x.dtype)))


class Attention(Encoder):
    """Self-attention by hand; `attend` takes queries, keys and values."""

    heads = 1

    def make(self):
        self.q, self.k, self.v = (nn.Linear(self.width, self.width) for _ in range(3))

    def split(self, x):
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2) if self.heads > 1 else x

    def mix(self, x):
        mixed = self.attend(*(self.split(part(x)) for part in (self.q, self.k, self.v)))
        return x + (mixed.transpose(1, 2).flatten(2) if self.heads > 1 else mixed)


def attention(attend, **members):
    def own(self, q, k, v):
        return attend(q, k, v)

    return type("Transformer", (Attention,), {"attend": own, **members})


def scores(q, k):
    return q @ k.mT / math.sqrt(q.shape[-1])


def by_hand(q, k, v):
    weights = torch.exp(scores(q, k))
    return weights / weights.sum(-1, keepdim=True) @ v


def einsum(q, k, v):
    weights = torch.einsum("bqd,bkd->bqk", q, k).softmax(2)
    return torch.einsum("bqk,bkd->bqd", weights, v)


def einsum_heads(q, k, v):
    weights = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def each_sample(q, k, v):
    return torch.stack([scores(q[i], k[i]).softmax(-1) @ v[i] for i in range(len(q))])


class MultiHead(Encoder):
    weights = True

    def make(self):
        self.attention = nn.MultiheadAttention(self.width, 4, batch_first=True, dropout=0.1)

    def mix(self, x):
        return x + self.attention(x, x, x, need_weights=self.weights)[0]


RIGHT = {
    "encoder": Encoder,
    "norm first": encoder(norm_first=True),
    "no dropout": encoder(dropout=0.0),
    "gelu": encoder(activation="gelu"),
    "class token": encoder(token=True, read="first"),
    "positions from zero": encoder(position="zero"),
    "every position": encoder(steps=100),
    "last": encoder(read="last"),
    "maximum": encoder(read="max"),
    "flat": encoder(read="flat"),
    "scaled tokens": encoder(scale=math.sqrt(32)),
    "one narrow layer": encoder(layers=1, width=8),
    "time first": encoder(lambda s, x: s.encoder(x.transpose(0, 1)).transpose(0, 1),
                          batch_first=False),
    "padding": encoder(lambda s, x: s.encoder(
        x, src_key_padding_mask=torch.zeros(x.shape[:2], dtype=torch.bool))),
    "causal": masked(torch.full((25, 25), float("-inf")).triu(1)),
    "double": lambda: Encoder().double(),
    "frozen": lambda: called(Encoder()).requires_grad_(False),
    "multi-head": MultiHead,
    "multi-head without weights": type("Transformer", (MultiHead,), {"weights": False}),
    "softmax": attention(lambda q, k, v: scores(q, k).softmax(-1) @ v),
    "exponentials": attention(by_hand),
    "einsum": attention(einsum),
    "einsum with heads": attention(einsum_heads, heads=4),
    "torch's function": attention(F.scaled_dot_product_attention, heads=4),
    "transposed": attention(lambda q, k, v: (v.mT @ scores(k, q).softmax(1)).mT),
    "each sample": attention(each_sample),
}  # fmt: skip


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_self_attention_is_found(model):
    decided = verdict(model)
    assert decided.status == "passed", decided


TWENTY_FIVE = torch.eye(25)
WRONG = {
    "LSTM": (layer(nn.LSTM), "none"),
    "RNN": (layer(), "none"),
    "flat": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(100, 9), nn.ReLU(), nn.Linear(9, 3)),
             "none"),
    "mean of steps": (encoder(lambda s, x: x), "none"),
    "mixing with weights": (lambda: nn.Sequential(nn.Conv1d(25, 25, 1), nn.ReLU(), nn.Flatten(),
                                                  nn.Linear(100, 3)), "none"),
    "batch_first forgotten": (encoder(batch_first=False), "3×3"),
    "one query": (attention(lambda q, k, v: scores(q.mean(1, True), k).softmax(-1) @ v), "1×25"),
    "softmax over queries": (attention(lambda q, k, v: scores(q, k).softmax(1) @ v), "none"),
    "softmax over samples": (attention(lambda q, k, v: scores(q, k).softmax(0) @ v), "none"),
    "no softmax": (attention(lambda q, k, v: scores(q, k) @ v), "none"),
    "sigmoid": (attention(lambda q, k, v: scores(q, k).sigmoid() @ v), "none"),
    "over features": (attention(lambda q, k, v: v @ (q.mT @ k).softmax(-1)), "none"),
    "softmax as activation": (attention(lambda q, k, v: v + q.softmax(-1) + k.softmax(-1)), "none"),
    "mask of itself": (masked(torch.log(TWENTY_FIVE)), "another place: 0;"),
    "itself alone": (attention(lambda q, k, v: scores(q, k).masked_fill(
        TWENTY_FIVE == 0, -1e9).softmax(-1) @ v), "another place: 0;"),
    "plain average": (attention(lambda q, k, v: torch.full((25, 25), 1 / 25) @ v), "input: 0 "),
    "average so far": (attention(lambda q, k, v: (
        torch.ones(25, 25).tril() / torch.arange(1, 26)[:, None]) @ v), "input: 0 "),
}  # fmt: skip


@pytest.mark.parametrize(("model", "words"), WRONG.values(), ids=WRONG)
def test_what_is_no_self_attention_fails(model, words):
    decided = verdict(model)
    assert decided.status == "failed"
    assert words in decided.rationale


def test_weights_that_hang_on_positions_alone_are_no_self_attention():
    class Positions(Attention):
        def mix(self, x):
            return x + scores(self.q(self.sines), self.k(self.sines)).softmax(-1) @ self.v(x)

    decided = verdict(Positions)
    assert decided.status == "failed"
    assert "input: 0 " in decided.rationale


def test_a_softmax_before_a_layer_is_no_map():
    """Its rows sum to 1 as well, but it is multiplied with weights, not with values."""

    class Squashed(Attention):
        def mix(self, x):
            return x + self.v(self.q(x).softmax(-1))

    assert measured(Squashed)["maps"] == []


def test_a_forgotten_batch_first_is_named():
    hint = verdict(encoder(batch_first=False)).hint
    assert "batch_first=True" in hint
    assert "samples" in hint
    assert "samples" not in verdict(layer()).hint


def test_the_numbers_are_those_of_the_formula():
    """softmax(q kᵀ / √d) in double precision, for the two batches that the check looks at."""
    model = attention(lambda q, k, v: scores(q, k).softmax(-1) @ v)
    evidence = measured(model)
    torch.manual_seed(SETTINGS["seed"])
    net = nudged(build(model, "Transformer", [25, 4]), 7).double()
    with torch.no_grad():
        maps = []
        for seed in (7, 8):
            x = net.tokens(samples([25, 4], 3, seed).double())
            maps.append(scores(net.q(x), net.k(x)).softmax(-1))
    off = maps[0].masked_fill(torch.eye(25) == 1, 0).max()
    assert evidence["queries"] == evidence["keys"] == [25]
    assert evidence["maps"] == [1]
    assert evidence["off_diagonal"] == [pytest.approx(float(off), rel=1e-4)]
    assert evidence["change"] == [pytest.approx(float((maps[0] - maps[1]).abs().max()), rel=1e-4)]


def test_maps_are_counted_by_size():
    evidence = measured(encoder(layers=3, token=True))
    assert (evidence["queries"], evidence["keys"], evidence["maps"]) == ([26], [26], [3])
    assert len(json.dumps(evidence)) < 500


# judging


def judged(steps=25, **changes):
    evidence = {"queries": [25], "keys": [25], "maps": [2], "off_diagonal": [0.2],
                "change": [0.1], "spread": [0.1], **changes}  # fmt: skip
    return core.decide(CHECKS["self_attention"], {**SETTINGS, "steps": steps}, evidence)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "passed"), ({"off_diagonal": [1e-3]}, "passed"), ({"off_diagonal": [9e-4]}, "failed"),
        ({"change": [1e-3]}, "passed"), ({"change": [9e-4]}, "failed"),
        ({"steps": 26}, "failed"), ({"queries": [24]}, "failed"), ({"keys": [24]}, "failed"),
        ({"change": [float("nan")]}, "failed"),
        ({"queries": [], "keys": [], "maps": [], "off_diagonal": [], "change": [],
          "spread": []}, "failed"),
        ({"spread": [0.5]}, "passed"), ({"spread": [0.51]}, "failed"),
        ({"spread": [float("nan")]}, "failed"),
    ],
)  # fmt: skip
def test_limits(changes, status):
    assert judged(**changes).status == status


def test_the_best_of_several_sizes_counts():
    changes = {"queries": [3, 25, 26], "keys": [3, 25, 26], "maps": [1, 1, 1],
               "off_diagonal": [1.0, 0.0, 0.3], "change": [1.0, 1.0, 0.2],
               "spread": [0.1, 0.1, 0.1]}  # fmt: skip
    assert "26 queries" in judged(**changes).rationale


@pytest.mark.parametrize("forged", [{"maps": [-1]}, {"queries": [-25]}, {"change": []}])
def test_impossible_evidence_is_refused(forged):
    with pytest.raises(ValueError, match=r"negative|shorter"):
        judged(**forged)


# channels, and positions


class Channels(nn.Module):
    """An encoder over (B, width, 25)."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Linear(4, 32), nn.Linear(25, 3)
        self.encoder = nn.TransformerEncoderLayer(25, 5, 40, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x).mT).mean(1))


def test_channels_are_no_steps():
    assert measured(Channels)["spread"][0] > 0.7
    decided = verdict(Channels)
    assert decided.status == "failed"
    assert "tokens must be steps" in decided.hint


def test_one_step_is_one_row_of_the_values():
    assert measured(Encoder)["spread"] == [pytest.approx(1 / 25)]


def test_fewer_tokens_than_steps_are_told():
    class Patches(Channels):
        def forward(self, x):
            return self.head(self.encoder(self.embedding(x).mT[:, :13]).mean(1))

    assert "keep at least 25 steps" in verdict(Patches).hint


class Placed(nn.Module):
    """Positions before the encoder, behind it, or nowhere, and a head that flattens."""

    place = "before"

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Linear(4, 16), nn.Linear(25 * 16, 3)
        self.places = nn.Parameter(0.02 * torch.randn(25, 16))
        self.encoder = nn.TransformerEncoderLayer(16, 2, 20, dropout=0.0, batch_first=True)

    def forward(self, x):
        x = self.embedding(x) + (self.places if self.place == "before" else 0)
        x = self.encoder(x) + (self.places if self.place == "behind" else 0)
        return self.head(x.flatten(1))


PLACED = {"name": "T", "input_shape": [25, 4], "seed": 7, "steps": 25, "smallest": 1e-4}


@pytest.mark.parametrize(
    ("place", "status"), [("before", "passed"), ("behind", "failed"), ("nowhere", "failed")]
)
def test_attention_must_see_the_positions(place, status):
    model = type("Transformer", (Placed,), {"place": place})
    seen = core.perform(CHECKS["positions"], PLACED, {"model": model})
    assert core.decide(CHECKS["positions"], PLACED, seen).status == status
    assert (seen["change"][0] > 1e-3) == (status == "passed")
    assert (seen["change"][0] < 1e-6) == (status == "failed")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "passed"), ({"change": [9e-5]}, "failed"), ({"change": [float("nan")]}, "failed"),
        ({"keys": [24]}, "failed"), ({"queries": [], "keys": [], "change": []}, "failed"),
    ],
)  # fmt: skip
def test_limits_of_positions(changes, status):
    evidence = {"queries": [25], "keys": [25], "change": [1e-4], **changes}
    assert core.decide(CHECKS["positions"], PLACED, evidence).status == status


# nothing is left behind


@pytest.mark.parametrize("fast", [True, False])
def test_nothing_of_the_student_changes(fast):
    model = called(Encoder())
    before = [p.clone() for p in model.parameters()]
    states = torch.get_rng_state(), random.getstate()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            assert verdict(model).status == "passed"
            assert torch.backends.cuda.flash_sdp_enabled()
            assert not torch.backends.cuda.math_sdp_enabled()
        assert torch.backends.mha.get_fastpath_enabled() is fast
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert model.training


def test_settings_come_back_after_a_fault():
    broken = encoder(lambda s, x: 1 / 0)
    assert verdict(broken).status == "failed"
    assert torch.backends.mha.get_fastpath_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()


def test_models_made_in_double_precision_pass():
    torch.set_default_dtype(torch.float64)
    try:
        assert verdict(Encoder).status == "passed"
        assert verdict(MultiHead).status == "passed"
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_missing_or_broken_network():
    assert verdict(...).status == "not_answered"
    assert verdict(lambda: nn.Linear(9, 9)).status == "failed"
    assert verdict(encoder(lambda s, x: s.encoder(x * float("nan")))).status == "failed"
