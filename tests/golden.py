"""The golden bank: notebooks made from the solved one, each with what grading must say of it.

One small YAML file a notebook, in tests/<kind>/<assignment>/:
    mutants/      one misconception each, and the cases of grading.yml that it fails
    variants/     other right answers, with full automatic marks
    submissions/  whole notebooks, and their points for each question
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.config import Config
from autograder.grade import Batch, Crew, Release
from autograder.gradebook import Attempt
from autograder.intake import find

BANK = Path(__file__).parent
# Keys that a file of each kind must have; those of CHANGES it may have.
REQUIRED = {
    "mutants": {"misconception", "fails"},
    "variants": {"idea"},
    "submissions": {"idea", "expect"},
}
CHANGES = {"edits", "answers", "inserted", "answered"}

# Questions whose answers no other question uses: changes to several of them fit in one notebook.
ALONE = {
    "encoder_decoder": {"translate", "accuracy"},
    "convolution_basics": {"stride", "network", "pooling", "equivariance", "parameters"},
    "cnn_vs_fnn": {"conv_size", "pool_size", "global_pool", "count", "comparison"},
    "sequence_models": {"look", "prepare", "count", "comparison", "confusion"},
    "gradient_flow": {"recurrence", "shapes", "vanishing", "lstm_cell", "forget_bias", "deep",
                      "bidirectional", "causality"},
    "sequence_shapes": {"roles", "deep", "pieces", "gru_cell", "count", "error"},
    "attention": {"database", "masks", "self_attention", "leak", "positions", "encoder"},
}  # fmt: skip

_graded: dict[tuple[object, ...], Attempt] = {}


class GoldenError(ValueError):
    """A file of the bank can't be used; the message names the file and what is wrong in it."""


@dataclass(frozen=True)
class Golden:
    """One notebook of the bank, as changes to the solved notebook. Cells go by their ids.

    Attributes:
        assignment: name of the assignment.
        kind: "mutants", "variants" or "submissions".
        name: name of the file, without ending.
        idea: what is wrong, or what is different, in one sentence.
        edits: for an answer cell the texts to replace (everywhere in it) and their replacements.
        answers: for an answer cell its whole source.
        inserted: sources of additional code cells, by the cell that each comes before.
        answered: questions that are answered at all; the others keep the released stub.
        fails: cases that don't pass, as "question.case".
        expect: points by question, for submissions.
    """

    assignment: str
    kind: str
    name: str
    idea: str
    edits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    answers: Mapping[str, str] = field(default_factory=dict)
    inserted: Mapping[str, str] = field(default_factory=dict)
    answered: frozenset[str] | None = None
    fails: frozenset[str] = frozenset()
    expect: Mapping[str, float] = field(default_factory=dict)

    @property
    def student(self) -> str:
        """The name under which it is handed in."""
        return f"{self.kind}_{self.name}"

    @property
    def full_name(self) -> str:
        """Its name among those of all assignments."""
        return f"{self.assignment}_{self.student}"

    @property
    def concerns(self) -> set[str]:
        """Questions that it changes or fails."""
        cells = (*self.edits, *self.answers, *self.inserted)
        return {cell.split("-")[0] for cell in cells} | {case.split(".")[0] for case in self.fails}

    def joins(self, group: list["Golden"]) -> bool:
        """Whether one notebook can hold it and the group, each failing for its own reason alone."""
        apart = all(self.kind == g.kind and not self.concerns & g.concerns for g in group)
        return apart and self.stands_alone and not self.expect

    @property
    def stands_alone(self) -> bool:
        """Whether it concerns only questions that no other one uses."""
        return bool(self.concerns) and self.concerns <= ALONE[self.assignment]


def load(assignment: str) -> list[Golden]:
    """All notebooks of the bank for an assignment.

    Raises:
        GoldenError: a file is not YAML, or a key is missing or unknown.
    """
    paths = [p for kind in REQUIRED for p in sorted((BANK / kind / assignment).glob("*.yml"))]
    if not paths:
        raise GoldenError(f"{BANK} holds no files for {assignment}.")
    return [_read(path) for path in paths]


