"""The durable record of a batch: attempts, their evidence and their verdicts, in SQLite.

One writer. An attempt is written in one transaction, so it is either complete or not there.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autograder.checks.core import Verdict
from autograder.judge import AttemptStatus, CaseResult

SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, assignment TEXT NOT NULL, version TEXT NOT NULL, student TEXT NOT NULL,
    sha256 TEXT NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    notes TEXT NOT NULL, wall_s REAL NOT NULL, cpu_s REAL NOT NULL, peak_mib REAL NOT NULL,
    finished TEXT NOT NULL, UNIQUE (assignment, version, student, sha256)
);
CREATE TABLE IF NOT EXISTS evidence (
    attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE,
    position INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (attempt, position)
);
CREATE TABLE IF NOT EXISTS verdicts (
    attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE, position INTEGER NOT NULL,
    question TEXT NOT NULL, name TEXT NOT NULL, hidden INTEGER NOT NULL, points REAL NOT NULL,
    possible REAL NOT NULL, status TEXT NOT NULL, rationale TEXT NOT NULL, hint TEXT NOT NULL,
    PRIMARY KEY (attempt, position)
);
"""


@dataclass(frozen=True)
class Attempt:
    """One graded (or ungradable) submission. Units: seconds, MiB."""

    assignment: str
    version: str
    student: str
    sha256: str
    source: str
    status: AttemptStatus
    reason: str
    notes: tuple[str, ...]
    results: tuple[CaseResult, ...]
    records: tuple[Mapping[str, Any], ...] = ()
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes an attempt the same as another: release, student and file."""
        return self.assignment, self.version, self.student, self.sha256

    def points(self, question: str) -> float | None:
        """Points of a question, or None where it could not be graded."""
        found = [r for r in self.results if r.question == question]
        if not found or any(r.verdict.status in ("not_run", "refused") for r in found):
            return None
        return sum(r.points for r in found)


class Gradebook:
    """Attempts in a SQLite file, which must lie on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open or make the file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path)
        self._db.row_factory = sqlite3.Row
        self._db.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {SCHEMA}")
        self._db.execute("PRAGMA foreign_keys=ON")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, attempt: Attempt) -> None:
        """Write an attempt, in place of an earlier one with the same key."""
        with self._db:  # one transaction
            self._db.execute(
                "DELETE FROM attempts WHERE (assignment, version, student, sha256) = (?, ?, ?, ?)",
                attempt.key,
            )
            row = self._db.execute(
                f"INSERT INTO attempts VALUES (NULL{', ?' * 12}) RETURNING id",
                (*attempt.key, attempt.source, attempt.status, attempt.reason,
                 json.dumps(attempt.notes), attempt.wall_s, attempt.cpu_s, attempt.peak_mib,
                 datetime.now(UTC).isoformat(timespec="seconds")),
            ).fetchone()  # fmt: skip
            self._add_parts(row[0], attempt)

    def _add_parts(self, key: int, attempt: Attempt) -> None:
        records = [(key, i, json.dumps(dict(r))) for i, r in enumerate(attempt.records)]
        self._db.executemany("INSERT INTO evidence VALUES (?, ?, ?)", records)
        verdicts = [
            (key, i, r.question, r.case, r.hidden, r.points, r.possible,
             r.verdict.status, r.verdict.rationale, r.verdict.hint)
            for i, r in enumerate(attempt.results)
        ]  # fmt: skip
        self._db.executemany("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", verdicts)

    def done(self, assignment: str, version: str) -> set[tuple[str, str]]:
        """(student, sha256) of the attempts that need no second run."""
        rows = self._db.execute(
            "SELECT student, sha256 FROM attempts WHERE assignment = ? AND version = ?"
            " AND status NOT IN ('infrastructure', 'flagged')",
            (assignment, version),
        )
        return {(student, sha256) for student, sha256 in rows}

    def attempts(self, assignment: str) -> Iterator[Attempt]:
        """All attempts of an assignment, oldest first."""
        rows = self._db.execute(
            "SELECT * FROM attempts WHERE assignment = ? ORDER BY id", (assignment,)
        ).fetchall()
        for row in rows:
            plain = ("assignment", "version", "student", "sha256", "source", "status", "reason")
            yield Attempt(
                **{name: row[name] for name in (*plain, "wall_s", "cpu_s", "peak_mib")},
                notes=tuple(json.loads(row["notes"])),
                results=tuple(self._results(row["id"])),
                records=tuple(self._records(row["id"])),
            )

    def _results(self, key: int) -> Iterator[CaseResult]:
        rows = self._db.execute(
            "SELECT question, name, hidden, points, possible, status, rationale, hint"
            " FROM verdicts WHERE attempt = ? ORDER BY position",
            (key,),
        )
        for question, case, hidden, points, possible, *verdict in rows:
            yield CaseResult(question, case, bool(hidden), points, possible, Verdict(*verdict))

    def _records(self, key: int) -> Sequence[dict[str, Any]]:
        rows = self._db.execute(
            "SELECT record FROM evidence WHERE attempt = ? ORDER BY position", (key,)
        )
        return [json.loads(record) for (record,) in rows]
