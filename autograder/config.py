"""grading.yml as frozen, validated objects: every point, budget, threshold, seed and limit.

A fault in the file is one `ConfigError` that names the file, the key and what is allowed there.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=1000)]


def _with_offset(value: object) -> object:
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError("give date, time and offset from UTC, such as 2026-12-01T23:59:00+01:00")
    return value


Time = Annotated[datetime, BeforeValidator(_with_offset)]


class ConfigError(ValueError):
    """grading.yml can't be used; the message says which key and what is allowed."""


class Part(BaseModel):
    """Base of all parts: frozen, and no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(Part):
    """What one submission may use. Units are in the names."""

    cell_s: Positive
    notebook_s: Positive
    grace_s: Positive
    memory_mib: Annotated[int, Field(gt=0)]
    file_mib: Annotated[int, Field(gt=0)]
    disk_mib: Annotated[int, Field(gt=0)]
    files: Annotated[int, Field(gt=0)]
    open_files: Annotated[int, Field(gt=0)]
    output_kib: Annotated[int, Field(gt=0)]
    processes: Annotated[int, Field(gt=0)]
    submission_mib: Positive


class Gpu(Part):
    """How submissions share a GPU: how many run on one, and the share of memory of each."""

    slots_per_device: Annotated[int, Field(gt=0)]
    memory_fraction: Annotated[float, Field(gt=0, le=1)]

    @model_validator(mode="after")
    def _fits(self) -> "Gpu":
        if self.slots_per_device * self.memory_fraction > 1:
            raise ValueError("slots_per_device times memory_fraction must not be more than 1")
        return self


class Cluster(Part):
    """A batch on other machines.

    Attributes:
        wait_s: how long it waits for a worker before it gives up.
        tries: of a submission whose workers have faults of their own, or all vanish.
    """

    wait_s: Positive
    tries: Annotated[int, Field(ge=1)]


class Validity(Part):
    """How thresholds are calibrated.

    Attributes:
        false_fail_probability: with which one more training of a right solution may miss one.
        seeds: number of trainings of right solutions, of the seeds `first_seed` and following.
        wrong: number of trainings of wrong ones, with the first of these seeds.
        splits: divisions of the data into training, validation and test set, used in turn.
    """

    false_fail_probability: Annotated[float, Field(gt=0, lt=0.5)]
    seeds: Annotated[int, Field(ge=5)]
    wrong: Annotated[int, Field(ge=5)]
    first_seed: Annotated[int, Field(ge=0)]
    splits: Annotated[int, Field(ge=1)]


class Similarity(Part):
    """What counts as code in common. Units: characters, of normalised code unless said otherwise.

    Attributes:
        passage: length of the shortest passage that is noticed.
        least: how much two students must have in common in all.
        share: how much of the own code of one of them that must be, 0 to 1.
        common: a passage that more students than that have is taken for common knowledge.
        characters: of source; what a student wrote beyond them is not compared.
        most: the strongest places that are kept.
    """

    passage: Annotated[int, Field(ge=10)]
    least: Annotated[int, Field(gt=0)]
    share: Annotated[float, Field(gt=0, le=1)]
    common: Annotated[int, Field(ge=2)]
    characters: Annotated[int, Field(gt=0)]
    most: Annotated[int, Field(gt=0)]


class Course(Part):
    """What the release says of its place: the public repository that holds the student files."""

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    branch: str
    python: Annotated[str, Field(pattern=r"^3\.\d+$")]


class CheckEntry(BaseModel):
    """One test case: its check, its points, and the check's settings (all remaining keys)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    points: Points
    check: Name
    hidden: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Settings written at this entry."""
        return dict(self.model_extra or {})


class Question(Part):
    """A question: automatic with checks, or manual with points."""

    manual: bool = False
    points: Points | None = None
    settings: dict[str, Any] = {}
    checks: dict[Name, CheckEntry] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_checks(cls, raw: Any) -> Any:
        """A case is named after its check unless it says otherwise."""
        if isinstance(raw, Mapping) and isinstance(raw.get("checks"), Mapping):
            checks = {
                name: {"check": name, **entry} if isinstance(entry, Mapping) else entry
                for name, entry in raw["checks"].items()
            }
            return {**raw, "checks": checks}
        return raw

    @model_validator(mode="after")
    def _one_source_of_points(self) -> "Question":
        if self.manual and (self.points is None or self.checks):
            raise ValueError("a manual question has points and no checks")
        if not self.manual and (self.points is not None or not self.checks):
            raise ValueError("a question that is not manual has checks, each with its own points")
        return self

    @property
    def possible(self) -> float:
        """Points of the question."""
        return (
            self.points if self.points is not None else sum(c.points for c in self.checks.values())
        )


class Verify(Part):
    """How far a second training may be from the one that was handed in.

    Attributes:
        loss: difference of the last training losses, as a fraction of the first epoch's.
        accuracy: difference of the last validation accuracies, 0 to 1.
        samples: share of the training samples that may have another fingerprint than those of the
            training, since machines round differently; above it the checkpoint is refused.
    """

    loss: Positive
    accuracy: Positive
    samples: Share


class Policy(Part):
    """Which attempt counts, and what lateness costs.

    Attributes:
        counts: "latest": the attempt handed in last; "best": the one with most points by its
            checks, lateness deducted.
        due: when; None: any time.
        grace_min: minutes after `due` that cost nothing.
        late_percent_per_day: of the possible points, deducted for each day begun after `due`;
            points never fall below 0.
        extensions: for a student another `due`.
    """

    counts: Literal["latest", "best"] = "latest"
    due: Time | None = None
    grace_min: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    late_percent_per_day: Annotated[float, Field(ge=0, le=100)] = 0.0
    extensions: dict[str, Time] = {}


class Assignment(Part):
    """An assignment: its questions in order, and values that its text and code refer to.

    Attributes:
        training: "rerun": grading trains again; "checkpoint": weights and histories are handed in.
        released: questions whose hidden checks feedback pages tell in full, not by name alone.
    """

    title: str
    seed: Annotated[int, Field(ge=0)]
    training: Literal["rerun", "checkpoint"] = "rerun"
    verify: Verify | None = None
    policy: Policy = Policy()
    released: list[Name] = []
    values: dict[str, Any]
    questions: dict[Name, Question]

    @model_validator(mode="after")
    def _known(self) -> "Assignment":
        if unknown := [name for name in self.released if name not in self.questions]:
            raise ValueError(f"released: there is no question {', '.join(unknown)}")
        return self

    @model_validator(mode="after")
    def _verifiable(self) -> "Assignment":
        if self.training == "checkpoint" and self.verify is None:
            raise ValueError(
                "training: checkpoint needs verify: {loss: …, accuracy: …, samples: …}"
            )
        return self

    @property
    def possible(self) -> float:
        """Points of the assignment, manual questions included."""
        return sum(q.possible for q in self.questions.values())

    @property
    def datasets(self) -> list[str]:
        """The data sets that its checks name, each once."""
        settings = [q.settings for q in self.questions.values()]
        settings += [c.settings for q in self.questions.values() for c in q.checks.values()]
        return list(dict.fromkeys(s["dataset"] for s in settings if "dataset" in s))


class Config(Part):
    """The whole of grading.yml."""

    course: Course
    device: Literal["auto", "cpu", "cuda"]
    workers: Annotated[int, Field(ge=0)]
    gpu: Gpu
    cluster: Cluster
    limits: Limits
    validity: Validity
    similarity: Similarity
    assignments: dict[Name, Assignment]

    def assignment(self, name: str) -> Assignment:
        """The assignment called `name`; ConfigError names those that exist."""
        if name not in self.assignments:
            known = ", ".join(self.assignments)
            raise ConfigError(f"There is no assignment {name!r} in grading.yml. It has: {known}.")
        return self.assignments[name]


def load(path: Path) -> Config:
    """Read and validate grading.yml.

    Raises:
        ConfigError: the file is missing, is not YAML, or has an unknown key, a missing value or a
            value of a wrong type.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file. Run the command where grading.yml lies."
        ) from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that there is not, say
        raise ConfigError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: expected keys such as course, limits and assignments.")
    raw.pop("shared", None)  # a place for YAML anchors
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(path, e) for e in error.errors())) from None


