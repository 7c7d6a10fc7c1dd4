"""The bank: notebooks that grading is tried on, each with what grading must say of it.

One small YAML file a notebook, in tests/<kind>/<assignment>/:
    mutants/      one misconception each, and the cases of grading.yml that it fails
    variants/     other right answers, with full automatic marks
    submissions/  whole notebooks, and their points for each question
tests/equivalent/<assignment>.yml lists generated mutants that no check has to notice, and why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes Python's own from 3.12 on

from autograder.config import ConfigError

# Keys that a file of each kind must have; those of CHANGES it may have.
REQUIRED = {
    "mutants": {"misconception", "fails"},
    "variants": {"idea"},
    "submissions": {"idea", "expect"},
}
CHANGES = {"edits", "answers", "inserted", "answered"}


Text = Annotated[str, Field(min_length=1)]


class _Group(TypedDict):
    reason: Text
    mutants: list[Text]


class _Raw(TypedDict, total=False):
    misconception: Text
    idea: Text
    fails: list[Text]
    expect: dict[str, float]
    edits: dict[str, dict[str, str]]
    answers: dict[str, str]
    inserted: dict[str, str]
    answered: list[Text]


class BankError(ConfigError):
    """A file of the bank can't be used; the message names the file and what is wrong in it."""


@dataclass(frozen=True)
class Entry:
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
    def concerns(self) -> frozenset[str]:
        """Questions that it changes or fails."""
        cells = (*self.edits, *self.answers, *self.inserted)
        changed = {cell.split("-")[0] for cell in cells}
        return frozenset(changed | {case.split(".")[0] for case in self.fails})


def load(tests: Path, assignment: str) -> list[Entry]:
    """All notebooks of the bank in the folder `tests` for an assignment.

    Raises:
        BankError: there is none, a file is not YAML, or a key is missing or unknown.
    """
    paths = [p for kind in REQUIRED for p in sorted((tests / kind / assignment).glob("*.yml"))]
    if not paths:
        raise BankError(
            f"{tests} holds no wrong and right solutions of {assignment}. Write some, one file "
            f"each, in mutants/{assignment}/ and variants/{assignment}/ there; see CONTRIBUTING.md."
        )
    return [_read(path) for path in paths]


def reference(assignment: str) -> Entry:
    """The solved notebook as it is."""
    return Entry(assignment, "variants", "reference", "The reference solution.")


def equivalents(tests: Path, assignment: str) -> dict[str, str]:
    """Why a generated mutant need not be noticed, by "cell operator: old -> new".

    Raises:
        BankError: the file is not a list of groups, each with a reason and its mutants' names.
    """
    path = tests / "equivalent" / f"{assignment}.yml"
    if not path.exists():
        return {}
    groups = _fitting(list[_Group], _yaml(path), path)
    return {name: group["reason"] for group in groups for name in group["mutants"]}


def _fitting(kind: Any, raw: Any, path: Path) -> Any:
    """YAML values of the right kinds; nothing is converted."""
    try:
        return TypeAdapter(kind).validate_python(raw, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BankError(f"{path}: {place}: {first['msg']}, not {first['input']!r:.80}.") from None


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BankError(f"{path}: not YAML: {error}") from None


def _read(path: Path) -> Entry:
    kind, assignment = path.parts[-3:-1]
    raw = _yaml(path)
    if not isinstance(raw, dict):
        raise BankError(f"{path}: must be a mapping.")
    if missing := REQUIRED[kind] - set(raw):
        raise BankError(f"{path}: lacks {', '.join(sorted(missing))}.")
    if unknown := set(raw) - REQUIRED[kind] - CHANGES:
        raise BankError(f"{path}: unknown keys {', '.join(sorted(unknown))}.")
    _fitting(_Raw, raw, path)
    return _entry(assignment, kind, path.stem, raw)


def _entry(assignment: str, kind: str, name: str, raw: dict[str, Any]) -> Entry:
    idea = raw.pop("misconception" if kind == "mutants" else "idea")
    for part in {"fails", "answered"} & set(raw):
        raw[part] = frozenset(raw[part])
    return Entry(assignment, kind, name, idea, **raw)
