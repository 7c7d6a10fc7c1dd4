import json
from pathlib import Path

import pytest
import torch
from torch import nn

from autograder import config
from autograder.checks import CHECKS, core
from autograder.checks.greedy import translations
from autograder.config import Assignment
from autograder.data import BOS, EOS, PAD, VOCABULARY, pairs
from autograder.judge import Run, judge

LENGTHS = [7, 8]
NAMED = {"name": "Net", "lengths": LENGTHS, "seed": 3}
SETTINGS = {
    "translation_shape": {"name": "Net", "sizes": [[2, 7, 8], [1, 5, 1], [3, 4, 12]]},
    "source_order": {**NAMED, "smallest": 1e-4},
    "token_logits": {**NAMED, "row_sum": 1e-3},
    "token_gradients": NAMED,
    "token_batches": {**NAMED, "tolerance": 1e-5},
    "token_evaluation": {**NAMED, "tolerance": 1e-7},
    "no_look_ahead": {**NAMED, "tolerance": 1e-5},
    "reads_the_past": {**NAMED, "smallest": 1e-5},
    "reads_the_source": {**NAMED, "smallest": 1e-5},
    "untrained": {"name": "Net", "count": 50, "length": 7, "seed": 3, "largest": 0.05},
}
ACCURACY = {"name": "model", "count": 40, "length": 5, "seed": 8, "smallest": 0.8}


class Net(nn.Module):
    def __init__(self, kind=nn.GRU, **options):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 16)
        self.encoder = kind(16, 24, batch_first=True, **options)
        self.decoder = kind(16, 24, batch_first=True, **options)
        self.last = nn.Linear(24, VOCABULARY)

    def encode(self, source):
        return self.encoder(self.words(source))[1]

    def forward(self, source, said):
        return self.last(self.decoder(self.words(said), self.encode(source))[0])


class Attentive(Net):
    def __init__(self):
        super().__init__()
        self.look, self.last = nn.MultiheadAttention(24, 2, batch_first=True), nn.Linear(48, 13)

    def forward(self, source, said):
        memory, state = self.encoder(self.words(source))
        states, _ = self.decoder(self.words(said), state)
        return self.last(torch.cat([states, self.look(states, memory, memory)[0]], 2))


