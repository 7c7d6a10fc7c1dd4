"""What happens on a Dask worker: its warm, confined processes, and a run in one of them.

The plugin arrives pickled from the batch, as all that Dask sends: who can reach a scheduler can run
code on its workers. What students wrote is bytes all the way, and runs in a confined process alone.
"""

import asyncio
import contextlib
import json
import queue
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker

from autograder.cluster import versions
from autograder.config import Config, ConfigError
from autograder.grade import Crew, Here, Job
from autograder.sandbox import SandboxMissing, ServerFailed

END_S = 0.1  # between two rounds of ending what runs


class Refused(RuntimeError):
    """This worker must not run submissions of the batch: its address, and why in words."""


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
        self._address = worker.address
        self.refusal = await asyncio.to_thread(self._start, worker)

    async def teardown(self, worker: Any) -> None:
        """End what runs, and the processes."""
        self.refusal = "Its batch has ended, or it has."
        await asyncio.to_thread(self._end.close)

    def _start(self, worker: Any) -> str:
        self._end = contextlib.ExitStack()
        if words := versions.differences(versions.here(), self._versions):
            return words
        try:
            crew = Crew(self._config, worker.state.nthreads, require=True)
        except (ConfigError, SandboxMissing, ServerFailed, OSError) as error:
            return f"{error}"
        scratch = tempfile.TemporaryDirectory(
            dir=worker.local_directory, ignore_cleanup_errors=True
        )
        self._end.enter_context(scratch)
        self._end.callback(crew.close)
        self._end.callback(self._end_jobs, crew)
        self._free: queue.SimpleQueue[Here] = queue.SimpleQueue()
        for pool in crew.slots:
            most = self._config.limits.file_mib
            self._free.put(Here(pool, self._files, Path(scratch.name), most))
        return ""

    def _end_jobs(self, crew: Crew) -> None:
        """End jobs until all places are free."""
        for _ in crew.slots:
            while True:
                with contextlib.suppress(queue.Empty):
                    self._free.get(timeout=END_S)
                    break
                crew.end_jobs()

    def run(self, release: str, job: Job) -> tuple[str, bytes]:
        """Run a job of that release; its outcome as JSON, and the executed notebook.

        Raises:
            Refused: not on this worker, or no longer: a run that was ended from here says nothing
                about the submission.
            RuntimeError: an error of the worker, such as a full disk, with its address.
        """
        self._require(release)
        place = self._free.get()
        try:
            self._require(release)
            ran = place(job)
        except Exception as error:
            self._require(release)
            raise RuntimeError(f"{self._address}: {type(error).__name__}: {error}") from error
        finally:
            self._free.put(place)
        self._require(release)
        return json.dumps(asdict(ran.outcome)), ran.executed

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
        raise Refused(worker.address, "It knows nothing of this batch.")
    return found.run(release, job)


def refusal(plugin: str, dask_worker: Any) -> str:
    """Why a worker must not run submissions, "" if it may; for `Client.run`."""
    found = dask_worker.plugins.get(plugin)
    return found.refusal if isinstance(found, Grading) else "It knows nothing of this batch."
