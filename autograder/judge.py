"""Evidence and grading.yml -> verdicts, points and the status of an attempt. Pure functions.

Nothing that the student's process says of itself is believed: which check a case runs, its
settings and its points come from grading.yml, and evidence has to fit the check's own schema.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from inspect import signature
from typing import Any, Literal, cast, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from autograder.checks import CHECKS
from autograder.checks.core import Unavailable, Verdict, number
from autograder.config import Assignment, CheckEntry, ConfigError, Question, settings_of
from autograder.identity import asked as asked_now
from autograder.identity import settings_names

# What evidence that no measurement makes can raise on its way through schema and judge.
UNFIT = (ValidationError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError)

CHANGED = Verdict("not_run", "It was not measured as grading.yml now asks: grade it again.")

AttemptStatus = Literal["graded", "partial", "flagged", "invalid", "infrastructure"]


@dataclass(frozen=True)
class CaseResult:
    """Verdict and points of one test case."""

    question: str
    case: str
    hidden: bool
    points: float
    possible: float
    verdict: Verdict


@dataclass(frozen=True)
class Run:
    """What a run left: evidence records, failed answer cells, and where and why it stopped.

    Attributes:
        records: {"question", "case", "check", "evidence"}, as they came.
        cell_errors: for a question the error of its (last failing) cell, in words.
        stops: for a question why its tests did not finish, in words.
        ended: why the whole run ended early, or "".
        infrastructure: the run failed for a reason that is not the student's.
        outage: data that a cell could not download, in words, or "".
        unloaded: a checkpoint that a cell could not load, in words, or "".
        unlike: what another run, with training, found different from checkpoints, or "".
        stopped: a cell that reached its time limit, in words, or "".
        refused: lines that the process sent and that are no events; an honest run has none.
        tampered: what student code changed in the process that measures it, in words.
        asked: what each case measured, from `identity.asked`; None: what it would measure now.
    """

    records: Sequence[Mapping[str, Any]]
    cell_errors: Mapping[str, str]
    stops: Mapping[str, str]
    ended: str = ""
    infrastructure: bool = False
    outage: str = ""
    stopped: str = ""
    refused: int = 0
    asked: Mapping[str, str] | None = None
    tampered: Sequence[str] = ()
    unloaded: str = ""
    unlike: str = ""


def judge(assignment: Assignment, run: Run) -> list[CaseResult]:
    """One result for every case of the assignment, in its order, whatever the run left."""
    now = {} if run.asked is None else asked_now(assignment)
    changed = {place for place in now if now[place] != (run.asked or {}).get(place)}
    return [
        _result(question, name, case, None if f"{name}.{case}" in changed else run)
        for name, question in assignment.questions.items()
        for case in question.checks
    ]


def _result(question: Question, name: str, case: str, run: Run | None) -> CaseResult:
    entry = question.checks[case]
    decided = _verdict(question, name, case, run) if run else CHANGED
    earned = entry.points if decided.status == "passed" else 0.0
    return CaseResult(name, case, entry.hidden, earned, entry.points, decided)


def _verdict(question: Question, name: str, case: str, run: Run) -> Verdict:
    found = [r for r in run.records if r.get("question") == name and r.get("case") == case]
    if not found:
        return _absent(name, run)
    if len(found) > 1:
        return Verdict("refused", "This check reported more than once; a person has to look at it.")
    decided = _decide(question, question.checks[case], found[0].get("evidence"))
    if lacked := _lacked(decided, name, run):
        return Verdict("not_run", lacked)
    if decided.status == "not_answered" and name in run.cell_errors:
        return Verdict(
            decided.status, f"The cell above failed: {run.cell_errors[name]}.", decided.hint
        )
    if decided.status == "failed" and name in run.cell_errors:
        told = f"{decided.hint} A cell of this question failed: {run.cell_errors[name]}."
        return Verdict("failed", decided.rationale, told.strip())
    return decided


def _lacked(decided: Verdict, name: str, run: Run) -> str:
    """The data or the checkpoint for want of which the case did not pass, in words, or ""."""
    if decided.status == "not_answered":
        return run.outage or run.unloaded
    # A network that was made, but got no weights, is there: what it fails says nothing.
    return run.unloaded if decided.status == "failed" and name in run.cell_errors else ""


def _absent(name: str, run: Run) -> Verdict:
    reason = run.stops.get(name) or run.ended or "Its tests were not reached."
    return Verdict("not_run" if run.infrastructure else "not_reached", reason)


def _decide(question: Question, entry: CheckEntry, evidence: Any) -> Verdict:
    check = CHECKS[entry.check]
    try:
        seen = _fitting(entry.check, evidence)
        if isinstance(seen, _Stopped):
            return Verdict(seen.stopped.kind, seen.stopped.rationale, seen.stopped.hint)
        return check.judge(seen, **_settings(question, entry, check.judge))
    except Unavailable as missing:
        return Verdict("not_run", missing.rationale, missing.hint)
    except UNFIT as error:
        kind = type(error).__name__
        return Verdict(
            "refused", f"The evidence does not fit the check ({kind}); a person has to look."
        )


def threshold_value(question: Question, entry: CheckEntry, evidence: Any) -> float | None:
    """The number that a check's judging half compares with its threshold.

    None where the check has no threshold, the measurement stopped, the evidence does not fit, or
    the labels are not on this machine.
    """
    threshold = CHECKS[entry.check].threshold
    seen = evidence_of(entry.check, evidence) if threshold else None
    if threshold is None or seen is None:
        return None
    try:
        return number(threshold.value(seen, **_settings(question, entry, threshold.value)))
    except (Unavailable, *UNFIT):
        return None


def evidence_of(check: str, evidence: Any) -> Any:
    """Evidence as the check's own dataclass; None if it does not fit or nothing was measured."""
    try:
        seen = _fitting(check, evidence)
    except UNFIT:
        return None
    return None if isinstance(seen, _Stopped) else seen


