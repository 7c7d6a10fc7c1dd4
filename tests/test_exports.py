"""Exports, read back by the columns that each platform documents, and compared with the grades."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
from otter.grade.utils import merge_scores_to_df

from autograder.checks.core import Verdict
from autograder.config import Policy
from autograder.gradebook import Attempt
from autograder.judge import CaseResult
from autograder.ledger import Mark
from autograder.policy import grade
from autograder.report.exports import FORMATS, Batch, ExportError, Person, export
from tests.conftest import NAME

HOSTILE = [
    "00417", "=cmd()", "Žofie, Ann", "a;b", 'q"q', "two\nlines", "🦊", "\u202eאבג", "@x", "-1",
    "1e5",
]  # fmt: skip
DUE = datetime.fromisoformat("2026-12-01T12:00:00+00:00")


@pytest.fixture
def assignment(grading):
    """38 points by checks, 4 by a person; 10 % a day after noon of 1 December."""
    policy = Policy(due=DUE, late_percent_per_day=10)
    return grading.assignment(NAME).model_copy(update={"policy": policy})


def graded(assignment, student="ada", mark=3.0, lost=0.0, **changed):
    """The grade of a student who has lost some points of the first check."""
    results = [
        CaseResult(name, case, entry.hidden, entry.points, entry.points, Verdict("passed", "seen"))
        for name, question in assignment.questions.items()
        for case, entry in question.checks.items()
    ]
    if lost:
        results[0] = replace(results[0], points=1 - lost, verdict=Verdict("failed", "a", "b"))
    attempt = Attempt(
        NAME, "v", student, "5ha", f"in/{student}.ipynb", "graded", "", (), tuple(results),
        submitted="2026-12-01T10:00:00+00:00",
    )  # fmt: skip
    marks = {} if mark is None else {("5ha", "reflection"): Mark(mark, 4)}
    return grade(assignment, [replace(attempt, **changed)], marks)


def people(*students):
    return [
        Person(s, f"Name of {s}", f"{n}@uni.example", str(100 + n), str(200 + n))
        for n, s in enumerate(students)
    ]


def written(form, tmp_path, batch):
    """What the platform reads: rows without the header's help, or JSON; and the words."""
    path = tmp_path / f"out.{form}"
    words = export(form, path, batch)
    if form == "gradescope":
        with ZipFile(path) as package:
            return json.loads(package.read("results.json")), words
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file)), words


def scores(form, tmp_path, batch):
    """Grades by the student's id, found as the platform finds students."""
    read, _ = written(form, tmp_path, batch)
    by = {
        "canvas": {p.canvas_id: p.student for p in batch.people},
        "moodle": {f"Participant {p.moodle_id}": p.student for p in batch.people},
        "gradescope": {p.email: p.student for p in batch.people},
    }
    if form == "gradescope":
        return {by[form][email]: result["score"] for email, result in read.items()}
    student, column = {
        "canvas": ("ID", batch.assignment.title),
        "moodle": ("Identifier", "Grade"),
        "otter": ("file", "total_points_earned"),
        "csv": ("student", "total"),
    }[form]
    if form in by:
        return {by[form][r[student]]: float(r[column]) for r in read if r[student]}
    rows = [r for r in read if r[student] != "points-per-question"]
    names = [r[student].removesuffix(".ipynb").removeprefix("'") for r in rows]
    return {n: float(r[column]) for n, r in zip(names, rows, strict=True) if r[column]}


@pytest.mark.parametrize("form", FORMATS)
def test_every_student_gets_the_own_grade(tmp_path, assignment, form):
    grades = [
        graded(assignment, s, mark=n / 4, lost=(n % 2) / 3) for n, s in enumerate(HOSTILE)
    ]  # fmt: skip
    batch = Batch(assignment, grades, people(*HOSTILE))
    expected = {s: 38 + n / 4 - (n % 2) / 3 for n, s in enumerate(HOSTILE)}
    assert scores(form, tmp_path, batch) == pytest.approx(expected, abs=1e-4)
    assert export(form, tmp_path / "again", batch) == []


