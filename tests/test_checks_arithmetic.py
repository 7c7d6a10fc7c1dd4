import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.checks import CHECKS, core

CONVOLUTION = {"name": "conv_output_size", "rule": "convolution", "cases": 60, "seed": 2}
POOLING = {"name": "pool_output_size", "rule": "pooling", "cases": 60, "seed": 4}
MAPS = {"name": "pool", "seed": 5, "tolerance": 1e-5,
        "shapes": [[4, 3, 6, 6], [1, 1, 4, 4], [3, 1, 1, 9], [1, 5, 1, 1]]}  # fmt: skip


def measured(check, settings, function):
    evidence = core.perform(CHECKS[check], settings, {"function": function})
    return json.loads(json.dumps(evidence, allow_nan=False))


def verdict(check, settings, function):
    return core.decide(CHECKS[check], settings, measured(check, settings, function))


def conv(size, kernel, stride=1, padding=0):
    return (size + 2 * padding - kernel) // stride + 1


def pool(size, kernel, stride=None, padding=0):
    return conv(size, kernel, kernel if stride is None else stride, padding)


def windows(size, kernel, stride=1, padding=0):
    """Count the windows that fit, one by one."""
    return sum(1 for _ in range(0, size + 2 * padding - kernel + 1, stride))


@pytest.mark.parametrize("settings", [CONVOLUTION, POOLING])
def test_expected_sizes_are_the_number_of_windows(settings):
    evidence = measured("output_size", settings, conv)
    assert len(evidence["arguments"]) == settings["cases"]
    for arguments, expected in zip(evidence["arguments"], evidence["expected"], strict=True):
        size, kernel, *rest = arguments
        stride = rest[0] if rest else 1 if settings is CONVOLUTION else kernel
        assert windows(size, kernel, stride, *rest[1:]) == expected


@pytest.mark.parametrize("settings", [CONVOLUTION, POOLING])
def test_cases_use_defaults_strides_and_padding(settings):
    cases = measured("output_size", settings, conv)["arguments"]
    assert {len(c) for c in cases} == {2, 3, 4}
    assert max(c[2] for c in cases if len(c) > 2) > 1
    assert max(c[3] for c in cases if len(c) > 3) > 0
    assert cases == measured("output_size", settings, pool)["arguments"]
    other = measured("output_size", {**settings, "seed": 99}, conv)["arguments"]
    assert other != cases


@pytest.mark.parametrize(
    "function",
    [
        conv,
        windows,
        lambda n, k, s=1, p=0: math.floor((n + 2 * p - k) / s) + 1,
        lambda n, k, s=1, p=0: int((n + 2 * p - k) / s + 1),
        lambda n, k, s=1, p=0: np.floor((n + 2 * p - k) / s) + 1,
        lambda n, k, s=1, p=0: np.int64(conv(n, k, s, p)),
        lambda n, k, s=1, p=0: torch.tensor(conv(n, k, s, p)),
        lambda n, k, s=1, p=0: Fraction(conv(n, k, s, p)),
        lambda n, k, s=1, p=0: nn.Conv2d(1, 1, k, s, p)(torch.zeros(1, 1, n, n)).shape[-1],
        lambda W, F, S=1, P=0: conv(W, F, S, P),
    ],
)
def test_a_right_convolution_size_passes(function):
    assert verdict("output_size", CONVOLUTION, function).status == "passed"


@pytest.mark.parametrize(
    "function",
    [
        pool,
        lambda n, k, s=None, p=0: (n + 2 * p - k) // (s or k) + 1,
        lambda n, k, s=None, p=0: F.max_pool2d(torch.zeros(1, n, n), k, s, p).shape[-1],
    ],
)
def test_a_right_pooling_size_passes(function):
    assert verdict("output_size", POOLING, function).status == "passed"


