"""Questions that a person grades: a sheet to fill, the answers beside each other, and back.

All answers are untrusted text. The page has no scripts and asks for nothing from outside; in
rendered answers HTML, links and images stay the text that the student typed.
"""

import csv
import io
import re
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from markdown_it import MarkdownIt
from markupsafe import Markup

from autograder.config import Assignment
from autograder.ledger import Mark
from autograder.report.grades import as_text, from_text, shown, write_table
from autograder.report.pages import PAGES, save

COLUMNS = ("student", "question", "points", "possible", "comment", "file", "answer")
NEEDED = ("student", "question", "points", "comment", "file")
CELL = 2_000  # characters of an answer in the sheet
WHOLE = 50_000  # and on the page
# Twelve hexadecimal digits such as 295147905179 or 1234567890e1 would be numbers to a spreadsheet.
FILE = "sha256:"
NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)")

_MARKDOWN = (
    MarkdownIt("commonmark", {"html": False})
    .enable("table")
    .disable(["link", "image", "autolink", "reference"])
)
PAGES.filters["markdown"] = lambda text: Markup(_MARKDOWN.render(text))  # HTML is off: escaped
NO_RUBRICS: Mapping[str, str] = MappingProxyType({})


class SheetError(ValueError):
    """A filled sheet can't be taken over; the message lists every faulty row."""


@dataclass(frozen=True)
class Answer:
    """What a student wrote for a manual question.

    Attributes:
        sha256: of the file that holds the answer.
        text: source of the answer's cells, as the student left it.
        mark: what a person gave for it already.
    """

    student: str
    sha256: str
    question: str
    text: str
    mark: Mark | None = None


def write_sheets(
    folder: Path,
    assignment: Assignment,
    answers: Sequence[Answer],
    rubrics: Mapping[str, str] = NO_RUBRICS,
) -> list[Path]:
    """Write manual.csv, to be filled, and manual.html with the answers side by side.

    Marks that exist are filled in. An older manual.csv with points or comments that are not among
    them is kept under a name with its time.

    Args:
        folder: where the two files go.
        assignment: its manual questions.
        answers: to these questions, in the order in which they are shown.
        rubrics: Markdown by question.

    Returns:
        The files that were written or kept.
    """
    sections = [
        (name, question, [a for a in answers if a.question == name])
        for name, question in assignment.questions.items()
        if question.manual
    ]
    rows = [_row(a, question.possible) for _, question, some in sections for a in some]
    folder.mkdir(parents=True, exist_ok=True)
    sheet, page = folder / "manual.csv", folder / "manual.html"
    kept = _keep_unread(sheet, [dict(zip(COLUMNS, row, strict=True)) for row in rows])
    write_table(sheet, [COLUMNS, *rows])
    text = PAGES.get_template("manual.html").render(
        assignment=assignment, sections=sections, rubrics=rubrics, shown=shown,
        cut=lambda text: _cut(text, WHOLE, "(cut)"),
    )  # fmt: skip
    save(page, text)
    return [sheet, page, *kept]


def _keep_unread(sheet: Path, rows: Sequence[Mapping[str, str]]) -> list[Path]:
    """Move the sheet out of the way if it tells what the new rows do not; where it is then."""
    if not sheet.exists():
        return []
    new = {_filled(cells) for cells in rows}
    try:
        old = {_filled(cells) for _, cells in _rows(sheet)}
        if all(row in new for row in old if any(row[2:])):
            return []
    except SheetError:
        pass  # whatever it is, a person has made it
    changed = datetime.fromtimestamp(sheet.stat().st_mtime, UTC)
    return [sheet.rename(sheet.with_name(f"manual-{changed:%Y%m%dT%H%M%S%f}.csv"))]


