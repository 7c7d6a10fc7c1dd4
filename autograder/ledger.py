"""What a gradebook keeps beside attempts: a person's marks, and every grade that was given."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from autograder.storage import now


@dataclass(frozen=True)
class Mark:
    """What a person gives for the answer to a manual question, of so many possible points."""

    points: float
    possible: float
    comment: str = ""


class Ledger:
    """Marks and the history of grades, in the gradebook's own file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """`db` is the gradebook's open file."""
        self._db = db

    def mark(self, assignment: str, marks: Mapping[tuple[str, str, str], Mark]) -> None:
        """Keep marks by student, file (sha256) and question, all or none."""
        rows = [(assignment, *place, *astuple(mark), now()) for place, mark in marks.items()]
        with self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows
            )

    def marks(self, assignment: str) -> dict[str, dict[tuple[str, str], Mark]]:
        """For each student the marks by file (sha256) and question."""
        found: dict[str, dict[tuple[str, str], Mark]] = {}
        for student, sha256, question, *mark in self._db.execute(
            "SELECT student, sha256, question, points, possible, comment FROM marks"
            " WHERE assignment = ?",
            (assignment,),
        ):
            found.setdefault(student, {})[sha256, question] = Mark(*mark)
        return found

    def note(self, assignment: str, rows: Iterable[tuple[str, Mapping[str, Any], str]]) -> None:
        """Append grades to the history: student, grade as JSON values, and why it changed."""
        with self._db:
            self._db.executemany(
                "INSERT INTO grades VALUES (NULL, ?, ?, ?, ?, ?)",
                [(assignment, who, now(), json.dumps(dict(one)), why) for who, one, why in rows],
            )

    def grades(self, assignment: str) -> dict[str, list[dict[str, Any]]]:
        """For each student the grades that were given, oldest first, with `given` and `why`."""
        found: dict[str, list[dict[str, Any]]] = {}
        for student, given, grade, why in self._db.execute(
            "SELECT student, given, grade, why FROM grades WHERE assignment = ? ORDER BY id",
            (assignment,),
        ):
            found.setdefault(student, []).append(json.loads(grade) | {"given": given, "why": why})
        return found
