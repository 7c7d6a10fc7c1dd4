"""What a Dask cluster adds to a submission, beside the local pool, and what follows for many."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from autograder import cluster
from autograder.grade import Batch, Crew
from autograder.grade.batch import Workforce
from bench.graders import warmed
from bench.samples import Sample

WORKERS = 2
MANY, FLEET = 10_000, 50  # submissions and workers of the projection


@dataclass(frozen=True)
class Costs:
    """Seconds a submission of a batch with two workers, and of its start.

    Attributes:
        wall_s: of all.
        own_s: CPU time of the batch's own process: intake, judging, gradebook, talk to workers.
        start_s: until the first submission can run.
    """

    wall_s: float
    own_s: float
    start_s: float


@dataclass(frozen=True)
class Overhead:
    """The local pool and a cluster of as many workers on the same machine, same submissions."""

    pool: Costs
    cluster: Costs

    @property
    def task_s(self) -> float:
        """How much longer a worker is busy with a submission."""
        return (self.cluster.wall_s - self.pool.wall_s) * WORKERS

    def __str__(self) -> str:
        """Two sentences."""
        pool, there = self.pool, self.cluster
        return (
            f"{WORKERS} workers: the local pool takes {pool.wall_s:.2f} s each after "
            f"{pool.start_s:.0f} s of start, a Dask cluster on the same machine "
            f"{there.wall_s:.2f} s each after {there.start_s:.0f} s "
            f"({pool.wall_s / there.wall_s:.0%} of the throughput): {self.task_s:.2f} s of a "
            f"worker more for each. The process of the batch needs {there.own_s:.3f} CPU s each, "
            f"{pool.own_s:.3f} with the pool."
        )

    def projected_s(self, run_s: float) -> float:
        """Wall time of `MANY` submissions that take a worker so long, on `FLEET` workers.

        Either the workers are the limit, or the one process that hands out and judges.
        """
        return MANY * max((run_s + self.task_s) / FLEET, self.cluster.own_s)


def overhead(sample: Sample, out: Path) -> Overhead:
    """Grade a sample on the local pool, and on a cluster."""
    return Overhead(_through_pool(sample, out / "pool"), _through_cluster(sample, out / "cluster"))


def _through_pool(sample: Sample, out: Path) -> Costs:
    begun = time.perf_counter()
    with closing(Crew(sample.grading, WORKERS)) as crew:
        warmed(sample, crew)
        return _graded(sample, crew, out, begun)


def _through_cluster(sample: Sample, out: Path) -> Costs:
    begun = time.perf_counter()
    grading = sample.grading.model_copy(update={"workers": 0})
    crew = cluster.Cluster(cluster.local(WORKERS), grading, sample.release, print)
    with closing(crew):
        return _graded(sample, crew, out, begun)


def _graded(sample: Sample, crew: Workforce, out: Path, begun: float) -> Costs:
    with closing(Batch(sample.release, sample.grading, out)) as batch:
        waiting, _ = batch.pending(sample.inbox)
        start, cpu = time.perf_counter(), _cpu_s()
        count = sum(1 for _ in batch.run(waiting, crew))
        return Costs(
            (time.perf_counter() - start) / count, (_cpu_s() - cpu) / count, start - begun
        )  # fmt: skip


def _cpu_s() -> float:
    """CPU time of this process alone, its threads included."""
    used = psutil.Process().cpu_times()
    return used.user + used.system
