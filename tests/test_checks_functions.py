import json
import math

import numpy as np
import pytest
import torch

from autograder.checks import CHECKS, core, functions
from autograder.checks.core import Stop
from autograder.checks.rules import RULES, Rule

ROOM = {"name": "scale", "rule": "scale", "cases": ["two values", "one value"], "seed": 3,
        "tolerance": 1e-9}  # fmt: skip


def _read(result, arguments):
    if isinstance(result, str):
        raise Stop("That is a text.", "Return a tensor.")
    return result


SCALE = Rule(
    cases={
        "two values": lambda: (torch.randn(2), 3.0),
        "one value": lambda: (torch.randn(1), 2.0),
        "many values": lambda: (torch.randn(50), 2.0),
        "no values": lambda: (torch.zeros(0), 2.0),
        "zeros": lambda: (torch.zeros(2), 2.0),
    },
    oracle=lambda x, factor: x * factor,
    hint="Multiply.",
    slips={
        "That is the sum.": lambda x, factor: x + factor,
        "That is one number.": lambda x, factor: (x * factor).sum(),
    },
    read=_read,
)
PAIR = Rule(
    cases={"two values": lambda: (torch.randn(2),)},
    oracle=lambda x: (x.min(), x.max()),
    hint="First the smaller one.",
    slips={"Swapped.": lambda x: (x.max(), x.min())},
)


@pytest.fixture(autouse=True)
def _rules(monkeypatch):
    monkeypatch.setitem(RULES, "scale", SCALE)
    monkeypatch.setitem(RULES, "pair", PAIR)


def measured(function, **changes):
    settings = {**ROOM, **changes}
    evidence = core.perform(CHECKS["same_values"], settings, {"function": function})
    return json.loads(json.dumps(evidence, allow_nan=False))


def decided(function, **changes):
    evidence = measured(function, **changes)
    return core.decide(CHECKS["same_values"], {**ROOM, **changes}, evidence)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, f: f * x,
        lambda x, f: [f * float(v) for v in x],
        lambda x, f: f * x.numpy(),
        lambda x, f: (f * x).requires_grad_(),
        lambda x, f: x.mul_(f),
        lambda x, f: (f * x).to_sparse(),
        lambda x, f: tuple(np.float64(f * v) for v in x),
    ],
)
def test_a_right_function_passes_whatever_kind_it_returns(function):
    assert decided(function).status == "passed"


def test_cases_are_drawn_in_float64_whatever_the_default_is():
    kinds = []
    decided(lambda x, f: kinds.append((x.dtype, torch.get_default_dtype())) or x * f)
    assert set(kinds) == {(torch.float64, torch.float64)}
    assert torch.get_default_dtype() is torch.float32


def test_the_default_type_returns_even_when_the_function_raises():
    assert decided(lambda x, f: 1 / 0).status == "failed"
    assert torch.get_default_dtype() is torch.float32


def test_an_argument_that_is_changed_does_not_change_what_is_right():
    def spoil(x, f):
        result = x * f
        x.fill_(0)
        return result + x

    assert decided(spoil).status == "passed"


@pytest.mark.parametrize(("function", "hint"), [
    (lambda x, f: x + f, "That is the sum."),
    (lambda x, f: (x.float() + f).float(), "That is the sum."),
    (lambda x, f: (x * f).sum(), "That is one number."),
    (lambda x, f: x - f, "Multiply."),
])  # fmt: skip
def test_a_known_mistake_gets_its_own_hint(function, hint):
    verdict = decided(function)
    assert verdict.status == "failed"
    assert verdict.hint == hint


def test_a_mistake_that_explains_one_case_alone_gets_no_hint_of_its_own():
    verdict = decided(lambda x, f: x + f if len(x) == 2 else x - f)
    assert (verdict.status, verdict.hint) == ("failed", "Multiply.")
    verdict = decided(lambda x, f: x + f if len(x) == 2 else x * f)
    assert (verdict.status, verdict.hint) == ("failed", "Multiply.")


