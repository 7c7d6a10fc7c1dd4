"""The process tree of a job: measured, signalled, ended."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

import psutil

from autograder.sandbox.bounds import Bounds, Stop


class Tree:
    """The supervisor process and all that descends from it."""

    def __init__(self, process: "subprocess.Popen[bytes]", bounds: Bounds) -> None:
        """Nobody else may wait for the process from now on."""
        self._process, self._bounds = process, bounds
        self._seen: set[psutil.Process] = set()
        self._code: int | None = None
        self.cpu_s = self.peak_mib = 0.0

    def poll(self) -> int | None:
        """Exit status, or None while it runs; `cpu_s` then counts all descendants."""
        if self._code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self._code

    def send(self, number: signal.Signals) -> None:
        """Signal the supervisor, which is still ours to name until `poll` has reaped it."""
        if self._code is None:
            os.kill(self._process.pid, number)

    def look(self, where: str) -> None:
        """Measure memory and count processes. Raises Stop over the bounds."""
        members = self._members()
        mib = _mib(members, lambda p: p.memory_info().rss)
        most = self._bounds.memory_mib
        if mib > most:  # forks count shared pages again and again: look closely
            mib = _mib(members, _own_memory)
        self.peak_mib = max(self.peak_mib, mib)
        if mib > most:
            raise Stop("died", f"used more than {most} MiB of memory{where}")
        if len(members) > self._bounds.processes + 1:  # the supervisor is ours
            raise Stop("died", f"ran more than {self._bounds.processes} processes{where}")

    def end(self) -> None:
        """End everything and wait for it.

        The supervisor does it properly, as orphans come to it. If it is dead or stopped, all that
        was seen below it and all of its session are killed from here.
        """
        self.send(signal.SIGTERM)
        patience = time.monotonic() + 2
        while self.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)
        while (rest := self._rest()) or self.poll() is None:
            for process in rest:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.005)

    def _members(self) -> list[psutil.Process]:
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            members = [top, *top.children(recursive=True)]
        self._seen = {p for p in self._seen if p.is_running()} | set(members)
        return members

    def _rest(self) -> list[psutil.Process]:
        """What still lives of the tree and of the supervisor's session."""
        if self._code is None:
            self._members()
        session = _session(self._process.pid)
        return [p for p in self._seen | session if _alive(p)]


def _session(leader: int) -> set[psutil.Process]:
    found = set()
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(pid) == leader:
                found.add(psutil.Process(pid))
    return found


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _mib(processes: list[psutil.Process], measure: Callable[[psutil.Process], int]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += measure(process)
    return total / 2**20


def _own_memory(process: psutil.Process) -> int:
    full = process.memory_full_info()
    return int(getattr(full, "pss", full.uss))
