"""Every misconception of the bank costs its own cases alone, and right answers cost nothing.

Only the selected notebooks are graded: `pytest tests/test_golden.py -k softmax` takes seconds.
"""

import re

import pytest

from autograder.grade import Release
from tests import golden
from tests.golden import Golden, GoldenError

NAME = "cnn_vs_fnn"
BANK = golden.load(NAME)


@pytest.fixture(scope="session")
def attempts(request, release_root, grading, tmp_path_factory):
    out = tmp_path_factory.mktemp("golden")
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    bank = {p["entry"].student: p["entry"] for p in chosen if isinstance(p.get("entry"), Golden)}
    groups = [(golden.merge(group), group) for group in golden.pack(bank.values())]
    golden.hand_in([g for g, _ in groups], release_root / "dist" / NAME, out / "inbox")
    graded = golden.grade(out / "inbox", Release.load(NAME, release_root), grading, out)
    return {e.student: (graded[g.student], g.fails - e.fails) for g, group in groups for e in group}


def explained(attempt):
    words = [
        f"{r.question}.{r.case} {r.verdict.status}: {r.verdict}"
        for r in attempt.results
        if r.verdict.status != "passed"
    ]
    return "\n".join([f"{attempt.status} {attempt.reason}", *attempt.notes, *words])


def points_without(fails, assignment):
    """Points of each question when these cases fail, from grading.yml alone."""
    return {
        name: sum(c.points for case, c in question.checks.items() if f"{name}.{case}" not in fails)
        for name, question in assignment.questions.items()
        if not question.manual
    }


def points_of(attempt, assignment):
    return {name: attempt.points(name) for name in points_without((), assignment)}


def of_kind(*kinds):
    chosen = [entry for entry in BANK if entry.kind in kinds]
    return pytest.mark.parametrize("entry", chosen, ids=lambda entry: entry.student)


@of_kind("mutants", "variants")
def test_exactly_the_named_cases_fail(entry, attempts, grading):
    attempt, of_others = attempts[entry.student]
    assert attempt.status == "graded", explained(attempt)
    found = golden.not_passed(attempt) - of_others
    assert found == entry.fails, f"{entry.idea}\n{explained(attempt)}"
    assignment = grading.assignment(NAME)
    assert points_of(attempt, assignment) == points_without(entry.fails | of_others, assignment)


@of_kind("submissions")
def test_a_submission_gets_its_points(entry, attempts, grading):
    attempt, _ = attempts[entry.student]
    assert attempt.status == "graded", explained(attempt)
    assert points_of(attempt, grading.assignment(NAME)) == entry.expect, explained(attempt)


def test_every_mutant_fails_a_case_that_exists_and_none_is_never_failed(grading):
    questions = grading.assignment(NAME).questions
    cases = {f"{name}.{case}" for name, question in questions.items() for case in question.checks}
    mutants = [entry for entry in BANK if entry.kind == "mutants"]
    assert all(entry.fails and entry.fails <= cases for entry in mutants)
    assert cases == frozenset[str]().union(*(entry.fails for entry in mutants))


@pytest.mark.parametrize("entry", [e for e in BANK if e.name == "blank"], ids=lambda e: e.student)
def test_nothing_in_a_blank_notebook_is_called_wrong(entry, attempts):
    attempt, _ = attempts[entry.student]
    statuses = {r.verdict.status for r in attempt.results}
    assert statuses == {"not_answered"}, explained(attempt)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edits": {"cnn-answer-1": {"no such text": ""}}}, "cnn-answer-1 does not contain"),
        ({"edits": {"cnn-check-1": {"cnn": ""}}}, "no answer cell cnn-check-1; there are"),
        ({"answers": {"cnn-answer-9": ""}}, "no answer cell cnn-answer-9"),
        ({"inserted": {"page-setup-1": ""}}, "no answer cell page-setup-1"),
    ],
)
def test_a_change_that_does_not_fit_the_notebook_is_refused(changes, message, release_root):
    entry = Golden("mutants", "test", "a test", **changes)
    with pytest.raises(GoldenError, match=re.escape(message)):
        golden.notebook(entry, release_root / "dist" / NAME)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("just text", "must be a mapping"),
        ("misconception: a", "lacks fails"),
        ("{misconception: a, fails: [b.c], edit: {}}", "unknown keys edit"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(text, message, tmp_path, monkeypatch):
    folder = tmp_path / "mutants" / NAME
    folder.mkdir(parents=True)
    (folder / "broken.yml").write_text(text)
    monkeypatch.setattr(golden, "BANK", tmp_path)
    with pytest.raises(GoldenError, match=rf"broken\.yml.*{message}"):
        golden.load(NAME)


def test_an_assignment_without_files_is_refused():
    with pytest.raises(GoldenError, match="no files for no_such_assignment"):
        golden.load("no_such_assignment")
