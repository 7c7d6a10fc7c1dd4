"""The cell of an answer: where each piece of its code stands, and what a small change makes of it.

Left alone is what no grading can or should see: annotations, docstrings, texts, assertions,
`strict` of zip, and calls that draw.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

SHOWN = 90  # characters of a piece of code in a mutation's name
BEGIN = re.compile(r"\s*# BEGIN SOLUTION")
END = re.compile(r"\s*# END SOLUTION")
LINE = re.compile(r"# SOLUTION\s*(# noqa.*)?$")

MODULES = ("F", "nn.functional", "self", "torch", "torch.nn.functional")
DRAWING = {"bar", "imshow", "legend", "plot", "scatter", "semilogy", "set", "subplots", "text",
           "title"}  # fmt: skip
# Where a method takes its dimension, if not by name; a function of torch takes it one later.
FIRST = (
    "all", "amax", "amin", "any", "argmax", "argmin", "cat", "cumsum", "flatten", "gather",
    "log_softmax", "max", "mean", "min", "softmax", "squeeze", "stack", "std", "sum", "transpose",
    "unbind", "unfold", "unsqueeze", "var",
)  # fmt: skip
DIMENSION = {"chunk": 1, "split": 1, **dict.fromkeys(FIRST, 0)}
INNER = (ast.keyword, ast.List, ast.Slice, ast.Starred, ast.Tuple, ast.UnaryOp)
ATOMS = (ast.Attribute, ast.Call, ast.Constant, ast.Dict, ast.List, ast.Name, ast.Subscript)
SIMPLE = (ast.expr, ast.keyword, ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Return)


@dataclass(frozen=True)
class Edit:
    """A text in place of the characters from start to stop; `shown` is the span that names it."""

    start: int
    stop: int
    text: str
    shown: tuple[int, int]


class Cell:
    """The source of a cell, its tree, and where in the source each node stands."""

    def __init__(self, source: str) -> None:
        """Parse the source.

        Raises:
            SyntaxError: it isn't Python.
        """
        self.source, self.lines = source, source.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self.solution = _solution(self.lines)
        self.tree = ast.parse(source)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes = list(self._below(self.tree))

    def _below(self, node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if not _left_alone(child, node):
                self.parents[child] = node
                yield child
                yield from self._below(child)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First character of a node, and the one after its last."""
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offset(node.lineno, node.col_offset)
        return start, self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Columns of `ast` count bytes of UTF-8."""
        before = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(before)

    def text(self, node: ast.AST) -> str:
        """Source of a node, without parentheses around it."""
        start, stop = self.span(node)
        return self.source[start:stop]

    def atom(self, node: ast.AST) -> str:
        """Source of a node that can stand beside any operator."""
        return self.text(node) if isinstance(node, ATOMS) else f"({self.text(node)})"

    def outer(self, node: ast.AST) -> ast.AST:
        """The call, subscript, operation, … that a number is used in."""
        while isinstance(parent := self.parents[node], INNER):
            node = parent
        return parent

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function that a node stands in."""
        while node in self.parents and not isinstance(node, ast.FunctionDef):
            node = self.parents[node]
        return node if isinstance(node, ast.FunctionDef) else None

    def number(self, node: ast.AST) -> int | float | None:
        """The value of a number with its sign; None for all else, and behind a sign."""
        if isinstance(self.parents.get(node), ast.UnaryOp):
            return None
        try:
            value = ast.literal_eval(node) if isinstance(node, ast.UnaryOp | ast.Constant) else None
        except ValueError:
            return None
        return value if type(value) in (int, float) else None

    def is_dimension(self, node: ast.AST) -> bool:
        """Whether a number is a dimension of a call, or one of several."""
        dimension = dimension_of(self.outer(node))
        return dimension is not None and any(part is node for part in ast.walk(dimension))

    def counts(self, node: ast.AST) -> bool:
        """Whether a number is part of an index, a slice or a range."""
        inner = (ast.BinOp, ast.Slice, ast.Tuple, ast.UnaryOp)
        while isinstance(parent := self.parents[node], inner):
            node = parent
        if isinstance(parent, ast.Subscript):
            return node is parent.slice
        return isinstance(parent, ast.Call) and called(parent) in ("arange", "range")

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Put a text in place of a node."""
        return Edit(*self.span(node), text, self.span(node))

    def renumber(self, node: ast.AST, value: float) -> Edit:
        """Put another number in place of a number, shown with what it is used in."""
        outer = self.outer(node)
        text = f"({value})" if value < 0 and isinstance(outer, ast.BinOp) else str(value)
        return Edit(*self.span(node), text, self.context(node, outer))

    def context(self, node: ast.AST, outer: ast.AST) -> tuple[int, int]:
        """The span of what a node is used in, or its own where that is too long to be shown."""
        for wider in (outer, self.parents[node]):
            if isinstance(wider, SIMPLE) and self._fits(wider):
                return self.span(wider)
        return self.span(node)

    def _fits(self, node: ast.AST) -> bool:
        return len(self._tidy(*self.span(node))) <= SHOWN

    def remove(self, argument: ast.AST, shown: tuple[int, int]) -> Edit:
        """Remove an argument of a call and its comma."""
        start, stop = self.span(argument)
        if after := re.compile(r"\s*,[ \t]*").match(self.source, stop):
            stop = after.end()
        elif before := re.search(r",\s*$", self.source[:start]):
            start = before.start()
        return Edit(start, stop, "", shown)

    def swap(self, first: ast.AST, second: ast.AST) -> Edit:
        """Exchange two nodes that stand one after the other."""
        (start, left), (right, stop) = self.span(first), self.span(second)
        write = self.atom if isinstance(first, ast.expr) else self.text
        text = write(second) + self.source[left:right] + write(first)
        return Edit(start, stop, text, (start, stop))

    def between(
        self, node: ast.AST, left: ast.AST, right: ast.AST, symbols: tuple[str, str]
    ) -> Edit:
        """Exchange a node's symbol, which stands between its parts, maybe after a comment."""
        (_, start), (stop, _) = self.span(left), self.span(right)
        found = re.compile(rf"#.*|{re.escape(symbols[0])}").finditer(self.source, start, stop)
        place = next(match.span() for match in found if match[0] == symbols[0])
        return Edit(*place, symbols[1], self.span(node) if self._fits(node) else place)

    def allows(self, edit: Edit) -> bool:
        """Whether all lines that an edit touches are lines of the solution."""
        first, last = (self.source.count("\n", 0, at) for at in (edit.start, edit.stop))
        return self.solution.issuperset(range(first, last + 1))

    def after(self, edit: Edit) -> str:
        """The whole source after an edit."""
        return self.source[: edit.start] + edit.text + self.source[edit.stop :]

    def described(self, edit: Edit) -> tuple[str, str]:
        """What an edit changes, and what stands there then."""
        first, last = edit.shown
        new = self.source[first : edit.start] + edit.text + self.source[edit.stop : last]
        return _shorten(self._tidy(first, last)), _shorten(self._tidy(first, last, new))

    def _tidy(self, first: int, last: int, code: str | None = None) -> str:
        """A piece of the source, or what stands in its place, on one line without comments."""
        code = self.source[first:last] if code is None else code
        indent = " " * (first - self.source.rfind("\n", 0, first) - 1)
        for form in (f"({code}\n)", textwrap.dedent(indent + code)):
            try:
                return "; ".join(ast.unparse(ast.parse(form)).splitlines()) if code else ""
            except SyntaxError:
                continue
        return " ".join(code.split())


