"""Stand-ins for what isn't there while grading: commands, a keyboard, google.colab."""

import importlib.abc
import linecache
import sys
import types
from importlib.machinery import ModuleSpec
from typing import NoReturn


def not_run(what: str) -> None:
    """Note in the cell's output that `what` was left out."""
    print(f"not run while grading: {what}")


def no_input(*_: object, **__: object) -> NoReturn:
    """Stand in for input(), which nobody would answer."""
    frame = sys._getframe(1)
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    raise RuntimeError(f"input() can't be answered while grading (line {frame.f_lineno}: {line})")


class Colab(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for google.colab where it isn't installed: mounting a drive does nothing.

    A finder and not an entry of sys.modules, because notebooks look there to see where they run.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """A spec for google, google.colab and what is below it."""
        if name in ("google", "google.colab") or name.startswith("google.colab."):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """A module whose every attribute can be called."""
        return _Harmless(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class _Harmless(types.ModuleType):
    def __getattr__(self, name: str) -> "_Harmless":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Harmless(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> None:
        not_run(f"{self.__name__}()")
