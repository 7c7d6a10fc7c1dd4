import copy
import json

import pytest
import torch
from torch import nn

from autograder.checks import CHECKS, core
from autograder.checks.parameters import EXAMPLES, trainable, unowned

SHAPE = {"input_shape": [12], "seed": 3}
BUDGET = {"name": "Net", **SHAPE, "smallest": 100, "largest": 200}
PAIR = {"names": ["CNN", "FNN"], **SHAPE, "tolerance": 0.05}


def measured(check, settings, **objects):
    evidence = core.perform(CHECKS[check], settings, objects)
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, settings, **objects):
    return core.decide(CHECKS[check], settings, measured(check, settings, **objects))


def count(model):
    """Trainable values as the budget check counts them, with what the module does not own."""
    evidence = measured("parameter_budget", BUDGET, model=model)
    return sum(evidence["tensors"].values()), evidence["unowned"]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(12, 12), nn.Linear(12, 12)
        self.up.weight = self.down.weight

    def forward(self, x):
        return self.up(self.down(x))


class Reused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)
        self.same = nn.ModuleList([self.layer, self.layer])

    def forward(self, x):
        return self.same[1](self.same[0](self.layer(x)))


class Sequence(nn.Module):
    """A recurrent network or a Transformer over twelve steps of one number."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        output = self.part(x[..., None].expand(-1, -1, 4))
        return output[0] if isinstance(output, tuple) else output


def sequence(part):
    return lambda: Sequence(part())


def rnn(i, h, gates):
    return gates * (h * h + i * h + 2 * h)


def encoder(d, f):
    return 4 * d * d + 9 * d + 2 * d * f + f


FORMULAS = {
    "linear": (lambda: nn.Linear(12, 10), 130),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(7), nn.LazyLinear(3)), (12 * 7 + 7) + (7 * 3 + 3)),
    "tied": (Tied, 144 + 12 + 12),
    "reused": (Reused, 144 + 12),
    "batch norm": (lambda: nn.BatchNorm1d(12), 24),
    "frozen": (lambda: nn.Sequential(nn.Linear(12, 4).requires_grad_(False), nn.Linear(4, 3)), 15),
    "rnn": (sequence(lambda: nn.RNN(4, 5, batch_first=True)), rnn(4, 5, 1)),
    "gru": (sequence(lambda: nn.GRU(4, 5, batch_first=True)), rnn(4, 5, 3)),
    "lstm": (sequence(lambda: nn.LSTM(4, 5, batch_first=True)), rnn(4, 5, 4)),
    "two layers": (
        sequence(lambda: nn.LSTM(4, 5, 2, batch_first=True)), rnn(4, 5, 4) + rnn(5, 5, 4)
    ),
    "both directions": (
        sequence(lambda: nn.LSTM(4, 5, batch_first=True, bidirectional=True)), 2 * rnn(4, 5, 4)
    ),
    "transformer layer": (
        sequence(lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)), encoder(4, 8)
    ),
    "transformer": (
        sequence(lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 3)), 3 * encoder(4, 8)
    ),
    "weight norm": (
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(12, 10)), 120 + 10 + 10
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "expected"), FORMULAS.values(), ids=FORMULAS)
def test_counts_agree_with_the_formulas(model, expected):
    assert count(model) == (expected, 0)


@pytest.mark.parametrize(("model", "expected"), FORMULAS.values(), ids=FORMULAS)
def test_counting_an_instance_leaves_it_alone(model, expected):
    made = model().train()
    made(torch.rand(2, 12))
    before = {name: value.clone() for name, value in made.state_dict().items()}
    assert count(made) == (expected, 0)
    after = made.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(before[name], value) for name, value in after.items())
    assert made.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in made.modules())
    made(torch.rand(2, 12))


def test_an_instance_with_lazy_layers_stays_lazy():
    model = nn.Sequential(nn.LazyLinear(3))
    assert count(model) == (39, 0)
    assert nn.parameter.is_lazy(model[0].weight)


# what hides from a plain count


class Lying(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 10)

    def forward(self, x):
        return self.layer(x)


def lying(**members):
    return type("Net", (Lying,), members)


SECRET = nn.Parameter(torch.ones(10))


@pytest.mark.parametrize(
    ("model", "owned", "hidden"),
    [
        (lying(parameters=lambda s, recurse=True: iter(())), 130, 0),
        (lying(named_parameters=lambda s, *a, **k: iter(())), 130, 0),
        (lying(forward=lambda s, x: s.layer(x) * SECRET), 130, 10),
        (lying(forward=lambda s, x: nn.Linear(10, 3)(s.layer(x))), 130, 33),
        (lying(tools=[nn.Linear(10, 2)], forward=lambda s, x: s.tools[0](s.layer(x))), 130, 22),
        (lying(forward=lambda s, x: s.layer(x) + torch.ones(10)), 130, 0),
        (lying(forward=lambda s, x: s.layer(x) * s.layer.weight.sum()), 130, 0),
    ],
)
def test_hidden_parameters_are_found(model, owned, hidden):
    assert count(model) == (owned, hidden)


def test_hidden_parameters_cost_the_budget_and_count_in_a_pair():
    hiding = lying(forward=lambda s, x: s.layer(x) * SECRET)
    decided = verdict("parameter_budget", BUDGET, model=hiding)
    assert decided.status == "failed"
    assert "10 trainable values that the module does not own" in decided.rationale
    evidence = measured("matched_parameters", PAIR, first=Lying, second=hiding)
    assert evidence == {"first": 130, "second": 140}


def test_what_forward_marks_itself_is_not_hidden():
    """Saliency maps ask for the gradient of the images."""
    assert count(lying(forward=lambda s, x: s.layer(x.requires_grad_()))) == (130, 0)


def test_trainable_and_unowned_on_their_own():
    model = FORMULAS["frozen"][0]()
    assert trainable(model) == 15
    assert unowned(model, model(torch.rand(1, 12)) * SECRET[:3].sum()) == 10
    assert unowned(model, torch.ones(3)) == 0


def test_an_unused_lazy_layer_is_named_not_a_fault_of_ours():
    class Net(Lying):
        def __init__(self):
            super().__init__()
            self.spare = nn.LazyLinear(3)

    assert verdict("parameter_budget", BUDGET, model=Net).status in ("passed", "failed")


# parameter_budget


@pytest.mark.parametrize(
    ("smallest", "largest", "status"),
    [
        (130, 130, "passed"), (100, 200, "passed"), (131, 200, "failed"), (100, 129, "failed"),
    ],
)  # fmt: skip
def test_limits_of_the_budget(smallest, largest, status):
    settings = {**BUDGET, "smallest": smallest, "largest": largest}
    decided = verdict("parameter_budget", settings, model=Lying)
    assert decided.status == status
    assert all(str(n) in decided.rationale for n in (130, smallest, largest))


def test_a_network_over_budget_is_told_its_largest_tensors():
    decided = verdict("parameter_budget", BUDGET, model=lambda: nn.Linear(12, 5000))
    assert "65,000" in decided.rationale
    assert "weight (60,000)" in decided.hint


@pytest.mark.parametrize("model", [nn.Identity, nn.Flatten])
def test_a_network_without_parameters_fails(model):
    decided = verdict("parameter_budget", BUDGET, model=model)
    assert decided.status == "failed"
    assert "0 trainable" in decided.rationale


def test_a_frozen_network_has_no_trainable_parameters():
    frozen = lambda: nn.Linear(12, 10).requires_grad_(False)
    assert verdict("parameter_budget", BUDGET, model=frozen).status == "failed"


# matched_parameters


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (20000, 21000, "passed"), (20000, 21001, "failed"),
        (20000, 19000, "passed"), (20000, 18999, "failed"),
        (20000, 20000, "passed"), (0, 0, "failed"), (0, 5, "failed"), (20000, 0, "failed"),
    ],
)  # fmt: skip
def test_limits_of_matching(first, second, status):
    decided = core.decide(CHECKS["matched_parameters"], PAIR, {"first": first, "second": second})
    assert decided.status == status
    if first:
        assert all(f"{n:,}" in decided.rationale for n in (first, second))
        assert "5%" in decided.rationale


def test_matching_names_the_network_that_is_broken():
    decided = verdict("matched_parameters", PAIR, first=Lying, second=lambda: nn.Linear(5, 5))
    assert decided.status == "failed"
    assert "FNN" in decided.rationale
    assert verdict("matched_parameters", PAIR, first=Lying, second=...).status == "not_answered"


# counter


def right(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


SIMPLE = {
    "name": "count_parameters",
    "models": [
        "a linear layer",
        "a small CNN",
        "batch norm (its running statistics are no parameters)",
    ],
}
SPECIAL = {"name": "count_parameters", "models": [
    "a frozen layer", "two layers that share a weight", "a parameter outside any layer",
    "an LSTM"]}  # fmt: skip


@pytest.mark.parametrize("kind", EXAMPLES)
def test_examples_have_the_count_that_stands_beside_them(kind):
    model, expected = EXAMPLES[kind]()
    distinct = {id(p): p for m in model.modules() for p in m._parameters.values() if p is not None}
    assert sum(p.numel() for p in distinct.values() if p.requires_grad) == expected


@pytest.mark.parametrize("settings", [SIMPLE, SPECIAL])
@pytest.mark.parametrize(
    "function",
    [
        right,
        lambda m: torch.tensor(right(m)),
        lambda m: float(right(m)),
        lambda m: torch.nn.utils.parameters_to_vector(
            [p for p in m.parameters() if p.requires_grad]
        ).numel(),
    ],
)
def test_a_right_count_passes(function, settings):
    assert verdict("counter", settings, function=function).status == "passed"


@pytest.mark.parametrize(
    ("function", "settings", "words"),
    [
        (lambda m: sum(p.numel() for p in m.parameters()), SPECIAL, "counted 39, it has 15"),
        (
            lambda m: sum(v.numel() for v in m.state_dict().values()),
            SIMPLE,
            "counted 33, it has 16",
        ),
        (lambda m: sum(right(c) for c in m.children()), SPECIAL, "counted 84, it has 48"),
        (lambda m: sum(len(p) for p in m.parameters()), SIMPLE, "counted 10, it has 65"),
        (lambda m: right(m) + 1, SIMPLE, "counted 66, it has 65"),
        (lambda m: right(m) + 0.5, SIMPLE, "counted 65.5, it has 65"),
        (lambda m: float("nan"), SIMPLE, "not a number"),
        (lambda m: (right(m),), SIMPLE, "not a number"),
        (lambda m: type("E", (), {"__eq__": lambda s, o: True})(), SIMPLE, "not a number"),
    ],
)
def test_a_wrong_count_is_named_beside_the_right_one(function, settings, words):
    decided = verdict("counter", settings, function=function)
    assert decided.status == "failed"
    assert words in decided.rationale


def test_a_count_that_is_printed_or_missing_is_not_answered(capsys):
    printed = lambda m: print(right(m))
    assert verdict("counter", SIMPLE, function=printed).status == "not_answered"
    assert verdict("counter", SIMPLE, function=...).status == "not_answered"
    assert verdict("counter", SIMPLE, function=lambda m: 1 / 0).status == "failed"


def test_a_count_in_words_is_no_count():
    assert verdict("counter", SIMPLE, function=lambda m: str(right(m))).status == "failed"


def test_a_function_that_changes_a_model_does_not_change_the_next_check():
    def freeze(model):
        total = right(model)
        model.requires_grad_(False)
        return total

    before = copy.deepcopy({k: make()[1] for k, make in EXAMPLES.items()})
    assert verdict("counter", SIMPLE, function=freeze).status == "passed"
    assert verdict("counter", SIMPLE, function=right).status == "passed"
    assert {k: make()[1] for k, make in EXAMPLES.items()} == before
