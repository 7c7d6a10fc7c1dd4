"""The gradebook keeps what it was given, and never half of it."""

import sqlite3

import pytest

from autograder.checks.core import Verdict
from autograder.gradebook import Attempt, Gradebook
from autograder.judge import CaseResult


def result(question="q", case="c", points=1.0, status="passed"):
    return CaseResult(question, case, False, points, 1.0, Verdict(status, "seen 1", "look"))


def attempt(student="ada", sha="1", status="graded", **more):
    return Attempt(
        assignment="a", version="v", student=student, sha256=sha, source="x.ipynb", status=status,
        reason="", notes=("a note",), **{"results": (result(),), **more},
    )  # fmt: skip


@pytest.fixture
def gradebook(tmp_path):
    book = Gradebook(tmp_path / "deep" / "gradebook.sqlite")
    yield book
    book.close()


def test_an_attempt_comes_back_as_it_was(gradebook):
    records = ({"question": "q", "case": "c", "evidence": {"x": [1, 2.5, None]}},)
    given = attempt("00123 Žofie", records=records, wall_s=1.5, cpu_s=1.0, peak_mib=300.0)
    gradebook.add(given)
    assert list(gradebook.attempts("a")) == [given]
    assert list(gradebook.attempts("other")) == []


def test_attempts_come_oldest_first(gradebook):
    gradebook.add(attempt("bob", "1"))
    gradebook.add(attempt("ada", "1"))
    gradebook.add(attempt("ada", "2", status="partial"))
    found = [(a.student, a.sha256) for a in gradebook.attempts("a")]
    assert found == [("bob", "1"), ("ada", "1"), ("ada", "2")]


def test_the_same_key_replaces_and_leaves_no_orphan(gradebook, tmp_path):
    gradebook.add(attempt(records=({"x": 1}, {"x": 2})))
    gradebook.add(attempt(status="partial", results=(result(points=0.0),)))
    assert [a.status for a in gradebook.attempts("a")] == ["partial"]
    db = sqlite3.connect(tmp_path / "deep" / "gradebook.sqlite")
    assert db.execute("SELECT count(*) FROM verdicts").fetchone() == (1,)
    assert db.execute("SELECT count(*) FROM evidence").fetchone() == (0,)


def test_a_failed_write_leaves_the_old_attempt_whole(gradebook):
    gradebook.add(attempt())
    broken = attempt(status="partial", records=({"x": {1, 2}},))  # a set is no JSON
    with pytest.raises(TypeError):
        gradebook.add(broken)
    assert [a.status for a in gradebook.attempts("a")] == ["graded"]
    gradebook.add(attempt("bob"))
    assert len(list(gradebook.attempts("a"))) == 2


def test_what_needs_another_run_is_not_done(gradebook):
    for status in ("graded", "partial", "invalid", "infrastructure", "flagged"):
        gradebook.add(attempt(status, status, status))
    assert {s for s, _ in gradebook.done("a", "v")} == {"graded", "partial", "invalid"}
    assert gradebook.done("a", "other version") == set()


def test_points_of_a_question():
    rows = (result(case="a", points=2.0), result(case="b", points=0.0, status="failed"))
    assert attempt(results=rows).points("q") == 2.0
    assert attempt(results=rows).points("absent") is None
    lost = (*rows, result(case="c", points=0.0, status="not_reached"))
    assert attempt(results=lost).points("q") == 2.0
    for status in ("not_run", "refused"):
        assert attempt(results=(*rows, result(case="c", status=status))).points("q") is None
