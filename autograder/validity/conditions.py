"""Ways in which a student's run can differ from ours without being another answer.

Notebooks are handed in with cells in another order; after intake a first cell sets the generators
of random numbers, and the number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

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
    return [
        c for cell in cells for c in ([cell, _copy(cell)] if _role(cell) == "check" else [cell])
    ]


def _copy(cell: NotebookNode) -> NotebookNode:
    """As Jupyter copies a cell: all of it, under an id of its own."""
    return NotebookNode({**cell, "id": f"{cell.id}-copy"})


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


FIRST_CELL = """\
import random
import numpy
import torch

torch.set_num_threads({threads})
random.seed({seed})
numpy.random.seed({seed})
torch.manual_seed({seed})
del random, numpy
"""


@dataclass(frozen=True)
class Condition:
    """One way: the state of the generators, the threads of torch, and the order of the cells.

    The seeds of given cells stay, since intake puts given cells back; trainings with other seeds
    are those of a calibration.
    """

    seed: int
    threads: int
    order: Order

    @property
    def name(self) -> str:
        """Told in the name of each notebook."""
        return f"drawn{self.seed}-threads{self.threads}-{self.order.__name__}"

    def begun(self, notebook: NotebookNode) -> NotebookNode:
        """The notebook, after intake, with a first cell that sets generators and threads."""
        source = FIRST_CELL.format(threads=self.threads, seed=self.seed)
        notebook.cells.insert(0, new_code_cell(source, id="first"))
        return notebook


def conditions(seeds: Iterable[int]) -> Iterator[Condition]:
    """One a seed, with each number of threads and each order in turn."""
    return (Condition(*one) for one in zip(seeds, cycle(THREADS), cycle(ORDERS)))
