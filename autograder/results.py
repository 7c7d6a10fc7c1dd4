"""Results of one assignment in a folder: grades, pages, class report, sheets and exports.

All of it is made from gradebook, executed notebooks and grading.yml whenever it is asked for.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rich.console import Console
from rich.progress import track

from autograder import measured
from autograder.config import Config
from autograder.grade import Executed, file_stem
from autograder.gradebook import Gradebook, Terms
from autograder.measured import Band
from autograder.policy import Grade, differences, grade
from autograder.report.answers import answers, code
from autograder.report.classroom import Student, write_class_report
from autograder.report.grades import write_grades, write_history
from autograder.report.manual import Answer
from autograder.report.similarity import places
from autograder.report.writers import Pages, Writers

LATER = "What was handed in last is not graded yet: this is an earlier attempt."


class Results:
    """What students of one assignment got.

    Attributes:
        folder: where its files go.
    """

    def __init__(self, gradebook: Gradebook, terms: Terms, config: Config, out: Path) -> None:
        """`out` is the folder of the gradebook."""
        self.gradebook, self.terms = gradebook, terms
        self.assignment = config.assignment(terms.assignment)
        self.folder = out / terms.assignment
        self.executed = Executed(self.folder / "executed", config.limits.file_mib)
        self._similarity = config.similarity
        cores = os.cpu_count() or 1
        self._processes = min(config.workers or cores, cores)

    @cached_property
    def waiting(self) -> list[str]:
        """Students whose last file is not graded yet."""
        return self.gradebook.waiting(self.terms.assignment)

    @cached_property
    def grades(self) -> list[Grade]:
        """One a student, sorted by student."""
        marks = self.gradebook.ledger.marks(self.terms.assignment)
        found = [
            grade(self.assignment, attempts, marks.get(attempts[-1].student, {}))
            for attempts in self.gradebook.by_student(self.terms)
        ]
        return [
            replace(one, notes=(LATER, *one.notes)) if one.attempt.student in self.waiting else one
            for one in found
        ]

    def note_changes(self) -> list[tuple[str, str]]:
        """Append what is new to the history of grades; who got another one than before, and why."""
        before = self.gradebook.ledger.grades(self.terms.assignment)
        new = []
        for one in self.grades:
            student, record = one.attempt.student, one.record()
            old = before.get(student)
            why = "; ".join(differences(old[-1], record)) if old else ""
            if why or not old:
                new.append((student, record, why))
        self.gradebook.ledger.note(self.terms.assignment, new)
        return [(student, why) for student, _, why in new if why]

    def write(self, bands: Sequence[Band], known: Sequence[str]) -> None:
        """Write grades.csv, a page and a notebook for each student, and the report of the class.

        Args:
            bands: of the reference's trainings.
            known: code that any two submissions may share.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_grades(self.folder / "grades.csv", self.assignment, self.grades)
        history = self.gradebook.ledger.grades(self.terms.assignment)
        write_history(self.folder / "history.csv", history)
        students, codes = [], {}
        quiet = not Console().is_terminal
        with Writers(self._processes, len(self.grades)) as writers:
            for one in track(self.grades, "pages", transient=True, disable=quiet):
                self.executed.publish(one.attempt)
                pages = self._pages(one, bands)
                writers.write(pages)
                students.append(self._student(pages))
                codes[one.attempt.student] = code(pages.notebook)
        alike = places(codes, known, self._similarity)
        write_class_report(self.folder / "class.html", self.assignment, students, alike)

    def _pages(self, one: Grade, bands: Sequence[Band]) -> Pages:
        run = self.gradebook.run_of(one.attempt)
        path = self.folder / "feedback" / f"{file_stem(one.attempt.student)}.html"
        path.parent.mkdir(exist_ok=True)
        records, notebook = run.records if run else (), self.executed.read(one.attempt)
        return Pages(path, self.assignment, one, records, bands, notebook)

    def _student(self, pages: Pages) -> Student:
        """What the report of the class needs of a student."""
        return Student(
            pages.grade,
            measured.sizes(self.assignment, pages.records),
            measured.accuracies(self.assignment, pages.records),
        )

    def answers(self) -> Iterator[Answer]:
        """What students wrote for the manual questions; "" where the run left no notebook."""
        marks = self.gradebook.ledger.marks(self.terms.assignment)
        manual = [name for name, question in self.assignment.questions.items() if question.manual]
        for one in self.grades:
            student, sha256 = one.attempt.student, one.attempt.sha256
            cells = answers(self.executed.read(one.attempt))
            for name in manual if one.attempt.status != "invalid" else ():
                text = "\n\n".join(source for _, source in cells.get(name, ()))
                mark = marks.get(student, {}).get((sha256, name))
                yield Answer(student, sha256, name, text, None if name in one.unmarked else mark)
