import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks import CHECKS, core
from autograder.checks.rules import RULES
from reference import attention as reference
from tests.rules import decided

FUNCTIONS = {
    "soft_lookup": reference.lookup,
    "attention_weights": reference.attention_weights,
    "attention": reference.attention,
    "attention_gradient": reference.attention,
    "causal_mask": reference.causal_mask,
    "padding_mask": reference.padding_mask,
    "self_attention": reference.self_attention,
    "self_attention_gradient": reference.self_attention,
    "leak": reference.leak,
    "positional_encoding": reference.positional_encoding,
    "order_error": reference.order_error,
    "multi_head": reference.multi_head,
    "add_and_norm": reference.add_and_norm,
    "encoder_block": reference.encoder_block,
}
NOTHING = ["queries that may see nothing"]
LARGE = ["scores in the thousands", "scores in the thousands behind a mask"]


@pytest.fixture(autouse=True)
def _doubles():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def drawn(rule, case, seed=1):
    torch.manual_seed(seed)
    return RULES[rule].cases[case]()


# Attention: masks, queries that see nothing, large scores, gradients.


def scores_of(queries, keys):
    return queries @ keys.mT / keys.shape[-1] ** 0.5


def filled(value, afterwards):
    def weights(queries, keys, mask=None):
        scores = scores_of(queries, keys)
        if mask is None:
            return scores.softmax(-1)
        return afterwards(scores.masked_fill(~mask, value).softmax(-1), mask)

    return weights


def nan_to_zero(weights, _):
    return weights.nan_to_num(0.0)


def times(weights, mask):
    return weights * mask


def with_zeros(weights, mask):
    return torch.where(mask, weights, 0.0)


RIGHT_WEIGHTS = [
    filled(-torch.inf, nan_to_zero),
    filled(-torch.inf, with_zeros),
    filled(-1e9, times),
    filled(torch.finfo(torch.float64).min, times),
]


def values_by(weights):
    return lambda q, k, v, mask=None: weights(q, k, mask) @ v


@pytest.mark.parametrize("weights", RIGHT_WEIGHTS)
def test_every_usual_way_to_mask_passes_with_its_gradient(weights):
    assert decided("attention_weights", weights).status == "passed"
    assert decided("attention", values_by(weights)).status == "passed"
    assert decided("attention_gradient", values_by(weights)).status == "passed"


def test_a_large_negative_number_fails_only_where_nothing_is_seen():
    weights = filled(-1e9, lambda weights, mask: weights)
    others = [c for c in RULES["attention_weights"].cases if c not in NOTHING and "empty" not in c]
    assert decided("attention_weights", weights, others).status == "passed"
    assert decided("attention_weights", weights, NOTHING).status == "failed"


@pytest.mark.parametrize("value", [-10.0, -1000.0])
@pytest.mark.parametrize("seed", [1, 2, 92])
def test_a_small_negative_number_is_seen_behind_large_scores(value, seed):
    assert decided("attention_weights", filled(value, times), LARGE[1:], seed).status == "failed"


@pytest.mark.parametrize("case", RULES["attention"].cases)
def test_weights_sum_to_1_or_to_0_and_hidden_keys_get_none(case):
    queries, keys, *mask = drawn("attention_weights", case) if case in RULES[
        "attention_weights"
    ].cases else drawn("attention", case)[:2]  # fmt: skip
    weights = RULES["attention_weights"].oracle(queries, keys, *mask)
    seen = mask[0].expand(weights.shape) if mask else torch.ones_like(weights).bool()
    assert torch.allclose(weights.sum(-1), seen.any(-1).double())
    assert (weights[~seen] == 0).all()


def test_arguments_may_be_changed_in_place():
    def changing(queries, keys, values, mask=None):
        queries /= keys.shape[-1] ** 0.5
        values *= 2
        hidden = torch.zeros(()) if mask is None else ~mask
        scores = (queries @ keys.mT).masked_fill(hidden.bool(), -1e9)
        return scores.softmax(-1).masked_fill(hidden.bool(), 0.0) @ (values / 2)

    def further(x, w_q, w_k, w_v, mask=None):
        x += 1
        return reference.self_attention(x - 1, w_q, w_k, w_v, mask)

    assert decided("attention_gradient", changing).status == "passed"
    assert decided("self_attention_gradient", further).status == "passed"


@pytest.mark.parametrize("value", [-100.0, -1e3, -1e4])
@pytest.mark.parametrize("seed", [96, 97, 98])
def test_a_number_that_is_not_low_enough_hides_nothing(value, seed):
    def filled(queries, keys, mask=None):
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        assert scores.abs().max() < 100_000
        return scores.masked_fill(~mask, value).softmax(-1)

    assert decided("attention_weights", filled, LARGE[1:], seed).status == "failed"


