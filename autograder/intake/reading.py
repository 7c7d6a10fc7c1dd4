"""Which file of a student counts, and its untrusted bytes to a notebook that is ready to run."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbformat.notebooknode import NotebookNode

from autograder.intake.trees import ENDINGS, Archive, Node, is_hidden, some
from autograder.notebook import InvalidNotebook, assignment_name, read_notebook
from autograder.restore import restore, wrong_assignment


@dataclass(frozen=True)
class Item:
    """A file of a student.

    Attributes:
        node: where it lies.
        own: its name or path as the student knows it.
        series: `own` without what a system added to the name of a newer version.
        order: grows with the time of upload, if the layout tells; else 0.
    """

    node: Node
    own: str
    series: str
    order: int = 0


def choose(
    items: Sequence[Item], assignment: str | None, endings: tuple[str, ...] = ENDINGS
) -> tuple[list[Item], list[str]]:
    """The only file with one of the endings, or the only one with the assignment's name.

    Returns:
        All its versions in any order, and a note on what was left out beside them.

    Raises:
        InvalidNotebook: there is none, or it can't be told which one counts.
    """
    candidates = [item for item in items if item.own.lower().endswith(endings)]
    if not candidates:
        raise InvalidNotebook("There is no notebook (.ipynb) in it.")
    expected = [item for item in candidates if PurePosixPath(item.series).stem == assignment]
    chosen = expected or candidates
    if len({item.series for item in chosen}) > 1:
        names = some(sorted(item.own for item in chosen))
        raise InvalidNotebook(
            f"It holds {len(chosen)} notebooks or zips, can't tell which counts: {names}."
        )
    left_out = sorted(item.own for item in items if item not in chosen)
    notes = [f"Only the notebook is graded, left out: {some(left_out)}."] if left_out else []
    return chosen, notes


def notebook_of(
    name: str, data: bytes, pristine: NotebookNode, limit: int
) -> tuple[NotebookNode, list[str]]:
    """Unzip, decode, parse and clean the file, and put its answers into the pristine notebook.

    Args:
        name: of the file; its ending tells a zip.
        data: the file's bytes.
        pristine: the released notebook.
        limit: largest notebook inside a zip, in bytes.

    Returns:
        The notebook, and notes for the student on what was corrected or left out.

    Raises:
        InvalidNotebook: the file can't be graded; the text says why.
    """
    notes: list[str] = []
    if name.lower().endswith(".zip"):
        data, notes = _unzip(data, assignment_name(pristine), limit)
    student, repairs = read_notebook(data)
    problem = wrong_assignment(student, pristine)
    if problem:
        raise InvalidNotebook(problem)
    notebook, corrections = restore(student, pristine)
    return notebook, [*notes, *repairs, *corrections]


def _unzip(data: bytes, assignment: str | None, limit: int) -> tuple[bytes, list[str]]:
    # Python keeps about a KiB for each file's name, before any of it can be looked at.
    if data.count(b"PK\x01\x02") > limit // 1024:
        raise InvalidNotebook("The zip holds too many files. Hand in the .ipynb instead.")
    archive = Archive(lambda: io.BytesIO(data), Path())
    nodes = archive.nodes()
    for node in nodes:
        if node.fault:
            raise InvalidNotebook(node.fault)
    names = [n.name for n in nodes if not n.name.endswith("/") and not is_hidden(n.name)]
    items = [Item(Node(name), name, name) for name in names]
    (item,), notes = choose(items, assignment, (".ipynb",))
    return archive.read(item.own, limit), notes
