"""The golden bank in tests: a part in which every case fails, and grading of its notebooks."""

from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import nbformat

from autograder import config
from autograder.config import Config
from autograder.grade import Batch, Crew, Release
from autograder.gradebook import Attempt
from autograder.intake import find
from autograder.master import Author
from autograder.validity import bank, notebooks
from autograder.validity.bank import Entry
from autograder.validity.dependencies import Dependencies
from tests.conftest import REPOSITORY

_graded: dict[tuple[object, ...], Attempt] = {}


def load(assignment: str) -> list[Entry]:
    """All notebooks of the bank for an assignment."""
    return bank.load(REPOSITORY / "tests", assignment)


def pack(entries: Collection[Entry]) -> list[list[Entry]]:
    """Groups of an assignment's entries for one notebook each."""
    grading = config.load(REPOSITORY / "grading.yml")
    (name,) = {entry.assignment for entry in entries}
    dependencies = Dependencies(Author(name, grading, REPOSITORY).notebook())
    whole = [[entry] for entry in entries if entry.expect]
    kinds = [[e for e in entries if e.kind == kind] for kind in ("mutants", "variants")]
    return whole + [group for part in kinds for group in notebooks.pack(part, dependencies)]


def case_of(golden: Entry, case: str) -> object:
    """A case, as one of its assignment."""
    return golden.assignment, case


def sample(bank: Collection[Entry], covered: Callable[[Entry, str], object] = case_of) -> set[str]:
    """Full names of whole submissions, and of notebooks that together fail all that any fails.

    Args:
        bank: merged notebooks.
        covered: what counts as failed when a notebook fails a case.
    """
    fails = {g.full_name: {covered(g, case) for case in g.fails} for g in bank}
    left, names = set().union(*fails.values()), {g.full_name for g in bank if g.expect}
    while left:
        best = max(fails, key=lambda name: len(fails[name] & left))
        names.add(best)
        left -= fails[best]
    return names


def hand_in(bank: Collection[Entry], release: Path, inbox: Path) -> dict[str, Path]:
    """Write the notebooks into the inbox; their paths by student."""
    inbox.mkdir()
    paths = {golden.student: inbox / f"{golden.student}.ipynb" for golden in bank}
    for golden in bank:
        nbformat.write(notebooks.notebook(golden, release), paths[golden.student])
    return paths


def grade(
    inbox: Path, release: Release, grading: Config, out: Path, device: str = "cpu"
) -> dict[str, Attempt]:
    """Grade an inbox in one batch, on one kind of device wherever it runs; attempts by student.

    A notebook that an earlier call graded is not run again: it keeps its attempt.
    """
    settings = grading.model_copy(update={"device": device})
    terms = (release.version, settings.model_dump_json())
    keys = {path.stem: (*terms, path.stem, path.read_bytes()) for path in inbox.iterdir()}
    if new := [student for student, key in keys.items() if key not in _graded]:
        with closing(Batch(release, settings, out)) as batch, closing(Crew(settings, 2)) as crew:
            waiting, _ = batch.pending(find(inbox, release.name), new)
            _graded.update((keys[one.student], one) for one in batch.run(waiting, crew))
    return {student: _graded[key] for student, key in keys.items()}
