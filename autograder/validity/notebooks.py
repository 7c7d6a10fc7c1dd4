"""Entries of the bank -> notebooks as students would hand them in, several in one if they fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.validity.bank import BankError, Entry
from autograder.validity.dependencies import Dependencies


def pack(entries: Iterable[Entry], dependencies: Dependencies) -> list[list[Entry]]:
    """Groups for one notebook each: what one changes can't reach what another is judged by.

    What is inserted beside the answers may act on everything, so it stays alone, and so does what
    changes nothing. Right solutions only need different questions, since none should fail anything:
    whatever fails is looked at again, alone.
    """
    groups: list[_Group] = []
    for entry in entries:
        judged = judged_by(entry, dependencies)
        right = entry.kind == "variants"
        reached = judged if right else dependencies.reached(entry.concerns)
        shared = bool(judged) and not entry.inserted
        home = next((g for g in groups if shared and g.fits(reached, judged)), None)
        if home is None:
            home = _Group(shared=shared)
            groups.append(home)
        home.add(entry, reached, judged)
    return [group.entries for group in groups]


def judged_by(entry: Entry, dependencies: Dependencies) -> frozenset[str]:
    """The questions whose verdicts tell of it.

    Those that it names, if it was written by hand; else all that its change can reach, as far as
    they are answered.
    """
    if _is_known(entry):
        return entry.concerns
    reached = dependencies.reached(entry.concerns)
    return reached if entry.answered is None else reached & entry.answered


def _is_known(entry: Entry) -> bool:
    return entry.kind != "generated"


class _Group:
    """Entries for one notebook."""

    def __init__(self, *, shared: bool) -> None:
        self.entries: list[Entry] = []
        self._shared, self._reached, self._judged = shared, set[str](), set[str]()

    def fits(self, reached: frozenset[str], judged: frozenset[str]) -> bool:
        """Whether an entry reaches nothing that one here is judged by, and the other way."""
        return self._shared and not (reached & self._judged or judged & self._reached)

    def add(self, entry: Entry, reached: frozenset[str], judged: frozenset[str]) -> None:
        self.entries.append(entry)
        self._reached |= reached
        self._judged |= judged


def merge(group: Sequence[Entry]) -> Entry:
    """All changes of a group, under the name of its first."""
    return replace(
        group[0],
        edits={k: v for g in group for k, v in g.edits.items()},
        answers={k: v for g in group for k, v in g.answers.items()},
        inserted={k: v for g in group for k, v in g.inserted.items()},
        answered=_answered(group),
        fails=frozenset[str]().union(*(g.fails for g in group)),
    )


def _answered(group: Sequence[Entry]) -> frozenset[str] | None:
    """All questions, if one of the group answers all."""
    parts = [g.answered for g in group if g.answered is not None]
    return frozenset[str]().union(*parts) if len(parts) == len(group) else None


def notebook(entry: Entry, release: Path) -> NotebookNode:
    """The notebook of `entry`, as a student would hand it in.

    Args:
        entry: what to change.
        release: dist/<name>/ of the assignment.

    Raises:
        BankError: a cell that is to be changed is not an answer cell, or lacks the old text.
    """
    made = solved(release)
    answers = answer_cells(made, release.name)
    if entry.answered is not None:
        stubs = nbformat.read(release / "student" / f"{release.name}.ipynb", as_version=4)
        _clear(answers, {short_id(c, release.name): c.source for c in stubs.cells}, entry.answered)
    for name, source in entry.answers.items():
        _answer(entry, answers, name).source = source
    for name, edits in entry.edits.items():
        _edit(entry, _answer(entry, answers, name), edits)
    for name, source in entry.inserted.items():
        cell = new_code_cell(source, id=f"before-{name}")
        made.cells.insert(made.cells.index(_answer(entry, answers, name)), cell)
    return made


def solved(release: Path) -> NotebookNode:
    """The solved notebook of dist/<name>/; a fresh copy."""
    path = release / "autograder" / f"{release.name}.ipynb"
    return nbformat.reads(_text(path, path.stat().st_mtime_ns), as_version=4)


@cache
def _text(path: Path, _changed_ns: int) -> str:
    return path.read_text(encoding="utf-8")


def answer_cells(made: NotebookNode, assignment: str) -> dict[str, NotebookNode]:
    """The answer cells by their short ids."""
    cells = (c for c in made.cells if c.metadata.get("autograder", {}).get("role") == "answer")
    return {short_id(cell, assignment): cell for cell in cells}


def short_id(cell: NotebookNode, assignment: str) -> str:
    """A cell's id without the assignment's name, as the files of the bank use it."""
    return str(cell.id).removeprefix(f"{assignment}-")


def _clear(
    answers: Mapping[str, NotebookNode], stubs: Mapping[str, str], answered: Iterable[str]
) -> None:
    for key, cell in answers.items():
        if cell.metadata.autograder.question not in answered:
            cell.source = stubs[key]


def _answer(entry: Entry, answers: Mapping[str, NotebookNode], key: str) -> NotebookNode:
    if key not in answers:
        raise BankError(f"{entry.student}: no answer cell {key}; there are {', '.join(answers)}.")
    return answers[key]


def _edit(entry: Entry, cell: NotebookNode, edits: Mapping[str, str]) -> None:
    for old, new in edits.items():
        if old not in cell.source:
            raise BankError(f"{entry.student}: {cell.id} does not contain {old!r}.")
        cell.source = cell.source.replace(old, new)