@pytest.mark.parametrize("form", FORMATS)
def test_nobody_without_a_grade_gets_a_zero(tmp_path, assignment, form):
    lost = graded(assignment, "e")
    not_run = replace(lost.attempt.results[0], points=0.0, verdict=Verdict("not_run", ""))
    results = (not_run, *lost.attempt.results[1:])
    batch = Batch(
        assignment,
        [
            graded(assignment, "a"),
            graded(assignment, "b", status="invalid", results=()),
            graded(assignment, "c", status="flagged"),
            graded(assignment, "d", status="infrastructure"),
            graded(assignment, "e", results=results),
            graded(assignment, "f", mark=None),
            graded(assignment, "g", mark=0.0, status="partial"),
            graded(assignment, "stranger"),
        ],
        people(*"abcdefg", "absent"),
    )
    known = {"stranger": 41.0} if form in ("otter", "csv") else {}
    assert scores(form, tmp_path, batch) == {"a": 41.0, "g": 38.0, **known}
    words = export(form, tmp_path / "again", batch)
    assert words[0] == (
        "4 students have no grade: b (invalid), c (flagged), d (infrastructure), "
        "e (a question could not be graded)"
    )
    assert words[1] == (
        "1 student has no grade until a person has marked their answers: f (reflection)"
    )
    assert words[2] == "1 student of the roster handed in nothing: absent"
    left_out = "" if known else ", so the student is left out"
    assert words[3:] == [f"1 student is not in the roster{left_out}: stranger"]


@pytest.mark.parametrize("form", FORMATS)
def test_without_manual_questions_everybody_has_the_same_possible_points(
    tmp_path, assignment, form
):
    late = "2026-12-01T13:00:00+00:00"  # one day: a tenth of the possible points
    grades = [
        graded(assignment, "marked", 3.0, submitted=late),
        graded(assignment, "unmarked", None, submitted=late),
        graded(assignment, "early", 4.0),
    ]  # fmt: skip
    assert (grades[0].total, grades[1].total) == pytest.approx((36.8, 34.2))
    batch = Batch(assignment, grades, people("marked", "unmarked", "early"), without_manual=True)
    assert scores(form, tmp_path, batch) == pytest.approx(
        {"marked": 34.2, "unmarked": 34.2, "early": 38.0}
    )
    read, words = written(form, tmp_path, batch)
    assert words == []
    assert "reflection" not in str(read)
    possible = {
        "canvas": lambda: [read[0][assignment.title]],
        "moodle": lambda: [r["Maximum grade"] for r in read],
        "gradescope": lambda: [
            f"{sum(t['max_score'] for t in r['tests']):g}" for r in read.values()
        ],
        "otter": lambda: [read[0]["total_points_earned"]],
        "csv": lambda: [r["possible"] for r in read],
    }[form]()
    assert set(possible) == {"38"}


@pytest.mark.parametrize("form", FORMATS)
def test_lateness_is_deducted(tmp_path, assignment, form):
    late = graded(assignment, mark=4.0, submitted="2026-12-02T13:00:00+00:00")
    batch = Batch(assignment, [late], people("ada"))
    assert scores(form, tmp_path, batch) == pytest.approx({"ada": 42 * 0.8})


def test_canvas_has_its_columns_in_their_places_and_numbers_as_ids(tmp_path, assignment):
    roster = [
        Person("00417", "=cmd()", "a@uni.example", "1234"), Person("7", "Žofie, Ann"),
        Person("8", "Ben", "", "12b"),
    ]  # fmt: skip
    grades = [graded(assignment, p.student) for p in roster]
    path = tmp_path / "canvas.csv"
    words = export("canvas", path, Batch(assignment, grades, roster, column="Homework 1 (5678)"))
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Homework 1 (5678)"],
        ["    Points Possible", "", "", "", "", "42"],
        ["'=cmd()", "1234", "00417", "a@uni.example", "", "41"],
        ["7", "", "7", "", "", "41"],  # no name, by which Canvas might take another
        ["8", "", "8", "", "", "41"],
    ]
    (told,) = words
    assert told.startswith("2 students have no number as canvas_id")
    assert told.endswith(": 7, 8")


