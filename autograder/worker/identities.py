"""What the checks are made of, compared by identity: is it still what it was, and put back if not.

Kept are, for a fixed list of modules, what each name stands for, and for every function and class
found there its code, defaults and attributes. Student code that replaces `torch.allclose`,
`nn.Module.named_parameters`, a check or a builtin is seen by that, whatever the replacement does.

New names are free (libraries load parts of themselves late, students add methods), unless they
hide a builtin in a module or an inherited method in a class. So are names that only show objects.
"""

import builtins
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, is_not
from typing import Any

MODULES = (
    "builtins", "math", "json", "json.encoder", "os", "gc", "sys", "threading", "random", "copy",
    "contextlib", "dataclasses", "inspect", "statistics", "collections",
    "numpy", "numpy.random", "numpy.linalg", "torch", "torch._C", "torch._C._nn", "torch._tensor",
    "torch.autograd", "torch.autograd.grad_mode", "torch.autograd.graph",
    "torch.autograd.function", "torch.random", "torch.linalg", "torch.overrides",
    "torch.utils._device", "torch.utils._python_dispatch", "torch.utils._pytree", "torch.nn",
)  # fmt: skip
OURS = ("autograder", __package__, "otter.test_files")  # of these all is kept, data included
FAMILIES = (*OURS, "torch.nn")
FREE = {
    "__doc__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__", "_abc_impl",
    "__repr__", "__str__", "__format__", "__builtins__", "__warningregistry__", "__signature__",
    "displayhook", "excepthook", "unraisablehook", "last_value", "last_type", "last_traceback",
    "_sink", "latest", "test_case_results", "load", "save",
    "Storage",  # follows the default dtype
}  # fmt: skip
STATE = ("__code__", "__defaults__", "__kwdefaults__")

# Kept, as student code may replace the builtins of the same names.
_any, _map, _setattr, _delattr = any, map, type.__setattr__, type.__delattr__
_attributes = vars(type)["__dict__"].__get__
_builtin_names = frozenset(vars(builtins)) - FREE