def test_a_small_result_does_not_equal_a_known_mistake_for_its_size(monkeypatch):
    tiny = Rule({"x": lambda: (1e-30,)}, lambda x: x, "All.", {"Twice.": lambda x: 2 * x})
    monkeypatch.setitem(RULES, "tiny", tiny)
    wrong = {"rule": "tiny", "cases": ["x"]}
    assert decided(lambda x: 2 * x, **wrong).hint == "Twice."
    assert decided(lambda x: 3 * x, **wrong).hint == "All."


def test_numbers_that_stand_for_words_are_told_in_words(monkeypatch):
    rule = Rule({"x": lambda: ()}, lambda: True, "Think.", words={0.0: "False", 1.0: "True"})
    monkeypatch.setitem(RULES, "truth", rule)
    rationale = decided(lambda: False, rule="truth", cases=["x"]).rationale
    assert "it gave False, right is True" in rationale


def test_wrong_values_are_named_beside_the_right_ones():
    verdict = decided(lambda x, f: torch.tensor([1.0, 2.0]), cases=["two values"])
    expected = measured(lambda x, f: x, cases=["two values"])["cases"][0]["expected"]
    assert "it gave 1, 2, right is " + ", ".join(f"{v:.6g}" for v in expected) in verdict.rationale


def test_whole_numbers_are_told_in_full(monkeypatch):
    count = Rule({"x": lambda: ()}, lambda: 3_617_280, "Count.")
    monkeypatch.setitem(RULES, "count", count)
    verdict = decided(lambda: 3_617_281, rule="count", cases=["x"], tolerance=0)
    assert "it gave 3617281, right is 3617280" in verdict.rationale


@pytest.mark.parametrize("text", ["12", b"12", np.str_("12")])
def test_a_text_is_no_number(text, monkeypatch):
    monkeypatch.setitem(RULES, "count", Rule({"x": lambda: ()}, lambda: 12, "Count."))
    assert decided(lambda: 12, rule="count", cases=["x"]).status == "passed"
    verdict = decided(lambda: text, rule="count", cases=["x"])
    assert verdict.status == "failed"
    assert "can't be read as numbers" in verdict.rationale


def test_values_with_their_indices_are_named():
    verdict = decided(lambda x, f: (x * f)[:, None].max(dim=1))
    assert verdict.status == "failed"
    assert "values and indices" in verdict.rationale
    assert decided(lambda x, f: (x * f)[:, None].max(dim=1).values).status == "passed"


def test_of_many_values_the_error_is_named():
    verdict = decided(lambda x, f: 1.25 * x * f, cases=["many values"])
    assert "off by 0.25 of the largest (1e-09 may be)" in verdict.rationale


def test_a_wrong_shape_is_named_beside_the_right_one():
    verdict = decided(lambda x, f: (x * f)[None], cases=["two values"])
    assert "the shape is (1, 2), not (2,)" in verdict.rationale


def test_float32_fails_with_a_hint_of_its_own():
    verdict = decided(lambda x, f: x.float() * f)
    assert verdict.status == "failed"
    assert "float32" in verdict.hint
    assert "off by" in verdict.rationale  # six digits of it would look right
    assert decided(lambda x, f: x.float() * f, tolerance=1e-5).status == "passed"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_never_passes(value):
    verdict = decided(lambda x, f: x * value)
    assert verdict.status == "failed"
    assert "not finite" in verdict.rationale


@pytest.mark.parametrize("case", ["no values", "zeros"])
def test_a_right_result_of_no_size_is_no_error(case):
    assert decided(lambda x, f: x * f, cases=[case]).status == "passed"


def test_zeros_have_an_absolute_tolerance():
    assert decided(lambda x, f: x + 1e-8, cases=["zeros"]).status == "failed"


