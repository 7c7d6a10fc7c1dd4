"""Which questions use what another question's cells define, read from the master notebook.

So it is known which verdicts a change of one answer can reach, and what a training needs.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from symtable import SymbolTable, symtable

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

CODE = ("given", "answer", "test")


class Dependencies:
    """The questions of one assignment, and who uses whom, directly or not."""

    def __init__(self, master: NotebookNode) -> None:
        """Read the cells of a master, as `Author` makes it."""
        uses: dict[str, set[str]] = defaultdict(set)
        binder: dict[str, str] = {}
        for number, cell in enumerate(master.cells):
            mark = cell.metadata.get("autograder", {})
            if cell.cell_type != "code" or mark.get("role") not in CODE:
                continue
            place = mark.get("question") or f"cell {number}"  # a given cell between questions
            loaded, bound = _names(cell)
            uses[place] |= {binder[name] for name in loaded if name in binder} - {place}
            binder |= dict.fromkeys(bound, place)
        self._uses = dict(uses)

    def reached(self, questions: Iterable[str]) -> frozenset[str]:
        """These questions, and all whose verdicts their answers can change."""
        users: dict[str, set[str]] = defaultdict(set)
        for place, used in self._uses.items():
            for other in used:
                users[other].add(place)
        return _closure(questions, users)

    def needed(self, questions: Iterable[str]) -> frozenset[str]:
        """These questions, and all without whose answers theirs can't run."""
        return _closure(questions, self._uses)


def _closure(start: Iterable[str], nexts: dict[str, set[str]]) -> frozenset[str]:
    found, todo = set(start), list(start)
    while todo:
        new = nexts.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return frozenset(name for name in found if not name.startswith("cell "))


def _names(cell: NotebookNode) -> tuple[frozenset[str], frozenset[str]]:
    """Global names that a cell takes from before, and those it binds; of a test its arguments."""
    if cell.metadata.autograder.role != "test":
        return _of_cell(TransformerManager().transform_cell(cell.source))
    function = next(n for n in ast.parse(cell.source).body if isinstance(n, ast.FunctionDef))
    return frozenset(argument.arg for argument in function.args.args), frozenset()


@cache
def _of_cell(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Statement by statement: `net = train(net)` takes a net from before, and binds one."""
    taken, bound = set[str](), set[str]()
    for statement in ast.parse(source).body:
        loaded, binds = _globals(ast.unparse(statement))
        loops = isinstance(statement, ast.For | ast.With)
        taken |= loaded - bound - (binds if loops else set())
        bound |= binds
    return frozenset(taken), frozenset(bound)


def _globals(source: str) -> tuple[frozenset[str], frozenset[str]]:
    module = symtable(source, "cell", "exec")
    loaded = {
        symbol.get_name()
        for table in _all(module)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (table is module or symbol.is_global())
    }
    bound = {s.get_name() for s in module.get_symbols() if s.is_assigned() or s.is_namespace()}
    return frozenset(loaded), frozenset(bound)


def _all(table: SymbolTable) -> Iterator[SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _all(child)
