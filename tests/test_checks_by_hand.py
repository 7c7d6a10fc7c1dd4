"""A function that computes by hand passes, one that calls torch's own layer doesn't."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks import CHECKS, core
from reference import convolution_basics as reference

ROOM = {"name": "convolve", "rule": "convolve", "cases": ["three input channels"], "seed": 3,
        "tolerance": 1e-9, "forbidden": "conv"}  # fmt: skip
POOLING = {**ROOM, "name": "pool", "rule": "max_pool", "cases": ["padding 1"], "forbidden": "pool"}


def measured(function, settings):
    evidence = core.perform(CHECKS["by_hand"], settings, {"function": function})
    return json.loads(json.dumps(evidence, allow_nan=False))


def decided(function, **changes):
    settings = {**ROOM, **changes}
    return core.decide(CHECKS["by_hand"], settings, measured(function, settings))


def by_layer(images, weight, bias):
    layer = nn.Conv2d(weight.shape[1], len(weight), weight.shape[2:])
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer(images)


def in_inference_mode(images, weight, bias):
    with torch.inference_mode():
        return F.conv2d(images, weight, bias).clone()


def without_gradient(images, weight, bias):
    with torch.no_grad():
        return F.conv2d(images, weight, bias)


def transposed(images, weight, bias):
    full = F.conv_transpose2d(images, weight.flip(2, 3).transpose(0, 1), bias)
    return full[:, :, 2:-2, 2:-2]


def row_by_row(images, weight, bias):
    rows = images.shape[2] - weight.shape[2] + 1
    return torch.stack([
        sum(F.conv1d(images[:, :, y + i], weight[:, :, i]) for i in range(3)) + bias[:, None]
        for y in range(rows)
    ], dim=2)  # fmt: skip


CALLING = [F.conv2d, by_layer, in_inference_mode, without_gradient, transposed, row_by_row]


@pytest.mark.parametrize("function", CALLING)
def test_torchs_own_convolution_has_right_values_and_fails(function):
    verdict = decided(function)
    assert verdict.status == "failed"
    assert "calls torch's own conv" in verdict.rationale
    values = {k: v for k, v in ROOM.items() if k != "forbidden"}
    evidence = core.perform(CHECKS["same_values"], values, {"function": function})
    assert core.decide(CHECKS["same_values"], values, evidence).status == "passed"


def by_columns(images, weight, bias):
    out = weight.flatten(1) @ F.unfold(images, weight.shape[2:]) + bias[:, None]
    return out.view(len(images), len(weight), images.shape[2] - weight.shape[2] + 1, -1)


@pytest.mark.parametrize("function", [reference.convolve, by_columns])
def test_windows_and_sums_pass(function):
    assert decided(function).status == "passed"


@pytest.mark.parametrize("function", [
    F.max_pool2d,
    lambda x, k, s, p: nn.MaxPool2d(k, s, p)(x),
    lambda x, k, s, p: F.max_pool2d(x, k, s, p, return_indices=True)[0],
    torch.max_pool2d,
    lambda x, k, s, p: F.max_pool3d(x[:, :, None], (1, k, k), (1, s, s), (0, p, p))[:, :, 0],
])  # fmt: skip
def test_torchs_own_pooling_fails(function):
    verdict = decided(function, **POOLING)
    assert verdict.status == "failed"
    assert "pool" in verdict.rationale
    assert decided(reference.max_pool, **POOLING).status == "passed"


def in_pieces(queries, keys, values, mask=None):
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(queries, keys, values, mask)


def of_another_width(queries, keys, values, mask=None):
    queries, keys = (F.pad(x, (0, 1)) for x in (queries, keys))
    scale = (queries.shape[-1] - 1) ** -0.5
    return F.scaled_dot_product_attention(queries, keys, values, mask, scale=scale)


def by_a_layer_of_one_head(queries, keys, values, mask=None):
    width = queries.shape[-1]
    layer = nn.MultiheadAttention(width, 1, bias=False, batch_first=True)
    unit = torch.eye(width)
    layer.load_state_dict({"in_proj_weight": unit.repeat(3, 1), "out_proj.weight": unit})
    return layer(queries, keys, values)[0]


@pytest.mark.parametrize("function", [
    F.scaled_dot_product_attention, in_pieces, of_another_width, by_a_layer_of_one_head,
])  # fmt: skip
def test_torchs_own_attention_fails_even_where_it_is_made_of_products(function):
    changes = {"name": "attention", "rule": "attention", "cases": ["values as wide as keys"],
               "forbidden": "attention"}  # fmt: skip
    verdict = decided(function, **changes)
    assert verdict.status == "failed"
    assert "calls torch's own" in verdict.rationale
    assert "'attention'" in verdict.hint
    by_products = lambda q, k, v: (q @ k.mT / k.shape[-1] ** 0.5).softmax(-1) @ v
    assert decided(by_products, **changes).status == "passed"


def test_wrong_values_fail_with_the_hint_for_them():
    flipped = lambda x, w, b: reference.convolve(x, w.flip(2, 3), b)
    verdict = decided(flipped)
    assert verdict.status == "failed"
    assert "flipped" in verdict.hint


def test_the_oracles_own_convolution_does_not_count():
    evidence = measured(reference.convolve, ROOM)
    assert evidence["operators"]
    assert not any("conv" in operator for operator in evidence["operators"])


def test_what_the_function_raises_is_quoted():
    verdict = decided(lambda x: x)
    assert verdict.status == "failed"
    assert "convolve(tensor of shape" in verdict.rationale


@pytest.mark.parametrize("answer", [None, ..., lambda *a: None, lambda *a: ...])
def test_no_answer_yet(answer):
    assert decided(answer).status == "not_answered"


def test_operators_of_evidence_are_judged():
    evidence = measured(reference.convolve, ROOM)
    forged = {**evidence, "operators": ["add", "convolution"]}
    assert core.decide(CHECKS["by_hand"], ROOM, forged).status == "failed"
    with pytest.raises(ValueError, match="not the cases"):
        core.decide(CHECKS["by_hand"], ROOM, {**evidence, "compared": {"cases": []}})