def test_the_gradient_of_a_query_that_sees_nothing_is_zero():
    queries, keys, values, mask = drawn("attention_gradient", NOTHING[0])
    result = RULES["attention"].oracle(queries, keys, values, mask)
    found = RULES["attention_gradient"].read(result, (queries, keys, values, mask))
    blind = ~mask.any(-1)
    assert blind.any()
    assert (found[0][blind] == 0).all()
    assert found[0][mask.sum(-1) > 1].abs().min() > 0  # one key alone has weight 1 in any case
    assert all(gradient.isfinite().all() for gradient in found)


def test_a_nan_that_comes_back_in_the_gradient_fails_there_alone():
    def added(q, k, v, mask=None):
        hidden = 0.0 if mask is None else torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        return (scores_of(q, k) + hidden).softmax(-1).nan_to_num(0.0) @ v

    assert decided("attention", added).status == "passed"
    verdict = decided("attention_gradient", added, NOTHING)
    assert verdict.status == "failed"
    assert "not finite" in verdict.rationale
    assert "adding -inf to the scores" in verdict.hint


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda a: a.detach(), "no gradient flows"),
        (lambda a: a.squeeze(), "wrong shape or kind"),
        (lambda a: a.tolist(), "wrong shape or kind"),
    ],
)
def test_a_result_without_a_usable_gradient_is_named(spoil, word):
    case = ["one query"]
    verdict = decided("attention_gradient", lambda *a: spoil(reference.attention(*a)), case)
    assert verdict.status == "failed"
    assert word in verdict.rationale


def test_a_softmax_that_is_written_into_is_told_so():
    def changed(q, k, v, mask):
        weights = scores_of(q, k).masked_fill(~mask, -torch.inf).softmax(-1)
        weights.masked_fill_(~mask, 0)
        return weights @ v

    verdict = decided("attention_gradient", changed, ["a causal mask"])
    assert verdict.status == "failed"
    assert "writing into the result of a softmax" in verdict.hint


def test_pytorchs_own_attention_is_seen_in_the_task_by_hand():
    settings = {"name": "attention", "rule": "attention", "cases": ["values as wide as keys"],
                "seed": 1, "tolerance": 1e-9, "forbidden": "attention"}  # fmt: skip
    for function, status in ((F.scaled_dot_product_attention, "failed"),
                             (reference.attention, "passed")):  # fmt: skip
        evidence = core.perform(CHECKS["by_hand"], settings, {"function": function})
        assert core.decide(CHECKS["by_hand"], settings, evidence).status == status


@pytest.mark.parametrize(
    "function",
    [
        lambda n: np.tril(np.ones((n, n), dtype=bool)),
        lambda n: [[s <= t for s in range(n)] for t in range(n)],
        lambda n: torch.arange(n)[:, None] >= torch.arange(n),
        lambda n: nn.Transformer.generate_square_subsequent_mask(n) == 0,
    ],
)
def test_a_boolean_mask_of_any_kind_passes(function):
    assert decided("causal_mask", function).status == "passed"


@pytest.mark.parametrize("kind", [torch.float64, torch.int64, torch.uint8])
def test_a_mask_of_numbers_fails(kind):
    verdict = decided("causal_mask", lambda n: torch.ones(n, n).tril().to(kind))
    assert verdict.status == "failed"
    assert f"the mask holds {kind}, not booleans" in verdict.rationale


def test_both_masks_together_hide_the_future_and_the_padding():
    both = reference.causal_mask(3) & reference.padding_mask([2, 3], 3)
    assert both.tolist() == [
        [[True, False, False], [True, True, False], [True, True, False]],
        [[True, False, False], [True, True, False], [True, True, True]],
    ]


# Self-attention, heads, blocks.


def test_self_attention_that_looks_ahead_fails_by_its_gradient():
    def ahead(x, w_q, w_k, w_v, mask):
        open_mask = mask.clone()
        open_mask[1, 3] = True
        return reference.self_attention(x, w_q, w_k, w_v, open_mask)

    assert decided("self_attention_gradient", ahead).status == "failed"


def test_only_the_square_case_needs_values_to_see_a_transposed_weight():
    right = RULES["self_attention"].oracle
    transposed = lambda x, q, k, v, mask=None: right(x, q.T, k.T, v.T, mask)
    verdict = decided("self_attention", transposed, ["as many features as before"])
    assert "not transposed" in verdict.hint


def test_pytorchs_mask_has_the_opposite_meaning():
    x, *weights, mask = drawn("multi_head", "four heads behind a causal mask")
    result = RULES["multi_head"].oracle(x, *weights, mask)
    changed = x.clone()
    changed[:, -1] += 1
    later = RULES["multi_head"].oracle(changed, *weights, mask)
    assert torch.equal(result[:, :-1], later[:, :-1])
    assert not torch.equal(result[:, -1], later[:, -1])


