"""The grading process's memory, as a batch goes on."""

import json
from collections.abc import Collection
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import psutil

from autograder.grade import Batch, Crew, Place, Ran
from autograder.intake import read
from autograder.sandbox import Outcome
from bench.graders import alone
from bench.samples import Sample

WORKERS = 2


class Replay:
    """A crew without processes: it answers each job with a recorded run."""

    def __init__(self, ran: Ran) -> None:
        """The events are kept as text, so that each run's are made anew, as real ones are."""
        self._outcome, self._executed = json.dumps(asdict(ran.outcome)), ran.executed

    def places(self, *_: object) -> list[Place]:
        """All the same."""
        return [lambda _: Ran(Outcome(**json.loads(self._outcome)), self._executed)] * WORKERS

    def end_jobs(self) -> None:
        """There are none."""

    def close(self) -> None:
        """Nothing is open."""


def replaying(sample: Sample, folder: Path) -> Replay:
    """A crew that replays a real run of the sample's first submission."""
    one = read(sample.inbox.found[0], sample.release.pristine, 50)
    assert one.notebook is not None
    with closing(Crew(sample.grading, 1)) as crew:
        outcome = alone(sample, one.notebook, crew.slots[0], folder / "executed.ipynb")
    return Replay(Ran(outcome, (folder / "executed.ipynb").read_bytes()))


def growth(
    sample: Sample, crew: Crew | Replay, out: Path, marks: Collection[int]
) -> dict[int, float]:
    """Resident memory of this process in MiB, after so many submissions of one batch."""
    found = {}
    with closing(crew), closing(Batch(sample.release, sample.grading, out)) as batch:
        waiting, _ = batch.pending(sample.inbox)
        for number, _ in enumerate(batch.run(waiting, crew), 1):
            if number in marks:
                found[number] = psutil.Process().memory_info().rss / 2**20
    return found
