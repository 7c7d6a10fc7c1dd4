"""The batch: submissions of an inbox -> attempts in the gradebook, several side by side.

Each submission runs in a process of its own (sandbox); its evidence is judged here. Threads only
wait for processes; the gradebook is written by the calling thread alone.
"""

import hashlib
import io
import json
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder import sandbox
from autograder.config import Assignment, Config
from autograder.gradebook import Attempt, Gradebook
from autograder.intake import Submission, collect
from autograder.judge import AttemptStatus, Run, judge, status_of, validate
from autograder.notebook import printable

LABELS = (
    "_labels.npz"  # files of the release with this ending stay outside of the student's process
)


class ReleaseMissing(RuntimeError):
    """The assignment's release has not been built."""


@dataclass(frozen=True)
class Release:
    """What grading needs of a built assignment."""

    name: str
    zip: Path
    content: bytes  # read once, so that a rebuild meanwhile changes nothing
    pristine: NotebookNode
    version: str

    @classmethod
    def load(cls, name: str, root: Path) -> "Release":
        """Read dist/<name>/.

        Raises:
            ReleaseMissing: it is not there.
        """
        folder = root / "dist" / name
        archive = folder / "autograder" / f"{name}-autograder.zip"
        notebook = folder / "student" / f"{name}.ipynb"
        if not archive.is_file() or not notebook.is_file():
            raise ReleaseMissing(f"{folder} holds no release. Run: autograder build {name}")
        content = archive.read_bytes()
        version = hashlib.sha256(content).hexdigest()[:16]
        return cls(name, archive, content, nbformat.read(notebook, as_version=4), version)

    def unpack(self, job: Path) -> None:
        """Put tests and support files into `job`, the hidden labels excepted."""
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive:
            for name in archive.namelist():
                top, *rest = PurePosixPath(name).parts
                if top in ("files", "tests") and not name.endswith(LABELS):
                    target = job.joinpath(*(rest if top == "files" else [top, *rest]))
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))


