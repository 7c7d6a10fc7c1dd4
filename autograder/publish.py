"""The commands `report`, `manual` and `export`, and the end of `grade` and `rejudge`."""

import argparse
import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from rich.console import Console

from autograder.config import Config, ConfigError
from autograder.gradebook import Gradebook, GradebookError, Terms
from autograder.identity import judging_identity
from autograder.intake import Roster
from autograder.measured import Band
from autograder.policy import needs_a_person
from autograder.report.answers import code, rubrics
from autograder.report.exports import Batch, Person, export
from autograder.report.manual import read_sheet, write_sheets
from autograder.report.summary import plain, print_summary, print_table
from autograder.results import Results
from autograder.validity import record
from autograder.validity.record import Calibration

GRADEBOOK = "gradebook.sqlite"
PERSON = tuple(field.name for field in fields(Person))


def report(options: argparse.Namespace, config: Config) -> int:
    """Write all pages of a folder anew; the exit status."""
    with opened(options.out) as gradebook:
        known = _known(gradebook, config)
        _current(known, config)
        return max((publish(gradebook, terms, config, options) for terms in known), default=0)


def publish(gradebook: Gradebook, terms: Terms, config: Config, options: argparse.Namespace) -> int:
    """Write grades and pages, print the table and what needs a person; the exit status."""
    results = Results(gradebook, terms, config, options.out)
    print_new_grades(results)  # before any file, so that what is shown is in the history
    results.write(
        _bands(options.root, terms.assignment), _known_code(options.root, terms.assignment)
    )
    console = Console()
    print_table(console, terms.assignment, results.assignment, results.grades)
    print_summary(console, results.assignment, results.grades, results.waiting)
    _lines(f"grades:    {results.folder / 'grades.csv'}",
           f"class:     {results.folder / 'class.html'}",
           f"feedback:  {results.folder / 'feedback'}",
           f"notebooks: {results.executed.folder}",
           f"gradebook: {options.out / GRADEBOOK}")  # fmt: skip
    open_ = any(needs_a_person(one.attempt) or one.total is None for one in results.grades)
    status = 1 if results.waiting or open_ else 0
    told = "some are not graded" if status else "all are graded, as far as checks can do that"
    _lines(f"Exit status {status}: {told}.")
    return status


def manual(options: argparse.Namespace, config: Config) -> int:
    """Write sheets for questions that a person grades, or take a filled one; the exit status."""
    with opened(options.out) as gradebook:
        terms = _one(gradebook, config, options.name)
        results = Results(gradebook, terms, config, options.out)
        found = [*results.answers()]
        if not options.read:
            known = rubrics(_solved(options.root, terms.assignment))
            _lines(*map(str, write_sheets(results.folder, results.assignment, found, known)))
            return 0
        shown = {(one.student, one.question): one.sha256 for one in found}
        marks = read_sheet(options.read, results.assignment, shown)
        gradebook.ledger.mark(terms.assignment, marks)
        _lines(f"{len(marks)} marks kept.")
        return publish(gradebook, terms, config, options)


def export_grades(options: argparse.Namespace, config: Config) -> int:
    """Write grades for a platform; the exit status is 1 if someone has none."""
    roster = Roster.load(options.roster).rows if options.roster else ()
    people = [Person(**{name: row.get(name, "") for name in PERSON}) for row in roster]
    with opened(options.out) as gradebook:
        results = Results(gradebook, _one(gradebook, config, options.name), config, options.out)
        ending = "zip" if options.format == "gradescope" else "csv"
        path = options.to or results.folder / f"{options.format}.{ending}"
        path = path / f"{options.format}.{ending}" if path.is_dir() else path
        path.parent.mkdir(parents=True, exist_ok=True)
        print_new_grades(results)
        batch = Batch(
            results.assignment, results.grades, people, options.without_manual,
            results.waiting, options.column,
        )  # fmt: skip
        words = export(options.format, path, batch)
    _lines(*map(plain, words), f"written: {path}")
    return 1 if any("no grade" in told for told in words) else 0


@contextlib.contextmanager
def opened(out: Path) -> Iterator[Gradebook]:
    """The gradebook of a folder of results."""
    path = out / GRADEBOOK
    if not path.is_file():
        raise GradebookError(f"{out} holds no {GRADEBOOK}. Give the DIR of `grade --out`.")
    with contextlib.closing(Gradebook(path)) as gradebook:
        yield gradebook


def _known(gradebook: Gradebook, config: Config) -> list[Terms]:
    """What was graded here, and is in grading.yml.

    Raises:
        GradebookError: there is nothing.
    """
    known = [*gradebook.terms()]
    for terms in (one for one in known if one.assignment not in config.assignments):
        _lines(f"{terms.assignment}: left as it is, grading.yml has no such assignment.")
    if not known:
        raise GradebookError("Nothing was graded in this folder yet.")
    return [terms for terms in known if terms.assignment in config.assignments]


def _current(known: Iterable[Terms], config: Config) -> None:
    """Raise GradebookError if the verdicts of one are not those of grading.yml."""
    for terms in known:
        if terms.settings != judging_identity(config.assignment(terms.assignment)):
            raise GradebookError(
                f"{terms.assignment}: points or thresholds in grading.yml have changed since it "
                "was judged. Run autograder rejudge with this folder first."
            )


def _one(gradebook: Gradebook, config: Config, name: str | None) -> Terms:
    """The terms of an assignment; of the only one, if no name is given."""
    known = {terms.assignment: terms for terms in _known(gradebook, config)}
    name = next(iter(known)) if name is None and len(known) == 1 else name
    if name not in known:
        told = f"has no results of {name}" if name else "has several assignments"
        raise ConfigError(f"The folder {told}. Give the name of one of: {', '.join(known)}.")
    _current([known[name]], config)
    return known[name]


def _bands(root: Path, name: str) -> list[Band]:
    """Of the reference's trainings on the CPU, if it was calibrated; pages do without them, too."""
    path = root / "docs" / "validity" / f"{name}-calibration-cpu.json"
    try:
        return record.read(Calibration, path).bands if path.is_file() else []
    except ConfigError as error:
        _lines(f"Curves are shown without those of the reference. {error}")
        return []


def _solved(root: Path, name: str) -> bytes:
    """The solved notebook, or one without cells where the release is not built."""
    path = root / "dist" / name / "autograder" / f"{name}.ipynb"
    return path.read_bytes() if path.is_file() else b'{"cells": []}'


def _known_code(root: Path, name: str) -> list[str]:
    """Code that any two submissions may share: the reference, and what students are given."""
    given = root / "student" / name / f"{name}.ipynb"
    return [code(_solved(root, name)), code(given.read_bytes() if given.is_file() else b"")]


def print_new_grades(results: Results) -> None:
    """Put new grades into the history, and tell whose is another one than before, and why."""
    if changes := results.note_changes():
        _lines(f"Grades that changed since they were last written ({len(changes)}):")
        _lines(*(f"  {plain(student)}: {plain(why)}" for student, why in changes))


def _lines(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)
