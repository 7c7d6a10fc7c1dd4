"""Read an inbox of untrusted files into submissions, each put back into the pristine notebook.

Nothing that a student handed in is executed, unpacked to disk or followed. What is wrong with a
file becomes the problem of that one submission, in words for the student.
"""

import hashlib
import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbformat.notebooknode import NotebookNode

from autograder.notebook import InvalidNotebook, assignment_name, printable, read_notebook
from autograder.restore import restore, wrong_assignment

_MIB = 2**20


class EmptyInbox(ValueError):
    """The inbox does not exist or holds no submission."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        student: name of the file without its ending, or of the folder, as it stands.
        source: the file as found; the folder or link where there is no one file to read.
        sha256: of the raw bytes of the file, or of the problem's text if no file was read.
        notebook: ready to run, in pristine order; None if there is a problem.
        notes: corrections, in words for the student.
        problem: why the submission can't be graded, or None.
    """

    student: str
    source: Path
    sha256: str
    notebook: NotebookNode | None
    notes: tuple[str, ...]
    problem: str | None


def collect(inbox: Path, pristine: NotebookNode, max_mib: float) -> Iterator[Submission]:
    """Find and read all submissions, sorted by student.

    Args:
        inbox: a folder of notebooks and zips named after the student, or of one folder a student.
        pristine: the released notebook.
        max_mib: largest file, and largest notebook inside a zip, in MiB.

    Returns:
        An iterator that reads each file when it is asked for. It never raises for bad content.

    Raises:
        EmptyInbox: there is no such folder, or nothing in it that could be a submission.
    """
    if not inbox.is_dir():
        raise EmptyInbox(f"The inbox {inbox} is not a folder. Give the folder of submissions.")
    handed_in: defaultdict[str, list[Path]] = defaultdict(list)
    for path in inbox.iterdir():
        if not _is_hidden(path.name) and (path.is_dir() or _is_candidate(path.name)):
            student = path.name if path.is_dir() else path.stem
            handed_in[printable(student)].append(path)
    if not handed_in:
        raise EmptyInbox(f"The inbox {inbox} holds no notebook (.ipynb), zip or student's folder.")
    return (
        _submission(student, path, paths, pristine, int(max_mib * _MIB))
        for student, paths in sorted(handed_in.items())
        for path in sorted(paths)
    )


def _submission(
    student: str, path: Path, rivals: Sequence[Path], pristine: NotebookNode, limit: int
) -> Submission:
    source, data = path, None
    try:
        if len(rivals) > 1:
            names = _some(sorted(rival.name for rival in rivals))
            raise InvalidNotebook(f"Several files belong to one student: {names}. Keep one.")
        file, notes = _file_of(path, assignment_name(pristine))
        data = _read_file(file, limit)
        source = file
        notebook, corrections = _restored(file.name, data, pristine, limit)
    except InvalidNotebook as error:
        return _refused(student, source, data, str(error))
    except Exception as error:  # whatever a file makes us stumble over, the batch goes on
        return _refused(student, source, data, f"The file could not be read: {error!r}.")
    digest = hashlib.sha256(data).hexdigest()
    return Submission(student, source, digest, notebook, (*notes, *corrections), None)


def _refused(student: str, source: Path, data: bytes | None, problem: str) -> Submission:
    problem = printable(problem)
    digest = hashlib.sha256(problem.encode() if data is None else data).hexdigest()
    return Submission(student, source, digest, None, (), problem)


def _restored(
    name: str, data: bytes, pristine: NotebookNode, limit: int
) -> tuple[NotebookNode, list[str]]:
    notes: list[str] = []
    if name.lower().endswith(".zip"):
        data, notes = _unzip(data, assignment_name(pristine), limit)
    student, repairs = read_notebook(data)
    problem = wrong_assignment(student, pristine)
    if problem:
        raise InvalidNotebook(problem)
    notebook, corrections = restore(student, pristine)
    return notebook, [*notes, *repairs, *corrections]


# Finding the one notebook.


def _is_hidden(name: str) -> bool:
    """Whether a system made it: dot files (`._x`, `.ipynb_checkpoints`), archive leftovers."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _is_candidate(name: str) -> bool:
    return name.lower().endswith((".ipynb", ".zip"))


def _file_of(path: Path, assignment: str | None) -> tuple[Path, list[str]]:
    """The file to read for a path in the inbox, and a note on what was left out beside it."""
    if path.is_symlink():
        raise InvalidNotebook(f"{path.name} is a link. Hand in the file itself.")
    if not path.is_dir():
        return path, []
    names = [
        (Path(folder) / name).relative_to(path).as_posix()
        for folder, _, files in os.walk(path)
        for name in files
    ]
    name, notes = _the_one(names, (".ipynb", ".zip"), assignment)
    return path / name, notes


def _the_one(
    names: Sequence[str], endings: tuple[str, ...], assignment: str | None
) -> tuple[str, list[str]]:
    """Choose the only candidate, or the only one with the assignment's name."""
    visible = sorted(name for name in names if not _is_hidden(name))
    candidates = [name for name in visible if name.lower().endswith(endings)]
    if not candidates:
        raise InvalidNotebook("There is no notebook (.ipynb) in it.")
    expected = [name for name in candidates if PurePosixPath(name).stem == assignment]
    chosen = expected or candidates
    if len(chosen) > 1:
        raise InvalidNotebook(
            f"It holds {len(chosen)} notebooks or zips, can't tell which counts: {_some(chosen)}."
        )
    left_out = [name for name in visible if name != chosen[0]]
    notes = [f"Only the notebook is graded, left out: {_some(left_out)}."] if left_out else []
    return chosen[0], notes


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return printable(", ".join(names[:5])) + more


def _read_file(path: Path, limit: int) -> bytes:
    """Bytes of a regular file. A link is not followed, a pipe is not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    if path.is_symlink():
        raise InvalidNotebook(f"{path.name} is a link. Hand in the file itself.")
    try:
        with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidNotebook(f"{path.name} is not a regular file.")
            return _within(file.read(limit + 1), limit)
    except OSError as error:
        raise InvalidNotebook(f"{path.name} can't be opened: {error.strerror}.") from None


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise InvalidNotebook(
            f"The file is larger than {limit / _MIB:g} MiB. Clear all outputs and save it."
        )
    return data


# Zips, read in memory only.

_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


def _unzip(data: bytes, assignment: str | None, limit: int) -> tuple[bytes, list[str]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename.replace("\\", "/"): info for info in archive.infolist()}
            for name, info in members.items():
                _refuse_unsafe(name, info)
            name, notes = _the_one(
                [name for name in members if name[-1:] != "/"], (".ipynb",), assignment
            )
            return _read_member(archive, members[name], limit), notes
    except _BROKEN_ZIP:
        raise InvalidNotebook("The zip is broken. Make it again, or hand in the .ipynb.") from None


def _refuse_unsafe(name: str, info: zipfile.ZipInfo) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        raise InvalidNotebook(f"The zip has a path that leads out of it: {name!r}.")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise InvalidNotebook(f"The zip holds a link: {name!r}. Hand in the file itself.")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    if info.flag_bits & 1:
        raise InvalidNotebook("The zip is encrypted. Hand it in without a password.")
    # The other methods unpack a whole block at once, so that no limit holds memory back.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidNotebook("The zip is packed in an unusual way. Hand in the .ipynb instead.")
    with archive.open(info) as member:
        return _within(member.read(limit + 1), limit)