class Batch:
    """Grades the submissions of one assignment into the folder `out`."""

    def __init__(self, release: Release, config: Config, out: Path) -> None:
        """Open the gradebook in `out`.

        Raises:
            ConfigError: grading.yml does not fit the checks.
        """
        self.release, self.config, self.out = release, config, out
        self.assignment: Assignment = config.assignment(release.name)
        validate(self.assignment)
        self.gradebook = Gradebook(out / "gradebook.sqlite")
        self.current: set[tuple[str, str]] = set()

    def pending(self, inbox: Path) -> tuple[list[Submission], int]:
        """Submissions to grade, and how many need no second run."""
        found = list(collect(inbox, self.release.pristine, self.config.limits.submission_mib))
        self.current = {(s.student, s.sha256) for s in found}
        done = self.gradebook.done(self.release.name, self.release.version)
        new = [s for s in found if (s.student, s.sha256) not in done]
        return new, len(found) - len(new)

    def latest(self) -> list[Attempt]:
        """For every student the attempt that counts, sorted by student.

        That is the one of the file that lies in the inbox now, under this release, else the newest.
        """
        chosen: dict[str, Attempt] = {}
        for attempt in self.gradebook.attempts(self.release.name):
            kept = chosen.get(attempt.student)
            if kept is None or self._rank(attempt) >= self._rank(kept):
                chosen[attempt.student] = attempt
        return [self._dated(chosen[student]) for student in sorted(chosen)]

    def _rank(self, attempt: Attempt) -> tuple[bool, bool]:
        here = (attempt.student, attempt.sha256) in self.current
        return attempt.version == self.release.version, here

    def _dated(self, attempt: Attempt) -> Attempt:
        if attempt.version == self.release.version:
            return attempt
        return replace(attempt, notes=("Graded with an older release.", *attempt.notes))

    def run(self, submissions: list[Submission], workers: int) -> Iterator[Attempt]:
        """Grade, and yield each attempt when it is safely in the gradebook."""
        with ThreadPoolExecutor(workers) as pool:
            waiting = [pool.submit(self._attempt, s) for s in submissions]
            try:
                for future in as_completed(waiting):
                    attempt = future.result()
                    self.gradebook.add(attempt)
                    yield attempt
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _attempt(self, submission: Submission) -> Attempt:
        if submission.notebook is None:
            return self._record(submission, "invalid", submission.problem or "")
        try:
            return self._execute(submission, submission.notebook)
        except Exception as error:  # ours: full disk, no more processes; the batch goes on
            reason = f"The grader failed, run it again: {type(error).__name__}: {error}"
            return self._record(submission, "infrastructure", reason)

    def _record(
        self, submission: Submission, status: AttemptStatus, reason: str, **more: Any
    ) -> Attempt:
        return Attempt(
            assignment=self.release.name,
            version=self.release.version,
            student=submission.student,
            sha256=submission.sha256,
            source=printable(str(submission.source)),
            status=status,
            reason=reason,
            notes=submission.notes,
            **{"results": (), **more},
        )

    def _execute(self, submission: Submission, notebook: NotebookNode) -> Attempt:
        with tempfile.TemporaryDirectory(
            prefix="attempt-", ignore_cleanup_errors=True
        ) as temporary:
            job = Path(temporary)
            self.release.unpack(job)
            nbformat.write(notebook, job / "notebook.ipynb")
            limits = self.config.limits
            settings = {"seed": self.assignment.seed, "output_kib": limits.output_kib,
                        "cell_s": limits.cell_s}  # fmt: skip
            (job / "job.json").write_text(json.dumps(settings), encoding="utf-8")
            outcome = sandbox.run(job, bounds(self.config), lambda _: None, self._environment())
            self._keep_notebook(job / "executed.ipynb", submission)
        run = run_of(outcome)
        results = judge(self.assignment, run)
        status, reason = status_of(results, run)
        return self._record(
            submission, status, reason, results=tuple(results), records=tuple(run.records),
            wall_s=outcome.wall_s, cpu_s=outcome.cpu_s, peak_mib=outcome.peak_mib,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {} if self.config.device == "auto" else {"AUTOGRADER_DEVICE": self.config.device}

    def _keep_notebook(self, executed: Path, submission: Submission) -> None:
        """Copy the notebook as executed; what lies there is the student's process's work."""
        try:
            handle = os.open(executed, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return  # none was written
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return
            data = file.read(self.config.limits.file_mib * 2**20)
        folder = self.out / "executed"
        folder.mkdir(exist_ok=True)
        (folder / f"{file_stem(submission.student)}.ipynb").write_bytes(data)


def bounds(config: Config) -> sandbox.Bounds:
    """The limits of grading.yml as the sandbox takes them."""
    return sandbox.Bounds(**config.limits.model_dump(exclude={"submission_mib"}))


def file_stem(student: str) -> str:
    """A safe file name for a student; a hash keeps it unique where characters were replaced."""
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in student)
    plain = plain.encode()[:120].decode(errors="ignore")  # file systems count bytes
    return (
        plain if plain == student else f"{plain}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"
    )


def run_of(outcome: sandbox.Outcome) -> Run:
    """What judging needs of a run's events."""
    records, errors, stops, outage, stopped = [], {}, {}, "", ""
    asked: Mapping[int, Any] = {
        e["index"]: e.get("question") for e in outcome.events if e.get("event") == "cell"
    }
    for event in outcome.events:
        kind, question = event.get("event"), event.get("question")
        if kind == "evidence":
            records.append({k: event.get(k) for k in ("question", "case", "check", "evidence")})
        elif kind == "cell_done" and event.get("error"):
            if owner := asked.get(event["index"]):
                errors[owner] = _located(event)
            outage = event["error"] if "DownloadFailed" in event["error"] else outage
            if event["error"].startswith("stopped after"):
                stopped = f"Cell {event['index']} ({owner or 'no question'}): {event['error']}"
        elif kind == "question_done" and event.get("error") and question:
            stops[question] = f"Its tests ended: {event['error']}"
    ended = "" if outcome.ended == "finished" else outcome.reason
    ours = outcome.ended == "infrastructure"
    return Run(records, errors, stops, ended, ours, outage, stopped, outcome.refused)


def _located(event: Mapping[str, Any]) -> str:
    line = event.get("line")
    return f"{event['error']}" + (f" (line: {line})" if line else "")
