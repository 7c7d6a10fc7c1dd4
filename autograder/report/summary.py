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
from autograder.report.grades import shown, total

MEANING: dict[AttemptStatus, str] = {
    "invalid": "the file can't be used",
    "flagged": "evidence that can't be right, or code that changed what grades it: look at it",
    "infrastructure": "not the student's fault; the same command runs them again",
    "partial": "something ended early; the rest counts",
}


def print_table(
    console: Console, title: str, assignment: Assignment, attempts: Sequence[Attempt]
) -> None:
    """One row a student; with a column a question where the terminal is wide enough."""
    questions = [n for n, q in assignment.questions.items() if not q.manual]
    longest = max((cell_len(plain(a.student)) for a in attempts), default=0)
    columns = [max(longest, 7), *(max(len(q), 5) for q in questions), 5, len("infrastructure")]
    if sum(width + 3 for width in columns) >= console.width:
        questions = []
    console.print(_table(title, questions, assignment, attempts), markup=False)


def print_summary(
    console: Console, assignment: Assignment, attempts: Sequence[Attempt], waiting: Sequence[str]
) -> None:
    """All that needs a person, in groups, and the counts.

    Args:
        console: where to print.
        assignment: its questions.
        attempts: those that count.
        waiting: students whose file is not graded yet.
    """
    groups = [*_by_status(attempts), *_twins(attempts), *_manual(assignment, attempts)]
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


def needs_a_person(attempt: Attempt) -> bool:
    """Whether the attempt has no grade yet."""
    return attempt.status in ("invalid", "flagged", "infrastructure")


def _result(attempt: Attempt) -> str:
    points = [attempt.points(question) for question in {r.question for r in attempt.results}]
    known = [p for p in points if p is not None]
    words = f"{shown(sum(known))} points" if len(known) == len(points) else "no total"
    return words if attempt.status == "graded" else f"{words} ({attempt.status})"


def _table(
    title: str, questions: Sequence[str], assignment: Assignment, attempts: Iterable[Attempt]
) -> Table:
    table = Table(title=title)
    for column in ("student", *questions, "total", "status"):
        table.add_column(column, justify="left" if column in ("student", "status") else "right")
    for a in attempts:
        cells = (shown(a.points(q)) for q in questions)
        table.add_row(plain(a.student), *cells, shown(total(assignment, a)), a.status)
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


def _manual(assignment: Assignment, attempts: Iterable[Attempt]) -> list[Group]:
    readable = sum(a.status != "invalid" for a in attempts)
    lines = [
        f"{name}: {readable} answers, up to {shown(question.possible)} points each"
        for name, question in assignment.questions.items()
        if question.manual and readable
    ]
    return [("questions that a person grades", lines)] if lines else []


def _short(text: str, limit: int = 300) -> str:
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[:limit]} ..."


def plain(text: str) -> str:
    """Without control characters, which could rewrite the terminal."""
    return "".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in printable(text))


def _line(console: Console, text: str) -> None:
    print(text, file=console.file)  # much faster than laying out each of many lines