def _filled(cells: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Student, question, points and comment of a row, equal where they mean the same."""
    points = cells["points"].strip()
    number = shown(float(points.replace(",", "."))) if NUMBER.fullmatch(points) else points
    return _same(from_text(cells["student"])), cells["question"], number, _comment(cells)


def _row(answer: Answer, possible: float) -> tuple[str, ...]:
    mark = answer.mark
    return (
        as_text(answer.student), answer.question, shown(mark.points if mark else None),
        shown(possible), as_text(mark.comment if mark else ""), _file(answer.sha256),
        as_text(_cut(answer.text, CELL, "(cut: manual.html has more)")),
    )  # fmt: skip


def _cut(text: str, most: int, words: str) -> str:
    return text if len(text) <= most else f"{text[:most]}\n… {words}"


def _file(sha256: str) -> str:
    return f"{FILE}{sha256[:12]}"


def read_sheet(
    path: Path, assignment: Assignment, known: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str, str], Mark]:
    """Read a filled manual.csv as a spreadsheet saves it; all of it, or nothing.

    Cells are divided by commas, semicolons or tabs, in UTF-8 or a spreadsheet's UTF-16; points
    have a decimal point or comma. A row without points and comment is not marked yet and left out,
    so an emptied row takes no earlier mark back.

    Args:
        path: the file.
        assignment: its manual questions and their points.
        known: sha256 of the file whose answer counts now, by student and question.

    Returns:
        Marks by student, sha256 and question.

    Raises:
        SheetError: the file is no such table, or rows are faulty: points that are no number or out
            of range, a student or question that is not known, a row that is there twice, or an
            answer that is no longer the student's last one. Row 1 is the header.
    """
    reader = _Reader(assignment, known)
    for number, cells in _rows(path):
        reader.take(number, cells)
    if reader.faults:
        told = "1 fault" if len(reader.faults) == 1 else f"{len(reader.faults)} faults"
        raise SheetError(
            f"{path}: {told}, so nothing was taken over:\n  " + "\n  ".join(reader.faults)
        )
    return reader.marks


class _Reader:
    """Rows become marks or faults."""

    def __init__(self, assignment: Assignment, known: Mapping[tuple[str, str], str]) -> None:
        self.marks: dict[tuple[str, str, str], Mark] = {}
        self.faults: list[str] = []
        self._known = known
        self._students = {_same(student): student for student, _ in known}
        self._possible = {n: q.possible for n, q in assignment.questions.items() if q.manual}
        self._seen: dict[tuple[str, str], int] = {}

    def take(self, number: int, cells: Mapping[str, str]) -> None:
        """Take over a row, or note what is wrong with it."""
        faults = len(self.faults)
        place = self._place(number, cells)
        points = self._points(number, cells, place)
        if len(self.faults) > faults or points is None or place is None:
            return
        sha256 = self._known[place]
        if cells["file"].strip().lower().removeprefix(FILE) != sha256[:12]:
            self._fault(number, "file", f"{cells['file']!r:.40} is not the answer that counts, "
                        f"{_file(sha256)}: the student has handed in again since, the cell was "
                        "changed, or this is another assignment's sheet. Write the sheet again and "
                        "read that answer")  # fmt: skip
            return
        self.marks[place[0], sha256, place[1]] = Mark(
            points, self._possible[place[1]], _comment(cells)
        )

    def _fault(self, number: int, column: str, words: str) -> None:
        self.faults.append(f"row {number}, {column}: {words}.")

    def _place(self, number: int, cells: Mapping[str, str]) -> tuple[str, str] | None:
        """Student and question of a row; None, and a fault, if they are not known."""
        student, question = self._student(cells["student"]), cells["question"].strip()
        if student is None:
            self._fault(number, "student", self._unknown(cells["student"]))
        if question not in self._possible:
            allowed = ", ".join(self._possible) or "none"
            self._fault(number, "question", f"{question!r:.60} is no manual question; "
                        f"allowed: {allowed}")  # fmt: skip
        if student is None or question not in self._possible:
            return None
        if (student, question) not in self._known:
            self._fault(number, "question", f"there is no answer of {student!r} to {question}")
            return None
        first = self._seen.setdefault((student, question), number)
        if first != number:
            self._fault(number, "student", f"{student!r} and {question} are in row {first} already")
        return student, question

    def _student(self, cell: str) -> str | None:
        forms = (cell, from_text(cell), from_text(cell.strip()))
        return next((self._students[s] for s in map(_same, forms) if s in self._students), None)

    def _unknown(self, cell: str) -> str:
        words = f"{cell!r:.60} is not known"
        value = _value(cell)
        alike = [s for s in self._students.values() if value is not None and value == _value(s)]
        if alike:
            words += (f"; did a spreadsheet make a number of {' or '.join(map(repr, alike))}? "
                      "Import that column as text")  # fmt: skip
        return words

    def _points(
        self, number: int, cells: Mapping[str, str], place: tuple[str, str] | None
    ) -> float | None:
        """Points of a row; None if there are none, with a fault if that is one."""
        cell = cells["points"].strip()
        most = self._possible[place[1]] if place else None
        allowed = "allowed: 0 or more" if most is None else f"allowed: 0 to {shown(most)}"
        if not cell:
            if cells["comment"].strip():
                self._fault(number, "points", f"empty beside a comment, which would be lost; "
                            f"{allowed}")  # fmt: skip
            return None
        if not NUMBER.fullmatch(cell):
            self._fault(number, "points", f"{cell!r:.60} is no number; {allowed}, or empty")
            return None
        points = float(cell.replace(",", "."))
        if points < 0 or (most is not None and points > most):
            self._fault(number, "points", f"{cell:.60} is out of range; {allowed}")
            return None
        return points


def _comment(cells: Mapping[str, str]) -> str:
    return from_text(cells["comment"]).replace("\r\n", "\n").strip()


def _same(student: str) -> str:
    """Equal for ids that differ only in how a spreadsheet writes accents and line ends."""
    return unicodedata.normalize("NFC", student.replace("\r\n", "\n"))


def _value(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The cells by column of all rows that are not empty, with the row's number."""
    text = _decoded(path)
    head = text.splitlines()[0] if text.strip() else ""
    table = csv.reader(
        io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), strict=True
    )
    number = 1
    try:
        header = [name.strip().lower() for name in next(table, [])]
        if absent := [name for name in NEEDED if header.count(name) != 1]:
            raise SheetError(f"{path}, row 1: each of the columns {', '.join(NEEDED)} has to be "
                             f"there once; look at {', '.join(absent)}.")  # fmt: skip
        for number, cells in enumerate(table, 2):
            if any(cell.strip() for cell in cells[len(header) :]):
                raise SheetError(f"{path}, row {number}: {len(cells)} cells, but the header has "
                                 f"{len(header)}. Is a comment without quotes?")  # fmt: skip
            if any(cell.strip() for cell in cells):
                filled = [*cells, *[""] * len(header)]  # some programs leave empty ends out
                yield number, dict(zip(header, filled, strict=False))
    except csv.Error as error:
        raise SheetError(f"{path}, row {number + 1}: not readable as CSV: {error}.") from None


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
        wide = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        return data.decode("utf-16" if wide else "utf-8-sig")
    except OSError as error:
        raise SheetError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        kind = "a workbook" if data.startswith(b"PK") else "not in UTF-8"
        raise SheetError(f"{path} is {kind}. Save it as CSV UTF-8.") from None
