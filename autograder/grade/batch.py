"""The batch: submissions of an inbox -> attempts in the gradebook, several side by side.

Each submission runs in a process of its own (sandbox); its evidence is judged here. The gradebook
is written by the calling thread alone.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from autograder.config import Assignment, Config, ConfigError
from autograder.grade.built import Release
from autograder.grade.executed import Executed
from autograder.grade.flow import Flow, Waiting
from autograder.grade.grader import Grader
from autograder.grade.job import Place
from autograder.grade.rejudge import Rejudged, rejudge
from autograder.grade.scratch import scratch_folder
from autograder.grade.verify import secret_of
from autograder.gradebook import Attempt, Gradebook, Terms
from autograder.identity import judging_identity
from autograder.intake import Found, Inbox, Submission, read, sha256_of
from autograder.judge import validate


class Workforce(Protocol):
    """Who runs submissions: `Crew` on this machine, or others elsewhere."""

    def places(self, release: Release, scratch: Path) -> Sequence[Place]:
        """As many as submissions run side by side; folders for jobs are made in `scratch`."""

    def end_jobs(self) -> None:
        """End what runs now; called until nothing runs."""


class Batch:
    """Grades the submissions of one assignment into the folder `out`.

    Attributes:
        folder: where the assignment's own files go.
        rejudged: what judging stored evidence again did, because points or thresholds in
            grading.yml are not those of the last batch; None if it was not needed.
        stopped: whether `stop` was called.
    """

    def __init__(
        self, release: Release, config: Config, out: Path, verify_fraction: float = 0.0
    ) -> None:
        """Open the gradebook in `out`, and hold it until it is closed.

        Args:
            release: what was built.
            config: grading.yml.
            out: folder of the results.
            verify_fraction: how many of those that hand in checkpoints are trained again, 0 to 1.

        Raises:
            ConfigError: grading.yml does not fit the checks.
            GradebookError: another batch holds the gradebook, or it can't be used.
        """
        self.release, self.config, self.out = release, config, out
        self.assignment: Assignment = config.assignment(release.name)
        validate(self.assignment)
        self.folder = out / release.name
        self.executed = Executed(self.folder / "executed", config.limits.file_mib)
        self.gradebook = Gradebook(out / "gradebook.sqlite")
        secret = secret_of(out) if verify_fraction else ""
        self._grader = Grader(release, config, self.executed, verify_fraction, secret)
        version, settings = self._grader.version, judging_identity(self.assignment)
        self.terms = Terms(release.name, version, settings)
        self.rejudged: Rejudged | None = None
        self._again: list[str] = []
        self.stopped = False

    def pending(
        self, inbox: Inbox, only: Collection[str] = (), *, regrade: bool = False
    ) -> tuple[list[Waiting], int]:
        """Submissions to grade, those that count first, and how many need no second run.

        Args:
            inbox: what was handed in.
            only: students to grade; all, if there are none.
            regrade: run again what is done. `run` marks it as history before it begins, so that a
                batch which is stopped goes on without this.

        Raises:
            ConfigError: one of `only` is not in the inbox.
        """
        if unknown := sorted(set(only) - {one.student for one in inbox.found}):
            raise ConfigError(f"--only: the inbox has no submission of {', '.join(unknown)}.")
        named = [one for one in inbox.found if not only or one.student in only]
        in_order = [self._waiting(one) for one in named]
        self.gradebook.learn_times(self.release.name, {
            (waiting.student, waiting.sha256): found.submitted.isoformat()
            for found, waiting in zip(named, in_order, strict=True) if found.submitted
        })  # fmt: skip
        chosen = {(waiting.student, waiting.sha256): waiting for waiting in in_order}
        counting = {waiting.student: waiting.sha256 for waiting in in_order}  # the last attempt
        self._begin(counting)
        self._again = list(counting) if regrade else []
        done = self.gradebook.done(self.release.name, self.terms.version) if not regrade else set()
        new = [waiting for key, waiting in chosen.items() if key not in done]
        new.sort(key=lambda waiting: counting[waiting.student] != waiting.sha256)
        return new, len(chosen) - len(new)

    def _waiting(self, found: Found) -> Waiting:
        def submission() -> Submission:
            return read(found, self.release.pristine, limit, checkpoints=kept)

        limit = self.config.limits.submission_mib
        kept = self.assignment.training == "checkpoint"
        try:
            sha256 = sha256_of(found, limit, checkpoints=kept)
        except Exception:  # whatever is wrong with the file, reading it says so in words
            sha256 = submission().sha256
        return Waiting(found.student, sha256, submission)

    def _begin(self, files: Mapping[str, str]) -> None:
        before = {terms.assignment: terms for terms in self.gradebook.terms()}
        known = before.get(self.release.name)
        if known and known.settings != self.terms.settings:
            self.rejudged = rejudge(self.gradebook, self.terms, self.assignment)
        self.gradebook.begin(self.terms, files)

    def run(self, waiting: Iterable[Waiting], crew: Workforce) -> Iterator[Attempt]:
        """Grade, and yield each attempt when it is safely in the gradebook.

        Whatever ends this early also ends the submissions that run; they leave no trace.

        Raises:
            Outage: the crew can't run anything any more.
            OSError, sqlite3.Error: there is no room for results.
        """
        self.gradebook.supersede(self.release.name, self._again)
        with scratch_folder(self.out / "scratch.txt") as scratch:
            flow = Flow(self._grader, self.gradebook, crew.places(self.release, scratch))
            try:
                yield from flow.attempts(deque(waiting), lambda: self.stopped)
            finally:
                flow.end(crew.end_jobs)

    def stop(self) -> None:
        """Begin no more submissions; `run` ends when those that run are done."""
        self.stopped = True

    def close(self) -> None:
        """Close the gradebook."""
        self.gradebook.close()

    def latest(self) -> list[Attempt]:
        """For every student the attempt that counts, sorted by student."""
        return list(self.gradebook.counting(self.terms))
