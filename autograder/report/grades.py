"""grades.csv: one row a student, one column a question in the assignment's order."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograder.config import Assignment
from autograder.gradebook import Attempt


def write_grades(path: Path, assignment: Assignment, attempts: Iterable[Attempt]) -> None:
    """Write the table in UTF-8 with a byte order mark, which spreadsheets need to see unicode.

    A question that could not be graded, or waits for a person, is an empty cell, never 0; `total`
    is the sum of the automatic questions, and empty when one of them could not be graded. The old
    table stays until the new one is complete.
    """
    header = ["student", *assignment.questions, "total", "possible", "status", "note", "file"]
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(_row(assignment, attempt) for attempt in attempts)
    part.replace(path)


def _row(assignment: Assignment, attempt: Attempt) -> Iterator[str]:
    points = {name: attempt.points(name) for name in assignment.questions}
    automatic = {n: q.possible for n, q in assignment.questions.items() if not q.manual}
    yield as_text(attempt.student)
    yield from (shown(points[name]) for name in assignment.questions)
    yield shown(total(assignment, attempt))
    yield shown(sum(automatic.values()))
    yield attempt.status
    yield as_text(
        " ".join(filter(None, (attempt.reason, *attempt.notes))).replace("\n", " ")[:1000]
    )
    yield as_text(Path(attempt.source).name)


def total(assignment: Assignment, attempt: Attempt) -> float | None:
    """Sum of the automatic questions, or None when one of them could not be graded."""
    points = [attempt.points(n) for n, q in assignment.questions.items() if not q.manual]
    known = [p for p in points if p is not None]
    return sum(known) if len(known) == len(points) else None


def shown(points: float | None) -> str:
    """Points without needless digits; nothing for None."""
    return "" if points is None else f"{round(points, 4):g}"


def as_text(value: str) -> str:
    """Text that a spreadsheet does not take for a formula.

    Source: OWASP, CSV Injection.
    """
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
