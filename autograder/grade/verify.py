"""A second run of some submissions, with training, held against the run with their checkpoints.

Machines round differently, and a student may have run cells in another order, which gives other
initial weights: so losses and accuracies may differ by the tolerances in grading.yml, verdicts not.
"""

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autograder.config import Assignment, Verify
from autograder.judge import CaseResult, Run, judge

MOST = 4  # differences that are told


def secret_of(out: Path) -> str:
    """What `chosen` needs and no student can know: drawn once for a folder of results."""
    path = out / "verify.key"
    if not path.exists() or not path.read_text(encoding="ascii"):
        path.touch(0o600)
        path.write_text(secrets.token_hex(16), encoding="ascii")
    return path.read_text(encoding="ascii")


def chosen(content: str, secret: str, fraction: float) -> bool:
    """Whether this content is one of the fraction, 0 to 1, that is trained again.

    The same content is chosen each time, so that a batch can be resumed, and identical submissions
    are treated alike. Who doesn't know the secret can't tell.
    """
    digest = hashlib.sha256(f"{secret} {content}".encode()).digest()
    return int.from_bytes(digest[:8]) < fraction * 2**64


def doubtful(assignment: Assignment, results: Sequence[CaseResult]) -> bool:
    """Whether a question with a training has a case that failed by its checkpoints.

    These may be older than a right answer, so nobody loses points by them without a training.
    """
    trained = {
        name
        for name, question in assignment.questions.items()
        if any(entry.check == "learned" for entry in question.checks.values())
    }
    return any(one.verdict.status == "failed" and one.question in trained for one in results)


def compared(assignment: Assignment, run: Run, again: Run) -> Run:
    """The run with checkpoints, with what the one with training found different in `unlike`.

    When the second run failed for a reason that isn't the student's, so has the submission's.
    """
    assert assignment.verify
    if again.infrastructure:
        return replace(run, infrastructure=True, ended=f"Trained again, it ended: {again.ended}")
    if again.tampered or again.refused:
        found = ["Code changed what grades it only in the second run."]
    else:
        found = [*_verdicts(assignment, run, again), *_trainings(assignment.verify, run, again)]
    if not found:
        return run
    more = f" And {len(found) - MOST} more." if len(found) > MOST else ""
    told = " ".join(found[:MOST])
    return replace(run, unlike=f"Trained again, it differs from its checkpoints. {told}{more}")


def _verdicts(assignment: Assignment, run: Run, again: Run) -> Iterator[str]:
    for old, new in zip(judge(assignment, run), judge(assignment, again), strict=True):
        if old.verdict.status not in ("not_run", new.verdict.status):  # not_run: no checkpoint
            yield (
                f"{old.question}.{old.case}: {old.verdict.status} by its checkpoint, "
                f"{new.verdict.status} when trained again: {new.verdict}"
            )


def _trainings(tolerances: Verify, run: Run, again: Run) -> Iterator[str]:
    """Last losses and accuracies that are too far apart, as the check `learned` reports them."""
    old, new = _learned(run), _learned(again)
    for place in (p for p in old if p in new):  # of others, the verdicts are told
        start = new[place].first
        if abs(old[place].last - new[place].last) > tolerances.loss * start:
            yield (
                f"{place}: the last training loss is {old[place].last:.3g}, "
                f"{new[place].last:.3g} when trained again, from {start:.3g}."
            )
        if abs(old[place].accuracy - new[place].accuracy) > tolerances.accuracy:
            yield (
                f"{place}: the validation accuracy is {old[place].accuracy:.3f}, "
                f"{new[place].accuracy:.3f} when trained again."
            )


@dataclass(frozen=True)
class _Training:
    """First and last training loss, and the last validation accuracy."""

    first: float
    last: float
    accuracy: float


def _learned(run: Run) -> dict[str, _Training]:
    """What each training's own record says. Evidence that no check makes is refused by `judge`."""
    found = {}
    for record in run.records:
        if record.get("check") == "learned":
            with contextlib.suppress(LookupError, TypeError, ValueError):
                found[f"{record['question']}.{record['case']}"] = _training(record["evidence"])
    return found


def _training(evidence: Mapping[str, Any]) -> _Training:
    losses = evidence["losses"]
    return _Training(float(losses[0]), float(losses[-1]), float(evidence["recorded"]))
