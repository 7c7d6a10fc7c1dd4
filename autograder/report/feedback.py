"""A feedback page for one student: self-contained, all text escaped, hidden checks by name.

What a check measured is shown with its verdict; what the charts show comes from the same evidence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from autograder import measured
from autograder.config import Assignment
from autograder.judge import CaseResult
from autograder.policy import Grade
from autograder.report.charts import curve_charts, size_chart
from autograder.report.grades import shown
from autograder.report.pages import PAGES, write_page

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
SPLITS = {"validation": "validation set", "test": "test set", "hidden": "hidden test set"}


@dataclass(frozen=True)
class Seen:
    """What the evidence that a student may see tells of trainings and networks."""

    curves: Sequence[measured.Curve]
    sizes: Sequence[measured.Size]
    recorded: Sequence[measured.Accuracy]
    confusions: Sequence[measured.Confusion]


def write_feedback(
    path: Path,
    assignment: Assignment,
    grade: Grade,
    records: Sequence[Mapping[str, Any]],
    bands: Sequence[measured.Band],
) -> None:
    """Write the page of one student; it links to the executed notebook where that lies beside it.

    Args:
        path: the page, `<stem>.html`; the notebook is `<stem>.notebook.html`.
        assignment: its questions.
        grade: what the student gets, with the attempt that counts.
        records: the evidence of that attempt.
        bands: of the curves of the reference, which charts show beside those of the student.
    """
    visible = [record for record in records if _visible(assignment, record)]
    notebook = path.with_name(f"{path.stem}.notebook.html")
    seen = Seen(
        measured.curves(assignment, visible), measured.sizes(assignment, visible),
        measured.recorded(assignment, visible), measured.confusions(assignment, visible),
    )  # fmt: skip
    told = {
        "title": assignment.title, "grade": grade, "questions": _questions(assignment, grade),
        "notebook": quote(notebook.name) if notebook.is_file() else "",
    }  # fmt: skip

    def make() -> str:
        return PAGES.get_template("feedback.html").render(
            **told, attempt=grade.attempt, status=STATUS, splits=SPLITS, marks=MARKS, shown=shown,
            measured=_charted(seen, bands),
        )  # fmt: skip

    write_page(path, (told, grade.attempt, seen, bands), make)


def _visible(assignment: Assignment, record: Mapping[str, Any]) -> bool:
    """Whether the student may see what the record's check measured."""
    name = str(record.get("question"))
    question = assignment.questions.get(name)
    entry = question.checks.get(str(record.get("case"))) if question else None
    return entry is not None and (name in assignment.released or not entry.hidden)


def _questions(assignment: Assignment, grade: Grade) -> list[dict[str, Any]]:
    """What the page tells of each question, in the assignment's order."""
    cases = {
        name: [_told(assignment, result) for result in results]
        for name, results in groupby(grade.attempt.results, lambda result: result.question)
    }
    return [
        {
            "name": name, "manual": question.manual, "points": shown(grade.points[name]),
            "possible": shown(question.possible), "unmarked": name in grade.unmarked,
            "comment": grade.comments.get(name, ""), "cases": cases.get(name, []),
        }
        for name, question in assignment.questions.items()
    ]  # fmt: skip


def _told(assignment: Assignment, result: CaseResult) -> dict[str, Any]:
    """What a student may read of a check: of a hidden one only whether it passed."""
    secret = result.hidden and result.question not in assignment.released
    verdict = result.verdict
    return {
        "name": result.case, "hidden": result.hidden, "status": verdict.status,
        "points": shown(result.points), "possible": shown(result.possible),
        "rationale": "Hidden: only its outcome is shown." if secret else verdict.rationale,
        "hint": "" if secret else verdict.hint,
    }  # fmt: skip


def _charted(seen: Seen, bands: Sequence[measured.Band]) -> dict[str, Any]:
    """What the page shows of trainings and networks."""
    known = {(band.network, band.quantity) for band in bands}
    return {
        "charts": curve_charts(seen.curves, bands)
        + ([size_chart(seen.sizes)] if seen.sizes else []),
        "banded": any((curve.network, curve.quantity) in known for curve in seen.curves),
        "limited": any(size.largest is not None for size in seen.sizes),
        "accuracies": seen.recorded,
        "confusions": seen.confusions,
    }
