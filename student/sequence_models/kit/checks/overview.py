"""How far a notebook has come: a row for each question, with the points of its visible checks.

Points come from Otter's test files in the release, verdicts from the checks that have run in this
process. Nothing is run, and no random number is drawn.
"""

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.checks import core
from autograder.checks.display import outcome, table

TESTS = Path(__file__).parents[2] / "tests"  # in a release it lies beside the folder kit
TITLES = ("question", "points so far", "visible checks")
NOTES = (
    "Only the visible checks are counted here. Hidden checks are run after you have handed in, "
    "and questions marked so are graded by a person.",
    "A question counts once its check cell has been run since the kernel was started, with what "
    "that check saw then: after changing an answer, run its check again, then this cell.",
)


@dataclass(frozen=True)
class Row:
    """One question; `points` and `possible` are those of its visible checks."""

    name: str
    state: str
    points: float = 0
    possible: float | None = None

    @property
    def texts(self) -> tuple[str, str, str]:
        """What the table shows."""
        amount = "–" if self.possible is None else f"{self.points:g} of {self.possible:g}"
        return self.name, amount, self.state


@dataclass(frozen=True)
class Overview:
    """The table, as a notebook shows it: HTML, or text where that is all there is."""

    rows: Sequence[Row]

    @property
    def total(self) -> Row:
        """The last row."""
        counted = [row for row in self.rows if row.possible is not None]
        done = sum(row.possible == row.points for row in counted)
        state = f"{done} of {len(counted)} questions have all their visible points"
        points = sum(row.points for row in counted)
        return Row("all questions", state, points, sum(row.possible or 0 for row in counted))

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in NOTES)
        return table(TITLES, [row.texts for row in (*self.rows, self.total)]) + notes

    def __repr__(self) -> str:
        """Columns side by side, then the notes."""
        lines = [TITLES, *(row.texts for row in (*self.rows, self.total))]
        widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
        texts = [f"{a:{widths[0]}}  {b:{widths[1]}}  {c}" for a, b, c in lines]
        return "\n".join([*texts, "", *NOTES])


def progress(*questions: str, by_hand: Collection[str] = (), tests: Path = TESTS) -> Overview:
    """The overview of a notebook's questions, in this order.

    Args:
        questions: names of all questions.
        by_hand: those of them that a person grades.
        tests: folder of Otter's test files. Hidden cases, which are there in grading, are left out.
    """
    return Overview([_row(name, name in by_hand, tests) for name in questions])


def _row(name: str, by_hand: bool, tests: Path) -> Row:
    if by_hand:
        return Row(name, "graded by a person")
    try:
        cases = _visible(tests / f"{name}.py")
    except Exception as error:  # the file was changed or removed: the cell must not fail for that
        return Row(name, f"its test file can't be read ({type(error).__name__}): get it anew")
    if not cases:
        return Row(name, outcome(0, 0))
    seen = {case: core.latest[name, case] for case in cases if (name, case) in core.latest}
    passed = [case for case, verdict in seen.items() if verdict.status == "passed"]
    points, possible = sum(cases[case] for case in passed), sum(cases.values())
    return Row(name, _state(seen.values(), len(passed), len(cases)), points, possible)


def _state(seen: Collection[core.Verdict], passed: int, visible: int) -> str:
    if not seen:
        return "not run yet"
    if len(seen) == visible and {v.status for v in seen} == {"not_answered"}:
        return "○ no answer yet"
    mark = "✓ " if passed == visible else ""
    undone = sum(v.status == "not_run" for v in seen)
    return f"{mark}{outcome(passed, visible)}" + (f", {undone} could not be done" if undone else "")


def _visible(path: Path) -> dict[str, float]:
    """Points of each visible case of a test file."""
    from otter.test_files import ExceptionTestFile

    cases = ExceptionTestFile.from_file(str(path)).test_cases
    return {c.body.test_func.__name__: float(c.points) for c in cases if not c.hidden}
