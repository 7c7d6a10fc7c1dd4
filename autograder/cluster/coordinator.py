"""The side of the batch: connects to the cluster, hands out jobs, takes what comes back."""

import contextlib
import logging
import queue
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, LocalCluster
from pydantic import TypeAdapter

from autograder.cluster import versions
from autograder.cluster.worker import Faulty, Grading, Refused, refusal, run
from autograder.cluster.workers import Workers
from autograder.config import Config, ConfigError
from autograder.grade import Job, Outage, Place, Ran, Release
from autograder.sandbox import CONFINED, Outcome

CONNECT_S = 10.0
LOOK_S = 5.0  # between two looks at whether those that may run a job are still there
REFUSALS = 20  # of a job in a row, before something must be wrong with the cluster
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
        self._count, self._tell, self._ended = config.workers, tell, False
        self._tries = config.cluster.tries
        self._needs = {"GPU": 1.0} if config.device == "cuda" else {}
        with contextlib.ExitStack() as starting:
            if isinstance(cluster, LocalCluster):
                starting.enter_context(cluster)
            self.address = cluster if isinstance(cluster, str) else cluster.scheduler_address
            self._client = starting.enter_context(_connected(self.address, cluster))
            self._plugin = f"{PREFIX}{self._client.id}"
            wait_s = config.cluster.wait_s
            self._workers = Workers(self._client, self.address, self._needs, wait_s)
            starting.callback(self.end_jobs)
            self._begin(Grading(self._plugin, config, (release.version, release.files)))
            self._end = starting.pop_all()
        self.guarantee = (
            f"{CONFINED} They run on {len(self._workers.room())} workers of {self.address}."
        )

    def _begin(self, plugin: Grading) -> None:
        try:
            self._workers.choose()
            self._compare_versions()
            self._remove_left_over()
            self._client.register_plugin(plugin, name=self._plugin)
            self._refuse(self._client.run(refusal, self._plugin))
        except ConfigError:
            raise
        except LookupError as error:
            raise ClusterRefused(f"{error}") from error
        except Exception as error:  # a worker that dies right now, an address of something else
            raise ClusterRefused(
                f"The cluster at {self.address} can't be used, so nothing was graded. "
                f"{type(error).__name__}: {error}"
            ) from error

    def places(self, release: Release, scratch: Path) -> list[Place]:
        """One for each thread of a worker, or each GPU; `scratch` is the workers' own affair."""
        count = self._count or sum(self._workers.room().values())
        return [lambda job: self._run(release.version, job)] * max(1, count)

    def end_jobs(self) -> None:
        """End what runs: the workers end their processes, whatever those do."""
        if not self._ended:
            self._ended = True
            with contextlib.suppress(Exception):  # cluster or workers may be gone
                self._client.unregister_worker_plugin(self._plugin)

    def close(self) -> None:
        """Leave the cluster; end one that runs here."""
        self._end.close()

    def _compare_versions(self) -> None:
        theirs = self._client.run(versions.here, on_error="return")
        try:
            scheduler = self._client.run_on_scheduler(versions.here)
        except Exception as error:  # whatever a process says that lacks the kit, or parts of it
            scheduler = error
        wrong = {worker: _unlike(seen) for worker, seen in theirs.items()}
        self._refuse(wrong, {"the scheduler": _unlike(scheduler)})

    def _refuse(self, workers: Mapping[str, str], others: Mapping[str, str] | None = None) -> None:
        """Refuse the batch for the reasons of each worker that it would use, if there are any."""
        wrong = {who: words for who, words in workers.items() if who in self._workers.room()}
        told = [f"  {who}: {words}" for who, words in {**wrong, **(others or {})}.items() if words]
        if told:
            raise ClusterRefused(
                "\n".join(["These can't take part, so nothing was graded:", *sorted(told)])
                + "\nMake them as it is here, and start them again."
            )

    def _remove_left_over(self) -> None:
        """End the processes of batches that were killed: their clients are gone."""
        for name in self._client.run_on_scheduler(left_over):
            with contextlib.suppress(Exception):  # another batch does so, too
                self._client.unregister_worker_plugin(name)

    def _run(self, release: str, job: Job) -> Ran:
        """Run a job on some worker. The place of a job in `Batch.run`.

        Raises:
            Outage: the cluster is gone, or all its workers are.
            RuntimeError: workers met errors of their own, several times.
        """
        try:
            return self._tried(release, job)
        except Outage:
            raise
        except LookupError as error:
            raise Outage(f"{error}") from error
        except Exception as error:
            gone = isinstance(error, CancelledError | OSError) or self._client.status != "running"
            if gone or self._ended:
                raise Outage(f"The scheduler {self.address} is gone ({error}).") from error
            raise

    def _tried(self, release: str, job: Job) -> Ran:
        """Run it until it has run; on others where workers are faulty, and not for ever."""
        faults: list[tuple[str, str]] = []
        lost = refused = 0
        while len(faults) < self._tries and lost < self._tries:
            workers = self._workers.choose({worker for worker, _ in faults})
            try:
                if result := self._result(release, job, workers):
                    return Ran(OUTCOME.validate_json(result[0]), result[1])
                lost += 1
            except Refused as error:
                refused += 1
                self._leave_out(*error.args, last=refused == REFUSALS)
            except Faulty as error:
                faults.append(error.args)
            except KilledWorker:
                lost = self._tries
        if faults:
            raise RuntimeError("; ".join(f"{worker}: {words}" for worker, words in faults))
        died = "the workers that ran it ended, each time"
        return Ran(Outcome("infrastructure", died, [], 0.0, 0.0, 0.0, 0), b"")

    def _result(self, release: str, job: Job, workers: Collection[str]) -> tuple[str, bytes] | None:
        """What one of these workers gives; None if they all have gone."""
        future: Future[tuple[str, bytes]] = self._client.submit(
            run, self._plugin, release, job, key=f"{PREFIX}{uuid.uuid4()}", pure=False,
            resources=self._needs, workers=[*workers],
        )  # fmt: skip
        try:
            while True:
                with contextlib.suppress(TimeoutError):  # no task of ours raises that
                    return future.result(timeout=LOOK_S)
                if self._ended:
                    raise Outage("It was ended.")
                if not self._workers.room().keys() & workers:
                    return None
        finally:
            future.cancel()

    def _leave_out(self, worker: str, reason: str, *, last: bool) -> None:
        """Give no more work to one that came while the batch runs and doesn't fit, or that goes."""
        if self._ended:
            raise Outage("It was ended.")
        if last:
            raise Outage(f"Too many workers in a row don't fit. The last is {worker}: {reason}")
        if worker not in self._workers.left_out:
            self._workers.left_out.add(worker)
            self._tell(f"The worker {worker} is left out. {reason}")