def _fitting(check: str, evidence: Any) -> Any:
    """Evidence as a check's own dataclass, or as `_Stopped`; another form raises one of UNFIT."""
    return _schema(check).validate_json(json.dumps(evidence, allow_nan=False))


def _settings(
    question: Question, entry: CheckEntry, function: Callable[..., Any]
) -> dict[str, Any]:
    """Those settings that a function of the entry's check takes."""
    settings = settings_of(question, entry, settings_names(CHECKS[entry.check]))
    return {name: settings[name] for name in _parameters(function) if name in settings}


@cache
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(signature(function).parameters)


@cache
def _schema(name: str) -> TypeAdapter[Any]:
    """Strict schema of a check's evidence: its own, or that of a measurement that stopped."""
    either: Any = _Stopped | _strict(
        CHECKS[name].evidence
    )  # made at run time, so no type that mypy can follow
    return TypeAdapter(either)


def _strict(kind: type) -> type:
    """The dataclass, and those inside of it, without conversions and unknown keys."""
    for hint in get_type_hints(kind).values():
        for inner in filter(is_dataclass, get_args(hint)):
            _strict(cast(type, inner))
    return with_config(ConfigDict(strict=True, extra="forbid"))(kind)


@with_config(ConfigDict(strict=True, extra="forbid"))
@dataclass(frozen=True)
class _Stop:
    kind: Literal["failed", "not_answered", "not_run"]
    rationale: str
    hint: str


@with_config(ConfigDict(strict=True, extra="forbid"))
@dataclass(frozen=True)
class _Stopped:
    stopped: _Stop


def status_of(results: Sequence[CaseResult], run: Run) -> tuple[AttemptStatus, str]:
    """Status of the attempt, and the reason in words ("" when simply graded)."""
    if run.infrastructure:
        return "infrastructure", run.ended
    if run.tampered:
        return "flagged", _changed(run.tampered)
    if run.refused:
        return "flagged", _foreign(run.refused)
    kinds: dict[str, AttemptStatus] = {
        "refused": "flagged", "not_run": "partial" if run.unloaded else "infrastructure",
        "not_reached": "partial",
    }  # fmt: skip
    for kind, status in kinds.items():
        if run.unlike and status == "partial":  # what a second run found is more than that
            break
        if found := [r for r in results if r.verdict.status == kind]:
            questions = ", ".join(dict.fromkeys(r.question for r in found))
            return status, f"{questions}: {found[0].verdict}"
    if run.unlike:
        return "flagged", run.unlike
    return ("partial", run.stopped) if run.stopped else ("graded", "")


def _foreign(lines: int) -> str:
    counted = "1 line" if lines == 1 else f"{lines} lines"
    return f"{counted} of evidence came from no check; look for code that writes to the grader."


def _changed(what: Sequence[str], most: int = 4) -> str:
    more = f" and {len(what) - most} more" if len(what) > most else ""
    told = " ".join(what[:most])
    return f"Code changed what grades it; look at that code before you give points. {told}{more}"


def validate(assignment: Assignment) -> None:
    """Check that every case names a known check and gives all its settings.

    Raises:
        ConfigError: one does not; the message names the key.
    """
    for name, question in assignment.questions.items():
        for case, entry in question.checks.items():
            place = f"grading.yml: questions.{name}.checks.{case}"
            if entry.check not in CHECKS:
                raise ConfigError(
                    f"{place}: no check {entry.check!r}; there are: {', '.join(CHECKS)}."
                )
            try:
                settings_of(question, entry, CHECKS[entry.check].settings)
            except ConfigError as error:
                raise ConfigError(f"{place}: {error}") from None
