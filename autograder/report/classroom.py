"""What a teacher sees of the whole class: one page, made from grades and what was measured.

Names, messages and code are untrusted text. What is not known is told apart and never counted as 0.
However large the class is, the page stays small: long lists are cut, and the rest is counted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autograder.config import Assignment
from autograder.judge import CaseResult
from autograder.measured import Accuracy, Size
from autograder.policy import Grade
from autograder.report.class_charts import (
    accuracy_chart,
    questions_chart,
    times_chart,
    totals_chart,
)
from autograder.report.grades import shown
from autograder.report.pages import PAGES, headline, save
from autograder.report.similarity import Place
from autograder.report.summary import MEANING

CHECKS, MESSAGES, ROWS, SLOWEST, PLACES = 15, 3, 25, 5, 20  # of each list at most
TEXT, CODE, CODE_LINES = 300, 1_800, 24  # characters, and lines, of one text or excerpt
NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|\b(?:nan|inf)\b")
JUDGED = ("passed", "failed", "not_answered", "not_reached")


@dataclass(frozen=True)
class Student:
    """Grade of one student, and what was measured of the networks in the attempt that counts."""

    grade: Grade
    sizes: list[Size]
    accuracies: list[Accuracy]


@dataclass(frozen=True)
class Top:
    """The beginning of a list, and how many more there are."""

    rows: Sequence[Any]
    more: int


@dataclass(frozen=True)
class Spread:
    """Mean and quartiles of some numbers, in their own unit."""

    count: int
    mean: float
    low: float
    middle: float
    high: float


def write_class_report(
    path: Path, assignment: Assignment, students: Sequence[Student], places: Sequence[Place]
) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        assignment: its title, questions and due date.
        students: of the whole class, nobody twice.
        places: where answers share code, strongest first.
    """
    grades = [student.grade for student in students]
    page = _PAGES.get_template("classroom.html").render(
        assignment=assignment, count=len(grades), meaning=MEANING,
        totals=_totals(grades), questions=_questions(assignment, grades), checks=_checks(grades),
        networks=_networks(students), times=_times(grades), people=_people(grades),
        unmarked=_unmarked(grades), late=_late(grades),
        untimed=sum(bool(assignment.policy.due) and not g.attempt.submitted for g in grades),
        places=_top(places, PLACES),
    )  # fmt: skip
    save(path, page)


def _top(rows: Sequence[Any], most: int) -> Top:
    return Top(rows[:most], max(0, len(rows) - most))


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(len(values), float(np.mean(values)), *np.percentile(values, (25, 50, 75)))


def _totals(grades: Sequence[Grade]) -> dict[str, Any]:
    """In points; in per cent where persons have marked the manual questions of only some."""
    pairs = [(total, one.possible) for one in grades if (total := one.total) is not None]
    possible = {of for _, of in pairs}
    unit = "points" if len(possible) == 1 else "% of what could be given so far"
    values = [total if len(possible) == 1 else 100 * total / (of or 1) for total, of in pairs]
    highest = max([possible.pop() if len(possible) == 1 else 100, *values])  # a mark may be above
    return {
        "unit": unit, "highest": highest, "spread": _spread(values),
        "chart": totals_chart(values, highest, unit) if values else "",
        "without": Counter(one.attempt.status for one in grades if one.total is None),
    }  # fmt: skip


def _questions(assignment: Assignment, grades: Sequence[Grade]) -> dict[str, Any]:
    """Points as shares of what is possible; unknown ones are left out and counted."""
    shares = {
        name: [
            p / (question.possible or 1) for one in grades if (p := one.points[name]) is not None
        ]
        for name, question in assignment.questions.items()
    }
    rows = [
        (name, assignment.questions[name].possible, _spread(values), len(grades) - len(values))
        for name, values in shares.items()
    ]
    drawn = {headline(name): values for name, values in shares.items() if values}
    return {"rows": rows, "chart": questions_chart(drawn) if drawn else ""}


