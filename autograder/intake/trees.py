"""Names and bytes of files that students handed in, below a folder or inside a zip.

No link is followed on any part of a path, nothing is unpacked to disk, and only regular files are
read. Names are paths with "/", as they stand; those of folders end in "/".
"""

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from autograder.notebook import InvalidNotebook

MIB = 2**20
ENDINGS = (".ipynb", ".zip")


class TooLarge(InvalidNotebook):
    """A file is larger than it may be."""


@dataclass(frozen=True)
class Node:
    """A file or a folder. `fault` says why it can't be read, a sentence, or is None."""

    name: str
    fault: str | None = None


class Tree(Protocol):
    """Files below one root."""

    def path(self, name: str) -> Path:
        """Where a person finds the node."""

    def nodes(self) -> list[Node]:
        """All files and folders; hidden folders are named, but not entered."""

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a regular file; InvalidNotebook if it has more than `limit`, or none."""


def is_hidden(name: str) -> bool:
    """Whether a system made it: dot files (`._x`, `.ipynb_checkpoints`), archive leftovers."""
    return _HIDDEN.search(name) is not None


_HIDDEN = re.compile(r"(?:^|/)(?:\.|__MACOSX(?:/|$))")


def is_candidate(name: str) -> bool:
    """Whether it can be a submission, or hold one."""
    return name.lower().endswith(ENDINGS)


def within(data: bytes, limit: int) -> bytes:
    """The data; TooLarge, an InvalidNotebook, if it has more than `limit` bytes."""
    if len(data) > limit:
        raise TooLarge(
            f"The file is larger than {limit / MIB:g} MiB. Clear all outputs and save it."
        )
    return data


class Folder:
    """A folder on disk."""

    def __init__(self, root: Path) -> None:
        """The root itself is the teacher's, and may be a link."""
        self.root = root

    def path(self, name: str) -> Path:
        """Where the node lies."""
        return self.root / name

    def nodes(self) -> list[Node]:
        """All files and folders below the root, in any order."""
        found, waiting = [], [""]
        while waiting:  # no recursion: students can nest deeper than Python's stack
            folder = waiting.pop()
            try:
                with os.scandir(os.path.join(self.root, folder)) as entries:
                    new = [_node(folder, entry) for entry in entries]
            except OSError as error:
                found.append(Node(folder, f"{folder} can't be opened: {error.strerror}."))
                continue
            found += new
            waiting += [
                one.name
                for one in new
                if one.name.endswith("/") and not one.fault and not is_hidden(one.name)
            ]
        return found

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a regular file. A pipe is not waited for."""
        with self.open(name) as file:  # Python sets aside as much memory as is asked for
            size = os.fstat(file.fileno()).st_size
            return within(file.read(min(limit, size) + 1), limit)

    def open(self, name: str) -> BinaryIO:
        """The regular file, opened part by part so that a link can stand nowhere in its path."""
        *folders, last = name.split("/")
        try:
            at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
            try:
                for part in folders:
                    before, at = at, os.open(part, _INSIDE | os.O_DIRECTORY, dir_fd=at)
                    os.close(before)
                handle = os.open(last, _INSIDE | os.O_NONBLOCK, dir_fd=at)
            finally:
                os.close(at)
        except OSError as error:
            raise InvalidNotebook(f"{last} can't be opened: {error.strerror}.") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise InvalidNotebook(f"{last} is not a regular file.")
        return os.fdopen(handle, "rb")


_INSIDE = os.O_RDONLY | os.O_NOFOLLOW


def _node(folder: str, entry: os.DirEntry[str]) -> Node:
    name = folder + entry.name
    if entry.is_symlink():
        ending = "/" if os.path.isdir(entry) else ""
        return Node(name + ending, f"{entry.name} is a link. Hand in the file itself.")
    if entry.is_dir(follow_symlinks=False):
        return Node(name + "/")
    regular = entry.is_file(follow_symlinks=False)
    return Node(name, None if regular else f"{entry.name} is not a regular file.")


class Archive:
    """A zip, read where it is. Raises InvalidNotebook where it is broken."""

    def __init__(self, open_: Callable[[], BinaryIO], path: Path) -> None:
        """`open_` gives the zip's bytes, each time anew; `path` is where a person finds it."""
        self._open, self._path = open_, path

    def path(self, name: str) -> Path:
        """Where the member would lie if the zip were a folder."""
        return self._path / name.lstrip("/")

    def nodes(self) -> list[Node]:
        """All members. One that leads out of the zip, is a link, or is there twice has a fault."""
        with self._zip() as archive:
            found: dict[str, Node] = {}
            for info in archive.infolist():
                name = _name(info)
                twice = name in found and is_candidate(name)
                found[name] = Node(name, _fault(name, info, twice))
            return list(found.values())

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a member."""
        with self._zip() as archive:
            info = next((one for one in archive.infolist() if _name(one) == name), None)
            if info is None:
                raise InvalidNotebook(f"The zip does not hold {name} any more.")
            return _read_member(archive, info, limit)

    @contextmanager
    def _zip(self) -> Iterator[zipfile.ZipFile]:
        try:
            with self._open() as file, zipfile.ZipFile(file) as archive:
                yield archive
        except _BROKEN_ZIP:
            reason = "The zip is broken. Make it again, or hand in the .ipynb."
            raise InvalidNotebook(reason) from None


_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename.replace("\\", "/").removeprefix("./")


def _fault(name: str, info: zipfile.ZipInfo, twice: bool) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        return f"The zip has a path that leads out of it: {name!r}."
    if stat.S_ISLNK(info.external_attr >> 16):
        return f"The zip holds a link: {name!r}. Hand in the file itself."
    return f"The zip holds two files of one name: {name!r}." if twice else None


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    if info.flag_bits & 1:
        raise InvalidNotebook("The zip is encrypted. Hand it in without a password.")
    # The other methods unpack a whole block at once, so that no limit holds memory back.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidNotebook("The zip is packed in an unusual way. Hand in the .ipynb instead.")
    with archive.open(info) as member:
        return within(member.read(limit + 1), limit)


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
