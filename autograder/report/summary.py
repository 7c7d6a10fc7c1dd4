"""What the teacher sees after a batch: a table, and everything that a person must look at."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from autograder.config import Assignment
from autograder.gradebook import Attempt
from autograder.judge import AttemptStatus
from autograder.notebook import printable
from autograder.policy import Grade
from autograder.report.grades import shown

MEANING: dict[AttemptStatus, str] = {
    "invalid": "the file can't be used",
    "flagged": "evidence that can't be right, or code that changed what grades it: look at it",
    "infrastructure": "not the student's fault; the same command runs them again",
    "partial": "something ended early; the rest counts",
}


def print_table(
    console: Console, title: str, assignment: Assignment, grades: Sequence[Grade]
) -> None:
    """One row a student; with a column a question where the terminal is wide enough."""
    questions = [n for n, q in assignment.questions.items() if not q.manual]
    longest = max((cell_len(plain(one.attempt.student)) for one in grades), default=0)
    columns = [max(longest, 7), *(max(len(q), 5) for q in questions), 5, len("infrastructure")]
    if sum(width + 3 for width in columns) >= console.width:
        questions = []
    console.print(_table(title, questions, grades), markup=False)


def print_summary(
    console: Console, assignment: Assignment, grades: Sequence[Grade], waiting: Sequence[str]
) -> None:
    """All that needs a person, in groups, and the counts.

    Args:
        console: where to print.
        assignment: its questions.
        grades: of all students.
        waiting: students whose file is not graded yet.
    """
    attempts = [one.attempt for one in grades]
    groups = [
        *_by_status(attempts),
        *_twins(attempts),
        *_manual(assignment, grades),
        *_times(assignment, grades),
    ]
    if waiting:
        groups.insert(0, (f"not graded yet ({len(waiting)})", [", ".join(waiting)]))
    if groups:
        _line(console, "\nNeeds a person:")
    for title, lines in groups:
        _line(console, f"  {title}")
        for line in lines:
            _line(console, f"    {_short(line)}")
    counts = Counter(a.status for a in attempts)
    told = ", ".join(f"{counts[s]} {s}" for s in ("graded", *MEANING) if counts[s])
    _line(console, f"\n{len(attempts)} students: {told or 'none'}.")


def print_changes(
    console: Console, changes: Sequence[tuple[Attempt, Attempt, Sequence[str]]]
) -> None:
    """Whose points or status changed: attempt before and after, and the cases in words."""
    for before, after, cases in changes:
        _line(console, f"  {plain(after.student)}: {_result(before)} -> {_result(after)}")
        for case in cases:
            _line(console, f"      {case}")
    _line(console, f"Points or status of {len(changes)} students changed." if changes
          else "Nobody's points or status changed.")  # fmt: skip


def _result(attempt: Attempt) -> str:
    points = [attempt.points(question) for question in {r.question for r in attempt.results}]
    known = [p for p in points if p is not None]
    words = f"{shown(sum(known))} points" if len(known) == len(points) else "no total"
    return words if attempt.status == "graded" else f"{words} ({attempt.status})"


def _table(title: str, questions: Sequence[str], grades: Iterable[Grade]) -> Table:
    table = Table(title=title)
    for column in ("student", *questions, "total", "status"):
        table.add_column(column, justify="left" if column in ("student", "status") else "right")
    for one in grades:
        cells = (shown(one.points[q]) for q in questions)
        student, status = plain(one.attempt.student), one.attempt.status
        table.add_row(student, *cells, shown(one.total), status)
    return table


Group = tuple[str, list[str]]


def _by_status(attempts: Iterable[Attempt]) -> list[Group]:
    found: defaultdict[AttemptStatus, list[str]] = defaultdict(list)
    for a in attempts:
        found[a.status].append(f"{a.student}: {a.reason}")
    return [(f"{s} ({len(found[s])}): {MEANING[s]}", found[s]) for s in MEANING if found[s]]


def _twins(attempts: Iterable[Attempt]) -> list[Group]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for a in attempts:
        if a.content:
            found[a.content].append(a.student)
    same = [" = ".join(students) for students in found.values() if len(students) > 1]
    title = f"identical code ({len(same)}): run once; blank notebooks are identical, too"
    return [(title, same)] if same else []


def _manual(assignment: Assignment, grades: Iterable[Grade]) -> list[Group]:
    unmarked = Counter(q for one in grades if one.attempt.status != "invalid" for q in one.unmarked)
    lines = [
        f"{name}: {count} answers, up to {shown(assignment.questions[name].possible)} points each"
        for name, count in unmarked.items()
    ]
    return (
        [("questions that a person grades: autograder manual makes a sheet", lines)]
        if lines
        else []
    )


def _times(assignment: Assignment, grades: Sequence[Grade]) -> list[Group]:
    """Who was late, whose time is unknown, and extensions of nobody."""
    policy = assignment.policy
    late = [f"{one.attempt.student}: days begun: {one.late_days}, points: -{shown(one.deduction)}"
            for one in grades if one.late_days]  # fmt: skip
    untimed = [one.attempt.student for one in grades if policy.due and not one.attempt.submitted]
    nobodys = sorted({*policy.extensions} - {one.attempt.student for one in grades})
    return [
        (title, lines)
        for title, lines in (
            (f"late ({len(late)})", late),
            (
                "time of handing in unknown, taken to be in time",
                [", ".join(untimed)] * bool(untimed),
            ),
            ("extensions in grading.yml for students who are not here", nobodys),
        )
        if lines
    ]


def _short(text: str, limit: int = 300) -> str:
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def plain(text: str) -> str:
    """Without control characters, which could rewrite the terminal."""
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in printable(text))


def _line(console: Console, text: str) -> None:
    print(text, file=console.file)  # much faster than laying out each of many lines