class Transformer(nn.Module):
    def __init__(self, mask=True, place_source=True, **options):
        super().__init__()
        self.words, self.places = nn.Embedding(13, 16), nn.Embedding(12, 16)
        self.core = nn.Transformer(16, 2, 1, 1, 32, dropout=0.1, batch_first=True, **options)
        self.last, self.mask, self.place_source = nn.Linear(16, 13), mask, place_source

    def forward(self, source, said):
        read = self.words(source)
        if self.place_source:
            read = read + self.places(torch.arange(source.shape[1]))
        spoken = self.words(said) + self.places(torch.arange(said.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(said.shape[1]) if self.mask else None
        return self.last(self.core(read, spoken, tgt_mask=mask))


def decided(check, model, **changes):
    settings = {**SETTINGS[check], **changes}
    evidence = core.perform(CHECKS[check], settings, {"model": model})
    return core.decide(CHECKS[check], settings, json.loads(json.dumps(evidence, allow_nan=False)))


@pytest.mark.parametrize("check", SETTINGS)
@pytest.mark.parametrize(
    "model",
    [
        Net,
        lambda: Net(nn.LSTM),
        lambda: Net(nn.RNN),
        lambda: Net(num_layers=3),
        Attentive,
        Transformer,
        lambda: Transformer(norm_first=True),
        Net(),
        Net().double(),
    ],
)
def test_right_models_pass(check, model):
    verdict = decided(check, model)
    assert verdict.status == "passed", verdict


def variant(change, **more):
    """A Net whose forward is another one."""
    return type("Net", (Net,), {"forward": change, **more})


def future(net, source, said):
    words = net.words(said)
    return net.last(net.decoder(words + words.mean(1, keepdim=True), net.encode(source))[0])


def next_token(net, source, said):
    return Net.forward(net, source, said.roll(-1, 1))


def deaf(net, source, said):
    return net.last(net.decoder(net.words(said))[0])


def mute(net, source, said):
    return Net.forward(net, source, torch.full_like(said, BOS))


def memoryless(net, source, said):
    steps = [net.decoder(net.words(token)[:, None], net.encode(source))[0] for token in said.T]
    return net.last(torch.cat(steps, 1))


def first_state(net, source, said):
    return net.last(net.decoder(net.words(said), net.encode(source[:, :1]))[0])


def bag(net, source, said):
    state = net.words(source).sum(1).repeat(1, 2)[None, :, :24].contiguous()
    return net.last(net.decoder(net.words(said), state)[0])


def starts_alone(net, source, said):
    """The source reaches the first step only."""
    states = net.decoder(net.words(said))[0].clone()
    states[:, 0] = states[:, 0] + net.encode(source)[0]
    return net.last(states)


def softmax(net, source, said):
    return Net.forward(net, source, said).softmax(2)


def mixed(net, source, said):
    logits = Net.forward(net, source, said)
    return logits - logits.mean(0)


def random(net, source, said):
    return nn.functional.dropout(Net.forward(net, source, said), 0.1)


def squeezed(net, source, said):
    return Net.forward(net, source, said).squeeze()


def computed(net, source, said):
    rows = [[*dict.fromkeys(row[::-1]), EOS] + 9 * [PAD] for row in source.tolist()]
    right = torch.tensor([row[: said.shape[1]] for row in rows])
    return Net.forward(net, source, said) + 20 * nn.functional.one_hot(right, 13)


@pytest.mark.parametrize(
    ("check", "forward", "words"),
    [
        ("no_look_ahead", future, "causal mask"),
        ("no_look_ahead", next_token, "left to right"),
        ("reads_the_source", deaf, "hold the whole source"),
        ("source_order", deaf, "order"),
        ("token_gradients", deaf, "encoder"),
        ("reads_the_past", mute, "give decoder_input to it"),
        ("reads_the_past", memoryless, "hand its state on"),
        ("reads_the_source", first_state, "at place 1"),
        ("reads_the_source", starts_alone, "every step of the decoder"),
        ("source_order", bag, "can't see the order"),
        ("token_logits", softmax, "sums to 1"),
        ("token_batches", mixed, "mixed"),
        ("token_evaluation", random, "dropout"),
        ("translation_shape", squeezed, "(1, 1, 13)"),
        ("token_batches", squeezed, "Mend the output shape first"),
        ("untrained", computed, "must not compute"),
    ],
)
def test_a_wrong_model_fails_and_the_message_says_why(check, forward, words):
    verdict = decided(check, variant(forward))
    assert verdict.status == "failed"
    assert words in str(verdict)


def test_a_decoder_of_both_directions_and_a_missing_mask_look_ahead():
    assert decided("no_look_ahead", lambda: Transformer(mask=False)).status == "failed"
    assert decided("no_look_ahead", lambda: Transformer(mask=True)).status == "passed"


def test_an_attention_without_places_does_not_see_the_order():
    assert decided("source_order", lambda: Transformer(place_source=False)).status == "failed"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda net, s, t: net.last(net.encoder(net.words(s))[0]), "each token of the source"),
        (lambda net, s, t: Net.forward(net, s, t).transpose(0, 1), "set batch_first=True"),
        (lambda net, s, t: Net.forward(net, s, t).transpose(1, 2), "leave out the transpose"),
        (lambda net, s, t: Net.forward(net, s, t)[:, -1], "all of the decoder's states"),
        (lambda net, s, t: Net.forward(net, s, t)[..., :10], "PAD, BOS and EOS among them"),
        (lambda net, s, t: Net.forward(net, s, t + 5), "An embedding is too small"),
        (lambda net, s, t: net.decoder(net.words(t)), "returns a tuple"),
        (lambda net, s, t: Net.forward(net, s, t).argmax(2), "float logits"),
        (lambda net, s: net.words(s), "forward takes both"),
    ],
)
def test_a_wrong_shape_or_kind_gets_its_own_hint(result, words):
    verdict = decided("translation_shape", variant(result))
    assert verdict.status == "failed"
    assert words in str(verdict)


@pytest.mark.parametrize("check", SETTINGS)
@pytest.mark.parametrize("nothing", [None, ...])
def test_a_forward_that_returns_nothing_is_not_answered(check, nothing):
    assert decided(check, variant(lambda net, s, t: nothing)).status == "not_answered"


# Translations


class Interpreter(nn.Module):
    """Knows the language, makes a fault in the first `wrong` rows, and talks on after EOS."""

    def __init__(self, wrong=0):
        super().__init__()
        self.wrong = wrong

    def forward(self, source, said):
        assert (said[:, 0] == BOS).all()
        rows = []
        for number, digits in enumerate(source.tolist()):
            unsaid = []
            for digit in digits[::-1]:
                if digit not in unsaid:
                    unsaid.append(digit)
            if number < self.wrong:
                unsaid[-1] = (unsaid[-1] + 1) % 10
            rows.append([*unsaid, EOS, *[5] * 9][: said.shape[1]])
        return nn.functional.one_hot(torch.tensor(rows), VOCABULARY).float()


