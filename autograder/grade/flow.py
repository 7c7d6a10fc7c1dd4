"""Which submission runs when: as many side by side as there are places, identical ones once."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from autograder.grade.grader import Grader
from autograder.grade.job import Place
from autograder.grade.twins import Twins
from autograder.gradebook import Attempt, Gradebook
from autograder.identity import content_of
from autograder.intake import Submission

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

    def __init__(self, grader: Grader, gradebook: Gradebook, places: Sequence[Place]) -> None:
        """At each of the places one submission runs at a time."""
        self._grader, self._gradebook = grader, gradebook
        self._free = list(places)
        self._threads = ThreadPoolExecutor(len(places))
        self._running: dict[Future[Attempt], tuple[Place, str]] = {}
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
        place = self._free.pop()
        future = self._threads.submit(self._grader.run, submission, place)
        self._running[future] = place, content_of(submission.notebook, submission.checkpoints)

    def _finished(self, todo: deque[Waiting]) -> Iterator[Attempt]:
        """Wait until a run is done, and write its attempt."""
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            place, content = self._running.pop(future)
            self._free.append(place)
            attempt = future.result()
            key = self._gradebook.add(attempt)
            todo.extendleft(self._twins.done(content, attempt.status, key))
            yield attempt

    def end(self, end_jobs: Callable[[], None]) -> None:
        """End what still runs by `end_jobs`, and wait for that. It leaves no trace."""
        while self._running:
            end_jobs()
            for future in wait(self._running, timeout=END_S).done:
                del self._running[future]
        self._threads.shutdown()
