"""Put a student's cells back into the pristine notebook of an assignment.

Of the cells that everybody gets the pristine copy is used, whatever the student did to theirs.
Every other cell is the student's and is kept. The order of the result is the pristine order, so
that nothing depends on sections that were moved. `align` finds out which cell is which.
"""

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from nbformat.notebooknode import NotebookNode

from autograder.align import (
    Alignment,
    align,
    bound_names,
    looks_like_code,
    marks,
    role,
    statements,
    text,
)
from autograder.notebook import KERNELSPEC, assignment_name


@dataclass(frozen=True)
class _Placed:
    """A student's cell at a pristine index: the answer of that slot, or an addition after it."""

    cell: NotebookNode
    is_answer: bool


def restore(student: NotebookNode, pristine: NotebookNode) -> tuple[NotebookNode, list[str]]:
    """Put every cell of the student into its slot of the pristine notebook.

    Args:
        student: a notebook from `intake.read_notebook`.
        pristine: the released notebook, with roles and questions in the cell metadata.

    Returns:
        A valid notebook of nbformat 4.5 without outputs, and notes for the student on what was
        corrected. Additional cells have the role "extra".
    """
    alignment = align(student.cells, pristine.cells)
    at, notes = _place(student.cells, pristine.cells, alignment)
    words = {
        word
        for placed in at.values()
        for one in placed
        if one.cell.cell_type == "code"
        for word in re.findall(r"\w+", one.cell.source)
    }
    cells = [_extra(one.cell, None) for one in at[-1]]
    for index, original in enumerate(pristine.cells):
        if role(original) == "answer":
            cells += _slot(original, at[index], words, notes)
        else:
            cells.append(_clean(original))
            cells += [_extra(one.cell, original) for one in at[index]]
    _name_extras(cells)
    metadata = copy.deepcopy(pristine.metadata)
    metadata["kernelspec"] = dict(KERNELSPEC)
    notebook = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells)
    return notebook, notes


def wrong_assignment(student: NotebookNode, pristine: NotebookNode) -> str | None:
    """Say why the notebook is not one of this assignment, or None when it is.

    The name in the notebook's metadata decides. Without one, half of the checks or one answer cell
    must be recognisable.
    """
    expected, found = assignment_name(pristine), assignment_name(student)
    if found is not None and expected is not None:
        if found == expected:
            return None
        return f"This is the notebook of assignment {found[:80]!r}, not of {expected!r}."
    alignment = align(student.cells, pristine.cells)
    if any(role(pristine.cells[alignment.seats[p]]) == "answer" for p in alignment.named):
        return None
    seen = set(alignment.seats.values())
    checks = [i for i, cell in enumerate(pristine.cells) if role(cell) == "check"]
    if 2 * sum(i in seen for i in checks) >= len(checks):
        return None
    return (
        f"The notebook does not look like assignment {expected!r}: most of its checks are missing."
    )


# Where the student's cells go.


def _place(
    cells: Sequence[NotebookNode], pristine: Sequence[NotebookNode], alignment: Alignment
) -> tuple[defaultdict[int, list[_Placed]], list[str]]:
    """The student's cells at each pristine index (-1: before the first), and notes."""
    changed: list[str] = []
    at: defaultdict[int, list[_Placed]] = defaultdict(list)
    for position, cell in enumerate(cells):
        index = alignment.seats.get(position)
        if position in alignment.homes:
            home, is_answer = alignment.homes[position]
            at[home].append(_Placed(cell, is_answer))
        elif index is not None and text(cell) != text(pristine[index]):
            if cell.cell_type == "code":
                changed.append(_label(pristine[index]))
            for offset, added in _added_code(cell, pristine[index]):
                at[index + offset].append(_Placed(added, False))
    return at, _given_notes(changed, pristine, alignment)


