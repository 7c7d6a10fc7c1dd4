"""grades.csv: one row a student, one column a question in the assignment's order."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autograder.config import Assignment
from autograder.notebook import printable
from autograder.policy import Grade

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of one


def write_grades(path: Path, assignment: Assignment, grades: Iterable[Grade]) -> None:
    """Write the table of what students get.

    A question that could not be graded, or waits for a person, is an empty cell, never 0. `total`
    is what `Grade.total` tells and so empty when an automatic question could not be graded;
    questions in `waiting` count neither in it nor in `possible`.
    """
    write_table(path, [columns(assignment), *(row(assignment, one) for one in grades)])


def columns(assignment: Assignment) -> list[str]:
    """The header of the cells that `row` gives."""
    told = ("late_days", "deduction", "total", "possible", "waiting", "status", "note", "file")
    return ["student", *assignment.questions, *told]


def row(assignment: Assignment, grade: Grade) -> list[str]:
    """A student's cells, as texts that no spreadsheet takes for formulas."""
    attempt = grade.attempt
    notes = " ".join(filter(None, (attempt.reason, *attempt.notes, *grade.notes)))
    return [
        as_text(attempt.student),
        *(shown(grade.points[name]) for name in assignment.questions),
        str(grade.late_days),
        *map(shown, (grade.deduction, grade.total, grade.possible)),
        " ".join(grade.unmarked),
        attempt.status,
        as_text(notes.replace("\n", " ")[:1000]),
        as_text(Path(attempt.source).name),
    ]


def write_history(path: Path, grades: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Write every grade that was given: one row each time that a student's grade changed."""
    header = ("student", "given", "total", "possible", "status", "why")
    rows = (
        (as_text(student), one["given"], shown(one["total"]), shown(one["possible"]),
         one["status"], as_text(one["why"]))
        for student, given in sorted(grades.items())
        for one in given
    )  # fmt: skip
    write_table(path, [header, *rows])


def write_table(path: Path, rows: Iterable[Sequence[str]], encoding: str = "utf-8-sig") -> None:
    """Write a CSV file; an old one stays until the new one is complete.

    Args:
        path: the file.
        rows: its cells, the header first.
        encoding: with the byte order mark that spreadsheets need to see unicode, or "utf-8".
    """
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding=encoding) as file:
        csv.writer(file).writerows(_writable(cells) for cells in rows)
    part.replace(path)


def _writable(cells: Sequence[str]) -> Iterator[str]:
    return map(printable, cells)


def shown(points: float | None) -> str:
    """Points with at most 4 decimals, without needless digits; nothing for None."""
    return "" if points is None else f"{round(points, 4):.12g}"


def as_text(value: str) -> str:
    """Text that a spreadsheet does not take for a formula.

    Source: OWASP, CSV Injection.
    """
    return f"'{value}" if value.startswith(FORMULA) else value


def from_text(cell: str) -> str:
    """What `as_text` was given, as far as the cell tells."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA) else cell
