"""Train right solutions many times over, and see where thresholds lie.

What a check compares with its threshold is read from the same evidence that grading judges.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from autograder.checks import CHECKS
from autograder.checks.core import Threshold
from autograder.config import Assignment, settings_of
from autograder.grade import Release
from autograder.gradebook import Attempt
from autograder.judge import threshold_value
from autograder.master import Author
from autograder.measured import Band, curves
from autograder.validity import bank
from autograder.validity.bank import Entry
from autograder.validity.dependencies import Dependencies
from autograder.validity.graded import require_graded
from autograder.validity.notebooks import answer_cells, notebook
from autograder.validity.record import (
    Calibrated,
    Calibration,
    Kind,
    Sample,
    Unsteady,
    made,
)
from autograder.validity.runs import Bench, Change, not_passed
from autograder.validity.splits import divided, reseeded

# Checks that compare a share or a difference of shares; all others compare magnitudes.
PASSED = {"passed"}
SHARES = ("accuracy", "accuracy_gap", "translation_accuracy", "untrained", "remembering")


@dataclass(frozen=True)
class Plan:
    """Trainings of a solution: one a seed, in turn on each of so many divisions of the data.

    Attributes:
        seeds: of right solutions.
        wrong: how many of these wrong ones are trained with; fewer give them a wider bound.
        splits: number of divisions.
    """

    seeds: Sequence[int]
    wrong: int
    splits: int

    @property
    def of_wrong(self) -> "Plan":
        """The trainings of wrong solutions."""
        return replace(self, seeds=self.seeds[: self.wrong])

    @property
    def once(self) -> "Plan":
        """A single training."""
        return replace(self, seeds=self.seeds[:1])

    def names(self, entry: Entry) -> list[tuple[str, int, int]]:
        """Name, seed and split of each training of a solution."""
        turns = [(seed, number % self.splits) for number, seed in enumerate(self.seeds)]
        return [(f"{entry.student}-seed{seed}-split{split}", seed, split) for seed, split in turns]


@dataclass(frozen=True)
class Trained:
    """A solution and what its trainings gave, in the order of the seeds."""

    entry: Entry
    attempts: Sequence[Attempt]

    def values(self, assignment: Assignment, case: str) -> list[float | None]:
        """What the case compared with its threshold in each training."""
        name, _, short = case.partition(".")
        question = assignment.questions[name]
        entry = question.checks[short]
        return [
            threshold_value(question, entry, _evidence(attempt, name, short))
            for attempt in self.attempts
        ]

    def failures(self, questions: Collection[str]) -> list[Unsteady]:
        """The cases of these questions that it did not pass in all trainings.

        Of other questions a given seed may be part of the task, and another one a fault.
        """
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for attempt in self.attempts:
            seen["status"]["passed" if attempt.status == "graded" else attempt.status] += 1
            for r in attempt.results:
                if r.question in questions:
                    seen[f"{r.question}.{r.case}"][r.verdict.status] += 1
        missed = {case: dict(statuses) for case, statuses in seen.items() if {*statuses} != PASSED}
        return [Unsteady(self.entry.name, case, statuses) for case, statuses in missed.items()]


class Calibrator:
    """Trains the solutions of one assignment."""

    def __init__(self, bench: Bench, plan: Plan) -> None:
        """Read the bank.

        Raises:
            BankError: a file of the bank can't be used.
        """
        self.bench, self.plan = bench, plan
        self.assignment = bench.config.assignment(bench.name)
        self.entries = bank.load(bench.root / "tests", bench.name)
        self.graph = Dependencies(Author(bench.name, bench.config, bench.root).notebook())

    def calibrate(self, device: str) -> Calibration:
        """Train the reference, right solutions and the best mutants; see what checks measured.

        Raises:
            ReleaseMissing: the release isn't built.
            NotGraded: a notebook could not be graded.
        """
        (solution,) = self._trained([bank.reference(self.bench.name)], self.plan)
        drawn = [case for case in self._cases() if _varies(solution.values(self.assignment, case))]
        right = [solution, *self._trained(self._concerned(drawn), self.plan)]
        wrong = self._trained(self._best(drawn), self.plan.of_wrong)
        questions = {case.split(".")[0] for case in drawn}
        version = Release.load(self.bench.name, self.bench.root).version
        return Calibration(
            assignment=self.bench.name,
            made=made(version, device, threads=1),
            probability=self.bench.config.validity.false_fail_probability,
            seeds=list(self.plan.seeds),
            splits=self.plan.splits if self.assignment.datasets else 1,
            checks=[self._calibrated(case, right, wrong) for case in drawn],
            unstable=[one for trained in right for one in trained.failures(questions)],
            bands=[*bands(self.assignment, [a.records for a in solution.attempts])],
        )

    def _cases(self) -> Iterator[str]:
        """The cases that compare a number with a threshold."""
        for name, question in self.assignment.questions.items():
            for case, entry in question.checks.items():
                if CHECKS[entry.check].threshold:
                    yield f"{name}.{case}"

    def _trained(self, entries: Iterable[Entry], plan: Plan) -> list[Trained]:
        entries, found = list(entries), dict[str, Attempt]()
        built = Release.load(self.bench.name, self.bench.root)
        for split in range(plan.splits):
            turns = [(e, n, s) for e in entries for n, s, k in plan.names(e) if k == split]
            notebooks = {name: notebook(entry, self.bench.release) for entry, name, _ in turns}
            given = {name: self._changes[seed] for _, name, seed in turns}
            found |= self.bench.graded(notebooks, given, divided(built, split))
        for attempt in found.values():
            require_graded(attempt)
        return [Trained(e, [found[name] for name, _, _ in plan.names(e)]) for e in entries]

    @cached_property
    def _changes(self) -> dict[int, Change]:
        return {seed: reseeded(self.bench, seed) for seed in self.plan.seeds}

    def _concerned(self, drawn: Sequence[str]) -> list[Entry]:
        """Right solutions that change what is drawn; they answer only what that needs."""
        questions = frozenset(case.split(".")[0] for case in drawn)
        right = [e for e in self.entries if e.kind == "variants" and e.answered is None]
        chosen = [e for e in right if self.graph.reached(e.concerns) & questions]
        return [replace(e, answered=self._needed(e, questions | e.concerns)) for e in chosen]

    def _needed(self, entry: Entry, questions: frozenset[str]) -> frozenset[str]:
        """What these questions need, if they are answered as the entry does."""
        answers = answer_cells(notebook(entry, self.bench.release), self.bench.name)
        master = Author(self.bench.name, self.bench.config, self.bench.root).notebook()
        places = [c for c in master.cells if c.metadata["autograder"].get("role") == "answer"]
        code = [cell for cell in answers.values() if cell.cell_type == "code"]  # not what is told
        for place, cell in zip(places, code, strict=True):
            place.source = cell.source
        return Dependencies(master).needed(questions)

    def _best(self, drawn: Sequence[str]) -> list[Entry]:
        """For each case the mutant that should fail it and, in one training, is nearest to it."""
        mutants = [e for e in self.entries if e.kind == "mutants" and e.fails & set(drawn)]
        once = self._trained(mutants, self.plan.once)
        best: dict[str, Entry] = {}
        for case in drawn:
            sign = 1 if self._threshold(case)[0].at_least else -1
            near = [
                (sign * value, trained.entry.name, trained.entry)
                for trained in once
                for value in trained.values(self.assignment, case)
                if value is not None and self._is_about(trained, case)
            ]
            if near:
                entry = max(near, key=lambda one: one[:2])[2]
                best[entry.name] = entry
        return list(best.values())

    def _threshold(self, case: str) -> tuple[Threshold, float]:
        """How the case compares, and with which number of grading.yml."""
        name, _, short = case.partition(".")
        question = self.assignment.questions[name]
        entry = question.checks[short]
        check = CHECKS[entry.check]
        assert check.threshold is not None
        setting = check.threshold.setting
        return check.threshold, float(settings_of(question, entry, check.settings)[setting])

    def _is_about(self, trained: Trained, case: str) -> bool:
        """Whether the number of the case is what should tell of this mutant.

        It is not, where the case fails although the number reaches the threshold.
        """
        value = trained.values(self.assignment, case)[0]
        if value is None or case not in trained.entry.fails:
            return False
        how, threshold = self._threshold(case)
        reached = value >= threshold if how.at_least else value <= threshold
        return not (reached and case in not_passed(trained.attempts[0]))

    def _calibrated(
        self, case: str, right: Sequence[Trained], wrong: Sequence[Trained]
    ) -> Calibrated:
        how, threshold = self._threshold(case)
        name, _, short = case.partition(".")
        chosen = [*right, *(t for t in wrong if self._is_about(t, case))]
        samples = [
            Sample(t.entry.name, _kind(t.entry), t.values(self.assignment, case)) for t in chosen
        ]
        magnitude = self.assignment.questions[name].checks[short].check not in SHARES
        return Calibrated(name, short, how.setting, how.at_least, threshold, samples, magnitude)


def bands(
    assignment: Assignment, trainings: Iterable[Sequence[Mapping[str, Any]]]
) -> Iterator[Band]:
    """Where curves of many trainings, given by their records, lay; those that are always finite."""
    found: dict[tuple[str, str], list[tuple[float | None, ...]]] = defaultdict(list)
    for records in trainings:
        for curve in curves(assignment, records):
            found[curve.network, curve.quantity].append(curve.values)
    for (network, quantity), values in found.items():
        epochs = [[v for v in epoch if v is not None] for epoch in zip(*values, strict=True)]
        if all(len(epoch) == len(values) for epoch in epochs):
            lowest, highest = [min(epoch) for epoch in epochs], [max(epoch) for epoch in epochs]
            yield Band(network, quantity, lowest, [median(epoch) for epoch in epochs], highest)


def _evidence(attempt: Attempt, question: str, case: str) -> Any:
    found = (r for r in attempt.records if (r["question"], r["case"]) == (question, case))
    return next(found, {}).get("evidence")


def _kind(entry: Entry) -> Kind:
    if entry.kind == "mutants":
        return "mutant"
    return "reference" if entry == bank.reference(entry.assignment) else "variant"


def _varies(values: Iterable[float | None]) -> bool:
    return len({value for value in values if value is not None}) > 1
