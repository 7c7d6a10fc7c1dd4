"""Every misconception of the bank costs its own cases alone, and right answers cost nothing.

Only the selected notebooks are graded: `pytest tests/test_golden.py -k lenet` takes seconds. By
default these are right answers (of those that train for long every fourth notebook), and
misconceptions until every case has failed; `make test-all` takes the whole bank, and so does
`autograder audit`, whose records are in docs/validity.
"""

import pytest

from autograder.grade import Release
from autograder.validity.bank import Entry
from autograder.validity.notebooks import merge
from autograder.validity.runs import not_passed
from tests import golden
from tests.conftest import NAMES

WHOLE_BANK = pytest.mark.whole_bank
BANK = [entry for name in NAMES for entry in golden.load(name)]
GROUPS = [group for name in NAMES for group in golden.pack(golden.load(name))]
SAMPLE = golden.sample([merge(group) for group in GROUPS])
LONG = ("cnn_vs_fnn", "encoder_decoder", "sequence_models")  # a notebook trains for 5 to 20 s
RIGHT = [group for group in GROUPS if group[0].kind == "variants"]
CHOSEN = [group for group in RIGHT if group[0].assignment not in LONG]
for one in LONG:
    CHOSEN += [group for group in RIGHT if group[0].assignment == one][::4]
DEFAULT = SAMPLE | {group[0].full_name for group in CHOSEN}
MARKED = [
    pytest.param(entry, marks=() if group[0].full_name in DEFAULT else WHOLE_BANK)
    for group in GROUPS
    for entry in group
]


@pytest.fixture(scope="session")
def attempts(request, built, grading, tmp_path_factory):
    """Graded notebooks of the selected tests: attempt, and cases that others in it fail."""
    items = [item for item in request.session.items if item.module.__name__ == __name__]
    chosen = [item.callspec.params for item in items if hasattr(item, "callspec")]
    bank = {id(p["entry"]): p["entry"] for p in chosen if isinstance(p.get("entry"), Entry)}
    found = {}
    for name in NAMES:
        entries = [entry for entry in bank.values() if entry.assignment == name]
        if entries:
            found |= graded(entries, built(name), grading, tmp_path_factory.mktemp(name))
    return found


def graded(entries, root, grading, out, device="cpu"):
    """Attempt, and the cases that others in the same notebook fail, for each entry of the bank."""
    name = entries[0].assignment
    groups = [(merge(group), group) for group in golden.pack(entries)]
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
    found = not_passed(attempt) - of_others
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
