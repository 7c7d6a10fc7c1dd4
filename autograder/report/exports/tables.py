"""CSV files: Canvas, Moodle, Otter's final_grades.csv and our own.

Ids and emails go out as they are: a platform would not find an escaped one, and they come from the
teacher's own roster. Names are escaped for spreadsheets, since no platform looks at them.
"""

import re
from pathlib import Path

from autograder.report.exports.batch import Batch, Person, Row
from autograder.report.grades import as_text, columns, row, shown, write_table

CANVAS_ID = re.compile(r"[0-9]+")
CANVAS_OWN = re.compile("(Current|Final) (Score|Points|Grade)|Override (Score|Grade|Status)")
MOODLE_ID = re.compile(r"(?:Participant )?([0-9]+)")
POSSIBLE = "points-per-question"


def canvas_id(person: Person) -> str:
    """The number by which Canvas knows the person, or "": it reads "12b" as 12."""
    return person.canvas_id if CANVAS_ID.fullmatch(person.canvas_id) else ""


def canvas_column(batch: Batch) -> str:
    """The header of the grades in Canvas."""
    return batch.column or batch.assignment.title


def moodle_id(person: Person) -> str:
    """The participant's number in Moodle's assignment, or ""."""
    found = MOODLE_ID.fullmatch(person.moodle_id)
    return found[1] if found else ""


def write_canvas(path: Path, batch: Batch) -> None:
    """Write a file for "Import" of Canvas's gradebook.

    Canvas finds a student by ID, else by SIS user id, SIS login id, and at last by the name. To be
    found by a name that two have would be wrong, so without ID the name is the student id. Canvas
    finds the assignment by its title, or by the number in "Title (1234)", else it makes a new one.
    Students without a grade have no row, since an empty cell would take a grade in Canvas away.

    Source: instructure/canvas-lms, lib/gradebook_importer.rb (header?, update_column_count,
    strip_non_assignment_columns, process_pp, process_student, no_change_to_value?).
    """
    header = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", canvas_column(batch))
    possible = ("    Points Possible", "", "", "", "", shown(batch.possible))
    write_table(path, [header, possible, *map(_canvas, _given(batch))])


def _canvas(given: Row) -> tuple[str, ...]:
    person, number = given.person, canvas_id(given.person)
    name = person.name if number and person.name else person.student
    return as_text(name), number, person.student, person.email, "", shown(given.total)


def write_moodle(path: Path, batch: Batch) -> None:
    """Write an offline grading worksheet of a Moodle assignment, in English.

    The worksheet is read by its columns Identifier, Grade and "Last modified (grade)". The last one
    is empty, so that Moodle keeps grades that it has, unless "Allow updating records that have been
    modified more recently in Moodle" is ticked. It skips grades above the assignment's maximum,
    which therefore has to be that of the file. Participants have other numbers in each assignment.
    The gradebook's import reads the file, too: map "Email address" to useremail.

    There is no column "Feedback comments", since also an empty one would replace comments, and no
    row without a grade. PHP reads a backslash before a quote otherwise, so names have a slash.

    Source: moodle/moodle, mod/assign/feedback/offline/importgradeslib.php and locallib.php
    (process_import_grades), lib/csvlib.class.php; Moodle docs, Grade import.
    """
    header = ("Identifier", "Full name", "Email address", "Grade", "Maximum grade",
              "Last modified (grade)")  # fmt: skip
    write_table(path, [header, *(_moodle(one, batch.possible) for one in _given(batch))])


def _moodle(given: Row, possible: float) -> tuple[str, ...]:
    person, number = given.person, moodle_id(given.person)
    name = as_text((person.name or person.student).replace("\\", "/"))
    identifier = f"Participant {number}" if number else ""
    return identifier, name, person.email, shown(given.total), shown(possible), ""


def write_otter(path: Path, batch: Batch) -> None:
    """Write what `otter grade` calls final_grades.csv, for scripts that read it.

    Otter names a row by the base name of the file; here that is the student's id, so that two files
    called homework.ipynb stay apart. A row without a grade is empty where Otter writes 0, and its
    `grading_status` tells why. Lateness is deducted in total_points_earned, not in the questions.
    Nothing imports the file, so whatever a student may have chosen is escaped for spreadsheets.

    Source: otter-grader 7, otter/grade/utils.py (merge_scores_to_df), otter/grade/containers.py.
    """
    questions = sorted(batch.questions)
    header = ("file", *questions, "total_points_earned", "percent_correct", "grading_status")
    possible = [shown(batch.assignment.questions[name].possible) for name in questions]
    first = (POSSIBLE, *possible, shown(batch.possible), "1", "--")
    rows = [_otter(one, questions, batch.possible) for one in batch.rows() if one.grade]
    write_table(path, [header, first, *sorted(rows)], "utf-8")


def _otter(one: Row, questions: list[str], possible: float) -> tuple[str, ...]:
    points = one.grade.points if one.grade and one.points is not None else {}
    share = None if one.total is None or not possible else one.total / possible
    waiting = " ".join(one.grade.unmarked) if one.grade else ""
    without = f"waits for a person: {waiting}" if one.points is not None else one.status
    return (
        as_text(f"{one.person.student}.ipynb"),
        *(shown(points.get(name)) for name in questions),
        shown(one.total),
        shown(share),
        "Completed" if one.total is not None else without,
    )


def write_own(path: Path, batch: Batch) -> None:
    """Write grades.csv with the roster's columns, and with those who handed in nothing.

    `total` and `possible` are those of an export: all rows have the same possible points, and a
    student has a total when all questions that count are graded. All texts are escaped for
    spreadsheets, as in grades.csv.
    """
    counted = batch.assignment.model_copy(
        update={"questions": {n: batch.assignment.questions[n] for n in batch.questions}}
    )
    about = ("student", "name", "email", "canvas_id", "moodle_id")
    header = columns(counted)
    rows = []
    for one in batch.rows():
        cells = dict(zip(header, row(counted, one.grade), strict=True)) if one.grade else {}
        cells |= {name: as_text(getattr(one.person, name)) for name in about}
        cells |= {"total": shown(one.total), "possible": shown(batch.possible)}
        cells.setdefault("status", one.status)
        rows.append([cells.get(name, "") for name in (*about, *header[1:])])
    write_table(path, [(*about, *header[1:]), *rows])


def _given(batch: Batch) -> list[Row]:
    """Those of the roster that have a grade."""
    return [one for one in batch.rows() if one.listed and one.total is not None]
