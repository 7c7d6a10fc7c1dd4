"""Find out where each cell of a student's notebook belongs in the pristine one.

The cells that everybody gets (text, given code, checks) are landmarks. They are looked up in the
student's notebook, by id and else by their text. Every other cell is the student's. It belongs to
the answer slot whose id it bears, or else into the gap between the landmarks that surround it.
"""

import ast
import re
import warnings
from bisect import bisect, bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from nbformat.notebooknode import NotebookNode

_BINDING = re.compile(
    r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE
)


@dataclass(frozen=True)
class Alignment:
    """Which student cell is which pristine cell, and where the student's own cells belong.

    Attributes:
        seats: student position -> pristine index, for every cell that was recognised.
        named: positions of cells recognised by their id.
        copies: positions of further copies of given cells.
        homes: for each cell of the student's own, its position -> (pristine index, whether it is
            the answer there or an addition after it). Index -1 is before the first cell.
    """

    seats: dict[int, int]
    named: set[int]
    copies: set[int]
    homes: dict[int, tuple[int, bool]]


class _Neighbours:
    """The recognised cells around a position of the student's notebook."""

    def __init__(self, seats: dict[int, int], end: int) -> None:
        self._positions = sorted(seats)
        self._indices = [-1, *(seats[position] for position in self._positions), end]

    def around(self, position: int) -> tuple[int, int]:
        """Pristine indices of the nearest recognised cell before and after."""
        place = bisect(self._positions, position)
        return self._indices[place], self._indices[place + 1]


# Which cell is which.


def align(cells: Sequence[NotebookNode], pristine: Sequence[NotebookNode]) -> Alignment:
    """Recognise the pristine cells among a student's cells and find a home for the others."""
    by_id = {cell.id: index for index, cell in enumerate(pristine)}
    options = [_by_id(cell, by_id, pristine) for cell in cells]
    named = {position for position, found in enumerate(options) if found}
    answered = {i for found in options for i in found if role(pristine[i]) == "answer"}
    by_text = defaultdict(list)
    for index, cell in enumerate(pristine):
        # An untouched answer cell is a landmark too, unless the true one is known by its id.
        if cell.source.strip() and index not in answered:
            by_text[text(cell)].append(index)
    options = [
        found or by_text.get(text(cell), []) for cell, found in zip(cells, options, strict=True)
    ]
    # Of several copies of a check the last comes after the answer, most likely. Where a check was
    # repeated further down it is the first. What leaves fewer slots empty is right.
    checks = {index for index, cell in enumerate(pristine) if role(cell) == "check"}
    chains = [_longest_chain(options, prefer_last) for prefer_last in (checks, set[int]())]
    alignments = []
    for chain in chains:
        seats, copies = _seat_moved_cells(chain, options, named, pristine)
        homes = _homes(cells, pristine, seats, chain, copies)
        alignments.append(Alignment(seats, named, copies, homes))
    return max(alignments, key=lambda one: len({i for i, answers in one.homes.values() if answers}))


def _by_id(
    cell: NotebookNode, by_id: dict[str, int], pristine: Sequence[NotebookNode]
) -> list[int]:
    # Colab keeps the id in the metadata, and so does read_notebook when it renames a duplicate.
    for name in (cell.get("id"), cell.metadata.get("id")):
        index = by_id.get(name)
        if index is None:
            continue
        if role(pristine[index]) == "answer" or pristine[index].cell_type == cell.cell_type:
            return [index]
    return []


def _longest_chain(options: Sequence[Sequence[int]], prefer_last: set[int]) -> dict[int, int]:
    """Longest strictly increasing choice of one pristine index a position (patience sorting)."""
    tails: list[int] = []
    links: list[tuple[int, int, Any]] = []
    for position, indices in enumerate(options):
        for index in sorted(indices, reverse=True):
            length = bisect_left(tails, index)
            if tails[length : length + 1] == [index] and index not in prefer_last:
                continue
            link = (position, index, links[length - 1] if length else None)
            tails[length : length + 1] = [index]
            links[length : length + 1] = [link]
    chain = {}
    last = links[-1] if links else None
    while last:
        position, index, last = last
        chain[position] = index
    return chain


def _seat_moved_cells(
    chain: dict[int, int],
    options: Sequence[Sequence[int]],
    named: set[int],
    pristine: Sequence[NotebookNode],
) -> tuple[dict[int, int], set[int]]:
    """All seats, those out of the chain included, and the positions of copies."""
    seats, copies = dict(chain), set()
    taken = set(chain.values())
    for position, found in enumerate(options):
        if not found or position in chain:
            continue
        landmarks = [i for i in found if role(pristine[i]) != "answer"]
        free = [i for i in landmarks if i not in taken]
        if free:
            seats[position] = free[0]
            taken.add(free[0])
        elif landmarks:
            copies.add(position)
        elif position in named:
            seats[position] = found[0]
    return seats, copies


# Where the student's own cells belong.


