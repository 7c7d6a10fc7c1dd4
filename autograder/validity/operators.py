"""Mutation operators: wrong solutions, made by one small change to the code of a right one.

A change is made to the text, at the place where `ast` says that a node stands, so that comments and
everything else stay as they are. Mutation analysis is that of DeMillo, Lipton and Sayward (1978),
Hints on test data selection; the operators are mistakes of students who write networks.

Tolerances are left alone, as is what `cell` leaves alone.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from autograder.validity.cell import DIMENSION, MODULES, Cell, Edit, called, dimension_of

ACTIVATIONS = {
    "CELU", "ELU", "GELU", "Hardtanh", "LeakyReLU", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6",
    "SELU", "SiLU", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
}  # fmt: skip
SQUASHES = {
    "celu", "elu", "gelu", "leaky_relu", "log_softmax", "relu", "relu_", "selu", "sigmoid", "silu",
    "softmax", "softplus", "tanh",
}  # fmt: skip
# Methods that are a step of a computation; one that only copies or converts is not.
STEPS = {
    *DIMENSION, "abs", "cos", "detach", "exp", "log", "norm", "prod", "sin", "sqrt", "square",
    "tril", "triu",
}  # fmt: skip
SYMBOLS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One small change to an answer.

    Attributes:
        operator: name of the kind of change, a key of OPERATORS.
        old: the code that is changed, on one line.
        new: what stands there now, "" where it is gone.
        number: 1, 2, … among the mutations of a cell with equal operator, old and new.
        source: the whole cell after the change.
    """

    operator: str
    old: str
    new: str
    number: int
    source: str

    @property
    def name(self) -> str:
        """A name that is unique within the cell, and survives changes elsewhere in it."""
        count = f" [{self.number}]" if self.number > 1 else ""
        return f"{self.operator}: {self.old} -> {self.new or '(gone)'}{count}"


def _applied(cell: Cell, call: ast.Call) -> Iterator[Edit]:
    """In place of torch.tanh(x), self.tanh(x) or x.tanh() stands x."""
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in MODULES:
        yield cell.replace(call, cell.atom(call.func.value))
    elif call.args:
        yield cell.replace(call, cell.atom(call.args[0]))


def _is_layer_call(cell: Cell, node: ast.AST) -> bool:
    """Whether a node is self.layer(x) with one result, outside of __init__."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    function, parent = cell.function(node), cell.parents[node]
    unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple)
    own = isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
    return own and not unpacked and function is not None and function.name != "__init__"


def _elements(node: ast.AST) -> list[ast.expr]:
    """The layers of an nn.Sequential."""
    return node.args if isinstance(node, ast.Call) and called(node) == "Sequential" else []


def _is_activation(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called(node) in ACTIVATIONS


def drop_layer(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A layer of a Sequential is left out; self.layer(x) and F.function(x) are x."""
    for element in _elements(node):
        if not _is_activation(element):
            yield cell.remove(element, cell.span(element))
    if not isinstance(node, ast.Call) or not node.args or called(node) in SQUASHES:
        return
    if _is_layer_call(cell, node) or ast.unparse(node.func).startswith("F."):
        yield cell.replace(node, cell.atom(node.args[0]))


