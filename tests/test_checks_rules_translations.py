from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from autograder.checks.rules import RULES
from autograder.data import BOS, EOS, PAD
from reference import encoder_decoder as reference
from tests import rules

NAMES = (
    "shift_right", "masked_loss", "masked_loss_gradient", "sequence_accuracy", "training_step",
    "translate",
)  # fmt: skip
RIGHT = {name: getattr(reference, name.removesuffix("_gradient")) for name in NAMES}
ALL = [(name, case) for name in NAMES for case in RULES[name].cases]
SLIPS = [(name, hint) for name in NAMES for hint in RULES[name].slips]
decided = partial(rules.decided, seed=5, tolerance=1e-7)


@pytest.mark.parametrize(("name", "case"), ALL)
def test_the_reference_passes_each_case(name, case):
    verdict = decided(name, RIGHT[name], [case])
    assert verdict.status == "passed", verdict


@pytest.mark.parametrize(("name", "hint"), SLIPS)
def test_each_known_mistake_fails_with_its_own_hint(name, hint):
    """A mistaken function of the rule itself is graded like a student's."""
    slip = RULES[name].slips[hint]
    verdict = decided(name, slip)
    assert verdict.status == "failed"
    assert verdict.hint == hint


# Right in other ways


def shift_in_lists(target):
    return torch.tensor([[BOS, *row[:-1]] for row in target.tolist()])


def shift_by_padding(target):
    return functional.pad(target, (1, -1), value=BOS)


def shift_by_rolling(target):
    moved = target.roll(1, dims=1)
    moved[:, 0] = BOS
    return moved


def shift_as_int32(target):
    return shift_by_padding(target).int()


@pytest.mark.parametrize(
    "function", [shift_in_lists, shift_by_padding, shift_by_rolling, shift_as_int32]
)
def test_right_shifts_pass(function):
    assert decided("shift_right", function).status == "passed"


@pytest.mark.parametrize("wrong", [
    lambda target: shift_by_padding(target).float(),
    lambda target: shift_by_padding(target).tolist(),
    lambda target: shift_by_padding(target) == PAD,
])  # fmt: skip
def test_tokens_of_another_kind_fail(wrong):
    assert decided("shift_right", wrong).status == "failed"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: functional.cross_entropy(x.transpose(1, 2), y, ignore_index=PAD),
        lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten(), ignore_index=PAD),
        lambda x, y: nn.CrossEntropyLoss(ignore_index=PAD)(x.permute(0, 2, 1), y),
        lambda x, y: functional.cross_entropy(x[y != PAD], y[y != PAD]),
        lambda x, y: functional.nll_loss(
            x.log_softmax(-1).transpose(1, 2), y, ignore_index=PAD, reduction="sum"
        ) / (y != PAD).sum(),
        lambda x, y: -(
            x.log_softmax(2) * functional.one_hot(y, 13) * (y != PAD)[:, :, None]
        ).sum() / (y != PAD).sum(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["masked_loss", "masked_loss_gradient"])
def test_right_losses_pass(name, function):
    verdict = decided(name, function)
    assert verdict.status == "passed", verdict


def test_a_loss_without_a_graph_has_the_values_alone():
    def function(logits, target):
        return reference.masked_loss(logits, target).item()

    assert decided("masked_loss", function).status == "passed"
    assert decided("masked_loss_gradient", function).status == "failed"


def test_a_loss_by_the_logarithm_of_a_softmax_overflows():
    def function(logits, target):
        chosen = logits.softmax(2).log().gather(2, target[:, :, None])[:, :, 0]
        return -chosen[target != PAD].mean()

    cases = list(RULES["masked_loss"].cases)
    assert (
        decided("masked_loss", function, [c for c in cases if "large" not in c]).status == "passed"
    )
    assert decided("masked_loss", function, ["large logits"]).status == "failed"


@pytest.mark.parametrize(
    "function",
    [
        lambda p, t: (p == t).all(1).float().mean(),
        lambda p, t: (p != t).any(dim=1).logical_not().double().mean().item(),
        lambda p, t: sum(torch.equal(a, b) for a, b in zip(p, t, strict=True)) / len(p),
        lambda p, t: ((p == t).sum(1) == t.shape[1]).float().mean().numpy(),
    ],
)
def test_right_accuracies_pass(function):
    assert decided("sequence_accuracy", function).status == "passed"


