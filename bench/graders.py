"""The two graders: `otter run`, a process a submission, and our batch with warm workers."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nbformat
import psutil
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.grade import Batch, Crew, put
from autograder.sandbox import Outcome, Pool
from bench.costs import OTTER, OURS, Comparison, Cost
from bench.samples import Sample

PROCESSES = (1, 2)
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "AUTOGRADER_DEVICE": "cpu"}


class Disagreement(RuntimeError):
    """The graders gave different points, so there is nothing to compare."""


@dataclass
class Clock:
    """Wall time and CPU time of this process and all that it started, in seconds."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take the time of a block."""
        wall, cpu = time.perf_counter(), _cpu_s()
        yield
        self.wall_s, self.cpu_s = time.perf_counter() - wall, _cpu_s() - cpu

    def __str__(self) -> str:
        """As "1.5 s (1.2 CPU s)"."""
        return f"{self.wall_s:.1f} s ({self.cpu_s:.1f} CPU s)"


@dataclass(frozen=True)
class Ours:
    """Our batch: its cost, the points of each student, and a submission's own CPU seconds."""

    cost: Cost
    points: dict[str, float]
    own_s: float


def compare(sample: Sample, out: Path) -> Comparison:
    """Grade a sample with both graders, with one process and with two.

    Our results go to folders in `out` that are named after the number of processes.

    Raises:
        Disagreement: they give different points.
    """
    costs, name = [], sample.release.name
    for processes in PROCESSES:
        _say(f"{name}: {OTTER}, {processes} at once")
        cost, points = through_otter(sample, processes)
        costs.append(cost)
        _say(f"{name}: {OURS}, {processes} at once")
        ours = through_ours(sample, processes, out / str(processes))
        costs.append(ours.cost)
        if points != ours.points:
            raise Disagreement(f"{name}: {OTTER} gives {points}, {OURS} {ours.points}.")
        if processes == 1:  # with several at once, they wait for each other's memory
            own_s = ours.own_s
    costs.sort(key=lambda cost: (cost.grader == OURS, cost.processes))
    return Comparison(name, tuple(costs), own_s, len(os.sched_getaffinity(0)))


def through_otter(sample: Sample, processes: int) -> tuple[Cost, dict[str, float]]:
    """The cost of `otter run`, so many at once, and the points of each student."""
    clock, found = Clock(), sample.inbox.found
    with ThreadPoolExecutor(processes) as threads, clock.running():
        points = list(threads.map(lambda one: _otter_run(sample, one.source), found))
    cost = Cost(OTTER, processes, len(found), clock.wall_s, clock.cpu_s)
    return cost, {one.student: score for one, score in zip(found, points, strict=True)}


def through_ours(sample: Sample, workers: int, out: Path) -> Ours:
    """The cost of our batch without the start of its workers, which happens once a batch."""
    clock, attempts = Clock(), []
    with ExitStack() as stack:
        crew = stack.enter_context(closing(Crew(sample.grading, workers)))
        idle_s = median(outcome.cpu_s for outcome in warmed(sample, crew))
        batch = stack.enter_context(closing(Batch(sample.release, sample.grading, out)))
        with clock.running():
            waiting, _ = batch.pending(sample.inbox)
            attempts = list(batch.run(waiting, crew))
    cost = Cost(OURS, workers, len(attempts), clock.wall_s, clock.cpu_s)
    points = {a.student: round(sum(r.points for r in a.results), 6) for a in attempts}
    own_s = sum(a.cpu_s - idle_s for a in attempts) / len(attempts)
    return Ours(cost, dict(sorted(points.items())), own_s)


def warmed(sample: Sample, crew: Crew) -> list[Outcome]:
    """Start all workers; runs of a notebook without cells, whose CPU time is all ours."""
    with ThreadPoolExecutor(len(crew.slots)) as threads:
        for _ in range(2):
            runs = [threads.submit(alone, sample, new_notebook(), slot) for slot in crew.slots]
            outcomes = [run.result() for run in runs]
    return outcomes


def alone(sample: Sample, notebook: NotebookNode, pool: Pool, keep: Path | None = None) -> Outcome:
    """Run a notebook outside a batch, without tests if it has no cells.

    Args:
        sample: whose release it belongs to.
        notebook: as it shall run.
        pool: runs it.
        keep: a file for the notebook as executed.

    Raises:
        RuntimeError: the run didn't come to its end.
    """
    with tempfile.TemporaryDirectory() as temporary:
        job = Path(temporary)
        put(sample.release.files, job)
        if not notebook.cells:
            for test in (job / "tests").glob("*.py"):
                test.unlink()
        nbformat.write(notebook, job / "notebook.ipynb")
        limits = sample.grading.limits
        settings = {"seed": 0, "output_kib": limits.output_kib, "cell_s": limits.cell_s}
        (job / "job.json").write_text(json.dumps(settings), encoding="utf-8")
        outcome = pool.run(job, lambda _: None)
        if outcome.ended != "finished":
            raise RuntimeError(f"A run of the bench ended early: {outcome.reason}")
        if keep:
            keep.write_bytes((job / "executed.ipynb").read_bytes())
    return outcome


def _otter_run(sample: Sample, submission: Path) -> float:
    command = [sys.executable, "-m", "otter", "run", "-a", str(sample.release.zip)]
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [*command, "--no-logo", "-o", out, str(submission)], check=True,
            env={**os.environ, **ENVIRONMENT}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        results = json.loads((Path(out) / "results.json").read_text(encoding="utf-8"))
    return float(round(sum(test.get("score", 0) for test in results["tests"]), 6))


def _cpu_s() -> float:
    """CPU time of this process, its children and all that they waited for."""
    process = psutil.Process()
    return sum(sum(one.cpu_times()[:4]) for one in (process, *process.children()))


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
