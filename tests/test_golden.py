"""Every misconception of the bank costs its own cases alone, and right answers cost nothing.

Only the selected notebooks are graded: `pytest tests/test_golden.py -k lenet` takes seconds. By
default these are all right answers, and misconceptions until every case has failed; `make test-all`
takes the whole bank.
"""

import re

import pytest

from autograder.grade import Release
from tests import golden
from tests.conftest import NAME, NAMES
from tests.golden import Golden, GoldenError

WHOLE_BANK = pytest.mark.whole_bank
BANK = [entry for name in NAMES for entry in golden.load(name)]
GROUPS = [group for name in NAMES for group in golden.pack(golden.load(name))]
SAMPLE = golden.sample([golden.merge(group) for group in GROUPS])
MARKED = [
    pytest.param(entry, marks=() if first in SAMPLE or entry.kind == "variants" else (WHOLE_BANK,))
    for first, group in ((group[0].full_name, group) for group in GROUPS)
    for entry in group
]


@pytest.fixture(scope="session")
def attempts(request, built, grading, tmp_path_factory):
    """Graded notebooks of the selected tests: attempt, and cases that others in it fail."""
    items = [item for item in request.session.items if item.module.__name__ == __name__]
    chosen = [item.callspec.params for item in items if hasattr(item, "callspec")]
    bank = {id(p["entry"]): p["entry"] for p in chosen if isinstance(p.get("entry"), Golden)}
    found = {}
    for name in NAMES:
        entries = [entry for entry in bank.values() if entry.assignment == name]
        if entries:
            found |= graded(entries, built(name), grading, tmp_path_factory.mktemp(name))
    return found


def graded(entries, root, grading, out, device="cpu"):
    """Attempt, and the cases that others in the same notebook fail, for each entry of the bank."""
    name = entries[0].assignment
    groups = [(golden.merge(group), group) for group in golden.pack(entries)]
    golden.hand_in([g for g, _ in groups], root / "dist" / name, out / "inbox")
    made = golden.grade(out / "inbox", Release.load(name, root), grading, out, device)
    return {e.full_name: (made[g.student], g.fails - e.fails) for g, group in groups for e in group}


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


def assert_as_expected(entry, attempt, of_others, grading):
    """Exactly the named cases fail, or the points are those of the file."""
    assert attempt.status == "graded", explained(attempt)
    assignment = grading.assignment(entry.assignment)
    if entry.kind == "submissions":
        assert points_of(attempt, assignment) == entry.expect, explained(attempt)
        return
    found = golden.not_passed(attempt) - of_others
    assert found == entry.fails, f"{entry.idea}\n{explained(attempt)}"
    assert points_of(attempt, assignment) == points_without(entry.fails | of_others, assignment)


@pytest.mark.parametrize("entry", MARKED, ids=lambda entry: entry.full_name)
def test_exactly_the_named_cases_fail(entry, attempts, grading):
    assert_as_expected(entry, *attempts[entry.full_name], grading)


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_fails_a_case_that_exists_and_none_is_never_failed(name, grading):
    questions = grading.assignment(name).questions
    cases = {f"{q}.{case}" for q, question in questions.items() for case in question.checks}
    mutants = [e for e in BANK if e.kind == "mutants" and e.assignment == name]
    assert all(entry.fails and entry.fails <= cases for entry in mutants)
    assert cases == frozenset[str]().union(*(entry.fails for entry in mutants))


@pytest.mark.parametrize("entry", [e for e in BANK if e.name == "blank"], ids=lambda e: e.full_name)
def test_nothing_in_a_blank_notebook_is_called_wrong(entry, attempts):
    attempt, _ = attempts[entry.full_name]
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
    entry = Golden(NAME, "mutants", "test", "a test", **changes)
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
