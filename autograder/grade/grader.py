"""One submission: its job, its run, and the attempt that comes of it."""

import errno
import json
from collections.abc import Mapping
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder import sandbox
from autograder.config import Config
from autograder.grade.built import Release, loading
from autograder.grade.executed import Executed
from autograder.grade.job import Job, Outage, Place
from autograder.grade.verify import chosen, compared, doubtful
from autograder.gradebook import Attempt
from autograder.identity import asked, content_of
from autograder.intake import Submission
from autograder.judge import AttemptStatus, Run, judge, status_of
from autograder.notebook import printable
from autograder.training.checkpoints import CheckpointError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class Grader:
    """Turns submissions into attempts; safe from several threads."""

    def __init__(
        self,
        release: Release,
        config: Config,
        executed: Executed,
        verify_fraction: float = 0.0,
        secret: str = "",
    ) -> None:
        """`executed` keeps the notebooks as executed; for the others see `verify.chosen`."""
        self.release, self.config, self._executed = release, config, executed
        self.assignment = config.assignment(release.name)
        self.version = f"{release.version}-{self.assignment.seed}"
        self._asked = asked(self.assignment)
        self._fraction, self._secret = verify_fraction, secret

    def run(self, submission: Submission, place: Place) -> Attempt:
        """Run a submission that can be read, with a notebook.

        Raises:
            Outage: `place` can't run anything any more.
            OSError: there is no room, here or in the folder of results; nobody can be graded now.
        """
        assert submission.notebook is not None
        try:
            return self._run(submission, submission.notebook, place)
        except Outage:
            raise
        except Exception as error:  # ours: no more processes and the like; the batch goes on
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise
            reason = f"The grader failed, run it again: {type(error).__name__}: {error}"
            return self._attempt(submission, "infrastructure", reason)

    def invalid(self, submission: Submission) -> Attempt:
        """The attempt of a submission that can't be read."""
        return self._attempt(submission, "invalid", submission.problem or "")

    def shared(self, submission: Submission, twin: Attempt) -> Attempt:
        """The attempt of a submission whose code has been run already, for another student."""
        self._executed.share(twin, submission)
        more = {"results": twin.results, "run": twin.run, "content": twin.content}
        return self._attempt(submission, twin.status, twin.reason, **more)

    def _run(self, submission: Submission, notebook: NotebookNode, place: Place) -> Attempt:
        ran = place(self._job(notebook, self._loading(submission)))
        self._executed.keep(ran.executed, submission)
        outcome, run = ran.outcome, run_of(ran.outcome, self._asked)
        content = content_of(notebook, submission.checkpoints)
        if submission.checkpoints and self._to_verify(run, content):
            again = place(self._job(notebook, {})).outcome
            run = compared(self.assignment, run, run_of(again, self._asked))
        results = tuple(judge(self.assignment, run))
        status, reason = status_of(results, run)
        return self._attempt(
            submission, status, reason, results=results, run=run, content=content,
            wall_s=outcome.wall_s, cpu_s=outcome.cpu_s, peak_mib=outcome.peak_mib,
        )  # fmt: skip

    def _loading(self, submission: Submission) -> Mapping[str, bytes]:
        """The files by which networks are loaded; none where they are trained."""
        verify = self.assignment.verify
        if self.assignment.training == "rerun" or verify is None:
            return {}
        return loading(self.release.name, verify.samples, submission.checkpoints)

    def _job(self, notebook: NotebookNode, further: Mapping[str, bytes]) -> Job:
        limits = self.config.limits
        settings = {"seed": self.assignment.seed, "output_kib": limits.output_kib,
                    "cell_s": limits.cell_s}  # fmt: skip
        return Job(nbformat.writes(notebook), json.dumps(settings), further)

    def _to_verify(self, run: Run, content: str) -> bool:
        """Whether it is one of those that are trained again, and can be."""
        results = judge(self.assignment, run)
        whole = status_of(results, run)[0] in ("graded", "partial")
        drawn = chosen(content, self._secret, self._fraction)
        return whole and (drawn or doubtful(self.assignment, results))

    def _attempt(
        self, submission: Submission, status: AttemptStatus, reason: str, **more: Any
    ) -> Attempt:
        return Attempt(
            assignment=self.release.name,
            version=self.version,
            student=submission.student,
            sha256=submission.sha256,
            source=printable(str(submission.source)),
            status=status,
            reason=reason,
            notes=submission.notes,
            name=submission.name,
            number=submission.attempt,
            submitted=submission.submitted.isoformat() if submission.submitted else None,
            **{"results": (), **more},
        )


def run_of(outcome: sandbox.Outcome, asked: Mapping[str, str] | None = None) -> Run:
    """What judging needs of a run's events; `asked` as in `identity.asked`."""
    records, errors, stops, outage, unloaded, stopped = [], {}, {}, "", "", ""
    tampered: dict[str, None] = {}
    owners: Mapping[int, Any] = {
        e["index"]: e.get("question") for e in outcome.events if e.get("event") == "cell"
    }
    for event in outcome.events:
        kind, question = event.get("event"), event.get("question")
        if kind == "evidence":
            records.append({k: event.get(k) for k in ("question", "case", "check", "evidence")})
        elif kind == "cell_done" and event.get("error"):
            if owner := owners.get(event["index"]):
                errors[owner] = _located(event)
            outage = event["error"] if "DownloadFailed" in event["error"] else outage
            unloaded = unloaded or _unloaded(event["error"])
            if event["error"].startswith("stopped after"):
                stopped = f"Cell {event['index']} ({owner or 'no question'}): {event['error']}"
        elif kind == "question_done" and event.get("error") and question:
            stops[question] = f"Its tests ended: {event['error']}"
        elif kind == "tampered":
            tampered[_changed(event)] = None
    ended = "" if outcome.ended == "finished" else outcome.reason
    ours = outcome.ended == "infrastructure"
    return Run(
        tuple(records), errors, stops, ended, ours, outage, stopped, outcome.refused, asked,
        tuple(tampered), unloaded,
    )  # fmt: skip


def _unloaded(error: str) -> str:
    """What `fit` said of a checkpoint that it could not load, or ""."""
    kind, _, words = error.partition(": ")
    return words if kind == CheckpointError.__name__ else ""


def _changed(event: Mapping[str, Any]) -> str:
    what = ", ".join(str(word)[:120] for word in event["what"][:8])
    return f"{event['question'] or 'a cell of no question'}: {what}."[:1000]


def _located(event: Mapping[str, Any]) -> str:
    line = event.get("line")
    return f"{event['error']}" + (f" (line: {line})" if line else "")
