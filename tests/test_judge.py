import json

import pytest
from pydantic import ValidationError

from autograder import judge as judging
from autograder.checks import CHECKS, Check
from autograder.checks.core import Verdict, stopped
from autograder.config import Assignment, ConfigError
from autograder.data import oscillation
from autograder.judge import CaseResult, Run, judge, status_of, validate


def panel_named(*names):
    """One panel with labelled axes and these names in its legend."""
    return {"x_labels": ["epoch"], "y_labels": ["loss"], "columns": [0], "rows": [0],
            "names": [list(names)]}  # fmt: skip


FORWARD = {"own": 1.0, "first": 1e-6, "middle": 0.01, "last": 0.0, "early": 0.5, "late": 0.0}
REVERSED = {"own": 1.0, "first": 0.0, "middle": 0.01, "last": 1e-6, "early": 0.0, "late": 0.5}
REACTING = {"source": [[0.1, 0.1], [0.2, 0.1]], "said": [[0.0, 0.0], [0.0, 0.3]]}
# For each check settings, and evidence that passes, written by hand.
PASSING = {
    "output_size": (
        {"name": "f", "rule": "convolution", "cases": 1, "seed": 1},
        {"arguments": [[41, 2, 3]], "answers": [14.0], "expected": [14], "oracle": "nn.Conv2d"},
    ),
    "global_pool": (
        {"name": "f", "shapes": [[1, 2, 3, 3]], "seed": 1, "tolerance": 1e-5},
        {"inputs": [[1, 2, 3, 3]], "shapes": [[1, 2]], "errors": [1e-7]},
    ),
    "output_shape": (
        {"name": "N", "input_shape": [1, 9, 9], "batches": [1, 2], "outputs": 10},
        {"batches": [1, 2], "shapes": [[1, 10], [2, 10]]},
    ),
    "batch_independence": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "tolerance": 1e-5},
        {"difference": 1e-7, "scale": 1.5},
    ),
    "evaluation_mode": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "tolerance": 1e-7},
        {"difference": 0.0},
    ),
    "logits": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "row_sum": 1e-3},
        {"smallest": -2.0, "largest": 3.0, "row_sum_error": 1.5},
    ),
    "parameter_budget": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "smallest": 100, "largest": 200},
        {"tensors": {"a.weight": 120, "a.bias": 10}, "unowned": 0},
    ),
    "matched_parameters": (
        {"names": ["C", "F"], "input_shape": [1, 9, 9], "seed": 1, "tolerance": 0.05},
        {"first": 2000, "second": 2025},
    ),
    "counter": (
        {"name": "f", "models": ["an LSTM"]},
        {"models": ["an LSTM"], "counted": [200.0], "expected": [200]},
    ),
    "nonlinearity": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "smallest": 0.001},
        {"deviation": 0.5},
    ),
    "convolution": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "smallest": 1},
        {"kernels": [[3, 3]], "outputs": [[7, 7]], "places": 1},
    ),
    "no_convolution": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1},
        {"kernels": [], "outputs": [], "places": 1},
    ),
    "pixel_order": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "smallest": 0.001},
        {"relative": 0.5},
    ),
    "gradient_reach": (
        {"name": "N", "input_shape": [1, 9, 9], "seed": 1, "outputs": 10},
        {"norms": {"a.weight": 0.3, "a.bias": 0.1}, "missing": [], "frozen": []},
    ),
    "recipe": (
        {"name": "h", "epochs": 5, "batch_size": 64, "learning_rate": 0.003, "samples": 3000},
        {"epochs": 5, "batch_size": 64, "learning_rate": 0.003, "samples": 3000},
    ),
    "learned": (
        {"model_name": "m", "history_name": "h", "dataset": "digits", "largest_loss_ratio": 0.7,
         "tolerance": 0.01},
        {"guessing": 2.3, "losses": [2.0, 1.0], "unchanged": [], "recorded": 0.95, "now": 0.95},
    ),
    "disjoint": (
        {"name": "h", "dataset": "digits"},
        {"samples": 3000, "shared": {"validation": 0, "test": 0}},
    ),
    "sequence_order": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "smallest": 0.001}, {"relative": 0.5}
    ),
    "sequence_reach": (
        {"name": "N", "input_shape": [3, 2], "seed": 1}, {"norms": [1e-9, 0.1, 1.0]}
    ),
    "simple_recurrence": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "layers": 1},
        {"steps": 9, "uses": {"w": 9}, "norms": {"w": FORWARD}, "sigmoids": 0, "tanhs": 9,
         "cells": 0, "gatings": 0, "longest": 0, "rarer": 0, "bends": {"w": 0.5}},
    ),
    "gated_recurrence": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "layers": 1},
        {"steps": 9, "uses": {"w": 9}, "norms": {"w": FORWARD}, "sigmoids": 27, "tanhs": 9,
         "cells": 9, "gatings": 27, "longest": 9, "rarer": 0},
    ),
    "recurrent_layers": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "layers": 1, "units": 4},
        {"steps": 9, "uses": {"w": 9}, "norms": {"w": FORWARD}, "sigmoids": 18, "tanhs": 9,
         "cells": 0, "gatings": 27, "longest": 9, "rarer": 0, "bends": {"w": 0.5},
         "shapes": {"w": [12, 4]}},
    ),
    "unbounded": (
        {"name": "N", "input_shape": [9, 1], "seed": 1, "row_sum": 1e-3},
        {"smallest": -2.0, "largest": 3.0, "row_sum_error": 1.5},
    ),
    "forecast": (
        {"name": "m", "seed": 1, "first": 0, "steps": 9, "width": 4, "held_out": 2,
         "largest_ratio": 0.6},
        {"values": [round(float(v), 5) for v in oscillation(9, 1)[-2:]]},
    ),
    "past_only": (
        {"name": "h", "seed": 1, "first": 0, "steps": 9, "width": 4, "held_out": 2},
        {"samples": 3, "different": 3, "past": 3, "later": 0},
    ),
    "both_directions": (
        {"name": "N", "input_shape": [9, 2], "seed": 1},
        {"steps": 9, "uses": {"w": 9, "v": 9}, "norms": {"w": FORWARD, "v": REVERSED},
         "sigmoids": 0, "tanhs": 18, "cells": 0, "gatings": 0, "longest": 0, "rarer": 0},
    ),
    "self_attention": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "steps": 9, "smallest": 1e-6},
        {"queries": [9], "keys": [9], "maps": [2], "off_diagonal": [0.2], "change": [0.1],
         "spread": [0.1]},
    ),
    "positions": (
        {"name": "N", "input_shape": [9, 2], "seed": 1, "steps": 9, "smallest": 1e-4},
        {"queries": [9], "keys": [9], "change": [0.1]},
    ),
    "vanishing": (
        {"name": "f", "lengths": [2, 100], "seeds": [1, 2], "largest": 0.01,
         "largest_median": 1e-6, "exceptions": 0},
        {"short": [0.1, 0.2], "long": [1e-9, 1e-8], "repeated": 0.1},
    ),
    "remembering": (
        {"name": "f", "lengths": [2, 100], "biases": [0, 0.5, 1], "seeds": [1],
         "smallest_gain": 1000, "needed": 1},
        {"short": [[0.1, 0.1, 0.1]], "long": [[1e-12, 1e-8, 1e-4]]},
    ),
    "closed_gate": (
        {"name": "f", "closing": -20, "seeds": [1], "largest": 1e-12},
        {"closed": [1e-16], "open": [0.1]},
    ),
    "log_curves": (
        {"names": ["figure", "f"], "lengths": [2, 100], "curves": [[1]], "tolerance": 1e-6},
        {"wanted": [[0.1, 1e-9]], "errors": [1e-9], "panels": [0], "labels": [""],
         "astray": ["lengths"], "scales": ["log"], "x_labels": ["length"], "y_labels": ["norm"],
         "names": [[]]},
    ),
    "last_state": (
        {"name": "N", "input_shape": [9, 1], "seed": 1, "outputs": 3},
        {"steps": 9, "reads": [[8], [8], []], "gatings": 0},
    ),
    "both_ends": (
        {"name": "N", "input_shape": [9, 1], "seed": 1, "outputs": 4},
        {"steps": 9, "reads": [[8], [0], [8], [0]], "gatings": 0},
    ),
    "given_samples": (
        {"name": "h", "dataset": "digits"},
        {"samples": 3000, "different": 3000, "known": 3000},
    ),
    "translation_shape": (
        {"name": "N", "sizes": [[2, 3, 4]]}, {"sizes": [[2, 3, 4]], "shapes": [[2, 4, 13]]}
    ),
    "source_order": ({"name": "N", "lengths": [7, 8], "seed": 1, "smallest": 1e-4},
                     {"relative": 0.5}),
    "token_logits": (
        {"name": "N", "lengths": [7, 8], "seed": 1, "row_sum": 1e-3},
        {"smallest": -2.0, "largest": 3.0, "row_sum_error": 1.5},
    ),
    "token_gradients": (
        {"name": "N", "lengths": [7, 8], "seed": 1},
        {"norms": {"a.weight": 0.3, "a.bias": 0.1}, "missing": [], "frozen": []},
    ),
    "token_batches": (
        {"name": "N", "lengths": [7, 8], "seed": 1, "tolerance": 1e-5},
        {"difference": 1e-7, "scale": 1.5},
    ),
    "token_evaluation": (
        {"name": "N", "lengths": [7, 8], "seed": 1, "tolerance": 1e-7}, {"difference": 0.0}
    ),
    "no_look_ahead": ({"name": "N", "lengths": [2, 2], "seed": 1, "tolerance": 1e-5}, REACTING),
    "reads_the_past": ({"name": "N", "lengths": [2, 2], "seed": 1, "smallest": 1e-5}, REACTING),
    "reads_the_source": ({"name": "N", "lengths": [2, 2], "seed": 1, "smallest": 1e-5}, REACTING),
    "translation_accuracy": (
        {"name": "m", "count": 1, "length": 2, "seed": 0, "smallest": 0.9}, {"tokens": [[9, 4, 12]]}
    ),
    "untrained": (
        {"name": "N", "count": 1, "length": 2, "seed": 0, "largest": 0.1}, {"tokens": [[1, 12, 10]]}
    ),
    "same_values": (
        {"name": "f", "rule": "to_steps", "cases": ["one step"], "seed": 3, "tolerance": 1e-9},
        {"cases": [{"case": "one step", "shapes": [[3, 1, 8]], "expected_shapes": [[3, 1, 8]],
                    "errors": [0.0], "got": [], "expected": [], "slips": []}]},
    ),
    "by_hand": (
        {"name": "f", "rule": "to_steps", "cases": ["one step"], "seed": 3, "tolerance": 1e-9,
         "forbidden": "conv"},
        {"compared": {"cases": [
            {"case": "one step", "shapes": [[3, 1, 8]], "expected_shapes": [[3, 1, 8]],
             "errors": [0.0], "got": [], "expected": [], "slips": []}]},
         "operators": ["view"]},
    ),
    "class_examples": (
        {"name": "figure", "dataset": "trajectories", "tolerance": 1e-3, "classes": ["A", "B"]},
        {"samples": [{"panel": 0, "label": k, "names": ["AB"[k]]} for k in range(2)],
         "length": 100, "others": [], "panels": panel_named("A", "B")},
    ),
    "three_curves": (
        {"names": ["figure", "a", "b", "c"], "quantity": "train_loss", "tolerance": 1e-6},
        {"panels": panel_named("a", "b", "c"), "called": [[["a"], ["b"], ["c"]]],
         "curves": [[[0.5, 0.2], [0.4, 0.1], [0.3, 0.1]]],
         "wanted": {"a": [0.5, 0.2], "b": [0.4, 0.1], "c": [0.3, 0.1]}},
    ),
    "curves": (
        {"names": ["figure", "a", "b"], "quantity": "validation_accuracy", "tolerance": 1e-6},
        {"panels": panel_named("a", "b"), "called": [[["a"], ["b"]]],
         "curves": [[[0.5, 0.9], [0.4, 0.8]]], "wanted": {"a": [0.5, 0.9], "b": [0.4, 0.8]}},
    ),
}  # fmt: skip
PREDICTING = {
    "accuracy": (
        {"model_name": "m", "dataset": "digits", "split": "test", "smallest": 0.9}, 1
    ),
    "accuracy_gap": (
        {"names": ["m", "n"], "dataset": "digits", "split": "test", "smallest_gap": 0.0}, 2
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def passing():
    from autograder import data

    labels = [int(label) for label in data.digits().test.labels]
    evidence = {"dataset": "digits", "split": "test"}
    more = {
        name: (settings, {"classes": [labels] * count, **evidence})
        for name, (settings, count) in PREDICTING.items()
    }
    return PASSING | more


def assignment(**questions):
    return Assignment(title="t", seed=1, values={}, questions=questions)


def record(check, evidence, question="q", case="c"):
    return {"question": question, "case": case, "check": check, "evidence": evidence}


def result(check, settings, evidence):
    entry = {"check": check, "points": 2, **settings}
    (judged,) = judge(
        assignment(q={"checks": {"c": entry}}), Run([record(check, evidence)], {}, {})
    )
    return judged


def test_every_check_has_evidence_here(passing):
    assert passing.keys() == CHECKS.keys()


@pytest.mark.parametrize("check", CHECKS)
def test_evidence_that_passes_earns_the_points(passing, check):
    judged = result(check, *passing[check])
    assert judged.verdict.status == "passed", judged.verdict
    assert (judged.points, judged.possible, judged.hidden) == (2, 2, False)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", ["failed", "not_answered", "not_run"])
def test_a_measurement_that_stopped_keeps_its_status(passing, check, kind):
    judged = result(check, passing[check][0], stopped(kind, "Seen.", "Look."))
    assert (judged.verdict, judged.points) == (Verdict(kind, "Seen.", "Look."), 0)


def deep(levels=100_000):
    nested = []
    for _ in range(levels):
        nested = [nested]
    return nested


SHAPELESS = {
    "none": None, "number": 5, "text": "passed", "list": [], "empty": {}, "true": True,
    "verdict": {"status": "passed"}, "nested": {"evidence": {}},
    "stopped as passed": {"stopped": {"kind": "passed", "rationale": "", "hint": ""}},
    "stopped as refused": {"stopped": {"kind": "refused", "rationale": "", "hint": ""}},
    "stopped without hint": {"stopped": {"kind": "failed", "rationale": ""}},
    "stopped with more": {"stopped": {"kind": "failed", "rationale": "", "hint": "", "x": 1}},
    "stopped as text": {"stopped": "failed"},
    "stopped of numbers": {"stopped": {"kind": "failed", "rationale": 1, "hint": 2}},
    "stopped as null": {"stopped": None},
    "not JSON": {1, 2}, "object": object(), "nan": float("nan"), "huge": 10**5000,
    "bytes": b"{}",
}  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("evidence", SHAPELESS.values(), ids=SHAPELESS)
def test_evidence_of_another_form_is_refused(passing, check, evidence):
    judged = result(check, passing[check][0], evidence)
    assert (judged.verdict.status, judged.points) == ("refused", 0)


@pytest.mark.parametrize("check", ["output_shape", "curves"])
def test_evidence_that_is_nested_without_end_is_refused(passing, check):
    for evidence in (deep(), {"stopped": deep()}):
        judged = result(check, passing[check][0], evidence)
        assert judged.verdict.status == "refused"


def damaged(evidence):
    """The evidence with one field missing, added, or of a wrong kind."""
    yield "extra key", {**evidence, "extra": 1}
    yield "extra stop", {**evidence, "stopped": {"kind": "failed", "rationale": "", "hint": ""}}
    for key, value in evidence.items():
        yield f"{key} missing", {k: v for k, v in evidence.items() if k != key}
        for wrong in (float("nan"), float("inf"), {"a": {"b": 1}}, [[["x"]]], True, "1", object()):
            if not (isinstance(wrong, str) and isinstance(value, str)):
                yield f"{key} {wrong!r}", {**evidence, key: wrong}
        if isinstance(value, list):
            yield f"{key} as object", {**evidence, key: {str(i): v for i, v in enumerate(value)}}
            yield f"{key} of null", {**evidence, key: [None, [None]]}
        if isinstance(value, dict):
            yield f"{key} as list", {**evidence, key: list(value.items())}


@pytest.mark.parametrize("check", CHECKS)
def test_damaged_evidence_is_refused(passing, check):
    settings, evidence = passing[check]
    for what, broken in damaged(evidence):
        judged = result(check, settings, broken)
        assert (judged.verdict.status, judged.points) == ("refused", 0), what


@pytest.mark.parametrize("check", ["same_values", "class_examples"])
def test_damage_inside_of_lists_is_refused(passing, check):
    settings, evidence = passing[check]
    key = next(iter(evidence))
    for what, broken in damaged(evidence[key][0]):
        judged = result(check, settings, {**evidence, key: [broken, *evidence[key][1:]]})
        assert (judged.verdict.status, judged.points) == ("refused", 0), what


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("output_size", {"answers": []}),
        ("output_size", {"answers": [14.0, 14.0]}),
        ("output_size", {"expected": [14, 14]}),
        ("global_pool", {"errors": []}),
        ("global_pool", {"shapes": [[1, 2], [1, 2]]}),
        ("output_shape", {"shapes": [[1, 10]]}),
        ("output_shape", {"batches": [1, 2, 7]}),
        ("counter", {"counted": []}),
        ("convolution", {"outputs": []}),
        ("convolution", {"kernels": [[3, 3, 3]]}),
        ("no_convolution", {"kernels": [[3, 3]]}),
        ("learned", {"losses": []}),
        ("accuracy", {"classes": []}),
        ("accuracy_gap", {"classes": [[1]]}),
        ("curves", {"panels": {**panel_named("a", "b"), "x_labels": []}}),
        ("curves", {"panels": {**panel_named("a", "b"), "rows": []}}),
        ("curves", {"panels": {**panel_named("a", "b"), "names": []}}),
        ("curves", {"called": [[["a"]]]}),
    ],
)
def test_lists_whose_lengths_contradict_are_refused(passing, check, change):
    settings, evidence = passing[check]
    judged = result(check, settings, evidence | change)
    assert judged.verdict.status == "refused", judged.verdict


