"""The gradebook keeps what it was given, and never half of it."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from autograder.checks.core import Verdict
from autograder.gradebook import Attempt, Gradebook, GradebookError, Mark, Terms
from autograder.judge import CaseResult, Run


def result(question="q", case="c", points=1.0, status="passed"):
    return CaseResult(question, case, False, points, 1.0, Verdict(status, "seen 1", "look"))


def run(*records, **more):
    return Run(records, {"q": "NameError"}, {}, **more)


def attempt(student="ada", sha="1", status="graded", version="v", **more):
    return Attempt(
        assignment="a", version=version, student=student, sha256=sha, source="x.ipynb",
        status=status, reason="", notes=("a note",), **{"results": (result(),), **more},
    )  # fmt: skip


TERMS = Terms("a", "v", "settings")


@pytest.fixture
def gradebook(tmp_path):
    book = Gradebook(tmp_path / "deep" / "gradebook.sqlite")
    yield book
    book.close()


def test_an_attempt_comes_back_as_it_was(gradebook):
    record = {"question": "q", "case": "c", "evidence": {"x": [1, 2.5e-17, None], "y": "é\u2028"}}
    given = attempt(
        "00123 Žofie", run=run(record, ended="killed", refused=2, asked={"q.c": "size"}),
        wall_s=1.5, cpu_s=1.0, peak_mib=300.0, content="abc", name="Ž", number=2,
        submitted="2024-05-06T10:00:00+00:00",
    )  # fmt: skip
    key = gradebook.add(given)
    assert list(gradebook.attempts("a")) == [given]
    assert gradebook.attempt(key) == given
    assert list(gradebook.attempts("other")) == []


def test_attempts_come_oldest_first(gradebook):
    gradebook.add(attempt("bob", "1"))
    gradebook.add(attempt("ada", "1"))
    gradebook.add(attempt("ada", "2", status="partial"))
    found = [(a.student, a.sha256) for a in gradebook.attempts("a")]
    assert found == [("bob", "1"), ("ada", "1"), ("ada", "2")]


def test_the_same_key_again_makes_the_earlier_one_history(gradebook, tmp_path):
    gradebook.add(attempt(status="infrastructure", run=run({"x": 1})))
    gradebook.add(attempt(status="partial"))
    assert [a.status for a in gradebook.attempts("a")] == ["infrastructure", "partial"]
    assert [a.status for a in gradebook.counting(TERMS)] == ["partial"]
    db = sqlite3.connect(tmp_path / "deep" / "gradebook.sqlite")
    assert db.execute("SELECT superseded FROM attempts ORDER BY id").fetchall() == [(1,), (0,)]
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE attempts SET superseded = 0")


def test_a_failed_write_leaves_the_old_attempt_whole(gradebook):
    gradebook.add(attempt())
    broken = attempt(status="partial", run=run({"x": {1, 2}}))  # a set is no JSON
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


def counting(gradebook):
    return {a.student: (a.sha256, a.version) for a in gradebook.counting(TERMS)}


def test_the_file_that_was_handed_in_last_counts(gradebook):
    gradebook.begin(TERMS, {"ada": "1", "bob": "1"})
    for sha in ("1", "2"):
        gradebook.add(attempt("ada", sha))
    gradebook.add(attempt("bob", "1", version="older"))
    assert counting(gradebook) == {"ada": ("1", "v"), "bob": ("1", "older")}
    gradebook.begin(TERMS, {"ada": "2"})
    assert counting(gradebook)["ada"] == ("2", "v")
    (bob,) = [a for a in gradebook.counting(TERMS) if a.student == "bob"]
    assert bob.notes == ("Graded with an older release.", "a note")


def test_who_waits(gradebook):
    gradebook.begin(TERMS, {"ada": "1", "bob": "1"})
    assert gradebook.waiting("a") == ["ada", "bob"]
    gradebook.add(attempt("ada", status="infrastructure"))
    assert gradebook.waiting("a") == ["bob"]
    gradebook.supersede("a", ["ada"])
    assert gradebook.waiting("a") == ["ada", "bob"]
    assert counting(gradebook) == {"ada": ("1", "v")}  # until there is another


def test_a_gradebook_that_is_open_is_refused(gradebook, tmp_path):
    with pytest.raises(GradebookError, match=r"Another autograder \(process \d+\) is at work"):
        Gradebook(tmp_path / "deep" / "gradebook.sqlite")
    gradebook.close()
    gradebook.__init__(tmp_path / "deep" / "gradebook.sqlite")


def test_files_that_are_no_gradebook_of_ours_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "gradebook.sqlite"
    path.write_text("something else, long enough to be looked at")
    with pytest.raises(GradebookError, match="can't be used: file is not a database"):
        Gradebook(path)
    assert path.read_text().startswith("something else")
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE attempts (id INTEGER)")
    with pytest.raises(GradebookError, match="made by another version"):
        Gradebook(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("attempts",)]


def test_a_folder_that_can_not_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(GradebookError, match="give another folder"):
        Gradebook(tmp_path / "file" / "gradebook.sqlite")


def test_a_gradebook_that_another_program_locks_is_told(gradebook, tmp_path, monkeypatch):
    gradebook.close()
    path = tmp_path / "deep" / "gradebook.sqlite"
    monkeypatch.setattr("autograder.storage.BUSY_S", 0)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GradebookError, match="database is locked"):
            Gradebook(path)
    gradebook.__init__(path)


def test_old_verdicts_stay_when_new_ones_come(gradebook, tmp_path):
    key = gradebook.add(attempt(results=(result(points=1.0),)))
    new = (result(points=0.5), result(case="d"))
    gradebook.judge_again(Terms("a", "v", "s"), lambda _, old: replace(old, results=new))
    assert gradebook.attempt(key).results == new
    with closing(sqlite3.connect(tmp_path / "deep" / "gradebook.sqlite")) as db:
        rows = db.execute("SELECT attempt, question, name, points FROM earlier_verdicts").fetchall()
    assert rows == [(key, "q", "c", 1.0)]


def test_marks_come_back_by_student_file_and_question(gradebook):
    ledger = gradebook.ledger
    ledger.mark(
        "a",
        {("ada", "1", "essay"): Mark(2.5, 4, "why?\nSee §2"), ("bob", "1", "essay"): Mark(0, 4)},
    )
    ledger.mark("a", {("ada", "1", "essay"): Mark(3, 4)})
    assert ledger.marks("a") == {
        "ada": {("1", "essay"): Mark(3, 4)},
        "bob": {("1", "essay"): Mark(0, 4)},
    }
    assert ledger.marks("other") == {}


def test_the_history_of_grades_keeps_all(gradebook):
    gradebook.ledger.note("a", [("ada", {"total": 1}, "")])
    gradebook.ledger.note(
        "a", [("ada", {"total": None}, "q: 1 -> none"), ("bob", {"total": 2}, "")]
    )
    found = gradebook.ledger.grades("a")
    assert [(one["total"], one["why"]) for one in found["ada"]] == [(1, ""), (None, "q: 1 -> none")]
    assert len(found["bob"]) == 1


def test_the_standing_attempts_of_a_student_end_with_the_one_handed_in_last(gradebook):
    for sha, version in (("1", "v"), ("2", "v"), ("1", "w"), ("3", "w")):
        gradebook.add(attempt(sha=sha, version=version))
    gradebook.begin(Terms("a", "w", "s"), {"ada": "1"})
    (found,) = gradebook.by_student(Terms("a", "w", "s"))
    assert [(a.sha256, a.version) for a in found] == [("2", "v"), ("3", "w"), ("1", "w")]
    assert found[0].notes[0] == "Graded with an older release."


def test_a_gradebook_of_the_format_before_gets_the_new_tables(tmp_path):
    path = tmp_path / "gradebook.sqlite"
    with closing(Gradebook(path)) as old:
        old.add(attempt())
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "DROP TABLE marks; DROP TABLE grades; DROP TABLE earlier_verdicts;PRAGMA user_version=2"
        )
    with closing(Gradebook(path)) as again:
        again.ledger.mark("a", {("ada", "1", "essay"): Mark(1, 4)})
        assert [a.student for a in again.attempts("a")] == ["ada"]