@pytest.mark.parametrize("column", ["Final Score", "My Override Grade (2026)"])
def test_a_column_that_canvas_would_ignore_is_refused(tmp_path, assignment, column):
    batch = Batch(assignment, [], people("ada"), column=column)
    with pytest.raises(ExportError, match="name the column otherwise"):
        export("canvas", tmp_path / "x.csv", batch)


def test_moodle_has_the_three_columns_that_its_worksheet_needs(tmp_path, assignment):
    roster = [
        Person("ada", "Ada\\", "a@uni.example", moodle_id="9"),
        Person("ben", "", "b@uni.example"), Person("eve", "@eve", moodle_id="Participant 10"),
    ]  # fmt: skip
    batch = Batch(assignment, [graded(assignment, p.student) for p in roster], roster)
    read, words = written("moodle", tmp_path, batch)
    assert [(r["Identifier"], r["Grade"], r["Last modified (grade)"]) for r in read] == [
        ("Participant 9", "41", ""), ("", "41", ""), ("Participant 10", "41", ""),
    ]  # fmt: skip
    assert [r["Full name"] for r in read] == ["Ada/", "ben", "'@eve"]
    assert read[1]["Email address"] == "b@uni.example"
    assert "Feedback comments" not in read[0]
    assert len(words) == 1
    assert words[0].endswith("by email, knows them: ben")