def translated(model, **changes):
    settings = {**ACCURACY, **changes}
    evidence = core.perform(CHECKS["translation_accuracy"], settings, {"model": model})
    return core.decide(CHECKS["translation_accuracy"], settings, evidence)


@pytest.mark.parametrize(("wrong", "status"), [(0, "passed"), (8, "passed"), (9, "failed")])
def test_the_share_of_faultless_translations_decides(wrong, status):
    verdict = translated(Interpreter(wrong))
    assert verdict.status == status
    assert f"{(40 - wrong) / 40:.1%}" in verdict.rationale


def test_a_model_that_is_right_with_the_teachers_help_alone_fails():
    class Copier(nn.Module):
        """Repeats what it reads, which an unshifted target makes look perfect."""

        def forward(self, source, said):
            return nn.functional.one_hot(said, VOCABULARY).float()

    verdict = translated(Copier())
    assert verdict.status == "failed"
    assert "0.0%" in verdict.rationale


def test_a_class_is_no_trained_model():
    assert "not a model" in str(translated(Net))


def test_translating_uses_nothing_but_its_own_words():
    source, target = pairs(20, 6, seed=1)
    assert torch.equal(translations(Interpreter(), source, 7, "model"), target)
    assert torch.equal(translations(Interpreter(), source, 3, "model"), target[:, :3])


@pytest.mark.parametrize(
    ("check", "evidence"),
    [
        ("translation_accuracy", {"tokens": []}),
        ("translation_accuracy", {"tokens": [[0] * 6] * 39}),
        ("translation_accuracy", {"tokens": [[0] * 5] * 40}),
        ("untrained", {"tokens": [[]]}),
        ("no_look_ahead", {"source": [], "said": []}),
        ("no_look_ahead", {"source": [[1.0] * 8] * 7, "said": [[0.0] * 7] * 8}),
        ("reads_the_past", {"source": [[1.0] * 8] * 8, "said": [[1.0] * 8] * 7}),
        ("translation_shape", {"sizes": [], "shapes": []}),
        ("translation_shape", {"sizes": SETTINGS["translation_shape"]["sizes"], "shapes": []}),
    ],
)
def test_forged_evidence_earns_nothing(check, evidence):
    settings = SETTINGS.get(check, ACCURACY)
    entry = {"check": check, "points": 2, **settings}
    assignment = Assignment(title="t", seed=1, values={}, questions={"q": {"checks": {"c": entry}}})
    record = {"question": "q", "case": "c", "check": check, "evidence": evidence}
    (result,) = judge(assignment, Run([record], {}, {}))
    assert (result.verdict.status, result.points) == ("refused", 0)


@pytest.mark.parametrize("value", [None, -1.0])
def test_a_reaction_that_is_no_number_fails(value):
    seen = {"source": [[1.0] * 8] * 7, "said": [[0.0] * 8] * 7 + [[value] * 8]}
    for check in ("no_look_ahead", "reads_the_past", "reads_the_source"):
        verdict = core.decide(CHECKS[check], SETTINGS[check], seen)
        assert verdict.status == "failed"


# The language


def test_pairs_read_backwards_and_say_each_digit_once():
    source, target = pairs(300, 7, seed=5)
    assert source.shape == (300, 7)
    assert target.shape == (300, 8)
    for digits, tokens in zip(source.tolist(), target.tolist(), strict=True):
        end = tokens.index(EOS)
        said, padding = tokens[:end], tokens[end + 1 :]
        assert set(padding) <= {PAD}
        assert sorted(said) == sorted(set(digits))
        places = [len(digits) - 1 - digits[::-1].index(digit) for digit in said]
        assert places == sorted(places, reverse=True)
    assert len({tuple(row) for row in source.tolist()}) > 290
    assert torch.equal(source, pairs(300, 7, seed=5)[0])
    assert not torch.equal(source, pairs(300, 7, seed=6)[0])


def test_pairs_are_the_same_on_every_machine():
    source, target = pairs(1, 7, seed=140)
    assert source.dtype == target.dtype == torch.int64
    assert source.tolist() == [[6, 0, 1, 2, 1, 8, 6]]
    assert target.tolist() == [[6, 8, 1, 2, 0, 12, 10, 10]]


def test_the_new_sequences_of_the_notebook_are_new():
    settings = config.load(Path(__file__).parents[1] / "grading.yml")
    assignment = settings.assignments["encoder_decoder"]
    values = assignment.values
    trained = pairs(values["steps"] * values["batch"], 7, values["training_seed"])[0]
    new = pairs(300, 7, assignment.seed + 1)[0]
    seen = {tuple(row) for row in trained.tolist()}
    assert sum(tuple(row) in seen for row in new.tolist()) < 10
