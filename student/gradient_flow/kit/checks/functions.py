"""Functions that the student writes, compared value by value with an oracle, in float64.

The tasks stand in `rules`. Results may be tensors, numbers, lists, or tuples of several of these.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.checks.core import Check, NotAnswered, Stop, Verdict, call, number, verdict
from autograder.checks.rules import RULES, Rule

SHOWN = 6  # values of a result that a message quotes
ROUNDING = 1e-5  # smaller relative errors come from float32, not from a wrong formula


@dataclass(frozen=True)
class Compared:
    """The student's result for one case beside the right one; lists have an entry for each part.

    Attributes:
        case: name of the case in the rule.
        shapes: shapes of the parts that came.
        expected_shapes: shapes of the right parts.
        errors: largest error of each part, relative to its largest right value; None where
            the shapes differ or a value is not finite.
        got: the first values of a small result.
        expected: the right ones.
        slips: numbers of the known mistakes that give this result; those that make no
            difference in this case give a right one.
    """

    case: str
    shapes: list[list[int]]
    expected_shapes: list[list[int]]
    errors: list[float | None]
    got: list[float | None]
    expected: list[float | None]
    slips: list[int]


@dataclass(frozen=True)
class Comparison:
    """All cases."""

    cases: list[Compared]


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """New tensors are float64, the student's included: rounding then hides nothing."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def measure_same_values(
    function: Any, *, name: str, rule: str, cases: list[str], seed: int
) -> Comparison:
    """Call the student's function on each case, and the oracle on arguments of its own."""
    with double_precision():
        rows = [_compare(function, name, RULES[rule], c, seed + k) for k, c in enumerate(cases)]
    return Comparison(rows)


def _compare(function: Any, name: str, rule: Rule, case: str, seed: int) -> Compared:
    right = _right(rule, rule.oracle, case, seed)
    arguments = _arguments(rule, case, seed)
    try:
        result = rule.read(call(function, *arguments, name=name), arguments)
        parts = _parts(result, len(right), name)
    except NotAnswered:
        raise
    except Stop as stop:
        raise Stop(f"For {case}: {stop.rationale}", stop.hint) from None
    return Compared(
        case=case,
        shapes=[list(part.shape) for part in parts],
        expected_shapes=[list(part.shape) for part in right],
        errors=_errors(parts, right),
        got=_values(parts),
        expected=_values(right),
        slips=_slips(rule, case, seed, parts, right),
    )


def _arguments(rule: Rule, case: str, seed: int) -> tuple[Any, ...]:
    """Equal for equal seeds, and new each time: a function may change what it gets."""
    torch.manual_seed(seed)
    return rule.cases[case]()


def _right(rule: Rule, oracle: Any, case: str, seed: int) -> list[Tensor]:
    arguments = _arguments(rule, case, seed)
    result = rule.read(oracle(*arguments), arguments)
    return _parts(result, len(result) if isinstance(result, tuple) else 1, "the oracle")


def _parts(result: Any, count: int, name: str) -> list[Tensor]:
    """The `count` parts of a result as float64 tensors on the CPU."""
    if count == 1:
        return [_tensor(result, name)]
    if not isinstance(result, tuple | list) or len(result) != count:
        size = f" of {len(result)}" if isinstance(result, tuple | list) else ""
        raise Stop(
            f"{name} returned a {type(result).__name__}{size}.", f"Return {count} values, a tuple."
        )
    return [_tensor(part, name) for part in result]


def _tensor(value: Any, name: str) -> Tensor:
    if type(value).__module__ == "torch.return_types":
        raise Stop(
            f"{name} returned values and indices, as torch gives them.",
            "Return the values alone: `.values`, or the first of the two.",
        )
    try:
        if isinstance(value, Tensor):
            value = value.detach().to_dense().cpu().numpy()
        if np.asarray(value).dtype.kind in "SU":  # numpy reads the text "3" as 3
            raise TypeError("text")
        return torch.from_numpy(np.asarray(value, dtype=np.float64))
    except Exception:
        raise Stop(
            f"{name} returned a {type(value).__name__} that can't be read as numbers.",
            "Return a tensor, or numbers; put a list of tensors together with torch.stack or "
            "torch.cat.",
        ) from None


def _errors(parts: list[Tensor], right: list[Tensor]) -> list[float | None]:
    return [_error(p, r) for p, r in zip(parts, right, strict=True)]


