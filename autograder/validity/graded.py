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
from autograder.validity.runs import Bench, not_passed
from autograder.validity.splits import reseeded


class NotGraded(RuntimeError):
    """A notebook of the bank could not be graded, so nothing can be said of it."""


@dataclass(frozen=True)
class Seen:
    """An entry, the cases that it did not pass, and all statuses of the cases it is judged by."""

    entry: Entry
    failed: frozenset[str]
    statuses: Mapping[str, str]


class Examiner:
    """Grades entries, and tells what each failed."""

    def __init__(self, bench: Bench) -> None:
        """`cpu_s` grows with what was run, or had been run before."""
        self.bench = bench
        self.graph = Dependencies(Author(bench.name, bench.config, bench.root).notebook())
        self.cpu_s = 0.0

    def seen(self, entries: Sequence[Entry]) -> list[Seen]:
        """What each entry fails, in their order; in doubt it gets a notebook of its own.

        Raises:
            NotGraded: a notebook could not be graded.
        """
        groups = pack(entries, self.graph)
        found: dict[str, Seen] = {}
        doubtful: list[Entry] = []
        for group, attempt in zip(groups, self._grade([*map(merge, groups)]), strict=True):
            if len(group) > 1 and self._doubtful(group, attempt):
                doubtful += group
            else:
                found |= {one.entry.name: one for one in self._seen(group, attempt)}
        for entry, attempt in zip(doubtful, self._grade(doubtful), strict=True):
            (found[entry.name],) = self._seen([entry], attempt)
        return [found[entry.name] for entry in entries]

    def under(self, condition: Condition, entries: Sequence[Entry]) -> list[Seen]:
        """What each entry fails under a condition, in their order."""
        groups = pack(entries, self.graph)
        attempts = self._grade([*map(merge, groups)], condition)
        pairs = zip(groups, attempts, strict=True)
        found = {s.entry.name: s for group, attempt in pairs for s in self._seen(group, attempt)}
        return [found[entry.name] for entry in entries]

    def _grade(self, entries: Sequence[Entry], condition: Condition | None = None) -> list[Attempt]:
        names = [_name(entry, condition) for entry in entries]
        notebooks = [notebook(entry, self.bench.release) for entry in entries]
        given: dict[str, Any] = {}
        if condition:
            change = condition.threaded(reseeded(self.bench, condition.seed))
            given = dict.fromkeys(names, change)
            for made in notebooks:
                made.cells = condition.order(made.cells)
        workers = self.bench.workers // (condition.threads if condition else 1)  # one thread a core
        bench = replace(self.bench, workers=max(1, workers))
        found = bench.graded(dict(zip(names, notebooks, strict=True)), given)
        for entry, name in zip(entries, names, strict=True):
            attempt = found[name]
            self.cpu_s += attempt.cpu_s
            if attempt.status in ("infrastructure", "invalid"):
                raise NotGraded(f"{entry.full_name}: {attempt.status}. {attempt.reason}")
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
        failed = _seen(group[0], attempt, merge(group).answered).failed
        nobodys = failed - frozenset[str]().union(*(seen.failed for seen in found))
        known = [seen for seen in found if seen.entry.kind != "generated"]
        unexpected = any(seen.failed != seen.entry.fails for seen in known)
        return attempt.status != "graded" or bool(nobodys) or unexpected


def _seen(entry: Entry, attempt: Attempt, questions: frozenset[str] | None) -> Seen:
    """Of the verdicts of some questions, or of all."""
    results = [r for r in attempt.results if questions is None or r.question in questions]
    statuses = {f"{r.question}.{r.case}": r.verdict.status for r in results}
    return Seen(entry, frozenset(not_passed(attempt) & statuses.keys()), statuses)


def _name(entry: Entry, condition: Condition | None) -> str:
    """Tells what the notebook is, so that nothing else is ever graded under it."""
    changes = repr((entry.edits, entry.answers, entry.inserted, sorted(entry.answered or ())))
    stem = f"{entry.kind}-{hashlib.sha256(changes.encode()).hexdigest()[:16]}"
    return f"{stem}-{condition.name}" if condition else stem
