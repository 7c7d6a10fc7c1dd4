"""The worker's side of the event pipe."""

import contextlib
import fcntl
import os
import resource
from json import dumps
from os import write

from .limit import TimeLimit


class Events:
    """Writes events to the grader; silent in processes that student code forks."""

    def __init__(self, descriptor: int, limit: TimeLimit) -> None:
        """Move the descriptor out of the way of code that closes or inherits low numbers."""
        top = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1024) - 8
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, top)
        os.close(descriptor)
        self._limit, self._owner = limit, os.getpid()
        os.register_at_fork(after_in_child=self._close)

    def send(self, event: str, **fields: object) -> None:
        """Write one event. Raises ValueError or TypeError for what JSON can't hold."""
        if self.forked():
            return
        text = dumps({"event": event, **fields}, allow_nan=False)
        line = memoryview(text.encode("ascii") + b"\n")
        with self._limit.held():
            while line:
                line = line[write(self._descriptor, line) :]

    def forked(self) -> bool:
        """Whether this process is a copy that student code made by os.fork()."""
        return os.getpid() != self._owner

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
