"""The gradebook's file: its tables, and the lock that keeps a second grader away."""

import fcntl
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

BUSY_S = 5  # how long to wait for another program that reads or writes the file
FORMAT = 3  # of the tables; PRAGMA user_version

SCHEMA = """
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, assignment TEXT NOT NULL, version TEXT NOT NULL, student TEXT NOT NULL,
    sha256 TEXT NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
    notes TEXT NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, submitted TEXT,
    content TEXT NOT NULL, run TEXT, wall_s REAL NOT NULL, cpu_s REAL NOT NULL,
    peak_mib REAL NOT NULL, finished TEXT NOT NULL, superseded INTEGER NOT NULL
);
CREATE UNIQUE INDEX one_stands ON attempts (assignment, version, student, sha256)
    WHERE NOT superseded;
CREATE INDEX by_student ON attempts (assignment, student);
CREATE TABLE evidence (
    attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE,
    position INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (attempt, position)
);
CREATE TABLE verdicts (
    attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE, position INTEGER NOT NULL,
    question TEXT NOT NULL, name TEXT NOT NULL, hidden INTEGER NOT NULL, points REAL NOT NULL,
    possible REAL NOT NULL, status TEXT NOT NULL, rationale TEXT NOT NULL, hint TEXT NOT NULL,
    PRIMARY KEY (attempt, position)
);
CREATE TABLE handed_in (
    assignment TEXT NOT NULL, student TEXT NOT NULL, version TEXT NOT NULL, sha256 TEXT NOT NULL,
    PRIMARY KEY (assignment, student)
);
CREATE TABLE assignments (name TEXT PRIMARY KEY, version TEXT NOT NULL, settings TEXT NOT NULL);
"""
SINCE_3 = """
CREATE TABLE earlier_verdicts (
    until TEXT NOT NULL, attempt INTEGER NOT NULL REFERENCES attempts ON DELETE CASCADE,
    position INTEGER NOT NULL, question TEXT NOT NULL, name TEXT NOT NULL, hidden INTEGER NOT NULL,
    points REAL NOT NULL, possible REAL NOT NULL, status TEXT NOT NULL, rationale TEXT NOT NULL,
    hint TEXT NOT NULL
);
CREATE TABLE marks (
    assignment TEXT NOT NULL, student TEXT NOT NULL, sha256 TEXT NOT NULL, question TEXT NOT NULL,
    points REAL NOT NULL, possible REAL NOT NULL, comment TEXT NOT NULL, given TEXT NOT NULL,
    PRIMARY KEY (assignment, student, sha256, question)
);
CREATE TABLE grades (
    id INTEGER PRIMARY KEY, assignment TEXT NOT NULL, student TEXT NOT NULL, given TEXT NOT NULL,
    grade TEXT NOT NULL, why TEXT NOT NULL
);
CREATE INDEX grade_of ON grades (assignment, student);
"""


class GradebookError(RuntimeError):
    """The gradebook can't be used; the message says why, and what to do."""


def locked(path: Path) -> int:
    """A descriptor that holds the lock; the system lets go of it when the process ends.

    Raises:
        GradebookError: another process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise GradebookError(
            f"Another autograder (process {owner}) is at work in {path.parent}. Wait until it has "
            "finished, or give another folder."
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def unusable(path: Path, error: Exception) -> str:
    """Why a file or folder can't be used, and what to do."""
    return f"{path} can't be used: {error}. See to the rights on it, or give another folder."


def opened(path: Path) -> sqlite3.Connection:
    """The open file, with its tables; made if it is not there.

    Raises:
        GradebookError: another version of autograder made it.
        sqlite3.Error: it is no database, or can't be read and written.
    """
    db = sqlite3.connect(path, timeout=BUSY_S)
    try:
        db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON")
        (found,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables:
            db.executescript(f"BEGIN; {SCHEMA}{SINCE_3} PRAGMA user_version={FORMAT}; COMMIT")
        elif found == 2:
            db.executescript(f"BEGIN; {SINCE_3} PRAGMA user_version={FORMAT}; COMMIT")
        elif found != FORMAT:
            raise GradebookError(
                f"{path} was made by another version of autograder. Give another folder, or move "
                "this one away and grade again."
            )
    except BaseException:
        db.close()
        raise
    db.row_factory = sqlite3.Row
    return db


def now() -> str:
    """This second in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
