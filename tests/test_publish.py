"""The commands that show results and take marks, from a small class to files and back."""

import csv
import sqlite3
from contextlib import closing
from datetime import datetime

import pytest

from autograder import cli
from autograder.grade import file_stem
from autograder.gradebook import Gradebook
from tests import tiny


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Root and results: ada has all 7 points, bob 1, hal's file is empty; a person grades `why`."""
    tiny.use_fakes(monkeypatch)
    tiny.make_root(tmp_path)
    inbox, out = tmp_path / "inbox", tmp_path / "out"
    tiny.hand_in(inbox, "ada")
    tiny.hand_in(inbox, "bob", [14, 9], off=0.2)
    (inbox / "hal.ipynb").write_text("")
    assert cli.main(tiny.command(tmp_path, inbox, out)) == 1
    return tmp_path, out


def run(root, *arguments):
    return cli.main(["--root", str(root), *map(str, arguments)])


def table(out):
    with (out / tiny.NAME / "grades.csv").open(newline="", encoding="utf-8-sig") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def set_policy(root, **policy):
    raw = tiny.settings()
    raw["assignments"][tiny.NAME]["policy"] = policy
    tiny.write_settings(root, raw)


def handed_in(out, **times):
    with closing(sqlite3.connect(out / "gradebook.sqlite")) as db:
        for student, time in times.items():
            db.execute("UPDATE attempts SET submitted = ? WHERE student = ?", (time, student))
        db.commit()


def history(out):
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        found = gradebook.ledger.grades(tiny.NAME)
    return {student: [(one["total"], one["why"]) for one in grades]
            for student, grades in found.items()}  # fmt: skip


def fill(out, **points):
    """The sheet, filled; gives its path."""
    path = out / tiny.NAME / "manual.csv"
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["points"] = points.get(row["student"], "")
    filled = path.with_name("filled.csv")
    with filled.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return filled


def test_grading_ends_with_pages_for_students_and_teacher(graded):
    folder = graded[1] / tiny.NAME
    pages = {path.name for path in (folder / "feedback").iterdir()}
    assert pages == {"ada.html", "ada.notebook.html", "bob.html", "bob.notebook.html", "hal.html"}
    assert "Class report" in (folder / "class.html").read_text()
    assert 'href="ada.notebook.html"' in (folder / "feedback" / "ada.html").read_text()


def test_report_writes_the_same_again_and_tells_no_change(graded, capsys):
    root, out = graded
    files = {p: p.read_bytes() for p in (out / tiny.NAME).rglob("*.*")}
    for path in files:
        if path.suffix == ".html":
            path.unlink()
    capsys.readouterr()
    assert run(root, "report", out) == 1  # hal has no grade
    assert {p: p.read_bytes() for p in (out / tiny.NAME).rglob("*.*")} == files
    assert "Grades that changed" not in capsys.readouterr().out
    assert {student: len(grades) for student, grades in history(out).items()} == {
        "ada": 1, "bob": 1, "hal": 1,
    }  # fmt: skip


def test_a_due_date_counts_without_running_or_judging(graded, capsys):
    root, out = graded
    handed_in(out, ada="2026-12-02T12:00:00+00:00", bob="2026-12-01T12:00:00+00:00")
    due = datetime.fromisoformat("2026-12-01T12:00:00+00:00")
    set_policy(root, due=due, late_percent_per_day=10)
    capsys.readouterr()
    run(root, "report", out)
    assert (table(out)["ada"]["total"], table(out)["bob"]["total"]) == ("6.3", "1")
    assert (table(out)["ada"]["late_days"], table(out)["ada"]["deduction"]) == ("1", "0.7")
    assert "ada: total 7 of 7 -> 6.3 of 7; 0 -> 0.7 points for lateness" in capsys.readouterr().out
    set_policy(root)
    run(root, "report", out)
    assert history(out)["ada"] == [
        (7, ""),
        (6.3, "total 7 of 7 -> 6.3 of 7; 0 -> 0.7 points for lateness"),
        (7, "total 6.3 of 7 -> 7 of 7; 0.7 -> 0 points for lateness"),
    ]  # fmt: skip


def test_changed_points_have_to_be_judged_before_they_are_shown(graded, capsys):
    root, out = graded
    raw = tiny.settings()
    raw["assignments"][tiny.NAME]["questions"]["size"]["checks"]["examples"]["points"] = 3
    tiny.write_settings(root, raw)
    assert run(root, "report", out) == 2
    assert "Run autograder rejudge" in capsys.readouterr().err
    run(root, "rejudge", out)
    assert "ada: total 7 of 7 -> 9 of 9; size: 3 -> 5" in capsys.readouterr().out
    assert [total for total, _ in history(out)["ada"]] == [7, 9]
    assert run(root, "report", out) == 1