IMPOSSIBLE = [
    ("output_size", {"arguments": [], "answers": [], "expected": []}),
    ("global_pool", {"inputs": [], "shapes": [], "errors": []}),
    ("global_pool", {"errors": [-1.0]}),
    ("output_shape", {"batches": [], "shapes": []}),
    ("output_shape", {"batches": [2], "shapes": [[2, 10]]}),
    ("output_shape", {"shapes": [[1, -10], [2, -10]]}),
    ("batch_independence", {"difference": -1.0}),
    ("evaluation_mode", {"difference": -1.0}),
    ("parameter_budget", {"tensors": {"a": 150, "b": -20}}),
    ("parameter_budget", {"unowned": -1}),
    ("matched_parameters", {"first": -2000, "second": -2000}),
    ("counter", {"models": [], "counted": [], "expected": []}),
    ("counter", {"models": ["a linear layer"], "counted": [65.0], "expected": [65]}),
    ("gradient_reach", {"norms": {"a": -1.0}}),
    ("disjoint", {"shared": {}}),
    ("disjoint", {"shared": {"validation": -1, "test": 0}}),
    ("disjoint", {"samples": -5}),
    ("learned", {"recorded": 5.0, "now": 5.0}),
    ("accuracy", {"split": "train"}),
    ("accuracy", {"split": "nowhere"}),
    ("accuracy", {"split": "__class__"}),
    ("accuracy", {"dataset": "nothing"}),
    ("accuracy", {"dataset": "../digits", "split": "hidden"}),
    ("accuracy_gap", {"split": "__doc__"}),
    ("forecast", {"values": [0.0]}),
    ("past_only", {"samples": 0, "different": 0, "past": 0}),
    ("past_only", {"past": 4}),
    ("past_only", {"later": -1}),
    ("curves", {"wanted": {}}),
    ("curves", {"wanted": {"a": [], "b": []}}),
]


