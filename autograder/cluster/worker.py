"""What happens on a Dask worker: its warm, confined processes, and a run in one of them.

The plugin arrives pickled from the batch, as all that Dask sends: who can reach a scheduler can run
code on its workers. What students wrote is bytes all the way, and runs in a confined process alone.
"""

import asyncio
import contextlib
import json
import queue
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from autograder.cluster import versions
from autograder.config import Config
from autograder.grade import Crew, Here, Job
from autograder.sandbox import SandboxMissing

WAIT_S = 0.1  # between two looks at whether a place is free, or at what has to end
UNKNOWN = "It knows nothing of this batch."


class Refused(RuntimeError):
    """This worker must not run submissions of the batch: its address, and why in words."""


class Faulty(RuntimeError):
    """This worker met an error of its own, such as a full disk: its address, and which."""


class Grading(WorkerPlugin):
    """The processes on one worker that run a batch's submissions: one for each of its threads.

    Attributes:
        name: of the plugin, a different one for each batch.
        release: the version of the release whose files it holds.
        refusal: why it must not run any, "" if it may.
    """

    def __init__(self, name: str, config: Config, release: tuple[str, Mapping[str, bytes]]) -> None:
        """Made where the batch is.

        Args:
            name: see above.
            config: grading.yml with the device to use.
            release: its version, and the files that a run has beside it.
        """
        self.name, self._config = name, config
        self.release, self._files = release
        self._versions = versions.here()
        self.refusal = "It has not started."

    async def setup(self, worker: Any) -> None:
        """Start the processes; what goes wrong is kept as the refusal.

        Dask would only log an error here, and give the worker work all the same.
        """
        self._address, self._end = worker.address, contextlib.ExitStack()
        self._free: queue.SimpleQueue[Here] = queue.SimpleQueue()
        self._one_at_a_time = asyncio.Lock()
        async with self._one_at_a_time:
            self.refusal = await asyncio.to_thread(self._start, worker)

    async def teardown(self, worker: Any) -> None:
        """End what runs, and the processes; waits for those that are just starting."""
        async with self._one_at_a_time:
            self.refusal = "It is closing."
            await asyncio.to_thread(self._end.close)

    def _start(self, worker: Any) -> str:
        if words := versions.differences(versions.here(), self._versions):
            return words
        if self._config.device == "cuda" and not worker.state.total_resources.get("GPU"):
            return "It has no resource GPU."
        try:
            crew = Crew(self._config, worker.state.nthreads, require=True)
        except SandboxMissing as error:
            return f"It can't confine submissions: {error.reason}."
        except Exception as error:  # whatever it is, this worker can't
            return f"Its processes don't start. {error}"
        self._end.callback(crew.close)
        scratch = self._end.enter_context(
            tempfile.TemporaryDirectory(dir=worker.local_directory, ignore_cleanup_errors=True)
        )
        self._end.callback(self._end_jobs, crew)
        for pool in crew.slots:
            most = self._config.limits.file_mib
            self._free.put(Here(pool, self._files, Path(scratch), most))
        return ""

    def _end_jobs(self, crew: Crew) -> None:
        """End jobs until all places are free."""
        for _ in crew.slots:
            while True:
                with contextlib.suppress(queue.Empty):
                    self._free.get(timeout=WAIT_S)
                    break
                crew.end_jobs()

    def run(self, release: str, job: Job) -> tuple[str, bytes]:
        """Run a job of that release; its outcome as JSON, and the executed notebook.

        Raises:
            Refused: not on this worker, or no longer: a run that was ended from here says nothing
                about the submission.
            Faulty: an error of the worker.
        """
        place = self._place(release)
        try:
            ran = place(job)
        except Exception as error:
            self._require(release)
            raise Faulty(self._address, f"{type(error).__name__}: {error}") from None
        finally:
            self._free.put(place)
        self._require(release)
        if ran.outcome.ended == "infrastructure":
            raise Faulty(self._address, ran.outcome.reason)
        return json.dumps(asdict(ran.outcome)), ran.executed

    def _place(self, release: str) -> Here:
        """A free place, waited for: there may be fewer than threads, one for each GPU."""
        while True:
            self._require(release)
            with contextlib.suppress(queue.Empty):
                return self._free.get(timeout=WAIT_S)

    def _require(self, release: str) -> None:
        words = self.refusal
        if not words and release != self.release:
            words = f"It holds release {self.release}, not {release}."
        if words:
            raise Refused(self._address, words)


def run(plugin: str, release: str, job: Job) -> tuple[str, bytes]:
    """The task: run a job on the worker that this is called on; see `Grading.run`."""
    worker = get_worker()
    found = worker.plugins.get(plugin)
    if not isinstance(found, Grading):
        raise Refused(worker.address, UNKNOWN)
    return found.run(release, job)


def refusal(plugin: str, dask_worker: Any) -> str:
    """Why a worker must not run submissions, "" if it may; for `Client.run`."""
    found = dask_worker.plugins.get(plugin)
    return found.refusal if isinstance(found, Grading) else UNKNOWN


def dask_setup(_: Any) -> None:
    """Leave Ctrl-C to the batch; for workers that it has started itself, in its own terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
