"""The durable record of a batch: attempts, their evidence and their verdicts, in SQLite.

One writer: whoever opens the gradebook holds a lock on its folder until it is closed or the process
ends, however it ends. An attempt is written in one transaction, so it is either complete or not
there. An attempt that is graded again stays as history, marked as superseded; of the others there
is at most one for a release, a student and a file.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from autograder.checks.core import Verdict
from autograder.judge import AttemptStatus, CaseResult, Run
from autograder.ledger import Ledger, Mark
from autograder.storage import GradebookError, locked, now, opened, unusable

__all__ = ["Attempt", "Gradebook", "GradebookError", "Mark", "Terms"]


@dataclass(frozen=True)
class Terms:
    """What the attempts of an assignment are made and judged with.

    Attributes:
        assignment: its name.
        version: the release that the last batch used.
        settings: what all stored verdicts come from, as `identity.judging_identity` tells.
    """

    assignment: str
    version: str
    settings: str


@dataclass(frozen=True)
class Attempt:
    """One graded (or ungradable) submission. Units: seconds, MiB.

    Attributes:
        name: the student's name, if roster or layout know it.
        number: 1 for the student's first file of the inbox.
        submitted: when, ISO 8601 in UTC, if the layout of the inbox tells.
        content: hash of the code that ran, from `identity.content_of`; "" when there is none.
        run: what the run left beside its records; None when nothing was run.
    """

    assignment: str
    version: str
    student: str
    sha256: str
    source: str
    status: AttemptStatus
    reason: str
    notes: tuple[str, ...]
    results: tuple[CaseResult, ...]
    run: Run | None = None
    content: str = ""
    name: str = ""
    number: int = 1
    submitted: str | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes an attempt the same as another: release, student and file."""
        return self.assignment, self.version, self.student, self.sha256

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The evidence, record by record."""
        return self.run.records if self.run else ()

    def points(self, question: str) -> float | None:
        """Points of a question, or None where it could not be graded."""
        found = [r for r in self.results if r.question == question]
        if not found or any(r.verdict.status in ("not_run", "refused") for r in found):
            return None
        return sum(r.points for r in found)


class Gradebook:
    """Attempts in a SQLite file, which must lie on a local disk.

    Attributes:
        ledger: what is kept beside the attempts: marks, and the history of grades.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file, and lock it against other graders.

        Raises:
            GradebookError: another grader holds it, the folder can't be written, or the file is not
                one that this version makes.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = locked(path.with_suffix(".lock"))
        except OSError as error:
            raise GradebookError(unusable(path.parent, error)) from None
        try:
            self._db = opened(path)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, sqlite3.Error):
                raise GradebookError(unusable(path, error)) from None
            raise
        self.ledger = Ledger(self._db)

    def close(self) -> None:
        """Close the file, and let others open it."""
        self._db.close()
        os.close(self._lock)

    # Writing.

    def add(self, attempt: Attempt) -> int:
        """Write an attempt; an earlier one with the same key becomes history. Returns its id."""
        run = json.dumps(asdict(replace(attempt.run, records=()))) if attempt.run else None
        with self._db:  # one transaction
            self._db.execute(
                "UPDATE attempts SET superseded = 1 WHERE NOT superseded"
                " AND (assignment, version, student, sha256) = (?, ?, ?, ?)",
                attempt.key,
            )
            row = self._db.execute(
                f"INSERT INTO attempts VALUES (NULL{', ?' * 17}, 0) RETURNING id",
                (*attempt.key, attempt.source, attempt.status, attempt.reason,
                 json.dumps(attempt.notes), attempt.name, attempt.number, attempt.submitted,
                 attempt.content, run, attempt.wall_s, attempt.cpu_s, attempt.peak_mib,
                 now()),
            ).fetchone()  # fmt: skip
            key = int(row[0])
            records = [(key, i, json.dumps(dict(r))) for i, r in enumerate(attempt.records)]
            self._db.executemany("INSERT INTO evidence VALUES (?, ?, ?)", records)
            self._add_verdicts(key, attempt)
        return key

    def _add_verdicts(self, key: int, attempt: Attempt) -> None:
        verdicts = [
            (key, i, r.question, r.case, r.hidden, r.points, r.possible,
             r.verdict.status, r.verdict.rationale, r.verdict.hint)
            for i, r in enumerate(attempt.results)
        ]  # fmt: skip
        self._db.executemany("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", verdicts)

    def supersede(self, assignment: str, students: Iterable[str]) -> None:
        """Mark all attempts of the students as history, so that they are made again."""
        with self._db:
            self._db.executemany(
                "UPDATE attempts SET superseded = 1 WHERE (assignment, student) = (?, ?)",
                [(assignment, student) for student in students],
            )

    def begin(self, terms: Terms, files: Mapping[str, str]) -> None:
        """Note what attempts are made and judged with, and which file of each student counts.

        Args:
            terms: what all verdicts of the assignment come from, those that are stored included.
            files: sha256 of the file by student. Of other students the file of before counts.
        """
        rows = [(terms.assignment, s, terms.version, sha256) for s, sha256 in files.items()]
        with self._db:
            self._db.execute("INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", astuple(terms))
            self._db.executemany("INSERT OR REPLACE INTO handed_in VALUES (?, ?, ?, ?)", rows)

    def learn_times(self, assignment: str, times: Mapping[tuple[str, str], str]) -> None:
        """Note when files were handed in, by student and sha256, where that was not known yet."""
        rows = [(time, assignment, *place) for place, time in times.items()]
        with self._db:
            self._db.executemany(
                "UPDATE attempts SET submitted = ? WHERE submitted IS NULL"
                " AND (assignment, student, sha256) = (?, ?, ?)",
                rows,
            )

    def judge_again(self, terms: Terms, judged: Callable[[int, Attempt], Attempt]) -> None:
        """Put new verdicts, status and reason in the place of the old ones, all or none.

        Args:
            terms: what the verdicts now come from.
            judged: gives an attempt with its new verdicts; it also gets the attempt's id.
        """
        with self._db:
            for key in self._keys(terms.assignment):
                old = self.attempt(key)
                new = judged(key, old)
                if new != old:
                    self._db.execute(
                        "UPDATE attempts SET status = ?, reason = ? WHERE id = ?",
                        (new.status, new.reason, key),
                    )
                    self._db.execute(
                        "INSERT INTO earlier_verdicts SELECT ?, * FROM verdicts WHERE attempt = ?",
                        (now(), key),
                    )
                    self._db.execute("DELETE FROM verdicts WHERE attempt = ?", (key,))
                    self._add_verdicts(key, new)
            self._db.execute("INSERT OR REPLACE INTO assignments VALUES (?, ?, ?)", astuple(terms))

    # Reading.

    def terms(self) -> Iterator[Terms]:
        """Those of each assignment that was graded here."""
        rows = self._db.execute("SELECT name, version, settings FROM assignments ORDER BY name")
        return (Terms(*row) for row in rows.fetchall())

    def done(self, assignment: str, version: str) -> set[tuple[str, str]]:
        """(student, sha256) of the attempts that need no second run."""
        rows = self._db.execute(
            "SELECT student, sha256 FROM attempts WHERE assignment = ? AND version = ?"
            " AND NOT superseded AND status NOT IN ('infrastructure', 'flagged')",
            (assignment, version),
        )
        return {(student, sha256) for student, sha256 in rows}

    def attempts(self, assignment: str) -> Iterator[Attempt]:
        """All attempts of an assignment, oldest first, history included."""
        yield from map(self.attempt, self._keys(assignment))

    def counting(self, terms: Terms) -> Iterator[Attempt]:
        """For every student the attempt that counts, sorted by student, without the run.

        One of an older release has a note that says so.
        """
        for key in self.counting_keys(terms.assignment):
            yield self._noted(terms, key)

    def by_student(self, terms: Terms) -> Iterator[list[Attempt]]:
        """For every student the attempts that stand, the one that `counting` gives at the end.

        Sorted by student, without the run; of a file that several releases graded, the newest.
        """
        counting = self.counting_keys(terms.assignment)
        rows = self._db.execute(
            "SELECT max(id) AS id, student FROM attempts WHERE assignment = ? AND NOT superseded"
            " GROUP BY student, sha256 ORDER BY max(id)",
            (terms.assignment,),
        )
        standing: dict[str, list[int]] = {}
        for key, student in rows:
            standing.setdefault(student, []).append(key)
        for key in counting:
            last = self._noted(terms, key)
            others = [self._noted(terms, k) for k in standing.get(last.student, ()) if k != key]
            yield [*(one for one in others if one.sha256 != last.sha256), last]

    def _noted(self, terms: Terms, key: int) -> Attempt:
        """The attempt, which says so if it is one of an older release."""
        attempt = self._without_run(key)
        old = attempt.version != terms.version
        notes = ("Graded with an older release.", *attempt.notes) if old else attempt.notes
        return replace(attempt, notes=notes)

    def counting_keys(self, assignment: str) -> list[int]:
        """Ids of the attempts that count, sorted by student.

        That is the newest of the file that was handed in last, under the release of then; if that
        one was not graded yet, the newest that there is.
        """
        rows = self._db.execute(
            "SELECT a.id, a.student FROM attempts a LEFT JOIN handed_in h"
            " ON (a.assignment, a.student, a.version, a.sha256)"
            " = (h.assignment, h.student, h.version, h.sha256)"
            " WHERE a.assignment = ? ORDER BY h.student IS NOT NULL, a.id",
            (assignment,),
        )
        chosen = {student: key for key, student in rows}
        return [chosen[student] for student in sorted(chosen)]

    def waiting(self, assignment: str) -> list[str]:
        """Students whose file was handed in, but has no attempt that stands, sorted."""
        rows = self._db.execute(
            "SELECT student FROM handed_in h WHERE assignment = ? AND NOT EXISTS ("
            " SELECT 1 FROM attempts a WHERE NOT superseded AND"
            " (a.assignment, a.student, a.version, a.sha256)"
            " = (h.assignment, h.student, h.version, h.sha256))",
            (assignment,),
        )
        return sorted(student for (student,) in rows)

    def attempt(self, key: int) -> Attempt:
        """The attempt with an id that `add` returned."""
        return replace(self._without_run(key), run=self._run(key))

    def run_of(self, attempt: Attempt) -> Run | None:
        """The run of an attempt that stands, with its evidence; None when nothing was run."""
        row = self._db.execute(
            "SELECT max(id) FROM attempts WHERE (assignment, version, student, sha256)"
            " = (?, ?, ?, ?)",
            attempt.key,
        ).fetchone()
        return self._run(row[0])

    def _run(self, key: int) -> Run | None:
        row = self._db.execute("SELECT run FROM attempts WHERE id = ?", (key,)).fetchone()
        if row["run"] is None:
            return None
        left = json.loads(row["run"])
        left |= {"records": self._records(key), "tampered": left.get("tampered", ())}
        return Run(**left | {name: tuple(left[name]) for name in ("records", "tampered")})

    def _without_run(self, key: int) -> Attempt:
        row = self._db.execute("SELECT * FROM attempts WHERE id = ?", (key,)).fetchone()
        plain = {*Attempt.__dataclass_fields__} - {"notes", "results", "run"}
        return Attempt(
            **{name: row[name] for name in plain},
            notes=tuple(json.loads(row["notes"])),
            results=tuple(self._results(key)),
        )

    def _keys(self, assignment: str) -> list[int]:
        rows = self._db.execute(
            "SELECT id FROM attempts WHERE assignment = ? ORDER BY id", (assignment,)
        )
        return [key for (key,) in rows]

    def _results(self, key: int) -> Iterator[CaseResult]:
        rows = self._db.execute(
            "SELECT question, name, hidden, points, possible, status, rationale, hint"
            " FROM verdicts WHERE attempt = ? ORDER BY position",
            (key,),
        )
        for question, case, hidden, points, possible, *verdict in rows:
            yield CaseResult(question, case, bool(hidden), points, possible, Verdict(*verdict))

    def _records(self, key: int) -> Iterator[dict[str, Any]]:
        rows = self._db.execute(
            "SELECT record FROM evidence WHERE attempt = ? ORDER BY position", (key,)
        )
        return (json.loads(record) for (record,) in rows)