def left_over(dask_scheduler: Any) -> list[str]:
    """Plugins of batches whose client isn't connected any more; for `Client.run_on_scheduler`."""
    names = [name for name in dask_scheduler.worker_plugins if name.startswith(PREFIX)]
    return [name for name in names if name.removeprefix(PREFIX) not in dask_scheduler.clients]


def local(workers: int) -> LocalCluster:
    """A cluster on this machine, for whoever has its temporary certificate alone.

    Without that, any user of the machine could run code in it.

    Raises:
        ClusterRefused: it doesn't start.
    """
    try:
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, security=True,
            memory_limit=0, silence_logs=logging.ERROR, preload=["autograder.cluster.worker"],
        )  # fmt: skip
    except Exception as error:
        raise ClusterRefused(f"A cluster doesn't start on this machine: {error}") from error


def _connected(address: str, cluster: str | LocalCluster) -> Client:
    """A client; in a thread, as Dask waits for ever for what answers but is no scheduler."""
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # we tell what matters
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GB"})
    answers: queue.SimpleQueue[Client | Exception] = queue.SimpleQueue()

    def connect() -> None:
        try:
            answers.put(Client(cluster, timeout=CONNECT_S))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=connect, daemon=True).start()
    try:
        found = answers.get(timeout=2 * CONNECT_S)
    except queue.Empty:
        found = TimeoutError("what answers there is something else, such as Dask's dashboard")
    if isinstance(found, Exception):
        raise ClusterRefused(
            f"No Dask scheduler answers at {address} ({found}). Start one with: dask scheduler"
        ) from found
    return found


def _unlike(theirs: versions.Versions | Exception) -> str:
    if isinstance(theirs, Exception):
        return f"it has no such kit as here ({theirs}), which is {versions.here()[versions.KIT]}"
    return versions.differences(theirs, versions.here())