@pytest.mark.parametrize(("check", "change"), IMPOSSIBLE)
def test_evidence_that_cant_be_true_never_passes_nor_raises(passing, check, change):
    settings, evidence = passing[check]
    judged = result(check, settings, evidence | change)
    assert judged.verdict.status in ("refused", "failed"), judged.verdict
    assert judged.points == 0


def test_the_split_is_the_one_of_the_settings_not_of_the_evidence(passing):
    """The labels of the test set are known to everybody, those of the hidden set are not."""
    settings, on_the_test_set = passing["accuracy"]
    judged = result("accuracy", settings | {"split": "hidden"}, on_the_test_set)
    assert judged.verdict.status in ("refused", "failed"), judged.verdict


def test_nan_is_refused_wherever_it_stands(passing):
    settings, evidence = passing["gradient_reach"]
    judged = result("gradient_reach", settings, evidence | {"norms": {"w": float("nan")}})
    assert judged.verdict.status == "refused"


# which record counts

TWO = {
    "first": {"checks": {
        "shape": {"check": "evaluation_mode", "points": 1.5, **PASSING["evaluation_mode"][0]},
        "order": {"check": "pixel_order", "points": 2, "hidden": True,
                  **PASSING["pixel_order"][0]}}},
    "words": {"manual": True, "points": 4},
    "second": {"checks": {
        "kind": {"check": "logits", "points": 1, **PASSING["logits"][0]}}},
}  # fmt: skip


