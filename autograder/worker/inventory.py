"""What the checks are made of: a list of things that student code could replace.

For a fixed list of modules, what each name stands for, and for every function and class found there
its code, defaults and attributes; of our own modules and of Otter's tests all, data included.
"""

import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MODULES = {
    "builtins", "math", "json", "json.encoder", "os", "gc", "sys", "threading", "random", "copy",
    "contextlib", "dataclasses", "inspect", "statistics", "collections",
    "numpy", "numpy.random", "numpy.linalg", "torch", "torch._C", "torch._C._nn", "torch._tensor",
    "torch.autograd", "torch.autograd.grad_mode", "torch.autograd.graph",
    "torch.autograd.function", "torch.random", "torch.linalg", "torch.overrides",
    "torch.utils._device", "torch.utils._python_dispatch", "torch.nn", "torch.nn.functional",
    "torch.nn.init", "torch.nn.parameter",
}  # fmt: skip
OURS = ("autograder", __package__, "otter.test_files")  # of these all is kept, data included
FAMILIES = (*OURS, "torch.nn.modules")
FREE = {
    "__doc__", "__dict__", "__weakref__", "__annotations__", "__abstractmethods__", "_abc_impl",
    "__repr__", "__str__", "__format__", "__builtins__", "__warningregistry__", "__signature__",
    "displayhook", "excepthook", "unraisablehook", "last_value", "last_type", "last_traceback",
    "_sink", "latest", "test_case_results", "load", "save", "print",
    "Storage",  # follows the default dtype
    "numpy.bool", "numpy.long",  # put back to Python's for the sake of old packages
}  # fmt: skip
STATE = ("__code__", "__defaults__", "__kwdefaults__")

_attributes = vars(type)["__dict__"].__get__


@dataclass(frozen=True)
class Table:
    """A dict or a class: what its names stood for, and all its names, kept or not."""

    name: str
    now: Mapping[Any, Any]
    kept: Mapping[Any, Any]
    known: frozenset[Any]
    owner: type | None


class Inventory:
    """The process as it is when this is made.

    Attributes:
        tables: dicts and classes.
        attributes: for an attribute the things that have it: name, thing, value.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        """List the modules, and `roots`: further objects by name, as deep as they go."""
        self.tables: list[Table] = []
        self.attributes: dict[str, list[tuple[str, object, object]]] = {}
        self._seen: dict[int, object] = {}  # holds them too, so that no id is used again
        watched = {name: module for name, module in sys.modules.items() if _is_watched(name)}
        visible = {n: m for n, m in watched.items() if not n.startswith(str(__package__))}
        self._table("sys.modules", sys.modules, visible)  # ours leave it before student code runs
        for name, module in watched.items():
            self._module(name, module)
        for name, root in roots.items():
            self._value(name, root, ours=True)

    def _module(self, name: str, module: types.ModuleType) -> None:
        ours = name.startswith(OURS)
        kept = {
            key: value
            for key, value in list(vars(module).items())
            if FREE.isdisjoint((key, f"{name}.{key}"))
            and (ours or callable(value) or isinstance(value, types.ModuleType))
        }
        self._table(name, vars(module), kept)
        for key, value in kept.items():
            self._value(f"{name}.{key}", value, ours)

    def _value(self, name: str, value: object, ours: bool) -> None:
        """What lies in a value: of functions their state, of classes their attributes."""
        if isinstance(value, types.ModuleType) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(name, value, ours)
        elif isinstance(value, classmethod | staticmethod):
            self._value(name, value.__func__, ours)
        elif isinstance(value, property):
            for part in (value.fget, value.fset):
                self._value(name, part, ours)
        elif ours:
            self._data(name, value)

    def _data(self, name: str, value: object) -> None:
        parts: Iterable[tuple[object, object]]
        if isinstance(value, dict):
            kept = {key: part for key, part in value.items() if key not in FREE}
            self._table(name, value, kept)
            parts = kept.items()
        elif isinstance(value, list | tuple):
            parts = enumerate(value)
        elif type(value).__module__.startswith(OURS) and hasattr(value, "__dict__"):
            kept = {key: part for key, part in vars(value).items() if key not in FREE}
            self._table(name, vars(value), kept)
            self._attribute("__dict__", name, value)
            parts = kept.items()
        else:
            return
        for key, part in parts:
            self._value(f"{name}.{key}", part, ours=True)

    def _function(self, name: str, function: types.FunctionType, ours: bool) -> None:
        for attribute in STATE:
            self._attribute(attribute, name, function)
        if ours and function.__kwdefaults__:
            self._table(name, function.__kwdefaults__, function.__kwdefaults__)
        if function.__module__ is None or function.__globals__.get("test_case"):  # Otter's tests
            self._data(f"{name} globals", function.__globals__)
        for cell in function.__closure__ or ():
            if callable(content := _content(cell)):
                self._attribute("cell_contents", name, cell)
                self._value(name, content, ours=False)

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
        self._attribute("__bases__", name, kind)
        for key, value in kept.items():
            self._value(f"{name}.{key}", value, ours=False)
        for base in kind.__mro__[1:]:
            self._value(base.__name__, base, ours=False)

    def _table(
        self,
        name: str,
        now: Mapping[Any, Any],
        kept: Mapping[Any, Any],
        owner: type | None = None,
    ) -> None:
        self.tables.append(Table(name, now, dict(kept), frozenset(now), owner))

    def _attribute(self, attribute: str, name: str, thing: object) -> None:
        row = name, thing, getattr(thing, attribute)
        self.attributes.setdefault(attribute, []).append(row)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty as yet
        return None


def _is_watched(name: str) -> bool:
    return name in MODULES or any(name == f or name.startswith(f"{f}.") for f in FAMILIES)