def _homes(
    cells: Sequence[NotebookNode],
    pristine: Sequence[NotebookNode],
    seats: dict[int, int],
    chain: dict[int, int],
    copies: set[int],
) -> dict[int, tuple[int, bool]]:
    slots = {index for index, cell in enumerate(pristine) if role(cell) == "answer"}
    homes = {position: (index, True) for position, index in seats.items() if index in slots}
    free = slots - set(seats.values())
    end = len(pristine)
    nearest, unmoved = _Neighbours(seats, end), _Neighbours(chain, end)
    for run in _runs(cells, seats, copies):
        home, gap = _gap(nearest.around(run[0]), unmoved.around(run[0]), free, pristine)
        claims = _claims([cells[position] for position in run], [pristine[i] for i in gap])
        for number, position in enumerate(run):
            if number in claims:
                home = gap[claims[number]]
                free.discard(home)
            homes[position] = (home, number in claims)
    _rescue_late_answers(homes, free, cells, pristine)
    return homes


def _rescue_late_answers(
    homes: dict[int, tuple[int, bool]],
    free: set[int],
    cells: Sequence[NotebookNode],
    pristine: Sequence[NotebookNode],
) -> None:
    """Move what binds the name of an empty slot there, if it would run after the slot's check."""
    wanted = {i: bound_names(pristine[i].source) for i in free if pristine[i].cell_type == "code"}
    for position, (home, is_answer) in sorted(homes.items()):
        if is_answer or cells[position].cell_type != "code":
            continue
        names = bound_names(cells[position].source)
        slot = next((i for i in sorted(wanted) if i < home and names & wanted[i]), None)
        if slot is not None:
            homes[position] = (slot, True)
            del wanted[slot]


def _runs(
    cells: Sequence[NotebookNode], seats: dict[int, int], copies: set[int]
) -> list[list[int]]:
    """Stretches of cells of unknown origin, between recognised cells. Blank cells are left out."""
    runs: list[list[int]] = [[]]
    for position, cell in enumerate(cells):
        if position in seats:
            runs.append([])
        elif position not in copies and cell.source.strip():
            runs[-1].append(position)
    return [run for run in runs if run]


def _gap(
    nearest: tuple[int, int],
    unmoved: tuple[int, int],
    free: set[int],
    pristine: Sequence[NotebookNode],
) -> tuple[int, list[int]]:
    """The pristine index to stand after, and the free slots of the gap between landmarks.

    A landmark that was moved alone misleads; one that moved with its whole section does not. So
    both the nearest landmarks and the nearest unmoved ones are tried, and the tightest gap with a
    free slot in it is taken.
    """
    gaps = [
        (low, sorted(i for i in free if low < i < high))
        for low, high in product((nearest[0], unmoved[0]), (nearest[1], unmoved[1]))
    ]
    open_gaps = [gap for gap in gaps if gap[1]]
    if open_gaps:
        return min(open_gaps, key=lambda gap: len(gap[1]))
    low = nearest[0]
    is_text = low >= 0 and pristine[low].cell_type != "code"
    moved_alone = is_text and low != unmoved[0] and nearest[1] != low + 1
    return (unmoved[0] if moved_alone else low), []


def _claims(cells: Sequence[NotebookNode], slots: Sequence[NotebookNode]) -> dict[int, int]:
    """Number of a cell -> number of the slot it fills, in order.

    A cell that binds a name of the slot's stub belongs there; what is left is filled in order.
    """
    claims = _claims_by_name(cells, slots)
    low = 0
    for number, cell in enumerate(cells):
        if number in claims:
            low = claims[number] + 1
            continue
        high = min((slot for other, slot in claims.items() if other > number), default=len(slots))
        for slot in range(low, high):
            if _can_fill(cell, slots[slot], alone=len(cells) == 1):
                claims[number] = slot
                low = slot + 1
                break
    return claims


def _claims_by_name(cells: Sequence[NotebookNode], slots: Sequence[NotebookNode]) -> dict[int, int]:
    claims: dict[int, int] = {}
    low = 0
    wanted = [bound_names(slot.source) if slot.cell_type == "code" else set() for slot in slots]
    for number, cell in enumerate(cells):
        names = bound_names(cell.source) if cell.cell_type == "code" else set()
        slot = next((s for s in range(low, len(slots)) if names & wanted[s]), None)
        if slot is not None:
            claims[number] = slot
            low = slot + 1
    return claims


def _can_fill(cell: NotebookNode, slot: NotebookNode, *, alone: bool) -> bool:
    if cell.cell_type == slot.cell_type:
        return True
    return alone and slot.cell_type == "code" and looks_like_code(cell.source)


# Small questions about a cell.


def marks(cell: NotebookNode) -> dict[str, str]:
    """What the release wrote about a pristine cell: its role and its question."""
    marks = cell.metadata.get("autograder")
    return marks if isinstance(marks, dict) else {}


def role(cell: NotebookNode) -> str | None:
    """Role of a pristine cell; a student's cell has none that counts."""
    return marks(cell).get("role")


def text(cell: NotebookNode) -> tuple[str, str]:
    """Cell type and source without regard to white space."""
    return cell.cell_type, " ".join(cell.source.split())


def bound_names(source: str) -> set[str]:
    """Names that code binds at its top level. By pattern, for code that may not parse."""
    return {function or variable for function, variable in _BINDING.findall(source)}


def statements(source: str) -> list[ast.stmt]:
    """The statements of a source; none if it is not Python."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def looks_like_code(source: str) -> bool:
    """Whether a text is Python that does something; a lone word parses too, but does nothing."""
    return any(
        not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call | ast.Await)
        for statement in statements(source)
    )