def step_token_by_token(model, optimizer, source, target):
    """The decoder is called once for each step, with all right tokens before it."""
    model.zero_grad()
    read = shift_by_padding(target)
    logits = [model(source, read[:, : t + 1])[:, -1] for t in range(read.shape[1])]
    loss = reference.masked_loss(torch.stack(logits, 1), target)
    loss.backward()
    optimizer.step()
    return loss.detach()


def step_with_a_closure(model, optimizer, source, target):
    def closure():
        optimizer.zero_grad(set_to_none=False)
        loss = reference.masked_loss(model(source, shift_by_padding(target)), target)
        loss.backward()
        return loss

    return optimizer.step(closure).item()


@pytest.mark.parametrize("function", [step_token_by_token, step_with_a_closure])
def test_right_steps_pass(function):
    verdict = decided("training_step", function)
    assert verdict.status == "passed", verdict


def test_a_loss_with_its_graph_is_no_float():
    def function(model, optimizer, source, target):
        loss = reference.masked_loss(model(source, shift_by_padding(target)), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    verdict = decided("training_step", function)
    assert verdict.status == "failed"
    assert "loss.item()" in verdict.hint


def test_a_loss_of_one_number_may_have_dimensions():
    def function(logits, target):
        return reference.masked_loss(logits, target).reshape(1, 1)

    assert decided("masked_loss", function).status == "passed"
    assert decided("masked_loss_gradient", function).status == "passed"


def test_translating_without_eval_gets_its_hint():
    def function(model, source, max_len):
        model.eval = model.train if model.training else model.eval
        return reference.translate(model, source, max_len)

    verdict = decided("translate", function)
    assert verdict.status == "failed"
    assert "model.eval() first" in verdict.hint


def test_a_step_of_another_size_fails():
    def function(model, optimizer, source, target):
        loss = reference.training_step(model, optimizer, source, target)
        reference.training_step(model, optimizer, source, target)
        return loss

    assert decided("training_step", function).status == "failed"


def translate_row_by_row(model, source, max_len):
    model.eval()
    rows = []
    for one in source:
        said = [BOS]
        while len(said) <= max_len and EOS not in said:
            said.append(int(model(one[None], torch.tensor([said]))[0, -1].argmax()))
        rows.append((said[1:] + max_len * [PAD])[:max_len])
    return torch.tensor(rows)


def translate_in_a_buffer(model, source, max_len):
    model.eval()
    buffer = torch.full((len(source), max_len + 1), PAD)
    buffer[:, 0] = BOS
    for t in range(max_len):
        with torch.no_grad():
            buffer[:, t + 1] = model(source, buffer[:, :-1])[:, t].softmax(-1).argmax(-1)
    tokens, ends = buffer[:, 1:], (buffer[:, 1:] == EOS).int()
    return tokens.masked_fill(ends.cumsum(1) - ends > 0, PAD)


def translate_what_goes_on(model, source, max_len):
    model.eval()
    said = source.new_full((len(source), max_len + 1), PAD)
    said[:, 0], going = BOS, torch.arange(len(source))
    for t in range(max_len):
        if len(going) == 0:
            break
        with torch.inference_mode():
            said[going, t + 1] = model(source[going], said[going, : t + 1])[:, -1].argmax(1)
        going = going[said[going, t + 1] != EOS]
    return said[:, 1:]


@pytest.mark.parametrize(
    "function", [translate_row_by_row, translate_in_a_buffer, translate_what_goes_on]
)
def test_right_translations_pass(function):
    verdict = decided("translate", function)
    assert verdict.status == "passed", verdict


def test_a_translation_by_chance_or_by_the_rule_fails():
    def by_chance(model, source, max_len):
        model.eval()
        said = torch.full((len(source), 1), BOS)
        for _ in range(max_len):
            said = torch.cat([said, model(source, said)[:, -1].softmax(1).multinomial(1)], 1)
        return said[:, 1:]

    def by_the_rule(model, source, max_len):
        rows = [[*dict.fromkeys(row[::-1]), EOS] for row in source.tolist()]
        return torch.tensor([(row + [PAD] * max_len)[:max_len] for row in rows])

    assert decided("translate", by_chance).status == "failed"
    assert decided("translate", by_the_rule).status == "failed"