def remove_activation(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """An activation of a Sequential is left out; torch.tanh(x) and x.tanh() are x."""
    for element in _elements(node):
        if _is_activation(element):
            yield cell.remove(element, cell.span(element))
    if isinstance(node, ast.Call) and called(node) in SQUASHES:
        yield from _applied(cell, node)


def swap_layers(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """Two layers of a Sequential change places, or two statements that set the same name."""
    for pair in pairwise(_elements(node)):
        yield cell.swap(*pair)
    body = getattr(node, "body", None)
    for first, second in pairwise(body if isinstance(body, list) else []):
        both = isinstance(first, ast.Assign) and isinstance(second, ast.Assign)
        if both and ast.dump(first.targets[0]) == ast.dump(second.targets[0]):
            yield cell.swap(first, second)


def constant(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A number is 1 larger, one with a decimal point twice as large; True is False."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        shown = cell.context(node, cell.outer(node))
        yield Edit(*cell.span(node), str(not node.value), shown)
    value = cell.number(node)
    if value is None or cell.counts(node) or cell.is_dimension(node):
        return
    if isinstance(value, int):
        yield cell.renumber(node, value + 1)
    elif not isinstance(cell.outer(node), ast.Compare):
        yield cell.renumber(node, 2 * value or 1.0)


def off_by_one(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A number in an index, a slice or a range is 1 smaller or 1 larger."""
    value = cell.number(node)
    if value is not None and cell.counts(node):
        yield cell.renumber(node, value - 1)
        yield cell.renumber(node, value + 1)


def wrong_dimension(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """Another dimension is reduced, split, …; a transposition is left out."""
    dimension = dimension_of(node)
    first = dimension.elts[0] if isinstance(dimension, ast.Tuple) else dimension
    value = cell.number(first) if first is not None else None
    if first is not None and value is not None:
        yield cell.renumber(first, value - 1 if value else 1)
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield cell.replace(node, cell.atom(node.value))
    if isinstance(node, ast.Call) and called(node) in ("permute", "t", "transpose"):
        yield from _applied(cell, node)


def detach(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """No gradient flows through a layer, or through what a function of tensors returns."""
    if _is_layer_call(cell, node):
        yield cell.replace(node, f"{cell.text(node)}.detach()")
    if isinstance(node, ast.Return) and node.value and _gives_tensor(cell, node):
        yield cell.replace(node.value, f"{cell.atom(node.value)}.detach()")


def _gives_tensor(cell: Cell, node: ast.Return) -> bool:
    """Whether gradients can flow through a return; a name in forward is left to its layer."""
    function = cell.function(node)
    if function is None or function.returns is None:
        return False
    takes = any("Tensor" in ast.unparse(argument) for argument in function.args.args)
    named = function.name == "forward" and isinstance(node.value, ast.Name)
    return takes and not named and ast.unparse(function.returns) == "Tensor"


def freeze(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A layer is not trained."""
    function = cell.function(node)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        target = ast.unparse(node.targets[0])
        if target.startswith("self.") and function is not None and function.name == "__init__":
            end = cell.starts[node.end_lineno or 0] - 1
            text = f"\n{' ' * node.col_offset}{target}.requires_grad_(False)"
            yield Edit(end, end, text, cell.span(node))


def operator(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """+ is -, < is <=, the factors of @ change places, a sign or `not` is left out."""
    if isinstance(node, ast.UnaryOp) and cell.number(node) is None:
        yield cell.replace(node, cell.atom(node.operand))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield cell.swap(node.left, node.right)
    if operation := _operation(node):
        left, symbol, right = operation
        yield cell.between(node, left, right, SYMBOLS[type(symbol)])


def _operation(node: ast.AST) -> tuple[ast.AST, ast.AST, ast.AST] | None:
    """The first symbol of a node that can be another, between what stands beside it."""
    found: tuple[ast.AST, ast.AST, ast.AST] | None = None
    if isinstance(node, ast.BinOp) and not isinstance(node.left, ast.List | ast.Tuple):
        found = node.left, node.op, node.right
    elif isinstance(node, ast.AugAssign):
        found = node.target, node.op, node.value
    elif isinstance(node, ast.Compare) and not _is_tolerance(node.comparators[0]):
        found = node.left, node.ops[0], node.comparators[0]
    elif isinstance(node, ast.BoolOp):
        found = node.values[0], node.op, node.values[1]
    return found if found and type(found[1]) in SYMBOLS else None


def _is_tolerance(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def drop_statement(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A call for its effect, or a change in place, is left out."""
    value = getattr(node, "value", None)
    called = isinstance(node, ast.Expr) and isinstance(value, ast.Call) and value in cell.parents
    item = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    if called or item or isinstance(node, ast.AugAssign):
        yield cell.replace(node, "pass")


def drop_argument(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A keyword argument is left out; True and False are left to `constant`."""
    for keyword in node.keywords if isinstance(node, ast.Call) else []:
        flag = isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)
        if keyword.arg and keyword in cell.parents and not flag:
            yield cell.remove(keyword, cell.context(keyword, node))


def drop_condition(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """The `if` of a comprehension or generator always holds, as if it were not there."""
    for condition in node.ifs if isinstance(node, ast.comprehension) else []:
        yield Edit(*cell.span(condition), "True", cell.context(condition, cell.parents[node]))


def drop_call(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """In place of x.abs(), x.sum(1) or x.mean(dim=1) stands x."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    dimension = dimension_of(node)
    if node.func.attr in STEPS and all(argument is dimension for argument in node.args):
        yield cell.replace(node, cell.atom(node.func.value))


def negate_condition(cell: Cell, node: ast.AST) -> Iterator[Edit]:
    """A condition, of a statement or within an expression, is the opposite."""
    if isinstance(node, ast.If | ast.IfExp) and not _is_negated_by_operator(node.test):
        text = f"not {cell.atom(node.test)}"
        yield Edit(*cell.span(node.test), text, cell.context(node.test, node))


def _is_negated_by_operator(condition: ast.expr) -> bool:
    """Whether `operator` leaves out the `not`, or turns == into != or `is` into `is not`."""
    if isinstance(condition, ast.Compare):
        equal = isinstance(condition.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot)
        return equal and len(condition.ops) == 1 and _operation(condition) is not None
    return isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not)


OPERATORS: dict[str, Callable[[Cell, ast.AST], Iterator[Edit]]] = {
    function.__name__: function
    for function in (
        drop_layer, remove_activation, swap_layers, constant, off_by_one, wrong_dimension, detach,
        freeze, operator, drop_statement, drop_argument, drop_condition, drop_call,
        negate_condition,
    )
}  # fmt: skip


def mutations(source: str) -> list[Mutation]:
    """All mutations of an answer cell of a solved notebook; only its solution lines are changed.

    Each is Python, and no two of them are the same code, nor is one that of the cell.

    Raises:
        SyntaxError: the cell isn't Python.
    """
    cell, found = Cell(source), []
    seen, names = {ast.dump(cell.tree)}, Counter[tuple[str, str, str]]()
    for kind, edit in _edits(cell):
        changed = cell.after(edit)
        code = _dump(changed)
        if code is not None and code not in seen:
            seen.add(code)
            name = (kind, *cell.described(edit))
            names[name] += 1
            found.append(Mutation(*name, names[name], changed))
    return found


def _edits(cell: Cell) -> Iterator[tuple[str, Edit]]:
    for kind, edits in OPERATORS.items():
        for node in cell.nodes:
            yield from ((kind, edit) for edit in edits(cell, node) if cell.allows(edit))


def _dump(source: str) -> str | None:
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None
