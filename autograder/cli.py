"""The command `autograder`: build releases, grade submissions, judge again, audit the checks.

Exit status: 0 all done, 1 something was not graded or is not current, 2 wrong use.
"""

import argparse
import io
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder import commands, publish, release
from autograder import config as configuration
from autograder.config import Config, ConfigError
from autograder.grade import Outage, ReleaseMissing
from autograder.gradebook import GradebookError
from autograder.intake import InboxError
from autograder.report.exports import FORMATS, ExportError
from autograder.report.manual import SheetError
from autograder.sandbox import SandboxMissing, ServerFailed
from autograder.text import AuthoringError
from autograder.validity import commands as validity
from autograder.validity.graded import NotGraded

USER_ERRORS = (
    ConfigError, AuthoringError, InboxError, ReleaseMissing, GradebookError, SandboxMissing,
    SheetError, ExportError,
)  # fmt: skip


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
        print(f"autograder: stopped, a file can't be read or written: {error}", file=sys.stderr)
        print(f"See to the disk and to the rights on it. {commands.GO_ON}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped at once. {commands.GO_ON}", file=sys.stderr)
        return 1
    except Outage as error:
        print(f"autograder: stopped. {error} {commands.GO_ON}", file=sys.stderr)
        return 1
    except (release.BuildError, ServerFailed, NotGraded) as error:
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
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    build = parts.add_parser("build", help="make releases from text and reference")
    build.add_argument("names", nargs="*", metavar="NAME", help="assignments (default: all)")
    build.add_argument("--check", action="store_true", help="only say whether student/ is current")
    build.set_defaults(command=_build)
    grade = parts.add_parser("grade", help="grade a folder of submissions")
    grade.add_argument("name", metavar="NAME", help="assignment")
    grade.add_argument(
        "inbox", type=Path, help="folder of notebooks, zips, folders, or a platform's download"
    )
    grade.add_argument("--out", type=Path, help="folder for gradebook and grades.csv")
    grade.add_argument("--roster", type=Path, help="CSV file of the course's students")
    grade.add_argument(
        "--dry-run", action="store_true", help="only list what would be graded, and what not"
    )
    grade.add_argument("--only", nargs="+", default=[], metavar="STUDENT", help="grade only these")
    grade.add_argument("--regrade", action="store_true", help="run again what is done already")
    grade.add_argument(
        "--workers", type=int, help="submissions side by side (default: grading.yml)"
    )
    grade.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), help="where they train (default: grading.yml)"
    )
    grade.add_argument(
        "--require-sandbox", action="store_true", help="refuse to run what can't be confined"
    )
    grade.add_argument(
        "--verify-fraction", type=float, metavar="F",
        help="with training: checkpoint, train this fraction (such as 0.1) again and compare",
    )  # fmt: skip
    elsewhere = grade.add_mutually_exclusive_group()
    elsewhere.add_argument(
        "--scheduler", metavar="ADDRESS",
        help="run submissions on the Dask cluster there, such as tcp://10.0.0.1:8786",
    )  # fmt: skip
    elsewhere.add_argument(
        "--local-cluster", type=int, metavar="N", help="run them on N Dask workers started here"
    )
    grade.set_defaults(command=commands.grade)
    _add_validity(parts)
    _add_results(parts)
    return parser


def _add_results(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    again = parts.add_parser("rejudge", help="judge stored evidence again, without running")
    again.set_defaults(command=commands.rejudge_all)
    report = parts.add_parser("report", help="write grades, feedback pages and class report anew")
    report.set_defaults(command=publish.report)
    manual = parts.add_parser("manual", help="sheets for questions that a person grades")
    manual.set_defaults(command=publish.manual)
    export = parts.add_parser("export", help="write grades as a platform takes them")
    export.set_defaults(command=publish.export_grades)
    for one in (again, report, manual, export):
        one.add_argument("out", type=Path, metavar="DIR", help="folder of the gradebook")
    for one in (manual, export):
        one.add_argument(
            "name", nargs="?", metavar="NAME", help="assignment (default: the only one there)"
        )
    manual.add_argument("--read", type=Path, metavar="SHEET", help="take a filled sheet's marks")
    export.add_argument("--format", choices=FORMATS, required=True, help="who is to read it")
    export.add_argument("--roster", type=Path, help="CSV file of the course's students")
    export.add_argument(
        "--column",
        default="",
        metavar="TITLE",
        help='canvas: the column, such as "Homework 1 (4711)"',
    )
    export.add_argument("--to", type=Path, metavar="PATH", help="file or folder to write")
    export.add_argument(
        "--without-manual", action="store_true",
        help="export the automatic questions alone, while others wait for a person",
    )  # fmt: skip


def _add_validity(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    audit = parts.add_parser("audit", help="try wrong and right solutions on the checks")
    calibrate = parts.add_parser("calibrate", help="train right solutions often, place thresholds")
    for one in (audit, calibrate):
        one.add_argument("names", nargs="*", metavar="NAME", help="assignments (default: all)")
        one.add_argument("--workers", type=int, help="notebooks side by side")
        one.add_argument(
            "--out", type=Path, metavar="DIR",
            help="folder of the records; the page DIR.md is made anew (default: docs/validity)",
        )  # fmt: skip
    audit.add_argument(
        "--runs", type=int, default=0, metavar="N",
        help="grade right solutions N times more, with other threads, seeds and cell orders",
    )  # fmt: skip
    audit.set_defaults(command=validity.audit)
    calibrate.add_argument(
        "--seeds", type=int, metavar="N", help="trainings of each network (default: grading.yml)"
    )
    calibrate.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), help="where to train (default: grading.yml)"
    )
    calibrate.add_argument(
        "--apply",
        action="store_true",
        help="write proposals for misplaced thresholds to grading.yml",
    )
    calibrate.set_defaults(command=validity.calibrate)


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


if __name__ == "__main__":
    sys.exit(main())