def by_slices(x, w_in, b_in, w_out, b_out, heads, mask=None):
    width, size = x.shape[-1], x.shape[-1] // heads
    parts = [x @ w_in[i : i + size].T + b_in[i : i + size] for i in range(0, 3 * width, size)]
    attended = [
        F.scaled_dot_product_attention(*parts[k::heads], attn_mask=mask) for k in range(heads)
    ]
    return torch.cat(attended, -1) @ w_out.T + b_out


def test_heads_by_slices_pass():
    assert decided("multi_head", by_slices).status == "passed"


def by_layer(x, weights, heads, mask=None):
    layer = nn.TransformerEncoderLayer(
        x.shape[-1], heads, len(weights["linear1.bias"]), 0.0, batch_first=True
    ).eval()
    layer.load_state_dict(weights)
    with torch.no_grad():  # on the fast path
        return layer(x, None if mask is None else ~mask)


def test_pytorchs_own_block_passes_on_its_fast_path():
    assert decided("encoder_block", by_layer).status == "passed"


def test_a_dictionary_is_quoted_in_short():
    def broken(x, weights, heads, mask=None):
        return weights["norm3.weight"]

    rationale = decided("encoder_block", broken).rationale
    assert "answer(tensor of shape (2, 5, 6), dict of 12, 2) raised KeyError" in rationale


@pytest.mark.parametrize("case", RULES["encoder_block"].cases)
def test_no_parameter_of_a_block_is_without_effect(case):
    x, weights, heads, *mask = drawn("encoder_block", case)
    right = RULES["encoder_block"].oracle(x, weights, heads, *mask)
    for name, value in weights.items():
        changed = {**weights, name: value * 1.5}
        other = RULES["encoder_block"].oracle(x, changed, heads, *mask)
        in_vain = case == "one step" and "in_proj" in name  # one key: only values count
        assert in_vain or (other - right).abs().max() > 1e-6, name


# Positions, the look ahead, the order.


def test_the_encoding_turns_with_the_position():
    """cos and sin of t + 1 come from those of t by one rotation, in each pair of columns."""
    pairs = RULES["positional_encoding"].oracle(50, 8).unflatten(1, (4, 2))
    for k in range(4):
        angle = 10_000 ** (-2 * k / 8)
        turn = torch.tensor([[math.cos(angle), math.sin(angle)],
                             [-math.sin(angle), math.cos(angle)]])  # fmt: skip
        assert torch.allclose(pairs[1:, k], pairs[:-1, k] @ turn.T, atol=1e-12)
    assert pairs[0].tolist() == [[0.0, 1.0]] * 4


@pytest.mark.parametrize("rule", ["leak", "order_error"])
@pytest.mark.parametrize("seed", range(20))
def test_what_layers_do_is_far_from_rounding(rule, seed):
    """The text promises that below 1e-12 is rounding."""
    for case in RULES[rule].cases:
        value = float(RULES[rule].oracle(*drawn(rule, case, seed)).detach())
        assert value < 1e-13 or value > 1e-6, case


def test_the_projection_on_ones_sees_no_leak():
    ones = "an encoder layer without a mask, projected on ones"
    assert RULES["leak"].oracle(*drawn("leak", ones)) < 1e-13
    assert RULES["leak"].oracle(*drawn("leak", "an encoder layer without a mask")) > 1e-3


@pytest.mark.parametrize("rule", ["leak", "order_error"])
@pytest.mark.parametrize(
    "kind", [float, torch.tensor, np.float64, lambda v: torch.tensor([v]).requires_grad_()]
)
def test_a_number_of_any_kind_passes(rule, kind):
    def answer(*arguments):
        return kind(float(RULES[rule].oracle(*arguments).detach()))

    assert decided(rule, answer).status == "passed"


@pytest.mark.parametrize("result", ["0.1", torch.ones(2), float("nan")])
def test_what_is_no_number_is_named(result):
    verdict = decided("leak", lambda *_: result)
    assert verdict.status == "failed"
    assert "not one finite number" in verdict.rationale


def test_rounding_counts_as_zero():
    equivariant = ["a linear layer", "an encoder layer without a mask"]
    assert decided("order_error", lambda *_: 3e-15, equivariant).status == "passed"
    assert decided("order_error", lambda *_: 3e-8, equivariant).status == "failed"


# The lookup.


def test_the_lookup_goes_to_the_best_value_and_to_the_mean():
    query, keys, values, _ = drawn("soft_lookup", "5 pairs at temperature 1")
    oracle = RULES["soft_lookup"].oracle
    best = values[(keys @ query).argmax()]
    assert torch.allclose(oracle(query, keys, values, 1e-4), best, atol=1e-12)
    assert torch.equal(oracle(query, keys, values, 0.0), best)
    assert torch.allclose(oracle(query, keys, values, 1e9), values.mean(0), atol=1e-6)
    order = torch.tensor([3, 0, 4, 1, 2])
    again = oracle(query, keys[order], values[order], 1.0)
    assert torch.allclose(oracle(query, keys, values, 1.0), again)