@dataclass(frozen=True)
class _Table:
    """Names and what they stood for, in a dict or a class."""

    name: str
    now: Mapping[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    known: frozenset[Any]  # all names, those that aren't compared included
    owner: type | None

    def changed(self) -> bool:
        return _any(_map(is_not, _map(self.now.get, self.keys), self.values))

    def put(self, key: Any, value: Any) -> None:
        if self.owner is None:
            self.now[key] = value  # type: ignore[index]
        else:
            _setattr(self.owner, key, value)

    def remove(self, key: Any) -> None:
        if self.owner is None:
            del self.now[key]  # type: ignore[attr-defined]
        else:
            _delattr(self.owner, key)

    def added(self) -> Iterator[Any]:
        """New names that hide something."""
        if self.known.issuperset(self.now):
            return
        if self.owner is None:
            for key in (self.now.keys() - self.known) & _builtin_names:
                if self.now[key] is not vars(builtins)[key]:
                    yield key
            return
        for key in self.now.keys() - self.known - FREE:
            bases = self.owner.__mro__[1:]
            if _any(key in _attributes(base) for base in bases) and callable(self.now[key]):
                yield key


class Identities:
    """The process as it is when this is made."""

    def __init__(self, roots: Mapping[str, object]) -> None:
        """Keep the modules, and `roots`: further objects by name, as deep as they go."""
        self._tables: list[_Table] = []
        self._functions: list[tuple[str, types.FunctionType]] = []
        self._bases: list[tuple[type, tuple[type, ...]]] = []
        self._cells: list[tuple[str, types.CellType]] = []
        self._seen: dict[int, object] = {}  # holds them too, so that no id is used again
        watched = {name: module for name, module in sys.modules.items() if _is_watched(name)}
        self._table("sys.modules", sys.modules, watched, None)
        for name, module in watched.items():
            self._module(name, module)
        for name, root in roots.items():
            self._value(name, root, ours=True)
        functions = [f for _, f in self._functions]
        self._states = [(attrgetter(a), tuple(_map(attrgetter(a), functions))) for a in STATE]
        self._plain = functions
        self._contents = tuple(cell.cell_contents for _, cell in self._cells)
        self._plain_cells = [cell for _, cell in self._cells]

    def __len__(self) -> int:
        """How many things are compared."""
        return sum(len(t.keys) for t in self._tables) + len(self._functions) + len(self._cells)

    def changes(self) -> list[str]:
        """What is not as it was, by name; it is put back."""
        return [*self._in_tables(), *self._in_functions(), *self._in_cells(), *self._in_bases()]

    # Comparing.

    def _in_tables(self) -> Iterator[str]:
        for table in self._tables:
            if table.changed():
                for key, value in zip(table.keys, table.values, strict=True):
                    if table.now.get(key) is not value:
                        table.put(key, value)
                        yield f"{table.name}.{key}"
            for key in table.added():
                table.remove(key)
                yield f"{table.name}.{key}"

    def _in_functions(self) -> Iterator[str]:
        for attribute, (get, values) in zip(STATE, self._states, strict=True):
            if _any(_map(is_not, _map(get, self._plain), values)):
                for (name, function), value in zip(self._functions, values, strict=True):
                    if get(function) is not value:
                        setattr(function, attribute, value)
                        yield f"{name}.{attribute}"

    def _in_cells(self) -> Iterator[str]:
        get = attrgetter("cell_contents")
        if _any(_map(is_not, _map(get, self._plain_cells), self._contents)):
            for (name, cell), value in zip(self._cells, self._contents, strict=True):
                if cell.cell_contents is not value:
                    cell.cell_contents = value
                    yield f"{name}.__closure__"

    def _in_bases(self) -> Iterator[str]:
        for kind, bases in self._bases:
            if kind.__bases__ != bases:
                kind.__bases__ = bases
                yield f"{kind.__module__}.{kind.__qualname__}.__bases__"

    # Keeping.

    def _module(self, name: str, module: types.ModuleType) -> None:
        ours = name.startswith(OURS)
        kept = {
            key: value
            for key, value in list(vars(module).items())
            if key not in FREE and (ours or callable(value) or isinstance(value, types.ModuleType))
        }
        self._table(name, vars(module), kept, None)
        for key, value in kept.items():
            self._value(f"{name}.{key}", value, ours)

    def _value(self, name: str, value: object, ours: bool) -> None:
        """What lies in a value: for all a function's state and a class's attributes."""
        if isinstance(value, types.ModuleType) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(name, value)
        elif isinstance(value, classmethod | staticmethod):
            self._value(name, value.__func__, ours)
        elif isinstance(value, property):
            for part in (value.fget, value.fset):
                self._value(name, part, ours)
        elif ours:
            self._data(name, value)

    def _data(self, name: str, value: object) -> None:
        if isinstance(value, dict):
            self._table(name, value, value, None)
            parts: Iterable[tuple[object, object]] = list(value.items())
        elif isinstance(value, list | tuple):
            parts = enumerate(value)
        elif type(value).__module__.startswith(OURS) and hasattr(value, "__dict__"):
            kept = {key: part for key, part in vars(value).items() if key not in FREE}
            self._table(name, vars(value), kept, None)
            parts = kept.items()
        else:
            return
        for key, part in parts:
            self._value(f"{name}.{key}", part, ours=True)

    def _function(self, name: str, function: types.FunctionType) -> None:
        self._functions.append((name, function))
        if function.__kwdefaults__:
            self._table(name, function.__kwdefaults__, function.__kwdefaults__, None)
        if function.__module__ is None or function.__globals__.get("test_case"):  # Otter's tests
            self._data(f"{name} globals", function.__globals__)
        for cell in function.__closure__ or ():
            if callable(_content(cell)):
                self._cells.append((name, cell))
                self._value(name, cell.cell_contents, ours=False)

    def _class(self, kind: type) -> None:
        if not kind.__flags__ & 1 << 9:  # made in C, so nobody can change it
            return
        name = f"{kind.__module__}.{kind.__qualname__}"
        now = _attributes(kind)
        kept = {
            key: value for key, value in list(now.items())
            if key not in FREE and (callable(value) or hasattr(type(value), "__get__"))
        }  # fmt: skip
        self._table(name, now, kept, kind)
        self._bases.append((kind, kind.__bases__))
        for key, value in kept.items():
            self._value(f"{name}.{key}", value, ours=False)
        for base in kind.__mro__[1:]:
            self._value(base.__name__, base, ours=False)

    def _table(
        self, name: str, now: Mapping[Any, Any], kept: Mapping[Any, Any], owner: type | None
    ) -> None:
        values = tuple(kept.values())
        self._tables.append(_Table(name, now, tuple(kept), values, frozenset(now), owner))


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty as yet
        return None


def _is_watched(name: str) -> bool:
    return name in MODULES or any(name == f or name.startswith(f"{f}.") for f in FAMILIES)