def _explain(path: Path, error: Mapping[str, Any]) -> str:
    where = [str(part) for part in error["loc"] if part != "[key]"]
    key = ".".join(where)
    if error["type"] == "extra_forbidden":
        return f"{path}: {key}: unknown key; allowed here: {', '.join(_fields(where))}."
    if error["type"] == "missing":
        return f"{path}: {key}: missing."
    message = error["msg"].removeprefix("Value error, ")
    if "extensions" in where and error["type"] == "string_type":
        message = "students' ids have to be in quotes, or YAML makes numbers of them"
    seen = "" if isinstance(error["input"], Mapping) else f", not {error['input']!r:.80}"
    return f"{path}: {key}: {message[0].lower()}{message[1:]}{seen}."


def _fields(where: list[str]) -> list[str]:
    """Names of the keys that are allowed beside the last part of `where`."""
    by_depth: dict[int, type[Part]] = {1: Config, 3: Assignment, 5: Question}
    by_name: dict[str, type[Part]] = {
        "course": Course, "gpu": Gpu, "cluster": Cluster, "limits": Limits, "validity": Validity,
        "verify": Verify, "policy": Policy, "similarity": Similarity,
    }  # fmt: skip
    part = by_depth.get(len(where)) or by_name[where[-2]]
    return list(part.model_fields)


def settings_of(question: Question, entry: CheckEntry, names: tuple[str, ...]) -> dict[str, Any]:
    """The settings that a check needs, from its own entry, else from its question's `settings`.

    Raises:
        ConfigError: one is missing, or the entry has one that the check doesn't know.
    """
    own = entry.settings
    if unknown := [key for key in own if key not in names]:
        allowed = ", ".join(("points", "hidden", "check", *names))
        raise ConfigError(f"unknown key {', '.join(unknown)}; allowed here: {allowed}.")
    merged = {**question.settings, **own}
    if absent := [name for name in names if name not in merged]:
        raise ConfigError(f"missing: {', '.join(absent)}.")
    return {name: merged[name] for name in names}
