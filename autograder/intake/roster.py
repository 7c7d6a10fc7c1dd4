"""The list of a course's students, which knows them by several names."""

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.intake.errors import RosterError

UNIQUE = ("student", "email", "canvas_id", "moodle_id", "github")


@dataclass(frozen=True)
class Match:
    """The student that was meant, or None; `problem` says why two could be meant."""

    student: str | None
    problem: str | None = None


@dataclass(frozen=True)
class Roster:
    """Students by id.

    Attributes:
        path: the file.
        names: full name, or "", of each student's id, in the order of the file.
        index: student's ids by column and value.
        rows: the rows as they are, by column; `student` in normal form.
    """

    path: Path
    names: Mapping[str, str]
    index: Mapping[tuple[str, str], Sequence[str]]
    rows: Sequence[Mapping[str, str]]

    @classmethod
    def load(cls, path: Path) -> "Roster":
        """Read a CSV file with a header.

        Column `student` is the id that grades go by, as text; `name`, `email`, `canvas_id`,
        `moodle_id` and `github` are optional, all other columns are ignored. Columns are divided by
        commas, semicolons or tabs.

        Raises:
            RosterError: it is not readable, has no column `student`, or names a student twice.
        """
        names: dict[str, str] = {}
        index: dict[tuple[str, str], list[str]] = {}
        rows: list[Mapping[str, str]] = []
        for line, row in _rows(path):
            student = unicodedata.normalize("NFC", row.get("student", ""))
            if not student:
                raise RosterError(f"{path}, line {line}: column student is empty.")
            names[student] = row.get("name", "")
            rows.append({**row, "student": student})
            for column in (*UNIQUE, "name"):
                if value := row.get(column):
                    known = index.setdefault((column, key(value)), [])
                    if known and column in UNIQUE:
                        raise RosterError(
                            f"{path}, line {line}: {column} {value!r} is there twice."
                        )
                    known.append(student)
        if not names:
            raise RosterError(f"{path} lists no students.")
        return cls(path, names, index, rows)

    def match(self, aliases: Iterable[tuple[str, str]]) -> Match:
        """The one student whom the pairs of column and value know."""
        found = [(pair, self.index.get((pair[0], key(pair[1])), ())) for pair in aliases if pair[1]]
        sure = {known[0] for _, known in found if len(known) == 1}
        if len(sure) > 1:
            return Match(None, f"The roster knows two students for it: {', '.join(sorted(sure))}.")
        for (column, value), known in found:
            if not sure and len(known) > 1:
                return Match(None, f"Several students of the roster have the {column} {value!r}.")
        return Match(next(iter(sure), None))


def key(text: str) -> str:
    """Equal for texts that mean the same: spaces, capitals and ways to write accents differ."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RosterError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RosterError(f"{path} is not in UTF-8. Save it as CSV UTF-8.") from None
    head = content.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if header.count("student") != 1 or any(header.count(c) > 1 for c in (*UNIQUE, "name")):
            raise RosterError(f"{path}, line 1: expected a header with one column student.")
        for row in reader:
            if len(row) != len(header) and any(row):
                raise RosterError(
                    f"{path}, line {reader.line_num}: {len(row)} columns, not {len(header)}."
                )
            if any(value.strip() for value in row):
                yield reader.line_num, dict(zip(header, (v.strip() for v in row), strict=True))
    except csv.Error as error:
        raise RosterError(f"{path}, line {reader.line_num}: {error}.") from None
