"""The submissions: solved notebooks, copied, each copy with a comment so that it has to run."""

from dataclasses import dataclass
from pathlib import Path

import nbformat

from autograder import config, release
from autograder.config import Config
from autograder.grade import Release, ReleaseMissing
from autograder.intake import Inbox, find
from tests.conftest import REPOSITORY
from tests.hostile import assignment

CPU = {"device": "cpu"}


@dataclass(frozen=True)
class Sample:
    """Submissions of one assignment, and all that is needed to grade them."""

    release: Release
    grading: Config
    folder: Path

    @property
    def inbox(self) -> Inbox:
        """The submissions."""
        return find(self.folder, self.release.name)


def trivial(folder: Path, count: int) -> Sample:
    """Four small questions without training: the release of the hostile inputs, solved."""
    root = folder / "tiny"
    root.mkdir()
    assignment.build(root)
    return _sample(assignment.NAME, root, folder, count)


def exercise(name: str, folder: Path, count: int) -> Sample:
    """A real exercise, solved.

    Raises:
        ReleaseMissing: its release isn't there, or older than what it is made of.
    """
    grading = config.load(REPOSITORY / "grading.yml")
    if words := release.changed_since_build(name, grading, REPOSITORY):
        raise ReleaseMissing(f"The release is outdated, {words[0]}. Run: autograder build {name}")
    return _sample(name, REPOSITORY, folder, count)


def _sample(name: str, root: Path, folder: Path, count: int) -> Sample:
    inbox = folder / "inboxes" / name
    inbox.mkdir(parents=True)
    solved = nbformat.read(root / "dist" / name / "autograder" / f"{name}.ipynb", as_version=4)
    answer = next(
        cell for cell in solved.cells
        if cell.cell_type == "code" and cell.metadata.autograder.role == "answer"
    )  # fmt: skip
    source = answer.source
    for number in range(count):
        answer.source = f"{source}\n# copy {number}"
        nbformat.write(solved, inbox / f"s{number:05}.ipynb")
    grading = config.load(root / "grading.yml").model_copy(update=CPU)
    return Sample(Release.load(name, root), grading, inbox)