@pytest.mark.parametrize(
    ("function", "settings"),
    [
        (lambda n, k, s=1, p=0: conv(n, k, s, p) + 1, CONVOLUTION),
        (lambda n, k, s=1, p=0: (n + p - k) // s + 1, CONVOLUTION),
        (lambda n, k, s=1, p=0: (n + 2 * p - k + 1) // s, CONVOLUTION),
        (lambda n, k, s=1, p=0: math.ceil((n + 2 * p - k) / s) + 1, CONVOLUTION),
        (lambda n, k, s=1, p=0: round((n + 2 * p - k) / s) + 1, CONVOLUTION),
        (lambda n, k, s=1, p=0: n - k + 1, CONVOLUTION),
        (lambda n, k, s=1, p=0: -conv(n, k, s, p), CONVOLUTION),
        (lambda n, k, s=1, p=0: conv(n, k, s, p) + 1e-9, CONVOLUTION),
        (conv, POOLING),
        (lambda n, k, s=None, p=0: math.ceil((n + 2 * p - k) / (s or k)) + 1, POOLING),
        (lambda n, k, s=None, p=0: n // k, POOLING),
    ],
)
def test_a_wrong_size_is_named_beside_the_right_one(function, settings):
    evidence = measured("output_size", settings, function)
    rows = zip(evidence["arguments"], evidence["answers"], evidence["expected"], strict=True)
    arguments, answer, expected = next(row for row in rows if row[1] != row[2])
    decided = core.decide(CHECKS["output_size"], settings, evidence)
    assert decided.status == "failed"
    assert f"({', '.join(map(str, arguments))}) it gave {answer:.6g}" in decided.rationale
    assert f"gives {expected}" in decided.rationale


def test_a_size_that_is_no_whole_number_is_told_to_round():
    decided = verdict("output_size", CONVOLUTION, lambda n, k, s=1, p=0: (n + 2 * p - k) / s + 1)
    assert decided.status == "failed"
    assert "round down" in decided.hint


class Everything:
    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, (3,), [3], 1j, Everything(), "three", object]
)
def test_what_is_no_number_never_passes(value):
    decided = verdict("output_size", CONVOLUTION, lambda *arguments: value)
    assert decided.status == "failed"
    assert "not a number" in decided.rationale


def test_a_size_in_words_is_no_size():
    words = lambda n, k, s=1, p=0: str(conv(n, k, s, p))
    assert verdict("output_size", CONVOLUTION, words).status == "failed"


def test_the_count_of_wrong_cases_is_exact():
    calls = iter(range(1000))
    decided = verdict("output_size", CONVOLUTION, lambda *a: conv(*a) + (next(calls) < 7))
    assert "7 of 60" in decided.rationale


def test_missing_arguments_are_quoted():
    decided = verdict("output_size", CONVOLUTION, lambda size, kernel: size - kernel + 1)
    assert decided.status == "failed"
    assert "TypeError" in decided.rationale
    assert "conv_output_size(" in decided.rationale


def test_no_answer_yet():
    assert verdict("output_size", CONVOLUTION, lambda *a: None).status == "not_answered"
    assert verdict("output_size", CONVOLUTION, lambda *a: ...).status == "not_answered"


def test_evidence_without_cases_never_passes():
    empty = {"arguments": [], "answers": [], "expected": [], "oracle": "nn.Conv2d"}
    assert core.decide(CHECKS["output_size"], CONVOLUTION, empty).status != "passed"


# global_pool


@pytest.mark.parametrize(
    "function",
    [
        lambda m: m.mean((2, 3)),
        lambda m: m.mean(-1).mean(-1),
        lambda m: F.adaptive_avg_pool2d(m, 1).flatten(1),
        lambda m: F.avg_pool2d(m, m.shape[2:])[:, :, 0, 0],
        lambda m: m.flatten(2).mean(2).requires_grad_(),
        lambda m: m.double().mean((2, 3)),
        lambda m: torch.einsum("bchw->bc", m) / (m.shape[2] * m.shape[3]),
        lambda m: torch.stack([torch.stack([c.mean() for c in image]) for image in m]),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    ],
)
def test_a_right_global_pooling_passes(function):
    assert verdict("global_pool", MAPS, function).status == "passed"


@pytest.mark.parametrize(
    ("function", "given", "seen"),
    [
        (lambda m: F.adaptive_avg_pool2d(m, 1).squeeze(), "(1, 1, 4, 4)", "()"),
        (lambda m: m.mean((2, 3), keepdim=True), "(4, 3, 6, 6)", "(4, 3, 1, 1)"),
        (lambda m: m.mean((1, 2, 3)), "(4, 3, 6, 6)", "(4,)"),
        (lambda m: m.mean((0, 2, 3)), "(4, 3, 6, 6)", "(3,)"),
    ],
)
def test_a_wrong_shape_is_named_beside_the_right_one(function, given, seen):
    decided = verdict("global_pool", MAPS, function)
    assert decided.status == "failed"
    assert f"{given} gives shape {seen}" in decided.rationale


@pytest.mark.parametrize(
    "function",
    [
        lambda m: m.amax((2, 3)),
        lambda m: m.sum((2, 3)),
        lambda m: m.sum((2, 3)) / m.shape[3] ** 2,
        lambda m: m.mean((2, 3)).int(),
        lambda m: m[:, :, 0, 0],
        lambda m: m.mean((2, 3)) + 2e-5,
    ],
)
def test_wrong_values_fail_with_error_and_limit(function):
    decided = verdict("global_pool", MAPS, function)
    assert decided.status == "failed"
    assert "off by" in decided.rationale
    assert "1e-05" in decided.rationale


def test_the_error_is_the_one_that_was_made():
    errors = measured("global_pool", MAPS, lambda m: m.mean((2, 3)) + 0.25)["errors"]
    assert errors == pytest.approx([0.25] * 4, abs=1e-6)


def test_nan_never_passes():
    decided = verdict("global_pool", MAPS, lambda m: m.mean((2, 3)) * float("nan"))
    assert decided.status == "failed"
    assert "nan" in decided.rationale


@pytest.mark.parametrize("kind", ["ndarray", "list"])
def test_another_kind_of_result_is_named(kind):
    values = {"ndarray": lambda m: m.numpy().mean((2, 3)), "list": lambda m: m.tolist()}
    decided = verdict("global_pool", MAPS, values[kind])
    assert decided.status == "failed"
    assert kind in decided.rationale


@pytest.mark.parametrize(
    ("error", "status"),
    [(1e-5, "passed"), (1.01e-5, "failed"), (0.0, "passed"), (None, "failed")],
)
def test_limit_of_the_values(error, status):
    evidence = {"inputs": [[1, 2, 3, 3]], "shapes": [[1, 2]], "errors": [error]}
    assert core.decide(CHECKS["global_pool"], MAPS, evidence).status == status


def test_the_students_function_can_not_change_what_it_is_compared_with():
    assert verdict("global_pool", MAPS, lambda m: m.zero_().mean((2, 3))).status == "failed"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_result_on_a_gpu_is_compared():
    assert verdict("global_pool", MAPS, lambda m: m.cuda().mean((2, 3))).status == "passed"
