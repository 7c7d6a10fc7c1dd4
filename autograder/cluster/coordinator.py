"""The side of the batch: connects to the cluster, hands out jobs, takes what comes back."""

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker, LocalCluster, wait
from pydantic import TypeAdapter

from autograder.cluster import versions
from autograder.cluster.worker import Grading, Refused, refusal, run
from autograder.config import Config, ConfigError
from autograder.grade import Job, Outage, Place, Ran, Release
from autograder.sandbox import Outcome

CONNECT_S = 10
LOOK_S = 5.0  # between two looks at whether there still are workers
RETRIES = 2  # of a run in which a worker met an error of its own
PREFIX = "autograder-"
OUTCOME = TypeAdapter(Outcome)
Tell = Callable[[str], None]


class ClusterRefused(ConfigError):
    """The cluster can't grade this batch; the message says why, and what to do."""


class Cluster:
    """The workers of a Dask cluster, as those who run the submissions of one batch.

    Attributes:
        guarantee: what may be relied on while they run, in words.
    """

    def __init__(
        self, cluster: "str | LocalCluster", config: Config, release: Release, tell: Tell
    ) -> None:
        """Connect, see whether all workers can do the work, and have them start their processes.

        Args:
            cluster: its scheduler's address, such as "tcp://10.0.0.1:8786", or one that runs here
                and ends with this object.
            config: grading.yml. With the device "cuda" the workers are those that were started with
                `--resources GPU=1`, else all; they run what they get on the CPU.
            release: what will be graded.
            tell: takes what is to be told while the batch runs.

        Raises:
            ClusterRefused: nobody answers, there are no workers, they differ in versions, can't
                confine submissions, or have no GPU although they say so.
        """
        self._config, self._tell = config, tell
        self._needs = {"GPU": 1.0} if config.device == "cuda" else {}
        self._ended = False
        with contextlib.ExitStack() as starting:
            if isinstance(cluster, LocalCluster):
                starting.enter_context(cluster)
            self._client = starting.enter_context(_connected(cluster))
            self.address = self._client.scheduler.address
            self._plugin = f"{PREFIX}{self._client.id}"
            self._wait_for_workers()
            self._compare_versions()
            self._remove_left_over()
            starting.callback(self.end_jobs)
            self._register(release)
            self._end = starting.pop_all()
        self.guarantee = (
            f"Submissions run on {len(self._workers())} workers of {self.address}, confined: no "
            "network, a read-only system, no view of home folders, results or other submissions."
        )

    def places(self, release: Release, scratch: Path) -> list[Place]:
        """One for each thread of a worker, or each GPU; `scratch` is the workers' own affair."""
        count = self._config.workers or sum(self._workers().values())
        return [lambda job: self._run(release.version, job)] * count

    def end_jobs(self) -> None:
        """End what runs: the workers end their processes, whatever those do."""
        if not self._ended:
            self._ended = True
            with contextlib.suppress(OSError, RuntimeError):  # the cluster may be gone
                self._client.unregister_worker_plugin(self._plugin)

    def close(self) -> None:
        """Leave the cluster; end one that runs here."""
        self._end.close()

    def _workers(self) -> dict[str, int]:
        """How many jobs each worker that fits can run side by side, by address."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        room = {
            address: about["resources"].get("GPU", 0) if self._needs else about["nthreads"]
            for address, about in found.items()
        }
        return {address: int(count) for address, count in room.items() if count >= 1}

    def _wait_for_workers(self) -> None:
        patience = time.monotonic() + self._config.cluster.wait_s
        while not self._workers():
            if time.monotonic() > patience:
                raise ClusterRefused(self._lonely())
            all_of_them = self._client.nthreads()  # some may be there that don't fit
            with contextlib.suppress(TimeoutError):
                self._client.wait_for_workers(len(all_of_them) + 1, timeout=1)

    def _lonely(self) -> str:
        kind = "labelled GPU=1 " if self._needs else ""
        return (
            f"No worker {kind}has been at {self.address} for {self._config.cluster.wait_s:g} s. "
            f"Start one: dask worker {self.address}{' --resources GPU=1' if self._needs else ''}"
        )

    def _compare_versions(self) -> None:
        ours, client = versions.here(), self._client
        theirs = client.run(versions.here, on_error="return")
        try:
            theirs["the scheduler"] = client.run_on_scheduler(versions.here)
        except Exception as error:  # whatever a process says that lacks the kit, or parts of it
            theirs["the scheduler"] = error
        _refuse({who: words for who, seen in theirs.items() if (words := _unlike(seen, ours))})

    def _register(self, release: Release) -> None:
        plugin = Grading(self._plugin, self._config, (release.version, release.files))
        self._client.register_plugin(plugin, name=self._plugin)
        reasons, fitting = self._client.run(refusal, self._plugin), self._workers()
        _refuse({worker: words for worker, words in reasons.items() if worker in fitting and words})

    def _remove_left_over(self) -> None:
        """End the processes of batches that were killed: their clients are gone."""
        for name in self._client.run_on_scheduler(left_over):
            self._client.unregister_worker_plugin(name)

    def _run(self, release: str, job: Job) -> Ran:
        """Run a job on some worker. The place of a job in `Batch.run`.

        Raises:
            Outage: the cluster is gone, or all its workers are.
            RuntimeError: workers met errors of their own, several times.
        """
        while True:
            try:
                outcome, executed = self._result(release, job)
                return Ran(OUTCOME.validate_json(outcome), executed)
            except Refused as error:
                self._leave_out(*error.args)
            except KilledWorker as error:
                died = f"The workers that ran it ended, {error.allowed_failures + 1} times"
                return Ran(Outcome("infrastructure", died, [], 0.0, 0.0, 0.0, 0), b"")
            except (CancelledError, OSError) as error:
                raise Outage(f"The scheduler {self.address} is gone ({error}).") from error

    def _result(self, release: str, job: Job) -> tuple[str, bytes]:
        future = self._client.submit(
            run, self._plugin, release, job, key=f"{PREFIX}{uuid.uuid4()}", pure=False,
            resources=self._needs, retries=RETRIES,
        )  # fmt: skip
        try:
            self._await(future)
            result: tuple[str, bytes] = future.result()
            return result
        finally:
            future.release()

    def _await(self, future: "Future[Any]") -> None:
        """Wait as long as there is a worker that may run it."""
        seen = time.monotonic()
        while not future.done():
            with contextlib.suppress(TimeoutError):
                wait([future], timeout=LOOK_S)
            if self._ended:
                raise Outage("It was ended.")
            now = time.monotonic()
            if self._workers():
                seen = now
            elif now - seen > self._config.cluster.wait_s:
                raise Outage(self._lonely())

    def _leave_out(self, worker: str, reason: str) -> None:
        """Retire a worker that came while the batch runs, and doesn't fit."""
        if self._ended:
            raise Outage("It was ended.")
        self._tell(f"The worker {worker} is left out. {reason}")
        self._client.retire_workers([worker])


