"""Grades in the form in which a platform takes them.

A student without a grade gets no row or an empty cell, never 0, and is named in the words that
`export` returns. Who waits for a person's mark has no grade yet. Lateness is deducted.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args

from autograder.report.exports import gradescope, tables
from autograder.report.exports.batch import Batch, Person, Row

__all__ = ["FORMATS", "Batch", "ExportError", "Format", "Person", "export"]

Format = Literal["canvas", "moodle", "gradescope", "otter", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
Problem = tuple[str, Callable[[Person], bool]]

WRITERS: Mapping[Format, Callable[[Path, Batch], None]] = {
    "canvas": tables.write_canvas,
    "moodle": tables.write_moodle,
    "gradescope": gradescope.write_autograder,
    "otter": tables.write_otter,
    "csv": tables.write_own,
}
# What a person of the roster lacks for a platform, in words.
LACKS: Mapping[Format, Problem] = {
    "canvas": (
        "no number as canvas_id: Canvas looks for the student id among its SIS user ids",
        lambda person: not tables.canvas_id(person),
    ),
    "moodle": (
        "no number as moodle_id: only the import of the gradebook, by email, knows them",
        lambda person: not tables.moodle_id(person),
    ),
    "gradescope": (
        "no email, by which Gradescope knows them, and are left out",
        lambda person: not person.email,
    ),
}


class ExportError(ValueError):
    """The grades can't be written in that form; the message says what is missing."""


def export(form: Format, path: Path, batch: Batch) -> list[str]:
    """Write the grades for a platform.

    Args:
        form: "canvas", "moodle", "otter" and "csv" are CSV files, "gradescope" is a zip.
        path: the file.
        batch: grades and roster.

    Returns:
        What a teacher has to know: who has no grade, who is in the grades or the roster alone, and
        whom the platform can't find.

    Raises:
        ExportError: the platform knows students by what only a roster tells, and there is none; or
            it would ignore a column of that name.
    """
    if form in LACKS and not batch.people:
        raise ExportError(
            f"{form} knows students by ids that only a roster tells: give the roster file."
        )
    if form == "canvas" and (own := tables.CANVAS_OWN.search(tables.canvas_column(batch))):
        raise ExportError(f"Canvas takes a column with {own[0]!r} in its name for one of its "
                          "own and ignores it: name the column otherwise.")  # fmt: skip
    words = [*_ungraded(batch.rows()), *_strangers(form, batch), *_lacking(form, batch.rows())]
    WRITERS[form](path, batch)
    return words


def _ungraded(rows: list[Row]) -> list[str]:
    given = [row for row in rows if row.grade or row.waiting]
    lost = [f"{r.person.student} ({r.status})" for r in given if r.points is None]
    waiting = [
        f"{r.person.student} ({', '.join(r.grade.unmarked)})"
        for r in given
        if r.grade and r.points is not None and r.total is None
    ]
    absent = [r.person.student for r in rows if not r.grade and not r.waiting]
    return [
        *_told(lost, "have no grade"),
        *_told(waiting, "have no grade until a person has marked their answers"),
        *_told(absent, "of the roster handed in nothing"),
    ]


def _strangers(form: Format, batch: Batch) -> list[str]:
    names = [r.person.student for r in batch.rows() if not r.listed] if batch.people else []
    return _told(names, "are not in the roster" + (", so they are left out" * (form in LACKS)))


def _lacking(form: Format, rows: list[Row]) -> list[str]:
    if form not in LACKS:
        return []
    words, lacks = LACKS[form]
    going = [r.person for r in rows if r.listed and r.total is not None]
    return _told([person.student for person in going if lacks(person)], f"have {words}")


def _told(names: list[str], words: str) -> list[str]:
    """Such as "2 students have no grade: a, b"; nothing for nobody."""
    if len(names) == 1:
        for many, one in (("have ", "has "), ("are ", "is "), ("they ", "the student ")):
            words = words.replace(many, one)
    students = "1 student" if len(names) == 1 else f"{len(names)} students"
    return [f"{students} {words}: {', '.join(names)}"] if names else []
