"""Grading entries of the bank: which cases each of them fails, several to a notebook."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autograder.gradebook import Attempt
from autograder.master import Author
from autograder.validity.bank import Entry
from autograder.validity.conditions import Condition
from autograder.validity.dependencies import Dependencies
from autograder.validity.notebooks import judged_by, merge, notebook, pack
from autograder.validity.runs import Bench

STATUS = "status"  # beside the cases: that of the attempt


class NotGraded(RuntimeError):
    """A notebook of the bank could not be graded, so nothing can be said of it."""


def require_graded(attempt: Attempt) -> None:
    """Refuse an attempt that says nothing of the solution.

    Raises:
        NotGraded: it ended for a reason outside of the notebook, or the notebook can't be read.
    """
    if attempt.status in ("infrastructure", "invalid"):
        raise NotGraded(
            f"{attempt.student}: {attempt.status}, {attempt.reason} Nothing was concluded. What "
            "was graded is kept; give the same command again."
        )


@dataclass(frozen=True)
class Seen:
    """An entry, and what grading made of it.

    Attributes:
        failed: the cases that did not pass. One more, "status", if the attempt was not simply
            graded: whoever is flagged has no grade, whatever passed.
        noticed: those of them whose check measured, and judged what it had measured.
        statuses: of all cases that the entry is judged by.
    """

    entry: Entry
    failed: frozenset[str]
    noticed: frozenset[str]
    statuses: Mapping[str, str]


class Examiner:
    """Grades entries, and tells what each failed."""

    def __init__(self, bench: Bench) -> None:
        """`cpu_s` grows with what was run, or had been run before."""
        self.bench = bench
        self.graph = Dependencies(Author(bench.name, bench.config, bench.root).notebook())
        self.cpu_s = 0.0

    def seen(self, entries: Sequence[Entry], condition: Condition | None = None) -> list[Seen]:
        """What each entry fails, in their order; in doubt it gets a notebook of its own.

        Args:
            entries: what to grade.
            condition: under which, if it isn't the usual one.

        Raises:
            NotGraded: a notebook could not be graded.
        """
        groups = pack(entries, self.graph)
        found: dict[str, Seen] = {}
        doubtful: list[Entry] = []
        attempts = self._grade([*map(merge, groups)], condition)
        for group, attempt in zip(groups, attempts, strict=True):
            if len(group) > 1 and self._doubtful(group, attempt):
                doubtful += group
            else:
                found |= {one.entry.name: one for one in self._seen(group, attempt)}
        for entry, attempt in zip(doubtful, self._grade(doubtful, condition), strict=True):
            (found[entry.name],) = self._seen([entry], attempt)
        return [found[entry.name] for entry in entries]

    def _grade(self, entries: Sequence[Entry], condition: Condition | None) -> list[Attempt]:
        names = [_name(entry, condition) for entry in entries]
        notebooks = [notebook(entry, self.bench.release) for entry in entries]
        given: dict[str, Any] = {}
        if condition:
            given = dict.fromkeys(names, condition.begun)
            for made in notebooks:
                made.cells = condition.order(made.cells)
        workers = self.bench.workers // (condition.threads if condition else 1)  # one thread a core
        bench = replace(self.bench, workers=max(1, workers))
        found = bench.graded(dict(zip(names, notebooks, strict=True)), given)
        for name in names:
            require_graded(found[name])
            self.cpu_s += found[name].cpu_s
        return [found[name] for name in names]

    def _seen(self, group: Sequence[Entry], attempt: Attempt) -> list[Seen]:
        """What each of a group failed; what has a notebook of its own is judged by all of it."""
        alone = len(group) == 1
        return [
            _seen(entry, attempt, merge(group).answered if alone else judged_by(entry, self.graph))
            for entry in group
        ]

    def _doubtful(self, group: Sequence[Entry], attempt: Attempt) -> bool:
        """Whether the run ended early, or a failure is nobody's or not the one it should be."""
        found = self._seen(group, attempt)
        failed = _seen(group[0], attempt, merge(group).answered).failed - {STATUS}
        nobodys = failed - frozenset[str]().union(*(seen.failed for seen in found))
        known = [seen for seen in found if seen.entry.kind != "generated"]
        unexpected = any(seen.failed - {STATUS} != seen.entry.fails for seen in known)
        return attempt.status != "graded" or bool(nobodys) or unexpected


def _seen(entry: Entry, attempt: Attempt, questions: frozenset[str] | None) -> Seen:
    """Of the verdicts of some questions, or of all."""
    results = [r for r in attempt.results if questions is None or r.question in questions]
    statuses = {f"{r.question}.{r.case}": str(r.verdict.status) for r in results}
    statuses[STATUS] = "passed" if attempt.status == "graded" else attempt.status
    failed = frozenset(case for case, status in statuses.items() if status != "passed")
    measured = {
        f"{r['question']}.{r['case']}" for r in attempt.records if "stopped" not in r["evidence"]
    }
    noticed = frozenset(c for c in failed & measured if statuses[c] == "failed")
    return Seen(entry, failed, noticed, statuses)


def _name(entry: Entry, condition: Condition | None) -> str:
    """Tells what the notebook is, so that nothing else is ever graded under it."""
    changes = repr((entry.edits, entry.answers, entry.inserted, sorted(entry.answered or ())))
    stem = f"{entry.kind}-{hashlib.sha256(changes.encode()).hexdigest()[:16]}"
    return f"{stem}-{condition.name}" if condition else stem
