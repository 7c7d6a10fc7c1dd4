"""A check measures, then judges.

The measuring half runs beside the student's objects and returns evidence: a frozen dataclass of
plain JSON values. The judging half is a pure function of that evidence and of the limits in
grading.yml. In a notebook and in every Otter test `run` does both; the batch grader takes the
evidence from the sink and judges it again in its own process.
"""

import contextlib
import dataclasses
import inspect
import io
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch

Status = Literal["passed", "failed", "not_answered", "not_reached", "not_run", "refused"]
"""not_reached: the run ended before; not_run: our fault; refused: evidence that can't be true."""
Sink = Callable[[dict[str, object]], None]


@dataclass(frozen=True)
class Verdict:
    """What a check decided: its status, the measured number beside the limit, and where to look."""

    status: Status
    rationale: str
    hint: str = ""

    def __str__(self) -> str:
        """Rationale and hint as one text."""
        return f"{self.rationale} {self.hint}".strip()


def verdict(passed: bool, rationale: str, hint: str) -> Verdict:
    """A passed verdict with the rationale, or a failed one with rationale and hint."""
    return Verdict("passed", rationale) if passed else Verdict("failed", rationale, hint)


class CheckFailed(AssertionError):
    """Raised by `run` in a notebook or an Otter test when the student's answer did not pass."""


class CheckNotRun(RuntimeError):
    """Raised by `run` when the check could not be done; never the student's fault."""


class Stop(Exception):
    """A measurement can't go on because of what the student wrote: the check fails."""

    kind = "failed"

    def __init__(self, rationale: str, hint: str = "") -> None:
        """Keep what was seen (`rationale`) and where to look (`hint`)."""
        super().__init__(rationale)
        self.rationale, self.hint = rationale, hint


class NotAnswered(Stop):
    """The object that a check needs isn't there yet."""

    kind = "not_answered"


class Unavailable(Stop):
    """Something outside the student's work is missing, for instance the hidden data set."""

    kind = "not_run"


@dataclass(frozen=True)
class Threshold:
    """The number that a judging function compares with one of its settings.

    Attributes:
        setting: name of that setting, such as "smallest".
        value: gives the number from the evidence, and from those of the judging function's other
            settings that it names as keyword-only parameters; None where there is none.
        at_least: right answers lie above the setting.
    """

    setting: str
    value: Callable[..., float | None]
    at_least: bool


@dataclass(frozen=True)
class Check:
    """A measuring and a judging function that belong together.

    The positional parameters of `measure` are the student's objects; the keyword-only parameters
    of both functions are the check's settings, each of which grading.yml has to give. There is a
    `threshold` where a single number decides, so that it can be read from stored evidence.
    """

    measure: Callable[..., Any]
    judge: Callable[..., Verdict]
    threshold: Threshold | None = None

    @property
    def evidence(self) -> type:
        """The dataclass that `measure` returns and `judge` takes."""
        kind = next(iter(inspect.signature(self.judge).parameters.values())).annotation
        assert isinstance(kind, type)
        return kind

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of the student's objects that the check looks at."""
        return tuple(
            n for n in inspect.signature(self.measure).parameters if n not in self.settings
        )

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of all settings, measuring ones first, without repetition."""
        names = [*_keyword_only(self.measure), *_keyword_only(self.judge)]
        return tuple(dict.fromkeys(names))


def _keyword_only(function: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


_sink: Sink | None = None
latest: dict[tuple[str, str], Verdict] = {}
"""The newest verdict of each (question, case) in this process, for showing it."""


def set_sink(sink: Sink | None) -> None:
    """Send each check's evidence to `sink` as well; None stops that."""
    global _sink  # noqa: PLW0603 - one process grades one submission
    _sink = sink


