"""Identical notebooks of one batch: one of them runs, the others wait and share its result.

Only a result that is final is shared. Whether a run dies, reaches a limit or meets a fault may be
chance, so after such a run each of the others runs by itself.
"""

from typing import Generic, TypeVar

from autograder.judge import AttemptStatus

T = TypeVar("T")


class Twins(Generic[T]):
    """What is known of each content, a hash of the code that runs."""

    def __init__(self) -> None:
        """Nothing has run yet."""
        self._finished: dict[str, int] = {}
        self._waiting: dict[str, list[T]] = {}
        self._alone: set[str] = set()

    def finished(self, content: str) -> int | None:
        """Id in the gradebook of the attempt to share, if there is one."""
        return self._finished.get(content)

    def must_wait(self, content: str, entry: T) -> bool:
        """Whether the same content runs now; `entry` is then given back when that is done."""
        if content in self._alone:
            return False
        if content in self._waiting:
            self._waiting[content].append(entry)
            return True
        self._waiting[content] = []
        return False

    def done(self, content: str, status: AttemptStatus, key: int) -> list[T]:
        """Take the result of a run; returns those that waited for it."""
        if status == "graded":
            self._finished[content] = key
        else:
            self._alone.add(content)
        return self._waiting.pop(content, [])
