"""Grades and roster side by side: who gets how much, and of how much."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from autograder.config import Assignment
from autograder.policy import Grade, needs_a_person


@dataclass(frozen=True)
class Person:
    """A student as the roster knows them; "" where it does not tell."""

    student: str
    name: str = ""
    email: str = ""
    canvas_id: str = ""
    moodle_id: str = ""


@dataclass(frozen=True)
class Row:
    """A student of the grades, of the roster, or of both.

    Attributes:
        listed: whether the roster has the person.
        grade: None if nothing was graded.
        waiting: whether what was handed in last is not graded yet.
    """

    person: Person
    listed: bool
    grade: Grade | None
    waiting: bool = False

    @property
    def points(self) -> float | None:
        """What is known of the total; None where the attempt has no grade."""
        if self.grade is None or self.waiting or needs_a_person(self.grade.attempt):
            return None
        return self.grade.total

    @property
    def total(self) -> float | None:
        """The grade that goes out; None also where an answer waits for a person."""
        return None if self.grade is None or self.grade.unmarked else self.points

    @property
    def status(self) -> str:
        """Why there is no grade, in a word or two."""
        if self.waiting:
            return "not graded yet"
        if self.grade is None:
            return "not handed in"
        known = self.points is not None or needs_a_person(self.grade.attempt)
        return self.grade.attempt.status if known else "a question could not be graded"


@dataclass(frozen=True)
class Batch:
    """What is exported.

    Attributes:
        grades: one a student.
        people: the roster; empty if there is none.
        without_manual: leave all manual questions out of points and possible points, of all
            students, also of those whose answers are marked already.
        waiting: students whose last file is not graded yet; they have no grade.
        column: name of the grade's column in Canvas; "": the assignment's title.
    """

    assignment: Assignment
    grades: Sequence[Grade]
    people: Sequence[Person] = ()
    without_manual: bool = False
    waiting: Collection[str] = ()
    column: str = ""

    @property
    def questions(self) -> list[str]:
        """Those that count here."""
        questions = self.assignment.questions.items()
        return [name for name, q in questions if not (q.manual and self.without_manual)]

    @property
    def possible(self) -> float:
        """Points of these questions."""
        return sum(self.assignment.questions[name].possible for name in self.questions)

    def rows(self) -> list[Row]:
        """Everybody once: the roster in its order, then the others."""
        grades = {_same(one.attempt.student): self._counted(one) for one in self.grades}
        listed = [Row(p, True, grades.pop(_same(p.student), None)) for p in self.people]
        others = [Row(Person(g.attempt.student, g.attempt.name), False, g) for g in grades.values()]
        waiting = {_same(student): student for student in self.waiting}
        rows = [
            replace(row, waiting=waiting.pop(_same(row.person.student), None) is not None)
            for row in (*listed, *others)
        ]
        return [*rows, *(Row(Person(student), False, None, True) for student in waiting.values())]

    def _counted(self, grade: Grade) -> Grade:
        """The grade of the questions that count here.

        Lateness costs a share of the possible points, so it costs the same share of fewer.
        """
        if not self.without_manual:
            return grade
        share = grade.deduction / grade.possible if grade.possible else 0.0
        points = {name: grade.points[name] for name in self.questions}
        return replace(
            grade, points=points, unmarked=(), possible=self.possible,
            deduction=share * self.possible,
        )  # fmt: skip


def _same(student: str) -> str:
    return unicodedata.normalize("NFC", student)