def all_records():
    return [
        record("evaluation_mode", PASSING["evaluation_mode"][1], "first", "shape"),
        record("pixel_order", PASSING["pixel_order"][1], "first", "order"),
        record("logits", PASSING["logits"][1], "second", "kind"),
    ]


def statuses(records, cell_errors=(), stops=(), **more):
    run = Run(records, dict(cell_errors), dict(stops), **more)
    return [r.verdict.status for r in judge(assignment(**TWO), run)]


def test_results_come_in_the_order_of_the_assignment():
    results = judge(assignment(**TWO), Run(all_records()[::-1], {}, {}))
    assert [(r.question, r.case, r.hidden, r.points) for r in results] == [
        ("first", "shape", False, 1.5), ("first", "order", True, 2), ("second", "kind", False, 1)
    ]  # fmt: skip


def test_records_of_unknown_questions_earn_nothing():
    extra = [record("logits", PASSING["logits"][1], "bonus", "kind"),
             record("logits", PASSING["logits"][1], "second", "bonus"),
             record("logits", PASSING["logits"][1], None, None),
             record("logits", PASSING["logits"][1], ["second"], {"kind": 1})]  # fmt: skip
    assert statuses([*all_records(), *extra]) == ["passed"] * 3
    assert statuses(extra) == ["not_reached"] * 3