def _checks(grades: Sequence[Grade]) -> Top:
    """Checks that somebody did not pass, most failures first, each with its commonest messages."""
    found: defaultdict[tuple[str, str], list[CaseResult]] = defaultdict(list)
    for one in grades:
        for result in one.attempt.results:
            if result.verdict.status in JUDGED:
                found[result.question, result.case].append(result)
    rows = [row for results in found.values() if (row := _check(results))["missed"]]
    rows.sort(key=lambda row: (-row["statuses"]["failed"], -row["missed"]))
    return _top(rows, CHECKS)


def _check(results: Sequence[CaseResult]) -> dict[str, Any]:
    missed = [r for r in results if r.verdict.status != "passed"]
    told = [r for r in missed if r.verdict.status == "failed"] or missed
    return {
        "question": results[0].question, "case": results[0].case, "hidden": results[0].hidden,
        "missed": len(missed), "of": len(results),
        "statuses": Counter(r.verdict.status for r in missed),
        "messages": _top(_messages(r.verdict.rationale for r in told), MESSAGES),
    }  # fmt: skip


def _messages(texts: Iterable[str]) -> list[tuple[str, int]]:
    """An example and the number of those that differ from it in numbers alone, commonest first."""
    examples: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        short = _short(text)
        kind = NUMBER.sub("0", short)
        examples.setdefault(kind, short)
        counts[kind] += 1
    return [(examples[kind], count) for kind, count in counts.most_common()]


def _networks(students: Sequence[Student]) -> dict[str, Any]:
    """Accuracy against size, by network; those of unknown size are counted."""
    points: dict[str, list[tuple[int, float]]] = {}
    unsized = 0
    for student in students:
        counts = {size.network: size.count for size in student.sizes}
        for seen in student.accuracies:
            if seen.network in counts:
                points.setdefault(seen.network, []).append((counts[seen.network], seen.value))
            else:
                unsized += 1
    rows = [(name, *map(_spread, zip(*pairs, strict=True))) for name, pairs in points.items()]
    return {"rows": rows, "unsized": unsized, "chart": accuracy_chart(points) if points else ""}


def _times(grades: Sequence[Grade]) -> dict[str, Any]:
    """Of the attempts that ran."""
    ran = sorted((one.attempt for one in grades if one.attempt.wall_s > 0), key=lambda a: -a.wall_s)
    seconds = [attempt.wall_s for attempt in ran]
    return {
        "spread": _spread(seconds), "slowest": ran[:SLOWEST],
        "chart": times_chart(seconds) if seconds else "",
    }  # fmt: skip


def _people(grades: Sequence[Grade]) -> list[tuple[str, int, Top]]:
    """Attempts that a person has to look at, by status, in the order of `MEANING`."""
    by_status: defaultdict[str, list[Any]] = defaultdict(list)
    for one in grades:
        by_status[one.attempt.status].append(one.attempt)
    return [(s, len(by_status[s]), _top(by_status[s], ROWS)) for s in MEANING if by_status[s]]


def _unmarked(grades: Sequence[Grade]) -> Mapping[str, int]:
    """How many answers of each manual question wait for a person."""
    return Counter(q for one in grades if one.attempt.status != "invalid" for q in one.unmarked)


def _late(grades: Sequence[Grade]) -> Top:
    late = sorted((one for one in grades if one.late_days), key=lambda one: -one.late_days)
    return _top(late, ROWS)


def _short(text: str, most: int = TEXT) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[:most]} …"


def _who(attempt: Any) -> str:
    """The student's id, with the name if it is known."""
    return _short(f"{attempt.student} ({attempt.name})" if attempt.name else attempt.student, 80)


def _excerpt(parts: Iterable[str]) -> str:
    """The beginning of the excerpts, with a mark where something is left out."""
    lines = list(_lines(parts))
    text = "\n".join(lines[:CODE_LINES])
    return text if len(lines) <= CODE_LINES and len(text) <= CODE else f"{text[:CODE]}\n…"


def _lines(parts: Iterable[str]) -> Iterator[str]:
    for number, part in enumerate(parts):
        yield from ["⋮"] * bool(number)
        yield from part.split("\n")


_PAGES = PAGES.overlay()
_PAGES.filters = PAGES.filters | {
    "shown": shown, "short": _short, "who": _who, "excerpt": _excerpt,
    "per_cent": lambda share: f"{share:.0%}",
}  # fmt: skip