def perform(
    check: Check, settings: Mapping[str, Any], objects: Mapping[str, Any]
) -> dict[str, Any]:
    """Measure, and return the evidence as JSON values; what stopped it is evidence as well."""
    chosen = {name: settings[name] for name in _keyword_only(check.measure)}
    try:
        with undisturbed(), contextlib.redirect_stdout(io.StringIO()):  # a forward may print
            if "seed" in settings:  # the verdict must not hang on what was drawn before
                torch.manual_seed(settings["seed"])
            return asdict(check.measure(**objects, **chosen))
    except Stop as stop:
        return stopped(stop.kind, stop.rationale, stop.hint)
    except (
        Exception
    ) as error:  # a fault of the check itself: said so, and never held against anyone
        return stopped("not_run", f"The check itself broke: {type(error).__name__}: {error}")


def stopped(kind: str, rationale: str, hint: str = "") -> dict[str, Any]:
    """Evidence that says why nothing could be measured."""
    return {"stopped": {"kind": kind, "rationale": rationale[:2000], "hint": hint[:2000]}}


def decide(check: Check, settings: Mapping[str, Any], evidence: Mapping[str, Any]) -> Verdict:
    """Judge evidence that `perform` returned. Pure: the same in a notebook and in the grader."""
    if "stopped" in evidence:
        stop = evidence["stopped"]
        return Verdict(stop["kind"], stop["rationale"], stop["hint"])
    limits = {name: settings[name] for name in _keyword_only(check.judge)}
    try:
        return check.judge(_restored(check.evidence, evidence), **limits)
    except Unavailable as missing:
        return Verdict("not_run", missing.rationale, missing.hint)


def _restored(kind: Any, value: Any) -> Any:
    """JSON values as the dataclass that they were, those inside of it included."""
    if dataclasses.is_dataclass(kind):
        fields = get_type_hints(kind)
        assert isinstance(kind, type)
        return kind(**{name: _restored(fields[name], part) for name, part in value.items()})
    if get_origin(kind) is list:
        return [_restored(get_args(kind)[0], part) for part in value]
    return value


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Measure without a trace: random states, gradient mode and warnings stay the student's.

    A student's numbers must be the same whether the check cells were run or not.
    """
    state, numbers = random.getstate(), np.random.get_state()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng())
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.device("cpu"))  # a student may have set another default
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(state)
            np.random.set_state(numbers)


def require(value: Any, name: str) -> Any:
    """The student's object, or NotAnswered where it is missing or still the placeholder `...`."""
    if value is None or value is ...:
        raise NotAnswered(
            f"{name} is not defined yet.",
            "Write your answer in the cell above, run that cell, then run this check again.",
        )
    return value


def call(function: Any, *arguments: Any, name: str) -> Any:
    """Call a student's function; what it raises becomes a failed check that quotes the call."""
    shown = f"{name}({', '.join(_brief(a) for a in arguments)})"
    if not callable(require(function, name)):
        raise Stop(
            f"{name} is a {type(function).__name__}, not a function.", f"Define {name}(…) with def."
        )
    try:
        result = function(*arguments)
    except Exception as error:
        raise Stop(
            f"{shown} raised {type(error).__name__}: {str(error)[:500].rstrip(' .')}.",
            "Run that call in a cell of your own and read the last line of its traceback.",
        ) from None
    if result is None or result is ...:
        raise NotAnswered(
            f"{shown} returned nothing.",
            f"Complete the function, and end it with a return statement.{_about_none(function)}",
        )
    return result


def _about_none(function: Any) -> str:
    """A further hint for a function that reads .grad."""
    if "grad" not in getattr(getattr(function, "__code__", None), "co_names", ()):
        return ""
    return (
        " If there is one, what it returns is None: .grad stays None unless requires_grad_() was "
        "called before the layer ran."
    )


def _brief(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor of shape {tuple(value.shape)}"
    if isinstance(value, torch.nn.Module | torch.optim.Optimizer):
        return type(value).__name__
    if isinstance(value, dict):
        return f"dict of {len(value)}"
    return repr(value)[:60]


def number(value: Any) -> float | None:
    """A finite float of something number-like, or None (nan, infinity and anything else).

    Comparing with the student's own object would let an object that equals everything pass.
    """
    if isinstance(value, str | bytes | bytearray):
        return None
    try:
        plain = float(value)
    except Exception:
        return None
    return plain if math.isfinite(plain) else None
