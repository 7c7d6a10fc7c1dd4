"""The process tree of a job: measured, interrupted, ended."""

import contextlib
import os
import signal
import time
from collections.abc import Callable

import psutil

from autograder.sandbox.bounds import Bounds, Stop
from autograder.sandbox.client import Client

PATIENCE_S = 5.0  # for the supervisors to end the job


class Tree:
    """A job's supervisors and all that descends from them: what is below the server."""

    def __init__(self, client: Client, bounds: Bounds) -> None:
        """The job has been given to the server, or will be."""
        self._client, self._bounds = client, bounds
        self._seen: set[psutil.Process] = set()
        self.code: int | None = None  # exit status, None while it runs
        self.lost = False  # ended from outside: a confined job can't reach its server
        self.cpu_s = self.peak_mib = 0.0

    def receive(self, wait_s: float = 0.0) -> None:
        """Take the server's message that the job has ended, if it comes in time."""
        if message := self._client.receive(wait_s):
            self.code, self.cpu_s = message["code"], message["cpu_s"]
            self.peak_mib = max(self.peak_mib, message["peak_mib"])
            self.lost = self._client.confined and "gone" in message

    def interrupt(self) -> None:
        """Interrupt what runs."""
        self._client.command("interrupt")

    def look(self, where: str) -> None:
        """Measure memory and count processes. Raises Stop over the bounds."""
        members = self._members()[self._client.supervisors :]
        mib = _mib(members, lambda p: p.memory_info().rss)
        most = self._bounds.memory_mib
        if mib > most:  # forks count shared pages again and again: look closely
            mib = _mib(members, _own_memory)
        self.peak_mib = max(self.peak_mib, mib)
        if mib > most:
            raise Stop("died", f"used more than {most} MiB of memory{where}")
        if len(members) > self._bounds.processes:
            raise Stop("died", f"ran more than {self._bounds.processes} processes{where}")

    def end(self) -> None:
        """End everything and wait for it.

        The supervisors do it properly. If they don't, and where a job isn't confined, all that was
        seen below the server and all of its session are killed from here.
        """
        if self.code is None:
            self._client.command("end")
        patience = time.monotonic() + PATIENCE_S
        while self.code is None and (left := patience - time.monotonic()) > 0:
            self.receive(left)
        if self.code is not None and not self._client.single_use:
            return
        self._members()
        self._client.close()
        if self.code is None:
            self.code = -signal.SIGKILL
        while rest := [p for p in self._seen | _session(self._client.pid) if _alive(p)]:
            for process in rest:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.005)

    def _members(self) -> list[psutil.Process]:
        """Supervisors first, as psutil walks down from the server."""
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            members = psutil.Process(self._client.pid).children(recursive=True)
        self._seen = {p for p in self._seen if p.is_running()} | set(members)
        return members


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
    try:
        full = process.memory_full_info()
    except psutil.AccessDenied:  # a process may forbid it
        return int(process.memory_info().rss)
    return int(getattr(full, "pss", full.uss))
