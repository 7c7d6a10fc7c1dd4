"""Read an inbox of untrusted files into submissions, each put back into the pristine notebook.

Two steps: `find` says from names alone who handed in what, which is cheap; `read` turns one file
into a notebook, so that never more than one need be in memory. Nothing that a student handed in is
executed, unpacked to disk or followed. What is wrong with a file becomes the problem of that one
submission, in words for the student.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from autograder.intake.errors import EmptyInbox, InboxError, RosterError
from autograder.intake.found import Found, Inbox, find
from autograder.intake.reading import notebook_of, read_all, unzip
from autograder.intake.roster import Roster
from autograder.intake.trees import MIB
from autograder.notebook import InvalidNotebook, assignment_name, printable

__all__ = [
    "EmptyInbox", "Found", "Inbox", "InboxError", "Roster", "RosterError", "Submission", "collect",
    "find", "read", "sha256_of",
]  # fmt: skip


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        student: id in the roster, else the id that the layout gives, as it stands.
        source: the file as found; the folder or link where there is no one file to read.
        sha256: of the raw bytes of the file and its checkpoints, or of the problem's text if no
            file was read.
        notebook: ready to run, in pristine order; None if there is a problem.
        notes: corrections, in words for the student.
        problem: why the submission can't be graded, or None.
        attempt: 1 is the first of the student's in the inbox; the last one counts.
        submitted: when, in UTC, if the layout says so.
        name: the student's name if roster or layout know it, else "".
        checkpoints: weights and histories of trained networks, by file name.
    """

    student: str
    source: Path
    sha256: str
    notebook: NotebookNode | None
    notes: tuple[str, ...]
    problem: str | None
    attempt: int = 1
    submitted: datetime | None = None
    name: str = ""
    checkpoints: Mapping[str, bytes] = field(default_factory=dict)


def collect(
    inbox: Path, pristine: NotebookNode, max_mib: float, roster: Roster | None = None
) -> Iterator[Submission]:
    """Find and read all submissions, sorted by student and attempt.

    Args:
        inbox: a folder of notebooks and zips named after the student, of one folder a student, or
            an export of Canvas, Moodle, Gradescope, nbgrader or GitHub Classroom, also zipped.
        pristine: the released notebook.
        max_mib: largest file, and largest notebook inside a zip, in MiB.
        roster: the course's students.

    Returns:
        An iterator that reads each file when it is asked for. It never raises for bad content.

    Raises:
        InboxError: there is no such folder, nothing in it that could be a submission, or nothing
            that the roster knows.
    """
    found = find(inbox, assignment_name(pristine), roster).found
    return (read(one, pristine, max_mib) for one in found)


def read(
    found: Found, pristine: NotebookNode, max_mib: float, *, checkpoints: bool = False
) -> Submission:
    """Read one file; see `collect`. Bad content becomes the submission's problem.

    With `checkpoints`, the trained networks that were handed in with it are read too.
    """
    limit, sha256 = int(max_mib * MIB), None
    notebook: NotebookNode | None = None
    kept: dict[str, bytes] = {}
    notes: list[str] = []
    problem = found.problem
    try:
        if found.file is not None:
            data, kept = _handed_in(found, limit, checkpoints)
            sha256, beside = _digest(data, kept), found.checkpoints
            if found.file.lower().endswith(".zip"):
                zipped = unzip(data, assignment_name(pristine), limit)
                data, beside, notes = zipped.notebook, tuple(zipped.checkpoints), zipped.notes
                kept = read_all(zipped.archive, beside if checkpoints else (), limit)
            notebook, corrections = notebook_of(data, pristine)
            left = [_NOT_NEEDED] if beside and not checkpoints else []
            notes = [*found.notes, *notes, *left, *corrections]
    except InvalidNotebook as error:
        problem = str(error)
    except Exception as error:  # whatever a file makes us stumble over, the batch goes on
        problem = f"The file could not be read: {error!r}."
    problem = None if problem is None else printable(problem)
    return Submission(
        found.student,
        found.source,
        sha256 or hashlib.sha256(str(problem).encode()).hexdigest(),
        notebook,
        () if problem else tuple(notes),
        problem,
        found.attempt,
        found.submitted,
        found.name,
        {} if problem else kept,
    )


_NOT_NEEDED = "The folder checkpoints was left out: the networks are trained again."


def sha256_of(found: Found, max_mib: float, *, checkpoints: bool = False) -> str:
    """The `sha256` of the submission, if its files can be read; else an error."""
    return _digest(*_handed_in(found, int(max_mib * MIB), checkpoints))


def _handed_in(found: Found, limit: int, checkpoints: bool) -> tuple[bytes, dict[str, bytes]]:
    """The bytes of the file, and of each checkpoint beside it by name."""
    data = found.tree.read(found.file or "", limit)
    return data, read_all(found.tree, found.checkpoints if checkpoints else (), limit)


def _digest(data: bytes, kept: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256(data)
    for name, content in sorted(kept.items()):
        digest.update(f"\n{name} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()
