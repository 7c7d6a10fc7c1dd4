"""The grading process's memory, as a batch goes on."""

import json
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import psutil

from autograder.grade import Batch, Crew
from autograder.intake import read
from autograder.sandbox import Outcome, Pool
from autograder.sandbox.protocol import Event
from bench.graders import alone
from bench.samples import Sample

WORKERS = 2


class Replay(Pool):
    """Answers each job with a recorded run, made anew from text as a run's events are."""

    def __init__(self, outcome: Outcome, executed: bytes) -> None:
        """`executed` is the notebook that the run left."""
        self._outcome, self._executed = json.dumps(asdict(outcome)), executed

    def run(self, job: Path, on_event: Callable[[Event], None]) -> Outcome:
        """The recorded run."""
        (job / "executed.ipynb").write_bytes(self._executed)
        return Outcome(**json.loads(self._outcome))


class ReplayCrew(Crew):
    """A crew without processes."""

    def __init__(self, pool: Replay) -> None:
        """All slots are of one pool."""
        self.slots = [pool] * WORKERS

    def end_jobs(self) -> None:
        """There are none."""

    def close(self) -> None:
        """Nothing is open."""


def replaying(sample: Sample, folder: Path) -> Crew:
    """A crew that replays a real run of the sample's first submission."""
    one = read(sample.inbox.found[0], sample.release.pristine, 50)
    assert one.notebook is not None
    with closing(Crew(sample.grading, 1)) as crew:
        outcome = alone(sample, one.notebook, crew.slots[0], folder / "executed.ipynb")
    return ReplayCrew(Replay(outcome, (folder / "executed.ipynb").read_bytes()))


def growth(sample: Sample, crew: Crew, out: Path, marks: Collection[int]) -> dict[int, float]:
    """Resident memory of this process in MiB, after so many submissions of one batch."""
    found = {}
    with closing(crew), closing(Batch(sample.release, sample.grading, out)) as batch:
        waiting, _ = batch.pending(sample.inbox)
        for number, _ in enumerate(batch.run(waiting, crew), 1):
            if number in marks:
                found[number] = psutil.Process().memory_info().rss / 2**20
    return found