def test_the_check_is_the_one_of_the_settings_not_of_the_record():
    forged = [record("evaluation_mode", {"difference": 0.0}, "second", "kind")]
    assert statuses(forged)[2] == "refused"
    renamed = [record("evaluation_mode", PASSING["logits"][1], "second", "kind")]
    assert statuses(renamed)[2] == "passed"


def test_a_check_that_reports_twice_is_refused():
    twice = [*all_records(), all_records()[1]]
    assert statuses(twice) == ["passed", "refused", "passed"]


def test_limits_come_from_the_settings():
    for difference, status in ((1e-7, "passed"), (1.1e-7, "failed")):
        judged = result("evaluation_mode", PASSING["evaluation_mode"][0],
                        {"difference": difference})  # fmt: skip
        assert judged.verdict.status == status
        assert judged.points == (2 if status == "passed" else 0)


def test_what_was_not_reached_says_why():
    run = Run(all_records()[:1], {}, {"first": "Its tests stopped: killed"}, ended="The run ended.")
    shape, order, kind = (r.verdict for r in judge(assignment(**TWO), run))
    assert shape.status == "passed"
    assert (order.status, order.rationale) == ("not_reached", "Its tests stopped: killed")
    assert (kind.status, kind.rationale) == ("not_reached", "The run ended.")


