"""A feedback page for one attempt: self-contained, all text escaped, hidden checks by name."""

from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograder.config import Assignment
from autograder.gradebook import Attempt
from autograder.judge import CaseResult
from autograder.report.grades import shown, total

_PAGES = Environment(
    loader=PackageLoader("autograder", "report"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip

MARKS = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "not passed"),
    "not_answered": ("○", "not answered"),
    "not_reached": ("○", "not reached"),
    "not_run": ("!", "could not run"),
    "refused": ("!", "needs a person"),
}
STATUS = {
    "graded": "Graded.",
    "partial": "Partly graded: something was stopped or ended early; the rest counts.",
    "flagged": "Not final: a person has to look at this submission.",
    "invalid": "Not graded: the file can't be used.",
    "infrastructure": "Not graded yet: something outside your work failed; it will be run again.",
}


def write_feedback(path: Path, assignment: Assignment, attempt: Attempt) -> None:
    """Write the page of one attempt."""
    questions = [
        {"name": name, "cases": list(cases), "points": shown(attempt.points(name))}
        for name, cases in groupby(attempt.results, lambda r: r.question)
    ]
    possible = {n: shown(q.possible) for n, q in assignment.questions.items()}
    page = _PAGES.get_template("feedback.html").render(
        assignment=assignment, attempt=attempt, questions=questions, possible=possible,
        manual=[n for n, q in assignment.questions.items() if q.manual],
        total=shown(total(assignment, attempt)),
        automatic=shown(sum(q.possible for q in assignment.questions.values() if not q.manual)),
        marks=MARKS, status=STATUS[attempt.status], shown=shown, told=_told,
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def _told(result: CaseResult) -> str:
    """What a student may read of a check: of a hidden one only whether it passed."""
    if result.hidden and result.verdict.status in ("passed", "failed"):
        return "Hidden: only its outcome is shown."
    return result.verdict.rationale


def headline(name: str) -> str:
    """A question's or case's name as words."""
    return name.replace("_", " ")


_PAGES.filters["headline"] = headline
