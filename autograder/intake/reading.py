"""Which file of a student counts, and its untrusted bytes to a notebook that is ready to run."""

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nbformat.notebooknode import NotebookNode

from autograder.intake.trees import (
    ENDINGS,
    MIB,
    Archive,
    Node,
    TooLarge,
    Tree,
    is_hidden,
    some,
)
from autograder.notebook import InvalidNotebook, read_notebook
from autograder.restore import restore, wrong_assignment

CHECKPOINTS = "checkpoints"
OTTERS = "__zip_filename__"  # Otter's export puts it into each zip
_CHECKPOINT = re.compile(rf"{CHECKPOINTS}/[\w-]+\.(?:safetensors|json)", re.ASCII)


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
    beside = checkpoints_of(chosen[0], items)
    others = [item for item in items if item not in (*chosen, *beside)]
    left_out = sorted(item.own for item in others if item.own != OTTERS)
    notes = [f"Only the notebook is graded, left out: {some(left_out)}."] if left_out else []
    return chosen, notes


def checkpoints_of(chosen: Item, items: Iterable[Item]) -> list[Item]:
    """The files of trained networks in the folder beside the notebook, sorted."""
    beside = chosen.own[: chosen.own.rfind("/") + 1]
    inside = [i for i in items if i.own.startswith(beside)]
    found = [i for i in inside if _CHECKPOINT.fullmatch(i.own.removeprefix(beside))]
    return sorted(found, key=lambda item: item.own)


def notebook_of(data: bytes, pristine: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """Decode, parse and clean a file, and put its answers into the pristine notebook.

    Args:
        data: the file's bytes.
        pristine: the released notebook.

    Returns:
        The notebook, and notes for the student on what was corrected.

    Raises:
        InvalidNotebook: the file can't be graded; the text says why.
    """
    student, repairs = read_notebook(data)
    problem = wrong_assignment(student, pristine)
    if problem:
        raise InvalidNotebook(problem)
    notebook, corrections = restore(student, pristine)
    return notebook, [*repairs, *corrections]


@dataclass(frozen=True)
class Unzipped:
    """What counts of a zip: the notebook, the checkpoints beside it, notes for the student."""

    notebook: bytes
    archive: Archive
    checkpoints: list[Item]
    notes: list[str]


def unzip(data: bytes, assignment: str | None, limit: int) -> Unzipped:
    """Look into a student's zip, whose notebook has at most `limit` bytes.

    Raises:
        InvalidNotebook: it can't be used; the text says why.
    """
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
    return Unzipped(archive.read(item.own, limit), archive, checkpoints_of(item, items), notes)


def read_all(tree: Tree, items: Sequence[Item], limit: int) -> dict[str, bytes]:
    """The bytes of checkpoints by name; together at most `limit`.

    Raises:
        InvalidNotebook: they are longer, or one can't be read.
    """
    found: dict[str, bytes] = {}
    left = limit
    for item in items:
        if item.node.fault:
            raise InvalidNotebook(item.node.fault)
        try:
            content = tree.read(item.node.name, left)
        except TooLarge:
            what = f"The files of {CHECKPOINTS} are larger than {limit / MIB:g} MiB together"
            advice = "Empty it, run the training cells once more, and hand it in again."
            raise InvalidNotebook(f"{what}. {advice}") from None
        found[PurePosixPath(item.own).name] = content
        left -= len(content)
    return found