def _error(part: Tensor, right: Tensor) -> float | None:
    if part.shape != right.shape:
        return None
    if not right.numel():
        return 0.0
    return number((part - right).abs().max() / (right.abs().max() or 1.0))


def _values(parts: list[Tensor]) -> list[float | None]:
    values = torch.cat([part.flatten() for part in parts])
    return [number(v) for v in values] if len(values) <= SHOWN else []


def _slips(rule: Rule, case: str, seed: int, parts: list[Tensor], right: list[Tensor]) -> list[int]:
    mistaken = [_right(rule, slip, case, seed) for slip in rule.slips.values()]
    fine = _close(parts, right)
    return [
        k for k, m in enumerate(mistaken) if _close(parts, m) and (fine or not _close(right, m))
    ]


def _close(parts: list[Tensor], others: list[Tensor]) -> bool:
    """Equal up to rounding, in float32 too: this only chooses a hint."""
    return [p.shape for p in parts] == [o.shape for o in others] and all(
        torch.allclose(p, o, rtol=1e-4, atol=1e-6 * _largest(o), equal_nan=True)
        for p, o in zip(parts, others, strict=True)
    )


def _largest(values: Tensor) -> float:
    return float(values.nan_to_num(posinf=0.0, neginf=0.0).abs().max()) if values.numel() else 0.0


def judge_same_values(
    seen: Comparison, *, rule: str, cases: list[str], tolerance: float
) -> Verdict:
    """Every part of every result has the right shape, and the right values up to `tolerance`."""
    if [row.case for row in seen.cases] != cases:
        raise ValueError("not the cases that were asked for")
    words = RULES[rule].words
    faults = [fault for row in seen.cases if (fault := _fault(row, tolerance, words))]
    hint = _known(rule, seen) or RULES[rule].hint
    if tolerance and all(0 <= error <= ROUNDING for error in _all_errors(seen)):
        hint = (
            "Nearly right: this is the rounding of float32 or of finite differences, or a small "
            "number that is added somewhere. Stay with float64 in every step, let autograd "
            "differentiate, and add nothing that the formula doesn't have."
        )
    text = "; ".join(faults[:2])
    return verdict(not faults, f"{text[:1].upper()}{text[1:]}." if faults else _praise(cases), hint)


def _known(rule: str, seen: Comparison) -> str:
    """The hint for the first mistake that explains all results; "" if there is none."""
    common = set.intersection(*(set(row.slips) for row in seen.cases))
    return list(RULES[rule].slips)[min(common)] if common else ""


def _all_errors(seen: Comparison) -> list[float]:
    return [math.inf if e is None else e for row in seen.cases for e in row.errors]


def _praise(cases: list[str]) -> str:
    return f"Right for {', '.join(cases)}."


def _fault(row: Compared, tolerance: float, words: Mapping[float, str]) -> str:
    """What is wrong in a case, in words; "" when nothing is."""
    if not len(row.errors) == len(row.shapes) == len(row.expected_shapes) > 0:
        raise ValueError("not one error a part")
    if row.shapes != row.expected_shapes:
        return (
            f"for {row.case} the shape is {_sizes(row.shapes)}, not {_sizes(row.expected_shapes)}"
        )
    if any(error is None for error in row.errors):
        return f"for {row.case} a value is not finite"
    worst = max(error or 0.0 for error in row.errors)
    if min(error or 0.0 for error in row.errors) >= 0 and worst <= tolerance:
        return ""
    got, expected = _numbers(row.got, words), _numbers(row.expected, words)
    if got != expected and (worst > ROUNDING or not tolerance):
        return f"for {row.case} it gave {got}, right is {expected}"
    limit = f"{tolerance:.0e} may be" if tolerance else "must be exact"
    return f"for {row.case} the values are off by {worst:.2g} of the largest ({limit})"


def _sizes(shapes: list[list[int]]) -> str:
    return " and ".join(str(tuple(shape)) for shape in shapes)


def _numbers(values: list[float | None], words: Mapping[float, str]) -> str:
    return ", ".join("nan" if v is None else words.get(v, _digits(v)) for v in values)


def _digits(value: float) -> str:
    """Whole numbers in full: two counts of millions may differ by one."""
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"


same_values = Check(measure_same_values, judge_same_values)