def test_marks_of_a_sheet_count(graded, capsys):
    root, out = graded
    assert run(root, "manual", out) == 0
    assert table(out)["ada"]["waiting"] == "why"
    assert run(root, "manual", out, "--read", fill(out, ada="4,5")) == 1
    row = table(out)["ada"]
    assert (row["why"], row["total"], row["possible"], row["waiting"]) == ("4.5", "11.5", "12", "")
    assert table(out)["bob"]["waiting"] == "why"
    assert "ada: total 7 of 7 -> 11.5 of 12; why: none -> 4.5" in capsys.readouterr().out
    page = (out / tiny.NAME / "feedback" / "ada.html").read_text()
    assert "A person gave these points." in page


def test_a_wrong_sheet_is_told_and_changes_nothing(graded, capsys):
    root, out = graded
    run(root, "manual", out)
    before = table(out)
    assert run(root, "manual", out, "--read", fill(out, ada="3", bob="6")) == 2
    assert "row 3, points: 6 is out of range; allowed: 0 to 5" in capsys.readouterr().err
    run(root, "report", out)
    assert table(out) == before


def test_grades_are_exported(graded, capsys):
    root, out = graded
    roster = root / "roster.csv"
    roster.write_text("student,name,canvas_id\nada,Ada L.,4711\nbob,Bob,4712\nzoe,Zoe,4713\n")
    run(root, "manual", out)
    run(root, "manual", out, "--read", fill(out, ada="5", bob="0"))
    capsys.readouterr()
    assert run(root, "export", out, "--format", "canvas", "--roster", roster) == 1  # hal, zoe
    with (out / tiny.NAME / "canvas.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["ID"], row["Sizes"]) for row in rows[1:]] == [("4711", "12"), ("4712", "1")]
    told = capsys.readouterr().out
    assert "hal" in told
    assert "zoe" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nowhere"], "holds no gradebook.sqlite"),
        (["manual", "{out}", "other"], "Give the name of one of: tiny"),
        (["manual", "{out}", "--read", "nowhere.csv"], "nowhere.csv"),
        (["export", "{out}", "--format", "canvas"], "roster"),
    ],
)
def test_wrong_use_is_told(graded, arguments, message, capsys):
    root, out = graded
    assert run(root, *(argument.format(out=out) for argument in arguments)) == 2
    seen = capsys.readouterr().err
    assert message in seen
    assert "Traceback" not in seen


def test_a_mark_does_not_outlive_the_points_it_was_given_for(graded):
    root, out = graded
    run(root, "manual", out)
    run(root, "manual", out, "--read", fill(out, ada="5"))
    raw = tiny.settings()
    raw["assignments"][tiny.NAME]["questions"]["why"]["points"] = 2
    tiny.write_settings(root, raw)
    run(root, "rejudge", out)
    row = table(out)["ada"]
    assert (row["why"], row["total"], row["possible"], row["waiting"]) == ("", "7", "7", "why")
    assert "has to be marked again" in row["note"]
    assert history(out)["ada"][-1] == (7, "total 12 of 12 -> 7 of 7; why: 5 -> none")


def test_who_waits_has_no_grade_in_an_export(graded, capsys):
    root, out = graded
    with closing(sqlite3.connect(out / "gradebook.sqlite")) as db:
        db.execute("UPDATE handed_in SET sha256 = 'newer' WHERE student = 'ada'")
        db.commit()
    capsys.readouterr()
    assert run(root, "export", out, "--format", "csv", "--without-manual", "--to", out) == 1
    told = capsys.readouterr().out
    assert "ada (not graded yet)" in told
    with (out / "csv.csv").open(newline="", encoding="utf-8-sig") as file:
        totals = {row["student"]: row["total"] for row in csv.DictReader(file)}
    assert totals == {"ada": "", "bob": "1", "hal": ""}
    run(root, "report", out)
    assert "not graded yet: this is an earlier attempt" in table(out)["ada"]["note"]


def test_an_answer_whose_notebook_is_lost_can_be_marked(graded):
    root, out = graded
    for path in (out / tiny.NAME / "executed" / "all").glob("ada-*"):
        path.unlink()
    run(root, "manual", out)
    run(root, "manual", out, "--read", fill(out, ada="1"))
    assert table(out)["ada"]["why"] == "1"


def test_a_time_that_is_learnt_later_counts(graded):
    """The same file, first in a plain folder, then in a platform's download."""
    _, out = graded
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        (ada,) = [a for a in gradebook.attempts(tiny.NAME) if a.student == "ada"]
        later = {("ada", ada.sha256): "2026-12-01T00:00:00+00:00", ("bob", "other"): "2026-12-02"}
        gradebook.learn_times(tiny.NAME, later)
        gradebook.learn_times(tiny.NAME, {("ada", ada.sha256): "2027-01-01T00:00:00+00:00"})
        times = {a.student: a.submitted for a in gradebook.attempts(tiny.NAME)}
    assert times == {"ada": "2026-12-01T00:00:00+00:00", "bob": None, "hal": None}


def test_no_student_can_take_the_files_of_another():
    assert file_stem("bruno (1)") != file_stem(file_stem("bruno (1)"))
    assert file_stem("ada") == "ada"