def test_an_infrastructure_failure_is_not_run_and_keeps_what_was_earned():
    results = statuses(all_records()[:1], ended="No disk.", infrastructure=True)
    assert results == ["passed", "not_run", "not_run"]


def test_the_error_of_the_cell_explains_a_missing_answer():
    missing = [record("logits", stopped("not_answered", "CNN is not defined yet.", "Write it."),
                      "second", "kind")]  # fmt: skip
    run = Run(missing, {"second": "NameError: nn"}, {})
    verdict = judge(assignment(**TWO), run)[2].verdict
    assert verdict.status == "not_answered"
    assert "NameError: nn" in verdict.rationale
    without = judge(assignment(**TWO), Run(missing, {"first": "NameError: nn"}, {}))[2].verdict
    assert without.rationale == "CNN is not defined yet."


def test_a_failed_check_keeps_its_own_words_after_an_error_of_the_cell():
    failed = [record("logits", {"smallest": 0.0, "largest": 1.0, "row_sum_error": 0.0},
                     "second", "kind")]  # fmt: skip
    verdict = judge(assignment(**TWO), Run(failed, {"second": "NameError: nn"}, {}))[2].verdict
    assert verdict.status == "failed"
    assert "NameError" not in verdict.rationale


def test_an_outage_excuses_what_is_missing_and_nothing_else():
    missing = record("logits", stopped("not_answered", "No CNN.", ""), "second", "kind")
    wrong = record("evaluation_mode", {"difference": 1.0}, "first", "shape")
    outage = statuses([wrong, missing], outage="The data could not be downloaded.")
    assert outage == ["failed", "not_reached", "not_run"]