def _added_code(cell: NotebookNode, original: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """Lines that the student added to a given code cell, before (-1) and after (0) it.

    An import added to the setup cell is needed by the answers, so it must survive. Where given
    lines were changed, only new imports are kept: nothing else can be told apart.
    """
    if cell.cell_type != "code":
        return []
    given = [line.rstrip() for line in original.source.splitlines() if line.strip()]
    before: list[str] = []
    after: list[str] = []
    seen = 0
    for line in cell.source.splitlines():
        if seen < len(given) and line.rstrip() == given[seen]:
            seen += 1
        elif not _MAGIC.match(line):  # a magic beside the added lines must not cost them
            (after if seen else before).append(line)
    if seen < len(given):
        before, after = [], _new_imports(cell.source, original.source)
    parts = [(-1, "\n".join(before)), (0, "\n".join(after))]
    return [
        (offset, NotebookNode(cell_type="code", source=source))
        for offset, source in parts
        if statements(source)
    ]


_MAGIC = re.compile(r"(\s*)[%!]")


def _new_imports(source: str, original: str) -> list[str]:
    """Imports at the top level of a changed given cell that the original does not have."""
    own, given = (
        statements(re.sub(r"(?m)^(\s*)[%!].*$", r"\1pass", s)) for s in (source, original)
    )
    known = {ast.unparse(one) for one in given}
    found = (ast.unparse(one) for one in own if isinstance(one, ast.Import | ast.ImportFrom))
    return [one for one in found if one not in known]


# The cells of the result.


def _slot(
    original: NotebookNode, placed: Sequence[_Placed], words: set[str], notes: list[str]
) -> list[NotebookNode]:
    """The cells at one answer slot: the answer and the student's additions, in their order."""
    has_code = any(one.cell.cell_type == "code" for one in placed)
    answer = next((one for one in placed if _fits(one, original, has_code)), None)
    cells = []
    for one in placed:
        if one is not answer:
            cells.append(_extra(one.cell, original))
            continue
        cells.append(_clean(original, source=one.cell.source))
        if one.cell.cell_type != original.cell_type:
            kind = "code" if original.cell_type == "code" else "text"
            notes.append(f"A cell was turned back into {kind}: {_label(original)}.")
    if answer is None:
        notes.append(f"The cell for {_label(original)} is missing.")
        # Run after an answer that stands elsewhere, the stub would undo it.
        undoes = original.cell_type == "code" and bound_names(original.source) & words
        cells.insert(0, _clean(original, source="" if undoes else original.source))
    return cells


def _fits(one: _Placed, original: NotebookNode, has_code: bool) -> bool:
    if not one.is_answer or one.cell.cell_type == original.cell_type:
        return one.is_answer
    is_code = looks_like_code(one.cell.source)
    if original.cell_type == "code":
        # What does not parse may still be the answer (a magic, a slip), if there is no other.
        return is_code or not has_code
    return not is_code


def _clean(original: NotebookNode, source: str | None = None) -> NotebookNode:
    cell = copy.deepcopy(original)
    if source is not None:
        cell["source"] = source
    return _without_outputs(cell)


def _extra(cell: NotebookNode, neighbour: NotebookNode | None) -> NotebookNode:
    question = marks(neighbour).get("question") if neighbour else None
    mine = {"role": "extra", "question": question} if question else {"role": "extra"}
    extra = NotebookNode(cell_type=cell.cell_type, source=cell.source)
    extra["metadata"] = {"autograder": mine}
    return _without_outputs(extra)


def _without_outputs(cell: NotebookNode) -> NotebookNode:
    if cell.cell_type == "code":
        cell.update(outputs=[], execution_count=None)
    return cell


def _name_extras(cells: Sequence[NotebookNode]) -> None:
    taken = {cell.id for cell in cells if "id" in cell}
    names = (name for number in count(1) if (name := f"extra-{number}") not in taken)
    for cell in cells:
        if "id" not in cell:
            cell["id"] = next(names)


def _given_notes(
    changed: Iterable[str], pristine: Sequence[NotebookNode], alignment: Alignment
) -> list[str]:
    seen = set(alignment.seats.values())
    code = [(i, cell) for i, cell in enumerate(pristine) if role(cell) in _GIVEN]
    missing = [_label(cell) for i, cell in code if i not in seen]
    notes = []
    if changed:
        notes.append(f"Changed given cells were put back: {_listed(changed)}.")
    if missing:
        notes.append(f"Missing given cells were put back: {_listed(missing)}.")
    if alignment.copies:
        notes.append(f"Copies of given cells were left out: {len(alignment.copies)}.")
    return notes


# Small questions about a cell.

_GIVEN = {
    "setup": "the setup cell",
    "given": "the given code",
    "check": "the check",
    "export": "the export cell",
}


def _label(cell: NotebookNode) -> str:
    question = marks(cell).get("question")
    name = _GIVEN.get(role(cell) or "", "the answer")
    return f"{name} of question {question}" if question else name


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(labels))
