"""What a student gets: the attempt that counts, a person's marks, and what lateness costs.

Computed from gradebook and grading.yml whenever it is shown, so that a moved deadline needs no run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from autograder.config import Assignment, Policy
from autograder.gradebook import Attempt
from autograder.ledger import Mark

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Grade:
    """What a student gets for an assignment.

    Attributes:
        attempt: the one that counts, without its evidence.
        points: of every question in the assignment's order; None: could not be graded, or waits for
            a person.
        comments: what a person wrote to manual questions.
        unmarked: manual questions that wait for a person.
        possible: points of all questions but the unmarked ones.
        late_days: days begun after the due date, 0 for an attempt that was in time.
        deduction: points that these cost.
        notes: what a student or teacher should know of all this.
    """

    attempt: Attempt
    points: Mapping[str, float | None]
    comments: Mapping[str, str]
    unmarked: tuple[str, ...]
    possible: float
    late_days: int
    deduction: float
    notes: tuple[str, ...]

    @property
    def total(self) -> float | None:
        """Points of all questions but the unmarked ones, less the deduction.

        None where one of them could not be graded, or the file can't be used.
        """
        if self.attempt.status == "invalid":
            return None
        counted = [points for name, points in self.points.items() if name not in self.unmarked]
        known = [points for points in counted if points is not None]
        return max(0.0, sum(known) - self.deduction) if len(known) == len(counted) else None

    def record(self) -> dict[str, Any]:
        """What the history of grades keeps, as JSON values."""
        return {
            "file": self.attempt.sha256[:12], "status": self.attempt.status, "total": self.total,
            "possible": self.possible, "points": dict(self.points),
            "comments": dict(self.comments), "deduction": self.deduction,
        }  # fmt: skip


def grade(
    assignment: Assignment, attempts: Sequence[Attempt], marks: Mapping[tuple[str, str], Mark]
) -> Grade:
    """The grade of a student.

    Args:
        assignment: its questions and its policy.
        attempts: of one student, the one that was handed in last at the end.
        marks: by file (sha256) and question.
    """
    grades = [_of_attempt(assignment, attempt, marks) for attempt in attempts]
    if assignment.policy.counts == "latest":
        return grades[-1]
    known = [one for one in grades if not needs_a_person(one.attempt) and one.total is not None]
    return max(reversed(known), key=lambda one: _automatic(assignment, one), default=grades[-1])


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What changed between two records of a grade, in words; nothing if the same is given."""
    before, after = (f"{_shown(one['total'])} of {_shown(one['possible'])}" for one in (old, new))
    if before != after:
        yield f"total {before} -> {after}"
    if old["file"] != new["file"]:
        yield "another attempt counts"
    for question in dict.fromkeys((*old["points"], *new["points"])):
        before, after = old["points"].get(question), new["points"].get(question)
        if before != after:
            yield f"{question}: {_shown(before)} -> {_shown(after)}"
    if old["deduction"] != new["deduction"]:
        yield f"{_shown(old['deduction'])} -> {_shown(new['deduction'])} points for lateness"
    if old["status"] != new["status"]:
        yield f"{old['status']} -> {new['status']}"
    if old["comments"] != new["comments"]:
        yield "another comment"


def needs_a_person(attempt: Attempt) -> bool:
    """Whether the attempt has no grade yet."""
    return attempt.status in ("invalid", "flagged", "infrastructure")


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{round(value, 4):g}"


def _automatic(assignment: Assignment, one: Grade) -> float:
    """Points less lateness, by the checks alone: marks come later, and don't choose an attempt."""
    checked = {n: q.possible for n, q in assignment.questions.items() if not q.manual}
    share = min(1.0, one.late_days * assignment.policy.late_percent_per_day / 100)
    earned = sum(one.points[name] or 0.0 for name in checked)
    return max(0.0, earned - share * sum(checked.values()))


def _of_attempt(
    assignment: Assignment, attempt: Attempt, marks: Mapping[tuple[str, str], Mark]
) -> Grade:
    given, notes = _marks(assignment, attempt, marks)
    points = {
        name: given[name].points if name in given else attempt.points(name)
        for name in assignment.questions
    }
    comments = {name: mark.comment for name, mark in given.items() if mark.comment}
    unmarked = tuple(n for n, q in assignment.questions.items() if q.manual and n not in given)
    possible = sum(q.possible for n, q in assignment.questions.items() if n not in unmarked)
    days, late = _late_days(assignment.policy, attempt)
    percent = min(100.0, days * assignment.policy.late_percent_per_day)
    return Grade(
        attempt, points, comments, unmarked, possible, days, possible * percent / 100,
        (*notes, *late),
    )  # fmt: skip


def _marks(
    assignment: Assignment, attempt: Attempt, marks: Mapping[tuple[str, str], Mark]
) -> tuple[dict[str, Mark], list[str]]:
    """The marks that hold, by question, and a note for each that does not."""
    given, notes = {}, []
    for name, question in assignment.questions.items():
        mark = marks.get((attempt.sha256, name)) if question.manual else None
        if mark and mark.possible == question.possible:
            given[name] = mark
        elif mark:
            notes.append(
                f"{name} was marked {_shown(mark.points)} of {_shown(mark.possible)}; now it has "
                f"{_shown(question.possible)} points, and has to be marked again."
            )
    return given, notes


def _late_days(policy: Policy, attempt: Attempt) -> tuple[int, tuple[str, ...]]:
    """Days begun after the due date, and a note about them."""
    due = policy.extensions.get(attempt.student, policy.due)
    if due is None or attempt.status == "invalid":
        return 0, ()
    if attempt.submitted is None:
        return 0, ("When it was handed in is not known, so it is taken to be in time.",)
    late = datetime.fromisoformat(attempt.submitted) - due
    if late <= timedelta(minutes=policy.grace_min):
        return 0, ()
    days = math.ceil(late / DAY)
    told = "1 day" if days == 1 else f"{days} days"
    return days, (f"Handed in late, {told} begun after the due date of {due:%Y-%m-%d %H:%M %Z}.",)