@pytest.mark.parametrize("result", [
    {"a": 1}, object(), [torch.zeros(1), torch.zeros(2)], torch.zeros(2, device="meta"),
    torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)]), ["1", "2"], b"12",
])  # fmt: skip
def test_a_result_that_is_no_tensor_is_named(result):
    verdict = decided(lambda x, f: result)
    assert verdict.status == "failed"
    assert "scale returned a" in verdict.rationale
    assert "For two values" in verdict.rationale


def test_what_the_function_raises_is_quoted_with_the_case():
    verdict = decided(lambda x: x)
    assert verdict.status == "failed"
    assert "For two values: scale(tensor of shape (2,), 3.0) raised TypeError" in verdict.rationale


def test_a_stop_of_the_reader_is_the_students_fault():
    verdict = decided(lambda x, f: "12")
    assert (verdict.status, verdict.hint) == ("failed", "Return a tensor.")
    assert "For two values: That is a text." in verdict.rationale


@pytest.mark.parametrize("answer", [None, ..., lambda x, f: None, lambda x, f: ...])
def test_no_answer_yet(answer):
    assert decided(answer).status == "not_answered"


def test_several_parts_are_compared_one_by_one():
    pair = {"rule": "pair", "cases": ["two values"], "name": "ends"}
    assert decided(lambda x: (x.min(), x.max()), **pair).status == "passed"
    assert decided(lambda x: [x.min(), x.max()], **pair).status == "passed"
    assert decided(lambda x: (x.max(), x.min()), **pair).hint == "Swapped."
    verdict = decided(lambda x: (x.min(), x.max(), x), **pair)
    assert "ends returned a tuple of 3" in verdict.rationale
    assert "Return 2 values" in verdict.hint
    assert decided(lambda x: torch.stack([x.min(), x.max()]), **pair).status == "failed"


def test_later_cases_count_as_well():
    verdict = decided(lambda x, f: x * 3)
    assert verdict.status == "failed"
    assert "one value" in verdict.rationale
    assert "two values" not in verdict.rationale


def test_random_numbers_of_the_function_do_not_matter():
    def drawing(x, f):
        torch.randn(7)
        return x * f

    assert measured(drawing) == measured(lambda x, f: x * f)


ROW = {"case": "two values", "shapes": [[2]], "expected_shapes": [[2]], "errors": [0.0],
       "got": [1.0, 2.0], "expected": [1.0, 2.0], "slips": []}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "passed"),
        ({"errors": [1e-9]}, "passed"),
        ({"errors": [1.1e-9]}, "failed"),
        ({"errors": [-1.0]}, "failed"),
        ({"errors": [None]}, "failed"),
        ({"shapes": [[2, 1]]}, "failed"),
    ],
)
def test_limits_of_evidence(change, status):
    evidence = {"cases": [{**ROW, **change}]}
    settings = {**ROOM, "cases": ["two values"]}
    assert core.decide(CHECKS["same_values"], settings, evidence).status == status


@pytest.mark.parametrize(
    "rows", [[], [ROW], [ROW, ROW], [ROW, {**ROW, "case": "one value", "errors": []}]]
)
def test_evidence_of_other_cases_is_refused(rows):
    with pytest.raises(ValueError, match="not"):
        core.decide(CHECKS["same_values"], ROOM, {"cases": rows})


def test_large_results_are_not_kept_in_the_evidence():
    evidence = measured(lambda x, f: x * f, cases=["many values"])
    assert evidence["cases"][0]["got"] == []
    assert functions.SHOWN < 50


def test_an_exact_result_is_asked_for_in_words():
    verdict = decided(lambda x, f: 1.25 * x * f, cases=["many values"], tolerance=0)
    assert verdict.rationale.endswith("0.25 of the largest (must be exact).")
    assert "exact). Multiply." in str(verdict)


def test_a_missing_return_is_told_about_grad_only_where_it_is_read():
    def scale(x, f):
        x * f

    def gradient(x, f):
        return x.grad

    assert "grad" not in decided(scale).hint
    assert "requires_grad_()" in decided(gradient).hint
