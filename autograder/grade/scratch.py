"""The temporary folder of a batch, and the one that a killed batch left behind."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "autograder-"


@contextlib.contextmanager
def scratch_folder(note: Path) -> Iterator[Path]:
    """A folder for jobs, removed at the end. Its path is in the file `note` for as long as it is.

    Whoever calls this holds the lock of the results' folder. So if the note is there, its writer
    was killed, and the folder that it names is removed first.
    """
    _remove_left_over(note)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        note.write_text(str(folder), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)


def _remove_left_over(note: Path) -> None:
    """Only a folder that can be one of ours, as the note may have been changed."""
    try:
        folder = Path(note.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return
    if folder.parent == Path(tempfile.gettempdir()) and folder.name.startswith(PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
