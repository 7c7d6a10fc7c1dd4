"""What audit and calibration found, as JSON files that ship with the repository.

Reading is strict: a record of another form is refused in words.
"""

import platform
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from autograder.config import ConfigError
from autograder.measured import Band

Kind = Literal["reference", "variant", "mutant"]
Outcome = Literal["expected", "other", "killed", "survived", "equivalent", "stale"]
"""Of a mutant: written ones fail the expected cases or others, generated ones any. A survivor that
is listed with a reason is equivalent; stale: it is listed, but was noticed, or is gone."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Made:
    """Where, when and with what a record was made."""

    date: str
    version: str
    device: str
    processor: str
    python: str
    torch: str
    threads: int


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Unsteady:
    """A case whose verdict was not the same in all runs of a solution: how often it was which."""

    name: str
    case: str
    statuses: dict[str, int]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Sample:
    """One solution's numbers over many trainings; None where a training gave none."""

    name: str
    kind: Kind
    values: list[float | None]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Calibrated:
    """What one check measured over many trainings, beside its threshold.

    Attributes:
        setting: the key of grading.yml that holds the threshold, such as "smallest".
        at_least: right answers lie above the threshold.
        magnitude: a positive quantity for which factors count, such as a ratio of losses: its
            logarithm is taken for normal. Else (a share, a difference) the number itself is.
    """

    question: str
    case: str
    setting: str
    at_least: bool
    threshold: float
    samples: list[Sample]
    magnitude: bool = False


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Calibration:
    """The calibration of an assignment.

    Attributes:
        probability: with which a right solution may fail a check, from grading.yml.
        seeds: of the trainings, in the order of each sample's values.
        splits: how many divisions of the data they take turns in.
        unstable: right solutions and cases whose verdicts were not the same in all trainings.
        bands: where the curves of the reference's trainings lay.
    """

    assignment: str
    made: Made
    probability: float
    seeds: list[int]
    splits: int
    checks: list[Calibrated]
    unstable: list[Unsteady]
    bands: list[Band]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Case:
    """A test case, as grading.yml has it."""

    question: str
    case: str
    check: str
    points: float
    hidden: bool

    @property
    def name(self) -> str:
        """As "question.case"."""
        return f"{self.question}.{self.case}"


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Mutant:
    """A wrong solution and what noticed it.

    Attributes:
        written: by hand; else an operator made it.
        idea: the misconception, or "operator: old -> new".
        expected: cases, as "question.case", that should fail; none for generated ones.
        failed: cases that did.
        reason: why nothing needs to notice it, for an equivalent one.
    """

    name: str
    written: bool
    idea: str
    expected: list[str]
    failed: list[str]
    outcome: Outcome
    reason: str = ""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Variant:
    """A right solution.

    Attributes:
        failed: cases that it failed although it is right.
        runs: how often it was graded under other threads, seeds and cell orders.
        unsteady: cases whose verdicts changed then.
    """

    name: str
    idea: str
    failed: list[str]
    runs: int
    unsteady: list[Unsteady]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Audit:
    """The audit of an assignment; `unexercised`: cases that no mutant failed."""

    assignment: str
    made: Made
    cases: list[Case]
    mutants: list[Mutant]
    variants: list[Variant]
    unexercised: list[str]
    wall_s: float
    cpu_s: float


def unsteady(name: str, runs: Iterable[Mapping[str, str]]) -> list[Unsteady]:
    """The cases of a solution that did not get the same status in all its runs."""
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        for case, status in run.items():
            statuses[case][status] += 1
    return [Unsteady(name, case, dict(seen)) for case, seen in statuses.items() if len(seen) > 1]


Record = TypeVar("Record", Audit, Calibration)


def made(version: str, device: str, threads: int) -> Made:
    """Now and here."""
    today = datetime.now(UTC).date().isoformat()
    python = ".".join(map(str, sys.version_info[:3]))
    return Made(today, version, device, _processor(), python, torch.__version__, threads)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write(record: Audit | Calibration, path: Path) -> None:
    """Write a record, one value a line where a difference is to be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = TypeAdapter(type(record)).dump_json(record, indent=1)
    path.write_bytes(content + b"\n")


def read(kind: type[Record], path: Path) -> Record:
    """Read a record.

    Raises:
        ConfigError: the file has another form, for instance that of another version of the kit.
    """
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"{path}: not a record of this version ({place}: {first['msg']}). Make it anew."
        ) from None
