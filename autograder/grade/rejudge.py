"""Judge stored evidence again, after points or thresholds changed. Nothing is run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autograder.config import Assignment
from autograder.gradebook import Attempt, Gradebook, Terms
from autograder.judge import CaseResult, judge, status_of


@dataclass(frozen=True)
class Change:
    """What judging again did to the attempt that counts for a student. Both without evidence."""

    before: Attempt
    after: Attempt

    @property
    def cases(self) -> Iterator[str]:
        """The cases whose outcome or points changed, in words."""
        old = {(r.question, r.case): r for r in self.before.results}
        new = {(r.question, r.case): r for r in self.after.results}
        for place in dict.fromkeys((*old, *new)):
            was, now = _told(old.get(place)), _told(new.get(place))
            if was != now:
                yield f"{'.'.join(place)}: {was} -> {now}"


@dataclass(frozen=True)
class Rejudged:
    """What judging an assignment again did.

    Attributes:
        count: attempts that were judged, earlier ones of a student included.
        changes: one for each student whose points or status changed.
        unknown: cases that have evidence, but are no longer in grading.yml.
    """

    count: int
    changes: list[Change]
    unknown: list[str]


def rejudge(gradebook: Gradebook, terms: Terms, assignment: Assignment) -> Rejudged:
    """Judge all attempts of an assignment by the present grading.yml, in one transaction."""
    counting = set(gradebook.counting_keys(terms.assignment))
    changes, unknown, count = [], set(), 0

    def judged(key: int, before: Attempt) -> Attempt:
        nonlocal count
        after = _judged(assignment, before)
        count += before.run is not None
        unknown.update(_unknown(assignment, before))
        if key in counting and _outcome(before) != _outcome(after):
            changes.append(Change(replace(before, run=None), replace(after, run=None)))
        return after

    gradebook.judge_again(terms, judged)
    changes.sort(key=lambda change: change.after.student)
    return Rejudged(count, changes, sorted(unknown))


def _judged(assignment: Assignment, attempt: Attempt) -> Attempt:
    if attempt.run is None:  # nothing ran, so there is nothing to judge
        return attempt
    results = tuple(judge(assignment, attempt.run))
    status, reason = status_of(results, attempt.run)
    return replace(attempt, results=results, status=status, reason=reason)


def _unknown(assignment: Assignment, attempt: Attempt) -> set[str]:
    """Cases that the tests of the run had, and grading.yml has no more."""
    known = {
        f"{q}.{case}" for q, question in assignment.questions.items() for case in question.checks
    }
    return set(attempt.run.asked or ()) - known if attempt.run else set()


def _outcome(attempt: Attempt) -> tuple[str, list[str]]:
    return attempt.status, [f"{r.question}.{r.case} {_told(r)}" for r in attempt.results]


def _told(result: CaseResult | None) -> str:
    if result is None:
        return "absent"
    return f"{result.verdict.status} {result.points:g} of {result.possible:g}"
