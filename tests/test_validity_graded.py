"""What is told of each entry, from made-up runs: nothing may hide in a shared notebook."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from autograder.checks.core import Verdict
from autograder.gradebook import Attempt
from autograder.judge import CaseResult, Run
from autograder.validity import audit, graded
from autograder.validity.bank import Entry, reference
from autograder.validity.conditions import Condition, as_made
from autograder.validity.graded import Examiner, NotGraded
from tests.test_validity_runs import CHAIN

CASES = ("first.x", "second.x", "third.x", "fourth.x", "fifth.x")
CONDITION = Condition(1, 1, as_made)


@dataclass(frozen=True)
class Made:
    """In place of a bench: `fails` gives the cases that an entry fails, and under a condition."""

    fails: Any
    status: str = "graded"
    stopped: bool = False
    workers: int = 1
    release: Any = None

    def graded(self, notebooks, given):
        return {name: self.attempt(name, made, bool(given)) for name, made in notebooks.items()}

    def attempt(self, name, made, under):
        failed = self.fails(made.entry, under)
        verdicts = {c: Verdict("failed" if c in failed else "passed", "told") for c in CASES}
        results = [CaseResult(*case.split("."), False, 0, 1, v) for case, v in verdicts.items()]
        evidence = {"stopped": {}} if self.stopped else {"n": 1}
        records = [
            {"question": q, "case": c, "check": "", "evidence": evidence}
            for q, c in (case.split(".") for case in CASES)
        ]
        run = Run(records, {}, {})
        return Attempt("x", "v", name, "", "", self.status, "why.", (), tuple(results), run)


@pytest.fixture
def examiner(monkeypatch):
    monkeypatch.setattr(graded, "notebook", lambda e, _: SimpleNamespace(entry=e, cells=[]))

    def make(fails, **more):
        made = object.__new__(Examiner)
        made.bench, made.graph, made.cpu_s = Made(fails, **more), CHAIN, 0.0
        return made

    return make


def entry(kind, name, question, *fails):
    cell = {f"{question}-answer-1": name}
    return Entry("x", kind, name, "an idea", answers=cell, fails=frozenset(fails))


def changes(one, question):
    return f"{question}-answer-1" in one.answers


def test_a_mutant_can_not_take_the_failure_of_another_for_its_own(examiner):
    """The first one also fails what the second, a harmless one, should fail."""
    first, second = (entry("mutants", q, q, f"{q}.x") for q in ("first", "second"))

    def fails(one, _):
        return {"first.x", "second.x"} if changes(one, "first") else set()

    seen = examiner(fails).seen([first, second])
    assert [audit._written(one).outcome for one in seen] == ["other", "survived"]


@pytest.mark.parametrize("condition", [None, CONDITION])
def test_a_failure_that_is_nobodys_is_found_in_a_notebook_of_ones_own(condition, examiner):
    entries = [entry("variants", "a", "first"), entry("variants", "b", "third")]

    def fails(one, _):
        return {"second.x"} if changes(one, "first") else set()

    seen = examiner(fails).seen(entries, condition)
    assert [sorted(one.failed) for one in seen] == [["second.x"], []]


def test_a_right_solution_that_is_flagged_is_a_false_fail(examiner):
    (seen,) = examiner(lambda *_: set(), status="flagged").seen([reference("x")])
    assert audit._variant([seen]).failed == ["whole attempt: flagged"]


def test_a_mutant_whose_run_ended_early_is_judged_by_its_cases(examiner):
    mutant = entry("mutants", "a", "first", "first.x")
    (seen,) = examiner(lambda *_: {"first.x"}, status="partial").seen([mutant])
    assert audit._written(seen).outcome == "expected"


@pytest.mark.parametrize("status", ["infrastructure", "invalid"])
def test_what_was_not_graded_says_nothing(status, examiner):
    with pytest.raises(NotGraded, match="why"):
        examiner(lambda *_: set(), status=status).seen([reference("x")])


def test_only_what_was_measured_and_judged_counts_as_noticed(examiner):
    mutant = entry("mutants", "a", "first", "first.x")
    for stopped, noticed in ((False, {"first.x"}), (True, set())):
        (seen,) = examiner(lambda *_: {"first.x"}, stopped=stopped).seen([mutant])
        assert seen.failed == {"first.x"}
        assert seen.noticed == noticed


def test_a_verdict_that_changes_under_a_condition_is_told(examiner):
    one = entry("variants", "a", "third")
    made = examiner(lambda _, under: {"third.x"} if under else set())
    found = audit._variant([made.seen([one])[0], made.seen([one], CONDITION)[0]])
    assert found.failed == ["third.x"]
    assert [(u.case, u.statuses) for u in found.unsteady] == [
        ("third.x", {"passed": 1, "failed": 1})
    ]


def test_notebooks_are_named_after_what_they_hold():
    base = entry("mutants", "a", "first")
    others = [replace(base, inserted={"x": "1"}), replace(base, answered=frozenset({"first"}))]
    names = [graded._name(one, None) for one in (base, *others)]
    assert len({*names, graded._name(base, CONDITION)}) == 4
    assert graded._name(replace(base, name="b", idea="other"), None) == names[0]
