"""Places where code can hook itself into what runs later: they must be as they were.

What can be taken out is taken out. A student's thread can't be ended.
"""

import gc
import os
import signal
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.utils._device import DeviceContext

PATIENCE_S = 0.5  # for a thread that is about to end
COMPUTING = {"CPU", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA", "AutocastCPU",
             "CompositeImplicitAutograd", "CompositeExplicitAutograd"}  # fmt: skip
TOOLS = ("bdb", "pdb", "IPython", "cProfile", "_lsprof")  # a debugger, a forgotten profiler
# Kept, as student code may replace them.
_tracing = ((sys.gettrace, sys.settrace, "sys.settrace"),
            (sys.getprofile, sys.setprofile, "sys.setprofile"))  # fmt: skip
_monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
_frames, _threads, _timer = sys._current_frames, threading.enumerate, signal.getitimer
_functions = (torch._C._len_torch_function_stack, torch._C._pop_torch_function_stack,
              torch._C._push_on_torch_function_stack)  # fmt: skip
_dispatch = (torch._C._len_torch_dispatch_stack,
             partial(torch._C._pop_torch_dispatch_stack, None),
             torch._C._push_on_torch_dispatch_stack)  # fmt: skip
_saved, _pop_saved = (torch._C._autograd._top_saved_tensors_default_hooks,
                      torch._C._autograd._pop_saved_tensors_default_hooks)  # fmt: skip
_hooks = {name: value for name, value in vars(modules).items()
          if name.startswith("_global_") and isinstance(value, dict)}  # fmt: skip


class Hooks:
    """The hooks of the process as they are when this is made."""

    def __init__(self) -> None:
        """Keep what is there now."""
        self._seen = {id(thread): thread for thread in _threads()}
        self._collecting = list(gc.callbacks)
        self._implementations = set(torch.library._impls)
        prefixes = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
        prefixes |= {os.path.dirname(torch.__path__[0]), os.path.dirname(__file__)}
        self._installed = ("<frozen ", *prefixes)

    def changes(self) -> list[str]:
        """What is not as it was, in words; it is taken out where that is possible."""
        found = (_traces(), _modes(_functions, "function"), _modes(_dispatch, "dispatch"),
                 _module_hooks(), _saved_tensors(), self._operators(), self._collections(),
                 _imports(), _timers(), self._running())  # fmt: skip
        return [words for part in found for words in part]

    def _operators(self) -> Iterator[str]:
        new = torch.library._impls - self._implementations
        self._implementations |= new
        for name in sorted(new):
            if name.startswith("aten/") and name.rpartition("/")[2] in COMPUTING:
                yield f"PyTorch's operator {name}"

    def _collections(self) -> Iterator[str]:
        for callback in [c for c in gc.callbacks if c not in self._collecting]:
            gc.callbacks.remove(callback)
            yield "gc.callbacks"

    def _running(self) -> Iterator[str]:
        """Threads in which code runs that is neither Python's nor of an installed package."""
        new = [t for t in _threads() if id(t) not in self._seen]
        for thread in [t for t in new if self._is_students(t)]:
            self._seen[id(thread)] = thread
            thread.join(PATIENCE_S)
            if thread.is_alive():
                yield f"a thread that still runs ({str(thread.name)[:40]})"

    def _is_students(self, thread: threading.Thread) -> bool:
        frame: types.FrameType | None = _frames().get(thread.ident or 0)
        while frame is not None:
            if not frame.f_code.co_filename.startswith(self._installed):
                return True
            frame = frame.f_back
        return False


def _traces() -> Iterator[str]:
    for get, put, name in _tracing:
        if (function := get()) is not None:
            put(None)
            owner = type(getattr(function, "__self__", function))
            if not any(base.__module__.startswith(TOOLS) for base in owner.__mro__):
                yield name
    for number in range(6) if _monitoring else ():
        if tool := _monitoring.get_tool(number):
            _monitoring.free_tool_id(number)
            yield f"sys.monitoring ({tool})"


def _modes(stack: tuple[Callable[..., Any], ...], kind: str) -> Iterator[str]:
    """Modes of PyTorch that see every operation; a default device is one too, and welcome."""
    size, pop, push = stack
    found = [pop() for _ in range(size())]
    for mode in reversed(found):
        if type(mode) is DeviceContext:
            push(mode)
    yield from (f"a torch {kind} mode" for mode in found if type(mode) is not DeviceContext)


def _module_hooks() -> Iterator[str]:
    for name, hooks in _hooks.items():
        if hooks:
            hooks.clear()
            yield f"torch.nn.modules.module.{name}"


def _saved_tensors() -> Iterator[str]:
    """Hooks on what a backward pass will read; PyTorch's own only move it."""
    while hooks := _saved(True):
        _pop_saved()
        if not hooks[0].__module__.startswith("torch."):
            yield "torch.autograd.graph.saved_tensors_hooks"


def _imports() -> Iterator[str]:
    for finder in list(sys.meta_path):
        kind = finder if isinstance(finder, type) else type(finder)
        if kind.__module__ == "__main__":
            sys.meta_path.remove(finder)
            yield "sys.meta_path"


def _timers() -> Iterator[str]:
    if _timer(signal.ITIMER_REAL)[0] and callable(signal.getsignal(signal.SIGALRM)):
        signal.setitimer(signal.ITIMER_REAL, 0)
        yield "signal.setitimer"
