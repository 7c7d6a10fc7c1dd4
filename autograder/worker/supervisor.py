"""Processes that run nothing of the student's, and see to it that nothing is left of the job.

One outside of the job's world and, where there is one, one that is the first process inside: when
that ends, the system ends all others inside. Both outlive the child that runs student code.
"""

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import linux
from .confinement import World, bound, enter, seal
from .process import work

WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM}


@dataclass(frozen=True)
class Settings:
    """What holds for every job; `world` is None for one that isn't confined.

    `seconds` is a second alarm clock, beside the grader's own, for the whole job. `tasks` bounds
    the processes and threads of a user who isn't confined, 0 for no bound.
    """

    base: str
    seconds: int
    file_mib: int
    open_files: int
    tasks: int
    world: World | None


def probe(settings: Settings) -> str | None:
    """Why jobs can't be confined here, or None if they can: it is tried."""
    assert settings.world
    if sys.platform != "linux":
        return "this is not Linux"
    folder = Path(tempfile.mkdtemp())
    (folder / "work").mkdir()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _try_world(folder, settings.base, settings.world, tell)
    os.close(tell)
    with os.fdopen(told) as pipe:
        reason = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(folder, ignore_errors=True)
    return (reason or f"exit status {code}") if code else None


def _try_world(folder: Path, base: str, world: World, tell: int) -> NoReturn:
    try:
        enter(folder, Path(base), world)
        child = os.fork()
        if child == 0:
            seal(Path(base), world)
            os.listdir(Path(os.__file__).parent)  # Python must be there for the job's user too
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    except BaseException as error:
        os.write(tell, str(error).encode())
        os._exit(1)


def supervise_job(job: Path, events: int, settings: Settings) -> NoReturn:
    """Become the job's supervisor, fork what is below, end as the worker ended."""
    linux.prctl(linux.CHILD_SUBREAPER, 1)
    linux.prctl(linux.PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # or some systems drop it instead of waiting
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    signal.alarm(settings.seconds)
    bound(resource.RLIMIT_CORE, 0)
    bound(resource.RLIMIT_CPU, settings.seconds)
    bound(resource.RLIMIT_FSIZE, settings.file_mib << 20)
    bound(resource.RLIMIT_NOFILE, settings.open_files)
    if settings.tasks:
        bound(resource.RLIMIT_NPROC, settings.tasks)
    if settings.world:
        enter(job, Path(settings.base), settings.world)
        _follow(_first_inside, events, job, settings)
    _follow(_worker, events, job, settings)


def _first_inside(_: Path, events: int, settings: Settings) -> NoReturn:
    assert settings.world
    job = seal(Path(settings.base), settings.world)
    linux.prctl(linux.PDEATHSIG, signal.SIGKILL)  # again: giving up root has cleared it
    linux.prctl(linux.DUMPABLE, 0)  # so that student code can't reach into this process
    _follow(_worker, events, job, settings)


def _worker(job: Path, events: int, _: Settings) -> NoReturn:
    linux.prctl(linux.DUMPABLE, 1)
    os.setpgid(0, 0)  # so that os.killpg(0, ...) in a cell spares the supervisor
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    work(job, events, WATCHED)


def _follow(
    action: Callable[[Path, int, Settings], NoReturn], events: int, job: Path, settings: Settings
) -> NoReturn:
    """Fork a child for the action, supervise it, end as it ended."""
    child = os.fork()
    if child == 0:
        linux.prctl(linux.PDEATHSIG, signal.SIGKILL)
        action(job, events, settings)
    os.close(events)
    os._exit(supervise(child))


def supervise(child: int) -> int:
    """Wait for the child; return its exit status once nothing of its tree is left.

    Passes SIGINT on; SIGTERM and SIGALRM end the child.
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
