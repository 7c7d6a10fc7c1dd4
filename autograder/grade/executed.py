"""The notebooks as executed, one file a student. What a run left there is untrusted."""

import hashlib
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

import nbformat

from autograder.gradebook import Attempt
from autograder.intake import Submission

HASHED = re.compile("-[0-9a-f]{8}$")


class Executed:
    """A folder of executed notebooks: those that count, and below `all` one for each file."""

    def __init__(self, folder: Path, max_mib: int) -> None:
        """The folder is made when the first notebook comes; of longer ones the rest is ignored."""
        self.folder, self._max_mib = folder, max_mib

    def keep(self, executed: bytes, submission: Submission) -> None:
        """Write what a run has left, if it has left anything."""
        if executed:
            self._write(self._path(submission.student, submission.sha256), executed)

    def share(self, twin: Attempt, submission: Submission) -> None:
        """Keep the submission's notebook with the outputs that the same code gave in its twin."""
        assert submission.notebook is not None
        outputs = _outputs(untrusted(self._path(twin.student, twin.sha256), self._max_mib))
        for cell in submission.notebook.cells:
            if cell.cell_type == "code" and cell.id in outputs:
                cell.outputs = outputs[cell.id]
        data = nbformat.writes(submission.notebook).encode()
        self._write(self._path(submission.student, submission.sha256), data)

    def read(self, attempt: Attempt) -> bytes:
        """The notebook of an attempt, which is untrusted; empty where there is none."""
        return untrusted(self._path(attempt.student, attempt.sha256), self._max_mib)

    def publish(self, attempt: Attempt) -> None:
        """Show the notebook of an attempt that counts under the student's name alone."""
        source = self._path(attempt.student, attempt.sha256)
        shown = self.folder / f"{file_stem(attempt.student)}.ipynb"
        if not source.exists():
            shown.unlink(missing_ok=True)
        elif not (shown.exists() and shown.samefile(source)):
            shown.unlink(missing_ok=True)
            try:
                shown.hardlink_to(source)
            except OSError:  # not every file system can
                shutil.copyfile(source, shown)

    def _path(self, student: str, sha256: str) -> Path:
        return self.folder / "all" / f"{file_stem(student)}-{sha256[:12]}.ipynb"

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.replace(path)


def _outputs(executed: bytes) -> dict[str, list[Any]]:
    """Outputs of each code cell by its id; nothing of what can't be read."""
    try:
        cells = json.loads(executed)["cells"]
        found = {cell["id"]: cell["outputs"] for cell in cells if cell["cell_type"] == "code"}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    return {key: nbformat.from_dict(value) for key, value in found.items() if type(value) is list}


def untrusted(path: Path, most_mib: int) -> bytes:
    """The beginning of a file that a student's code may have made; empty if there is none.

    No link is followed, no pipe is waited for.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(handle, "rb") as file:
        regular = stat.S_ISREG(os.fstat(handle).st_mode)
        return file.read(most_mib * 2**20) if regular else b""


def file_stem(student: str) -> str:
    """A safe file name for a student; a hash keeps it unique where characters were replaced."""
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in student)
    plain = plain.encode()[:120].decode(errors="ignore")  # file systems count bytes
    if plain == student and not HASHED.search(plain):  # or one student could choose another's name
        return plain
    return f"{plain}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"
