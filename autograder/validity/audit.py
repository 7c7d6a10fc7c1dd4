"""Run wrong and right solutions through the tests of a release: does every check do its work?"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autograder.grade import Release
from autograder.validity import bank
from autograder.validity.bank import BankError, Entry
from autograder.validity.conditions import Condition
from autograder.validity.graded import STATUS, Examiner, Seen
from autograder.validity.notebooks import answer_cells, solved
from autograder.validity.operators import mutations
from autograder.validity.record import Audit, Case, Mutant, Outcome, Variant, made, unsteady
from autograder.validity.runs import Bench


class Auditor:
    """Grades the bank of one assignment."""

    def __init__(self, bench: Bench) -> None:
        """Read the bank.

        Raises:
            BankError: a file of the bank can't be used, or names a case that there is not.
        """
        self.bench = bench
        self.assignment = bench.config.assignment(bench.name)
        tests = bench.root / "tests"
        self.entries = bank.load(tests, bench.name)
        self.equivalents = bank.equivalents(tests, bench.name)
        self.examiner = Examiner(bench)
        self._noticed: set[str] = set()
        self._require_cases()

    def audit(self, conditions: Sequence[Condition] = ()) -> Audit:
        """Grade everything; right solutions once more under each of the conditions.

        Raises:
            NotGraded: a notebook could not be graded.
        """
        started = time.monotonic()
        variants = self._variants(conditions)
        mutants = [*self._written(), *self._generated()]
        cases = list(self._cases())
        return Audit(
            assignment=self.bench.name,
            made=made(Release.load(self.bench.name, self.bench.root).version, "cpu", threads=1),
            cases=cases,
            mutants=mutants,
            variants=variants,
            unexercised=[case.name for case in cases if case.name not in self._noticed],
            wall_s=round(time.monotonic() - started, 1),
            cpu_s=round(self.examiner.cpu_s, 1),
        )

    def _require_cases(self) -> None:
        known = {case.name for case in self._cases()}
        for entry in self.entries:
            if unknown := sorted(entry.fails - known):
                raise BankError(f"{entry.student}: grading.yml has no case {', '.join(unknown)}.")

    def _cases(self) -> Iterator[Case]:
        for name, question in self.assignment.questions.items():
            for case, entry in question.checks.items():
                yield Case(name, case, entry.check, entry.points, entry.hidden)

    # Right solutions.

    def _variants(self, conditions: Sequence[Condition]) -> list[Variant]:
        entries = [e for e in self.entries if e.kind == "variants"]
        entries = [bank.reference(self.bench.name), *entries]
        runs = [self.examiner.seen(entries)]
        runs += [self.examiner.seen(entries, condition) for condition in conditions]
        return [_variant(of_one) for of_one in zip(*runs, strict=True)]

    # Wrong ones.

    def _written(self) -> list[Mutant]:
        entries = [e for e in self.entries if e.kind == "mutants"]
        return [_written(seen) for seen in self._wrong(entries)]

    def _wrong(self, entries: Sequence[Entry]) -> list[Seen]:
        found = self.examiner.seen(entries)
        self._noticed.update(case for seen in found for case in seen.noticed)
        return found

    def _generated(self) -> list[Mutant]:
        """Mutants by operators: first their own questions, then, for survivors, all others."""
        entries = list(self._by_operators())
        whole = self._only_together(entries)
        first = self._wrong([e if e.concerns & whole else self._alone(e) for e in entries])
        left = [entry for entry, seen in zip(entries, first, strict=True) if not seen.failed]
        again = {seen.entry.name: seen for seen in self._wrong(left)}
        found = [self._of_operator(again.get(seen.entry.name, seen)) for seen in first]
        gone = self.equivalents.keys() - {entry.idea for entry in entries}
        return [*found, *(self._gone(idea) for idea in sorted(gone))]

    def _by_operators(self) -> Iterator[Entry]:
        cells = answer_cells(solved(self.bench.release), self.bench.name)
        for place, cell in cells.items():
            for mutation in mutations(cell.source) if cell.cell_type == "code" else ():
                idea = f"{place} {mutation.name}"
                name = hashlib.sha256(idea.encode()).hexdigest()[:16]
                source = {place: mutation.source}
                yield Entry(self.bench.name, "generated", name, idea, answers=source)

    def _alone(self, entry: Entry) -> Entry:
        """Only its own questions answered: most are noticed there, and nothing has to train."""
        return replace(entry, answered=self.examiner.graph.needed(entry.concerns))

    def _only_together(self, entries: Sequence[Entry]) -> frozenset[str]:
        """Questions that the reference itself fails where only what they need is answered."""
        questions = sorted({question for entry in entries for question in entry.concerns})
        alone = [self.examiner.graph.needed([question]) for question in questions]
        controls = [
            Entry(self.bench.name, "generated", f"control {question}", "", answered=needed)
            for question, needed in zip(questions, alone, strict=True)
        ]
        found = zip(questions, self.examiner.seen(controls), strict=True)
        return frozenset(question for question, seen in found if seen.failed)

    def _of_operator(self, seen: Seen) -> Mutant:
        idea = seen.entry.idea
        reason = self.equivalents.get(idea, "")
        noticed: Outcome = "stale" if reason else "killed"
        unnoticed: Outcome = "equivalent" if reason else "survived"
        failed = sorted(seen.failed - {STATUS})
        outcome = noticed if failed else unnoticed
        return Mutant(seen.entry.name, False, idea, [], failed, outcome, reason)

    def _gone(self, idea: str) -> Mutant:
        name = hashlib.sha256(idea.encode()).hexdigest()[:16]
        return Mutant(name, False, idea, [], [], "stale", "listed, but no operator makes it now")


def _written(seen: Seen) -> Mutant:
    entry, failed = seen.entry, seen.failed - {STATUS}
    noticed: Outcome = "expected" if failed == entry.fails else "other"
    outcome = noticed if failed else "survived"
    return Mutant(entry.name, True, entry.idea, sorted(entry.fails), sorted(failed), outcome)


def _told(seen: Seen, case: str) -> str:
    """A case, or what became of the whole attempt."""
    return case if case != STATUS else f"whole attempt: {seen.statuses[STATUS]}"


def _variant(runs: Sequence[Seen]) -> Variant:
    entry = runs[0].entry
    failed = sorted({_told(seen, case) for seen in runs for case in seen.failed})
    steady = unsteady(entry.name, [seen.statuses for seen in runs])
    return Variant(entry.name, entry.idea, failed, len(runs) - 1, steady)
