"""Ways in which a student's run can differ from ours without being another answer.

Notebooks are handed in with cells in another order; after intake they get other seeds, and another
number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.validity.runs import Change

Order = Callable[[list[NotebookNode]], list[NotebookNode]]


def as_made(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The order of the release."""
    return cells


def sections_backwards(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The last question first; within each the cells keep their order."""
    sections: list[list[NotebookNode]] = []
    question: str | None = None
    for cell in cells:
        mark = cell.metadata.get("autograder", {"question": question})  # additional cells stay
        if not sections or mark.get("question") != question:
            sections.append([])
        question = mark.get("question")
        sections[-1].append(cell)
    return [cell for section in reversed(sections) for cell in section]


def without_checks(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Check cells deleted."""
    return [cell for cell in cells if _role(cell) != "check"]


def checks_twice(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Check cells copied."""
    return [c for cell in cells for c in ([cell, cell] if _role(cell) == "check" else [cell])]


def without_text(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Prose deleted."""
    return [cell for cell in cells if _role(cell) != "text"]


def _role(cell: NotebookNode) -> str | None:
    role: str | None = cell.metadata.get("autograder", {}).get("role")
    return role


ORDERS: tuple[Order, ...] = (
    without_checks,
    sections_backwards,
    checks_twice,
    as_made,
    without_text,
)
THREADS = (1, 2)


@dataclass(frozen=True)
class Condition:
    """One way: the seed of the given cells, the threads of torch, and the order of the cells."""

    seed: int
    threads: int
    order: Order

    @property
    def name(self) -> str:
        """Told in the name of each notebook."""
        return f"seed{self.seed}-threads{self.threads}-{self.order.__name__}"

    def threaded(self, change: Change) -> Change:
        """`change`, and then this number of threads from the first cell on."""
        source = f"import torch\n\ntorch.set_num_threads({self.threads})"

        def both(notebook: NotebookNode) -> NotebookNode:
            made = change(notebook)
            made.cells.insert(0, new_code_cell(source, id="threads"))
            return made

        return both


def conditions(seeds: Iterable[int]) -> Iterator[Condition]:
    """One a seed, with each number of threads and each order in turn."""
    return (Condition(*one) for one in zip(seeds, cycle(THREADS), cycle(ORDERS)))
