"""The command `autograder`: build releases, and grade submissions.

Exit status: 0 all done, 1 something was not graded or is not current, 2 wrong use.
"""

import argparse
import io
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from autograder import config as configuration
from autograder import release
from autograder.config import Config, ConfigError
from autograder.grade import Batch, Release, ReleaseMissing, file_stem
from autograder.gradebook import Attempt
from autograder.intake import EmptyInbox
from autograder.report.feedback import write_feedback
from autograder.report.grades import shown, total, write_grades
from autograder.text import AuthoringError

USER_ERRORS = (ConfigError, AuthoringError, EmptyInbox, ReleaseMissing)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name that the terminal can't show is no error
    try:
        return int(options.command(options, configuration.load(options.root / "grading.yml")))
    except USER_ERRORS as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except (OSError, sqlite3.Error) as error:
        print(f"autograder: {type(error).__name__}: {error}", file=sys.stderr)
        print("What was graded before is kept in the gradebook.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. What was graded is kept: the same command goes on from here.")
        return 1
    except release.BuildError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description=__doc__)
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(),
        help="folder that holds grading.yml (default: this one)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="make releases from text and reference")
    build.add_argument("names", nargs="*", metavar="NAME", help="assignments (default: all)")
    build.add_argument("--check", action="store_true", help="only say whether student/ is current")
    build.set_defaults(command=_build)
    grade = commands.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("name", metavar="NAME", help="assignment")
    grade.add_argument(
        "inbox", type=Path, help="folder of notebooks, zips, or one folder a student"
    )
    grade.add_argument(
        "--out", type=Path, required=True, help="folder for gradebook and grades.csv"
    )
    grade.add_argument(
        "--workers", type=int, help="submissions side by side (default: grading.yml)"
    )
    grade.set_defaults(command=_grade)
    return parser


def _build(options: argparse.Namespace, config: Config) -> int:
    names = options.names or list(config.assignments)
    for name in names:
        config.assignment(name)
    if options.check:
        return _check_current(names, config, options.root)
    for name in names:
        print(f"{name}: building, the reference runs through all tests ...", flush=True)
        release.build(name, config, options.root)
        print(f"{name}: student/{name}/ and dist/{name}/ are ready.")
    if config.course.repository == "your-organisation/your-course":
        print("Colab needs course.repository in grading.yml; it still is a placeholder.")
    return 0


def _check_current(names: Iterable[str], config: Config, root: Path) -> int:
    stale = 0
    for name in names:
        words = release.differences(name, config, root)
        stale += bool(words)
        print("\n".join([f"{name}: not current, run: autograder build {name}", *words])
              if words else f"{name}: student/{name}/ is current.")  # fmt: skip
    return 1 if stale else 0


def _grade(options: argparse.Namespace, config: Config) -> int:
    if options.workers is not None and options.workers < 1:
        raise ConfigError("--workers: at least 1.")
    workers = options.workers or config.workers or os.cpu_count() or 1
    config.assignment(options.name)
    built = Release.load(options.name, options.root)
    if words := release.changed_since_build(options.name, config, options.root):
        raise ReleaseMissing(
            f"The release is outdated, {words[0]}. Run: autograder build {built.name}"
        )
    batch = Batch(built, config, options.out)
    new, done = batch.pending(options.inbox)
    if others := [p.name for p in options.inbox.iterdir() if p.is_file() and not _gradable(p)]:
        print(f"Left out, neither notebook nor zip: {', '.join(sorted(others)[:20])}")
    if done:
        print(f"{done} submissions were graded before with this release, {len(new)} are left.")
    for _ in _progress(batch.run(new, workers), len(new)):
        pass
    return _report(batch)


def _gradable(path: Path) -> bool:
    return path.suffix.lower() in (".ipynb", ".zip") or path.name.startswith(".")


def _progress(attempts: Iterator[Attempt], count: int) -> Iterator[Attempt]:
    console = Console()
    if not console.is_terminal:
        for number, attempt in enumerate(attempts, 1):
            print(f"{number}/{count} {attempt.student}: {attempt.status}", flush=True)
            yield attempt
        return
    columns = TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=count)
        for attempt in attempts:
            progress.advance(task)
            yield attempt


def _report(batch: Batch) -> int:
    attempts = batch.latest()
    batch.gradebook.close()
    write_grades(batch.out / "grades.csv", batch.assignment, attempts)
    folder = batch.out / "feedback"
    folder.mkdir(exist_ok=True)
    for attempt in attempts:
        write_feedback(folder / f"{file_stem(attempt.student)}.html", batch.assignment, attempt)
    _print_table(batch, attempts)
    print(f"grades:    {batch.out / 'grades.csv'}\nfeedback:  {folder}")
    print(f"notebooks: {batch.out / 'executed'}\ngradebook: {batch.out / 'gradebook.sqlite'}")
    counts = Counter(a.status for a in attempts)
    return 1 if counts["infrastructure"] + counts["flagged"] + counts["invalid"] else 0


def _print_table(batch: Batch, attempts: Sequence[Attempt]) -> None:
    questions = [n for n, q in batch.assignment.questions.items() if not q.manual]
    table = Table(title=batch.release.name)
    for column in ("student", *questions, "total", "status"):
        table.add_column(column, justify="left" if column in ("student", "status") else "right")
    for a in attempts:
        cells = (shown(a.points(q)) for q in questions)
        table.add_row(a.student, *cells, shown(total(batch.assignment, a)), a.status)
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table, markup=False)
    for a in attempts:
        if a.reason:
            console.print(f"{a.student}: {a.status}: {a.reason}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
