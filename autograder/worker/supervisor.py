"""Two processes: a supervisor that runs nothing of the student's, and its child, which does.

The supervisor outlives the child and ends all of its descendants.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .process import work

WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
PDEATHSIG, CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the supervisor, fork the worker, end as it ended."""
    job, descriptor = Path(arguments[0]).resolve(), int(arguments[1])
    file_mib, tasks = int(arguments[2]), int(arguments[3])
    with contextlib.suppress(PermissionError):  # the grader has done it already
        os.setsid()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # or some systems drop it instead of waiting
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    _prctl(CHILD_SUBREAPER, 1)
    _prctl(PDEATHSIG, signal.SIGTERM)
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_FSIZE, file_mib << 20)
    if tasks:
        _bound(resource.RLIMIT_NPROC, tasks)
    child = os.fork()
    if child == 0:
        _prctl(PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)  # so that os.killpg(0, ...) in a cell spares the supervisor
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work(job, descriptor, WATCHED)
    os.close(descriptor)
    os._exit(supervise(child))


def supervise(child: int) -> int:
    """Wait for the worker; return its exit status once nothing of its tree is left.

    Passes SIGINT on; SIGTERM ends the worker.
    """
    code = None
    while code is None:
        number = signal.sigwait(WATCHED)
        if number == signal.SIGCHLD:
            code = _reap().get(child)
        else:
            os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGKILL)
    _end_descendants(child)
    return code if code >= 0 else 128 - code


def _reap() -> dict[int, int]:
    """Exit status of each child that has ended since the last call."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def _end_descendants(child: int) -> None:
    """Kill until the system says that no child is left; orphans come to us as the subreaper."""
    while True:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.001)


def _descendants() -> set[int]:
    """All processes below this one; none where there is no /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text("latin-1").rpartition(")")[2].split()
            parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    while new := {p for p, up in parents.items() if up in found | {os.getpid()}} - found:
        found |= new
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _bound(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
