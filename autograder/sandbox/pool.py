"""Servers for several jobs at once, and what may be relied on while they run."""

import queue
from collections.abc import Callable, Mapping
from pathlib import Path

from autograder.sandbox.bounds import Bounds
from autograder.sandbox.client import Client
from autograder.sandbox.protocol import Event
from autograder.sandbox.start import Plan
from autograder.sandbox.watch import Outcome, run

CONFINED = (
    "Submissions are confined: no network, a read-only system, no view of home folders, results or "
    "other submissions."
)
OPEN = (
    "Submissions are NOT confined. They run as you: they can read, change and send what you can. "
    "Only time, memory, processes and output are limited. Reason: {reason}."
)
REQUIRED = (
    "Submissions can't be confined on this machine: {reason}. That needs Linux 5.12, and root or "
    "unprivileged user namespaces. Grade on another machine, or without --require-sandbox."
)


class SandboxMissing(RuntimeError):
    """Confinement is required and can't be had; the message says why.

    Attributes:
        reason: the same in short.
    """

    def __init__(self, reason: str) -> None:
        """The message tells what to do."""
        super().__init__(REQUIRED.format(reason=reason))
        self.reason = reason


class Pool:
    """Runs jobs, at most `workers` at once; `run` may be called from any number of threads.

    Where jobs can be confined, each of the servers imports everything once and forks a child for
    every job. Where they can't, a server would not be safe after its first job, so each job gets a
    new one.

    Attributes:
        confined: whether jobs are confined.
        guarantee: what may be relied on, in a sentence for the user.
    """

    def __init__(
        self,
        bounds: Bounds,
        workers: int,
        env: Mapping[str, str],
        *,
        require: bool = False,
        cuda: bool = False,
    ) -> None:
        """Start the first server, to see whether jobs can be confined.

        Args:
            bounds: the limits of each job.
            workers: jobs at the same time.
            env: variables that jobs get beside the built ones.
            require: refuse to run jobs that aren't confined.
            cuda: show jobs the GPUs.

        Raises:
            SandboxMissing: jobs can't be confined, and have to be.
            ServerFailed: the server doesn't start.
        """
        self._plan, self._workers = Plan(bounds, env, cuda), workers
        self._idle: queue.SimpleQueue[Client | None] = queue.SimpleQueue()
        first = Client(self._plan, confined=True)
        reason = first.refusal
        self.confined = reason is None
        self.guarantee = CONFINED if self.confined else OPEN.format(reason=reason)
        if not self.confined:
            first.close()
            if require:
                raise SandboxMissing(str(reason))
        self._running = {first} if self.confined else set()
        for client in (first if self.confined else None, *[None] * (workers - 1)):
            self._idle.put(client)

    def run(self, job: Path, on_event: Callable[[Event], None]) -> Outcome:
        """Run a job (see worker/__main__.py) until it ends or has to; waits for a free worker.

        What `on_event` raises, and KeyboardInterrupt, end the job first and are raised then. Where
        jobs aren't confined, keep the folder's path below some 60 characters: sockets that
        PyTorch's data loaders open in its tmp folder can't have a long name.

        Args:
            job: the job folder. Files that cells may read by a relative path go to its work folder
                beforehand. worker.log and executed.ipynb appear in it; without confinement home,
                tmp and work too, and all that is in it may be the student's doing, links and pipes
                included.
            on_event: called with each event as it comes, in this thread.

        Raises:
            ServerFailed: a server is needed and doesn't start.
        """
        client = self._idle.get()
        try:
            client = client or self._start()
            return run(client, job.resolve(), self._plan.bounds, on_event)
        finally:
            if client and client.single_use:
                self._close(client)
                client = None
            self._idle.put(client)

    def end_jobs(self) -> None:
        """End the servers that run now, and their jobs; a job that is just starting stays."""
        for client in self._running.copy():
            client.end()

    def close(self) -> None:
        """End the servers, once the jobs that run have ended."""
        for _ in range(self._workers):
            if client := self._idle.get():
                self._close(client)

    def _start(self) -> Client:
        client = Client(self._plan, confined=self.confined)
        self._running.add(client)
        return client

    def _close(self, client: Client) -> None:
        client.close()
        self._running.discard(client)

    def __enter__(self) -> "Pool":
        """The pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
