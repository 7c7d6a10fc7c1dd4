"""Grading notebooks of ours in a batch, through intake, sandbox and judge as students' ones go.

Results stay in a gradebook: a second call runs only what is new, after a changed threshold nothing.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.config import Config
from autograder.grade import Batch, Crew, Release, Waiting
from autograder.gradebook import Attempt
from autograder.intake import Submission, find
from autograder.report.progress import watched

Change = Callable[[NotebookNode], NotebookNode]


@dataclass(frozen=True)
class Bench:
    """Where notebooks of an assignment are graded.

    Attributes:
        root: folder of grading.yml, assignments/, reference/, tests/ and dist/.
        folder: of gradebook and notebooks; a later call goes on there.
        workers: notebooks side by side.
        device: where they train; the text of notebooks keeps to that of grading.yml.
    """

    name: str
    root: Path
    config: Config
    folder: Path
    workers: int
    device: str

    @property
    def release(self) -> Path:
        """dist/<name>/."""
        return self.root / "dist" / self.name

    def graded(
        self,
        notebooks: Mapping[str, NotebookNode],
        given: Mapping[str, Change] | None = None,
        release: Release | None = None,
    ) -> dict[str, Attempt]:
        """Grade notebooks, by the names under which they are handed in.

        Args:
            notebooks: as students would hand them in.
            given: changes to some of them after intake, which puts given cells back. Their names
                must tell the change: what was graded under a name is not graded again.
            release: in place of the built one.
        """
        if not notebooks:
            return {}
        built = release or Release.load(self.name, self.root)
        config = self._grading()
        with ExitStack() as stack:
            batch = Batch(built, config, self.folder)  # and nobody else works in the folder now
            stack.callback(batch.close)
            inbox = stack.enter_context(self._inbox(notebooks))
            waiting, _ = batch.pending(find(inbox, self.name))
            todo = [_changed(one, (given or {}).get(one.student)) for one in waiting]
            if todo:
                crew = Crew(config, self.workers)
                stack.callback(crew.close)
                for _ in watched(batch.run(todo, crew), len(todo)):
                    pass
            return _attempts(batch, notebooks)

    def _grading(self) -> Config:
        """grading.yml with this device, and with training also where networks are handed in."""
        trains = self.config.assignment(self.name).model_copy(update={"training": "rerun"})
        assignments = {**self.config.assignments, self.name: trains}
        return self.config.model_copy(update={"device": self.device, "assignments": assignments})

    @contextmanager
    def _inbox(self, notebooks: Mapping[str, NotebookNode]) -> Iterator[Path]:
        inbox = self.folder / "inbox"
        shutil.rmtree(inbox, ignore_errors=True)
        inbox.mkdir(parents=True)
        for name, made in notebooks.items():
            nbformat.write(made, inbox / f"{name}.ipynb")
        yield inbox
        shutil.rmtree(inbox)


def _changed(waiting: Waiting, change: Change | None) -> Waiting:
    if change is None:
        return waiting

    def read() -> Submission:
        submission = waiting.read()
        assert submission.notebook is not None
        return replace(submission, notebook=change(submission.notebook))

    return replace(waiting, read=read)


def _attempts(batch: Batch, names: Iterable[str]) -> dict[str, Attempt]:
    book, wanted = batch.gradebook, set(names)
    found = (book.attempt(key) for key in book.counting_keys(batch.release.name))
    return {attempt.student: attempt for attempt in found if attempt.student in wanted}


def not_passed(attempt: Attempt) -> set[str]:
    """The cases that did not pass, as "question.case"."""
    return {f"{r.question}.{r.case}" for r in attempt.results if r.verdict.status != "passed"}
