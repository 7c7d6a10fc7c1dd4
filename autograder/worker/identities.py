"""Is what the checks are made of still what it was? By identity; what isn't is put back.

Student code that replaces `torch.allclose`, `nn.Module.named_parameters`, a check or a builtin is
seen by that, whatever the replacement does. What is compared is listed in `inventory`.

New names are free (libraries load parts of themselves late, students add methods), unless they
hide a builtin in a module or an inherited method in a class. So are names that only show objects.
"""

import builtins
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from operator import attrgetter, getitem, is_not
from types import FunctionType
from typing import Any

import torch

from .inventory import FREE, Inventory, Table

# Kept, as student code may replace the builtins of the same names.
_any, _all, _map = any, all, map
_set_of_type, _set_of_object, _delete_of_type = (
    type.__setattr__, object.__setattr__, type.__delattr__
)  # fmt: skip
_attributes, _issuperset = vars(type)["__dict__"].__get__, frozenset.issuperset
_dynamo = os.path.join(os.path.dirname(torch.__file__), "_dynamo", "")
_builtin_names = frozenset(vars(builtins)) - FREE


class Identities:
    """The process as it is when this is made.

    Some ten thousand comparisons, often: so they are made by C functions, on columns, and only
    where these find a difference it is looked for row by row.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        """Keep the modules that are listed, and `roots`: further objects by name."""
        inventory = Inventory(roots)
        self._tables = tables = inventory.tables
        self._dicts = [t.now for t in tables]
        self._known = [t.known for t in tables]
        self._owners = list(chain.from_iterable(repeat(t.now, len(t.kept)) for t in tables))
        self._keys = list(chain.from_iterable(t.kept for t in tables))
        self._values = list(chain.from_iterable(t.kept.values() for t in tables))
        self._attributes = {
            name: tuple(zip(*rows, strict=True)) for name, rows in inventory.attributes.items()
        }

    def __len__(self) -> int:
        """How many things are compared."""
        return len(self._keys) + sum(len(names) for names, _, _ in self._attributes.values())

    def changes(self) -> list[str]:
        """What is not as it was, by name; it is put back."""
        return [*self._replaced(), *self._added(), *self._altered()]

    def _replaced(self) -> Iterator[str]:
        """Names that stand for something else than before."""
        if _same(_map(getitem, self._owners, self._keys), self._values):
            return
        for table in self._tables:
            for key, value in table.kept.items():
                new = table.now.get(key)
                if new is not value and not _wraps(new, value):
                    _put(table, key, value)
                    yield f"{table.name}.{key}"

    def _added(self) -> Iterator[str]:
        """New names that hide something."""
        if _all(_map(_issuperset, self._known, self._dicts)):
            return
        for table in self._tables:
            for key in _hiding(table):
                _remove(table, key)
                yield f"{table.name}.{key}"

    def _altered(self) -> Iterator[str]:
        """Functions with other code, classes with other bases, and the like."""
        for attribute, (names, things, values) in self._attributes.items():
            get = attrgetter(attribute)
            if _same(_map(get, things), values):
                continue
            for name, thing, value in zip(names, things, values, strict=True):
                if not _same(_map(get, (thing,)), (value,)):
                    put = _set_of_type if isinstance(thing, type) else _set_of_object
                    put(thing, attribute, value)
                    yield f"{name}.{attribute}"


def _same(now: Iterable[object], before: Iterable[object]) -> bool:
    try:
        return not _any(_map(is_not, now, before))
    except (LookupError, ValueError, AttributeError):  # there is nothing any more
        return False


def _wraps(new: object, old: object) -> bool:
    """Whether torch.compile has put a wrapper of its own around a function, as it does once."""
    if type(new) is not FunctionType or not new.__code__.co_filename.startswith(_dynamo):
        return False
    return _any(cell.cell_contents is old for cell in new.__closure__ or ())


def _hiding(table: Table) -> list[Any]:
    new = table.now.keys() - table.known - FREE
    if table.owner is None:
        return [k for k in new & _builtin_names if table.now[k] is not vars(builtins)[k]]
    bases = [_attributes(base) for base in table.owner.__mro__[1:]]
    return [k for k in new if _any(k in names for names in bases) and callable(table.now[k])]


def _put(table: Table, key: Any, value: object) -> None:
    if table.owner is None:
        table.now[key] = value  # type: ignore[index]
    else:
        _set_of_type(table.owner, key, value)


def _remove(table: Table, key: Any) -> None:
    if table.owner is None:
        del table.now[key]  # type: ignore[attr-defined]
    else:
        _delete_of_type(table.owner, key)