def test_an_empty_run_earns_nothing():
    assert statuses([]) == ["not_reached"] * 3


# status of an attempt


def case(status, question="q"):
    return CaseResult(question, "c", False, 0.0, 1.0, Verdict(status, "Why."))


RUN = Run([], {}, {})


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (["passed", "passed"], "graded"), (["passed", "failed"], "graded"),
        (["failed", "not_answered"], "graded"), ([], "graded"),
        (["passed", "not_reached"], "partial"), (["not_reached", "not_run"], "infrastructure"),
        (["passed", "refused"], "flagged"), (["not_run", "refused", "not_reached"], "flagged"),
        (["passed", "not_run"], "infrastructure"),
    ],
)  # fmt: skip
def test_status_of_an_attempt(found, status):
    assert status_of([case(kind) for kind in found], RUN)[0] == status


def test_the_reason_names_each_question_once():
    results = [case("refused", "cnn"), case("refused", "cnn"), case("refused", "fnn")]
    status, reason = status_of(results, RUN)
    assert status == "flagged"
    assert reason == "cnn, fnn: Why."
    assert status_of([case("passed")], RUN) == ("graded", "")


def test_an_infrastructure_failure_of_the_run_comes_first():
    run = Run([], {}, {}, ended="No disk.", infrastructure=True)
    assert status_of([case("refused")], run) == ("infrastructure", "No disk.")


# validate


def test_the_repositorys_own_grading_is_valid(grading):
    for name in grading.assignments:
        validate(grading.assignment(name))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"check": "logitz"}, "logitz"),
        ({"check": "logits", "name": "N", "input_shape": [1]}, "seed"),
        (
            {"check": "logits", "name": "N", "input_shape": [1], "seed": 1, "tolerance": 1},
            "tolerance",
        ),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(entry, words):
    wrong = assignment(cnn={"checks": {"kind": {"points": 1, **entry}}})
    with pytest.raises(ConfigError, match=r"questions\.cnn\.checks\.kind") as caught:
        validate(wrong)
    assert words in str(caught.value)


def test_settings_of_the_question_count_for_its_checks():
    shared = assignment(cnn={"settings": PASSING["logits"][0], "checks": {"logits": {"points": 1}}})
    validate(shared)


def test_nothing_of_a_student_is_needed_to_judge(monkeypatch):
    """Judging measures nothing: no check's measuring half is called."""

    def forbidden(*_, **__):
        raise AssertionError("measured")

    own = Check(forbidden, CHECKS["evaluation_mode"].judge)
    monkeypatch.setitem(CHECKS, "evaluation_mode", own)
    judged = result("evaluation_mode", {"tolerance": 1e-7}, {"difference": 0.0})
    assert judged.verdict.status == "passed"


def test_the_schema_is_strict():
    schema = judging._schema("matched_parameters")
    schema.validate_json(json.dumps({"first": 1, "second": 2}))
    for wrong in ({"first": 1.0, "second": 2}, {"first": "1", "second": 2}, {"first": True}):
        with pytest.raises(ValidationError):
            schema.validate_json(json.dumps(wrong))
