"""Measure, and print what the README shows: `python -m bench [--quick] [--soak]`.

The floor is what the submissions need anyway: the CPU time of their own cells and tests, shared by
the cores in use. It is measured in a warm, confined run with one worker: CPU time of the run, less
that of a notebook without cells and tests. So what it contains is the student's code, the given
code and the tests, and no start of Python, no imports, no confinement.
"""

import argparse
import importlib.metadata
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from autograder.grade import Crew, ReleaseMissing
from bench import cluster, memory, samples
from bench.costs import HEAD, Comparison, table, together
from bench.graders import Disagreement, compare
from bench.rejudging import rejudged


@dataclass(frozen=True)
class Size:
    """How much is measured: numbers of submissions."""

    trivial: int
    exercises: Mapping[str, int]
    rejudge: int
    memory: tuple[int, ...]
    cluster: int


EXERCISES = {"cnn_vs_fnn": 2, "sequence_models": 2, "gradient_flow": 2}
FULL = Size(6, EXERCISES, 1000, (100, 500, 2000), 60)
QUICK = Size(2, {"gradient_flow": 2}, 100, (50, 100), 10)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description="What grading costs.")
    parser.add_argument("--quick", action="store_true", help="few submissions, a minute")
    parser.add_argument(
        "--soak", action="store_true",
        help="memory: really run all submissions, some minutes more",
    )  # fmt: skip
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        try:
            measure(size, Path(temporary), soak=options.soak)
        except (ReleaseMissing, Disagreement) as error:
            parser.exit(2, f"{error}\n")


def measure(size: Size, folder: Path, *, soak: bool) -> None:
    """All parts, one after the other; `soak` as in the options."""
    print(f"Measured on {machine()}.\n", flush=True)
    small = samples.trivial(folder, size.trivial)
    real = [samples.exercise(name, folder, count) for name, count in size.exercises.items()]
    graded = {sample.release.name: folder / "graded" / sample.release.name for sample in real}
    trivial = together("trivial", [compare(small, folder / "graded" / "trivial")])
    each = [compare(s, graded[s.release.name]) for s in real]
    exercises = together("exercises", each)
    print(table(HEAD, (*trivial.rows(), *exercises.rows())), flush=True)
    print(f"\n{_own((trivial, exercises))}", flush=True)
    for name, out in graded.items():
        target = folder / "rejudged" / name
        target.mkdir(parents=True)
        unchanged, doubled = rejudged(out / "1", target, size.rejudge)
        print(f"`rejudge` of {size.rejudge} submissions of {name}: {unchanged}, "
              f"with all points doubled {doubled}.", flush=True)  # fmt: skip
    _print_memory(size.memory, folder, soak=soak)
    _print_cluster(size.cluster, folder, {one.name: one.alone_s for one in (*each, exercises)})


def machine() -> str:
    """Date, processor and versions, in words."""
    about = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", about.read_text() if about.is_file() else "")
    model = found[1] if found else platform.processor() or "an unknown processor"
    torch, otter = (importlib.metadata.version(name) for name in ("torch", "otter-grader"))
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores of {model}, "
        f"Python {platform.python_version()}, torch {torch}, otter-grader {otter}"
    )


def _own(comparisons: tuple[Comparison, ...]) -> str:
    own = ", ".join(f"{c.name} {c.own_s:.2f}" for c in comparisons)
    return f"A submission's own CPU seconds, which the floor is made of: {own}."


def _print_cluster(count: int, folder: Path, run_s: Mapping[str, float]) -> None:
    place = folder / "cluster"
    place.mkdir()
    found = cluster.overhead(samples.trivial(place, count), place)
    print(f"{count} trivial submissions, {found}", flush=True)
    for name, alone_s in run_s.items():
        print(f"From that, {cluster.MANY:,} submissions of {name} ({alone_s:.1f} s each on one "
              f"worker) on {cluster.FLEET} workers: {found.projected_s(alone_s) / 3600:.1f} h.",
              flush=True)  # fmt: skip


def _print_memory(marks: tuple[int, ...], folder: Path, *, soak: bool) -> None:
    place = folder / "memory"
    place.mkdir()
    sample = samples.trivial(place, max(marks))
    crew = Crew(sample.grading, memory.WORKERS) if soak else memory.replaying(sample, place)
    found = memory.growth(sample, crew, place / "out", marks)
    words = ", ".join(f"{mib:.0f} MiB after {count}" for count, mib in found.items())
    how = "run" if soak else "one run replayed"
    print(f"Memory of the grading process, trivial submissions ({how}): {words}.", flush=True)


if __name__ == "__main__":
    main()
