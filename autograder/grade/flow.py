"""Which submission runs when: as many side by side as there are slots, identical ones once."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from autograder.grade.devices import Crew
from autograder.grade.grader import Grader
from autograder.grade.twins import Twins
from autograder.gradebook import Attempt, Gradebook
from autograder.identity import content_of
from autograder.intake import Submission
from autograder.sandbox import Pool

END_S = 0.1  # between two rounds of ending what runs


@dataclass(frozen=True)
class Waiting:
    """A file that was handed in and is not graded yet; `read` opens it when its turn comes."""

    student: str
    sha256: str
    read: Callable[[], Submission]


class Flow:
    """Runs submissions in threads that only wait; all else happens in the calling thread.

    One submission more than can run is read, so memory doesn't grow with the number of them.
    """

    def __init__(self, grader: Grader, gradebook: Gradebook, scratch: Path, crew: Crew) -> None:
        """Job folders are made in `scratch`."""
        self._grader, self._gradebook = grader, gradebook
        self._scratch, self._crew = scratch, crew
        self._free = list(crew.slots)
        self._threads = ThreadPoolExecutor(len(crew.slots))
        self._running: dict[Future[Attempt], tuple[Pool, str]] = {}
        self._twins: Twins[Waiting] = Twins()

    def attempts(self, todo: deque[Waiting], stopped: Callable[[], bool]) -> Iterator[Attempt]:
        """Each attempt, when it is in the gradebook; `todo` loses what was begun.

        When `stopped`, nothing more is begun, and what runs is waited for.
        """
        ready: Submission | Attempt | None = None
        while True:
            ready = ready or (None if stopped() else self._next(todo))
            if isinstance(ready, Attempt):
                self._gradebook.add(ready)
                yield ready
                ready = None
            elif ready and self._free and not stopped():
                self._start(ready)
                ready = None
            elif self._running:
                yield from self._finished(todo)
            else:
                return

    def _next(self, todo: deque[Waiting]) -> Submission | Attempt | None:
        """What has to run next, or an attempt that needs no run; None when all others wait."""
        while todo:
            waiting = todo.popleft()
            submission = waiting.read()
            if submission.notebook is None:
                return self._grader.invalid(submission)
            content = content_of(submission.notebook, submission.checkpoints)
            if key := self._twins.finished(content):
                return self._grader.shared(submission, self._gradebook.attempt(key))
            if not self._twins.must_wait(content, waiting):
                return submission
        return None

    def _start(self, submission: Submission) -> None:
        slot = self._free.pop()
        future = self._threads.submit(self._grader.run, submission, self._scratch, slot)
        self._running[future] = slot, content_of(submission.notebook, submission.checkpoints)

    def _finished(self, todo: deque[Waiting]) -> Iterator[Attempt]:
        """Wait until a run is done, and write its attempt."""
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            slot, content = self._running.pop(future)
            self._free.append(slot)
            attempt = future.result()
            key = self._gradebook.add(attempt)
            todo.extendleft(self._twins.done(content, attempt.status, key))
            yield attempt

    def end(self) -> None:
        """End what still runs, with all its processes, and wait for that. It leaves no trace."""
        while self._running:
            self._crew.end_jobs()
            for future in wait(self._running, timeout=END_S).done:
                del self._running[future]
        self._threads.shutdown()