def run_on_gradescope(tmp_path, archive, *emails):
    """Run the zip's autograder as Gradescope does; results.json or None, and what it printed."""
    root = tmp_path / "autograder"
    with ZipFile(archive) as package:
        package.extractall(root / "source")
        assert package.getinfo("run_autograder").external_attr >> 16 & 0o111
    users = [{"email": email, "id": 1, "name": "x"} for email in emails]
    (root / "submission_metadata.json").write_text(json.dumps({"users": users}))
    out = root / "results" / "results.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-I", str(root / "source" / "run_autograder"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == out.exists()
    return json.loads(out.read_text()) if out.exists() else None, done.stderr


def test_gradescope_gives_each_submission_its_results(tmp_path, assignment):
    grades = [graded(assignment, "ada", lost=0.5), graded(assignment, "Žofie\ud800", mark=0.0),
              graded(assignment, "eve", mark=None), graded(assignment, "no mail")]  # fmt: skip
    roster = [Person("ada", email="Ada@Uni.example"), Person("Žofie\ud800", email="z@uni.example"),
              Person("eve", email="e@uni.example"), Person("no mail")]  # fmt: skip
    path = tmp_path / "out.zip"
    words = export("gradescope", path, Batch(assignment, grades, roster))
    assert words[-1] == (
        "1 student has no email, by which Gradescope knows them, and is left out: no mail"
    )
    mine, _ = run_on_gradescope(tmp_path, path, "ADA@uni.example ", "partner@uni.example")
    assert mine["score"] == pytest.approx(40.5)
    assert sum(t["score"] for t in mine["tests"]) == pytest.approx(40.5)
    assert sum(t["max_score"] for t in mine["tests"]) == pytest.approx(42)
    assert mine["tests"][0]["status"] == "failed"
    assert mine["tests"][0]["output"] == "a b"
    other, _ = run_on_gradescope(tmp_path, path, "z@uni.example")
    assert (other["score"], other["extra_data"]["student"]) == (38.0, "Žofie\ud800")
    nothing, said = run_on_gradescope(tmp_path, path, "e@uni.example")
    assert nothing is None
    assert "0 of the submission's students have a grade" in said
    assert run_on_gradescope(tmp_path, path, "ada@uni.example", "z@uni.example")[0] is None


def test_gradescope_shows_hidden_checks_late_and_by_outcome(tmp_path, assignment):
    released = assignment.model_copy(update={"released": ["cnn"]})
    batch = Batch(released, [graded(assignment)], people("ada"))
    (read,), _ = [*written("gradescope", tmp_path, batch)[0].values()], None
    cases = {
        f"{name}: {case}": (name, entry.hidden)
        for name, question in assignment.questions.items()
        for case, entry in question.checks.items()
    }
    tests = {t["name"]: t for t in read["tests"]}
    assert tests.keys() - cases.keys() == {"reflection"}
    assert any(hidden for _, hidden in cases.values())
    for name, (question, hidden) in cases.items():
        assert tests[name]["visibility"] == ("after_published" if hidden else "visible")
        assert (tests[name]["output"] == "seen") == (not hidden or question == "cnn")


def test_otters_table_is_the_one_that_otter_makes(tmp_path, assignment):
    """Otter's own function is the oracle, with what Otter would have measured."""
    students = ["zoe", "ada", "00417"]
    grades = [graded(assignment, s, lost=n / 4) for n, s in enumerate(students)]
    automatic = {n: q.possible for n, q in assignment.questions.items() if not q.manual}

    def measured(one):
        return SimpleNamespace(
            to_dict=lambda: {
                n: {"score": one.points[n], "possible": p} for n, p in automatic.items()
            },
            has_catastrophic_failure=lambda: False, file=f"{one.attempt.student}.ipynb",
            total=sum(one.points[n] for n in automatic), possible=sum(automatic.values()),
            percent=sum(one.points[n] for n in automatic) / sum(automatic.values()),
        )  # fmt: skip

    table = merge_scores_to_df([measured(one) for one in grades])
    table.to_csv(tmp_path / "final_grades.csv", index=False)
    with (tmp_path / "final_grades.csv").open(newline="", encoding="utf-8") as file:
        theirs = list(csv.DictReader(file))
    ours, _ = written("otter", tmp_path, Batch(assignment, grades, without_manual=True))
    assert list(ours[0]) == list(theirs[0])
    assert len(ours) == len(theirs) == 4
    for mine, other in zip(ours, theirs, strict=True):
        for column, cell in other.items():
            if column in ("file", "grading_status"):
                assert mine[column] == cell
            else:
                assert float(mine[column]) == pytest.approx(float(cell), abs=1e-4)


def test_otters_table_says_why_a_cell_is_empty(tmp_path, assignment):
    grades = [graded(assignment, "a", status="invalid", results=()), graded(assignment, "b", None)]
    read, _ = written("otter", tmp_path, Batch(assignment, grades))
    told = {r["file"]: (r["total_points_earned"], r["grading_status"]) for r in read[1:]}
    assert told == {
        "a.ipynb": ("", "invalid"), "b.ipynb": ("", "waits for a person: reflection"),
    }  # fmt: skip
    assert (read[1]["cnn"], read[2]["cnn"]) == ("", "9")


def test_our_own_table_has_everybody_and_no_formulas(tmp_path, assignment):
    roster = [Person("00417", "=1", "+e", "-c", "@m"), Person("absent", "Abs")]
    grades = [graded(assignment, "00417", None), graded(assignment, "=cmd()", name="Cmd")]
    read, _ = written("csv", tmp_path, Batch(assignment, grades, roster))
    assert list(read[0])[:5] == ["student", "name", "email", "canvas_id", "moodle_id"]
    assert list(read[0])[5:-8] == list(assignment.questions)
    assert [*read[0].values()][:5] == ["00417", "'=1", "'+e", "'-c", "'@m"]
    assert [(r["student"], r["total"], r["possible"], r["status"]) for r in read] == [
        ("00417", "", "42", "graded"), ("absent", "", "42", "not handed in"),
        ("'=cmd()", "41", "42", "graded"),
    ]  # fmt: skip
    assert (read[0]["waiting"], read[0]["cnn"], read[2]["name"]) == ("reflection", "9", "Cmd")


@pytest.mark.parametrize("form", ["canvas", "moodle", "gradescope"])
def test_platforms_that_have_ids_of_their_own_need_the_roster(tmp_path, assignment, form):
    with pytest.raises(ExportError, match="give the roster file"):
        export(form, tmp_path / "x", Batch(assignment, [graded(assignment)]))


@pytest.mark.parametrize("form", ["otter", "csv"])
def test_without_a_roster_nobody_is_a_stranger(tmp_path, assignment, form):
    assert export(form, tmp_path / "x", Batch(assignment, [graded(assignment)])) == []
