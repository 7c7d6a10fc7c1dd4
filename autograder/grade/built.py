"""A built release, as far as grading needs it."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import nbformat
from nbformat import NotebookNode

from autograder.identity import LABELS, run_identity
from autograder.training import checkpoints

SETTINGS = f"kit/training/{checkpoints.SETTINGS.name}"


class ReleaseMissing(RuntimeError):
    """The assignment's release has not been built, or not since something that runs changed."""


@dataclass(frozen=True)
class Release:
    """What grading needs of a built assignment.

    Attributes:
        content: the zip, read once, so that a rebuild meanwhile changes nothing.
        version: the same for two releases whose runs give the same evidence; see `identity`.
    """

    name: str
    zip: Path
    content: bytes
    pristine: NotebookNode
    version: str

    @classmethod
    def load(cls, name: str, root: Path) -> "Release":
        """Read dist/<name>/.

        Raises:
            ReleaseMissing: it is not there.
        """
        folder = root / "dist" / name
        archive = folder / "autograder" / f"{name}-autograder.zip"
        notebook = folder / "student" / f"{name}.ipynb"
        if not archive.is_file() or not notebook.is_file():
            raise ReleaseMissing(f"{folder} holds no release. Run: autograder build {name}")
        content = archive.read_bytes()
        pristine = nbformat.read(notebook, as_version=4)
        return cls(name, archive, content, pristine, run_identity(pristine, _files(content)))

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Tests and support files by their path in a job folder, the hidden labels excepted.

        With those of `loading` beside them, networks are loaded; without, they are trained.
        """
        found = _files(self.content)
        return {name: content for name, content in found if not name.endswith((LABELS, SETTINGS))}


def loading(assignment: str, samples: float, kept: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files for a job in which networks are loaded; `samples` as in `config.Verify`."""
    settings = checkpoints.settings(assignment, "load", samples).encode()
    return {SETTINGS: settings} | {f"{checkpoints.FOLDER}/{n}": c for n, c in kept.items()}


def _files(content: bytes) -> list[tuple[str, bytes]]:
    """The files of a release's zip that a run has beside it, under their names there."""
    found = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in archive.namelist():
            top, *rest = PurePosixPath(name).parts
            if top in ("files", "tests") and not name.endswith("/"):
                place = rest if top == "files" else [top, *rest]
                found.append((str(PurePosixPath(*place)), archive.read(name)))
    return found