def left_over(dask_scheduler: Any) -> list[str]:
    """Plugins of batches whose client isn't connected any more; for `Client.run_on_scheduler`."""
    names = [name for name in dask_scheduler.worker_plugins if name.startswith(PREFIX)]
    return [name for name in names if name.removeprefix(PREFIX) not in dask_scheduler.clients]


def local(workers: int) -> LocalCluster:
    """A cluster on this machine, for whoever has its temporary certificate alone.

    Without that, any user of the machine could run code in it.
    """
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None, security=True,
        memory_limit=0, silence_logs=logging.ERROR,
    )  # fmt: skip


def _connected(cluster: str | LocalCluster) -> "Client":
    where = cluster if isinstance(cluster, str) else cluster.scheduler_address
    try:
        return Client(cluster, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise ClusterRefused(
            f"No Dask scheduler answers at {where} ({error}). Start one with: dask scheduler"
        ) from error


def _unlike(theirs: versions.Versions | Exception, ours: versions.Versions) -> str:
    if isinstance(theirs, Exception):
        return f"it has no such kit as here ({theirs}), which is {ours['kit']}"
    return versions.differences(theirs, ours)


def _refuse(reasons: Mapping[str, str]) -> None:
    """Refuse the batch for the reasons of each worker, if there are any."""
    if reasons:
        told = "\n".join(f"  {who}: {words}" for who, words in sorted(reasons.items()))
        raise ClusterRefused(
            f"These can't take part, so nothing was graded:\n{told}\n"
            "Install there what is here, and start them again."
        )