def called(call: ast.Call) -> str:
    """Last name of what is called: Linear for nn.Linear(2, 3)."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def dimension_of(node: ast.AST) -> ast.expr | None:
    """The argument of a call that is the dimension, or a tuple of dimensions."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    for keyword in node.keywords:
        if keyword.arg in ("dim", "axis", "dims"):
            return keyword.value
    if node.func.attr not in DIMENSION:
        return None
    place = DIMENSION[node.func.attr] + (ast.unparse(node.func.value) in MODULES)
    return node.args[place] if place < len(node.args) else None


def _shorten(line: str) -> str:
    half = (SHOWN - 3) // 2
    return line if len(line) <= SHOWN else f"{line[:half]} … {line[-half:]}"


def _solution(lines: list[str]) -> set[int]:
    """Numbers, from 0, of the lines that are the solution."""
    found, inside = set(), False
    for number, line in enumerate(lines):
        if BEGIN.match(line) or END.match(line):
            inside = bool(BEGIN.match(line))
        elif inside or LINE.search(line):
            found.add(number)
    return found


def _left_alone(node: ast.AST, parent: ast.AST) -> bool:
    """What is not changed, nor anything in it (Python 3.11 has no positions within f-strings)."""
    annotations = (getattr(parent, "annotation", None), getattr(parent, "returns", None))
    if isinstance(node, ast.Assert | ast.JoinedStr) or node in annotations:
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in DRAWING or node.func.attr.startswith("set_")