def _read(path: Path) -> Golden:
    kind, assignment = path.parts[-3:-1]
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise GoldenError(f"{path}: not YAML: {error}") from None
    if not isinstance(raw, dict):
        raise GoldenError(f"{path}: must be a mapping.")
    if missing := REQUIRED[kind] - set(raw):
        raise GoldenError(f"{path}: lacks {', '.join(sorted(missing))}.")
    if unknown := set(raw) - REQUIRED[kind] - CHANGES:
        raise GoldenError(f"{path}: unknown keys {', '.join(sorted(unknown))}.")
    return _golden(assignment, kind, path.stem, raw)


def _golden(assignment: str, kind: str, name: str, raw: dict[str, Any]) -> Golden:
    idea = raw.pop("misconception", None) or raw.pop("idea")
    for part in {"fails", "answered"} & set(raw):
        raw[part] = frozenset(raw[part])
    return Golden(assignment, kind, name, idea, **raw)


def pack(bank: Iterable[Golden]) -> list[list[Golden]]:
    """Groups for one notebook each, which saves a third of the time; `merge` makes one of them."""
    groups: list[list[Golden]] = []
    for golden in sorted(bank, key=lambda g: g.stands_alone):
        home = next((group for group in groups if golden.joins(group)), None)
        groups.append([golden]) if home is None else home.append(golden)
    return groups


def case_of(golden: Golden, case: str) -> object:
    """A case, as one of its assignment."""
    return golden.assignment, case


def sample(
    bank: Collection[Golden], covered: Callable[[Golden, str], object] = case_of
) -> set[str]:
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


def merge(group: list[Golden]) -> Golden:
    """All changes of a group, under the name of its first."""
    return replace(
        group[0],
        edits={k: v for g in group for k, v in g.edits.items()},
        answers={k: v for g in group for k, v in g.answers.items()},
        inserted={k: v for g in group for k, v in g.inserted.items()},
        fails=frozenset[str]().union(*(g.fails for g in group)),
    )


def notebook(golden: Golden, release: Path) -> NotebookNode:
    """The notebook of `golden`, as a student would hand it in.

    Args:
        golden: what to change.
        release: dist/<name>/ of the assignment.

    Raises:
        GoldenError: a cell that is to be changed is not an answer cell, or lacks the old text.
    """
    made = nbformat.read(release / "autograder" / f"{release.name}.ipynb", as_version=4)
    stubs = nbformat.read(release / "student" / f"{release.name}.ipynb", as_version=4)
    answers = {
        short_id(c, release): c for c in made.cells if c.metadata.autograder.role == "answer"
    }
    if golden.answered is not None:
        _clear(answers, {short_id(c, release): c.source for c in stubs.cells}, golden.answered)
    for name, source in golden.answers.items():
        _answer(golden, answers, name).source = source
    for name, edits in golden.edits.items():
        _edit(golden, _answer(golden, answers, name), edits)
    for name, source in golden.inserted.items():
        cell = new_code_cell(source, id=f"before-{name}")
        made.cells.insert(made.cells.index(_answer(golden, answers, name)), cell)
    return made


def short_id(cell: NotebookNode, release: Path) -> str:
    """A cell's id without the assignment's name, as the files of the bank use it."""
    return str(cell.id).removeprefix(f"{release.name}-")


def _clear(
    answers: Mapping[str, NotebookNode], stubs: Mapping[str, str], answered: Iterable[str]
) -> None:
    for key, cell in answers.items():
        if cell.metadata.autograder.question not in answered:
            cell.source = stubs[key]


def _answer(golden: Golden, answers: Mapping[str, NotebookNode], key: str) -> NotebookNode:
    if key not in answers:
        raise GoldenError(
            f"{golden.student}: no answer cell {key}; there are {', '.join(answers)}."
        )
    return answers[key]


def _edit(golden: Golden, cell: NotebookNode, edits: Mapping[str, str]) -> None:
    for old, new in edits.items():
        if old not in cell.source:
            raise GoldenError(f"{golden.student}: {cell.id} does not contain {old!r}.")
        cell.source = cell.source.replace(old, new)


def hand_in(bank: Collection[Golden], release: Path, inbox: Path) -> dict[str, Path]:
    """Write the notebooks into the inbox; their paths by student."""
    inbox.mkdir()
    paths = {golden.student: inbox / f"{golden.student}.ipynb" for golden in bank}
    for golden in bank:
        nbformat.write(notebook(golden, release), paths[golden.student])
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


def not_passed(attempt: Attempt) -> set[str]:
    """The cases that did not pass, as "question.case"."""
    return {f"{r.question}.{r.case}" for r in attempt.results if r.verdict.status != "passed"}
