"""The time limit of a cell, as seen from inside."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator


class TimeLimitReached(KeyboardInterrupt):
    """Ends student code as an interrupt in a notebook does, so that few handlers catch it."""

    __module__ = "builtins"  # tracebacks that students read then show the plain name


class TimeLimit:
    """SIGINT ends student code that is over its time, and nothing else.

    The grader's SIGINT may come when the cell that it is meant for has just ended; so it counts
    only if what runs now has run for `cell_s` seconds.
    """

    def __init__(self, cell_s: float) -> None:
        """Nothing runs yet."""
        self._cell_s, self._since = cell_s, float("inf")
        self._held = self._late = False

    def install(self) -> None:
        """Handle SIGINT, also after a cell has changed that."""
        signal.signal(signal.SIGINT, self._interrupt)

    def run(self, action: Callable[[], BaseException | None]) -> BaseException | None:
        """Run student code; returns the exception that it returned or raised."""
        try:
            self._since = time.monotonic()
            return action()
        except BaseException as error:
            return error
        finally:
            self._since = float("inf")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let an interrupt wait until the block is done."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            late, self._late = self._late, False
        if late:
            self._interrupt()

    def _interrupt(self, *_: object) -> None:
        if time.monotonic() - self._since < self._cell_s:
            return
        if self._held:
            self._late = True
            return
        raise TimeLimitReached(f"stopped after {self._cell_s:g} s, the time limit of a cell")
