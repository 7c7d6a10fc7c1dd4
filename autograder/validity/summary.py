"""What is off in a record, and what to do about it; and what the terminal shows of a record."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

from autograder.report.summary import plain
from autograder.validity.proposal import Assessment, assess
from autograder.validity.record import Audit, Calibrated, Calibration, Mutant, Unsteady, Variant

Kind = Literal[
    "survivor", "other check", "stale", "false fail", "unsteady", "unexercised", "threshold",
    "failed training", "unstable",
]  # fmt: skip


@dataclass(frozen=True)
class Trouble:
    """Something that is off: of which mutant, solution or case, what, and what to do about it."""

    kind: Kind
    name: str
    words: str
    remedy: str


@dataclass(frozen=True)
class Numbers:
    """An audit in numbers.

    Attributes:
        written: mutants written by hand; `expected` of them failed exactly the expected cases.
        generated: `killed`, `equivalent` and `survived` ones together.
        false_fails: right solutions that failed something.
        runs: further runs of right solutions; in them `changed` verdicts were not the usual one.
        exercised: cases that some mutant failed.
    """

    written: int
    expected: int
    generated: int
    killed: int
    equivalent: int
    survived: int
    right: int
    false_fails: int
    runs: int
    changed: int
    cases: int
    exercised: int


def numbers(audit: Audit) -> Numbers:
    """Count. What is listed as equivalent but isn't generated any more is no mutant."""
    written = [m.outcome for m in audit.mutants if m.written]
    generated = [m for m in audit.mutants if not m.written]
    killed = sum(bool(m.failed) for m in generated)
    outcomes = [m.outcome for m in generated]
    equivalent, survived = outcomes.count("equivalent"), outcomes.count("survived")
    return Numbers(
        written=len(written),
        expected=written.count("expected"),
        generated=killed + equivalent + survived,
        killed=killed,
        equivalent=equivalent,
        survived=survived,
        right=len(audit.variants),
        false_fails=sum(bool(v.failed) for v in audit.variants),
        runs=sum(v.runs for v in audit.variants),
        changed=sum(_changes(u) for v in audit.variants for u in v.unsteady),
        cases=len(audit.cases),
        exercised=len(audit.cases) - len(audit.unexercised),
    )


def _changes(one: Unsteady) -> int:
    return sum(one.statuses.values()) - max(one.statuses.values())


def is_off(audit: Audit) -> bool:
    """Whether a check, the bank or the list of equivalent mutants needs work."""
    return bool(troubles(audit))


def misplaced(calibration: Calibration) -> list[Calibrated]:
    """The checks whose threshold does not lie between right and wrong solutions."""
    return [c for c in calibration.checks if not assess(c, calibration.probability).between]


def troubles(audit: Audit) -> list[Trouble]:
    """All that is off in an audit."""
    remedy = "write a mutant that it has to notice"
    return [
        *(_of_mutant(audit.assignment, mutant) for mutant in audit.mutants if _is_off(mutant)),
        *(trouble for variant in audit.variants for trouble in _of_variant(variant)),
        *(Trouble("unexercised", c, "no mutant fails it", remedy) for c in audit.unexercised),
    ]


def _is_off(mutant: Mutant) -> bool:
    return mutant.outcome in ("other", "survived", "stale")


def _of_mutant(assignment: str, mutant: Mutant) -> Trouble:
    file = f"tests/mutants/{assignment}/{mutant.name}.yml"
    listed = f"tests/equivalent/{assignment}.yml"
    if mutant.outcome == "stale":
        words = f"noticed by {_list(mutant.failed)}" if mutant.failed else mutant.reason
        return Trouble("stale", mutant.idea, words, f"take it off {listed}")
    if mutant.outcome == "other":
        words = f"should fail {_list(mutant.expected)}; failed {_list(mutant.failed)}"
        return Trouble("other check", mutant.name, words, f"correct the check, or what {file} says")
    if mutant.written:
        better = f"strengthen a check of {_list(_questions(mutant.expected))}"
        words = f"no check notices it ({mutant.idea})"
        return Trouble("survivor", mutant.name, words, f"{better}, or delete {file} if it is right")
    question = mutant.idea.split("-")[0]  # the idea begins with the id of the cell
    remedy = f"strengthen a check of {question}, or list it in {listed} with a reason"
    return Trouble("survivor", mutant.idea, "no check notices it", remedy)


def _of_variant(variant: Variant) -> Iterator[Trouble]:
    if variant.failed:
        words = f"right, but fails {_list(variant.failed)}"
        yield Trouble("false fail", variant.name, words, "correct the check")
    for one in variant.unsteady:
        words = f"right, but {one.case} changes: {_statuses(one)}"
        remedy = "make the check independent of seeds, threads and the order of cells"
        yield Trouble("unsteady", variant.name, words, remedy)


def threshold_troubles(calibration: Calibration) -> Iterator[Trouble]:
    """All that is off in a calibration."""
    for check in calibration.checks:
        name, found = f"{check.question}.{check.case}", assess(check, calibration.probability)
        if not found.between:
            remedy = _moved(calibration.assignment, check, found)
            yield Trouble("threshold", name, _between(check, found), remedy)
        if found.failures:
            words = f"{found.failures} of {found.trainings} trainings of right solutions fail it"
            remedy = "see whether the threshold is too strict, or training isn't reliable"
            yield Trouble("failed training", name, words, remedy)
    for one in calibration.unstable:
        words = f"right, but {one.case} is not passed in every training: {_statuses(one)}"
        yield Trouble("unstable", one.name, words, "make the check or the training more reliable")


def _between(check: Calibrated, found: Assessment) -> str:
    right, wrong = ("down", "up") if check.at_least else ("up", "down")
    words = f"{check.setting} is {check.threshold:g}, but right solutions reach {right} to "
    words += f"{found.bound:.4g} ({found.bound_of})"
    if found.mutant_bound is None:
        return words
    return f"{words}, wrong ones {wrong} to {found.mutant_bound:.4g} ({found.mutant})"


def _moved(assignment: str, check: Calibrated, found: Assessment) -> str:
    write = f"set {found.proposal:g} (autograder calibrate {assignment} --apply)"
    if found.separable:
        return write
    overlap = "they overlap: let another check notice the wrong ones"
    return overlap if found.proposal == check.threshold else f"{overlap}; {write}"


def _questions(cases: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(case.split(".")[0] for case in cases))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def _statuses(one: Unsteady) -> str:
    return ", ".join(
        f"{count} {status.replace('_', ' ')}" for status, count in one.statuses.items()
    )


# What the terminal shows.


def about_audit(audit: Audit) -> None:
    """One line of numbers, and one for each thing that is off."""
    n = numbers(audit)
    words = (
        f"{audit.assignment}: {n.expected} of {n.written} written mutants caught as expected; "
        f"{n.generated} generated: {n.killed} killed, {n.equivalent} equivalent, "
        f"{n.survived} survived; {n.false_fails} of {n.right} right solutions failed; "
        f"{n.changed} verdicts changed in {n.runs} further runs; "
        f"{n.exercised} of {n.cases} cases exercised; "
        f"{audit.wall_s:.0f} s, {audit.cpu_s:.0f} s of CPU"
    )
    print(_one_line(words))
    _show(troubles(audit))


def about_calibration(calibration: Calibration) -> None:
    """A table of the checks, and one line for each thing that is off."""
    checks = calibration.checks
    if checks:
        Console().print(_table(calibration), markup=False)
    words = (
        f"{calibration.assignment}: {len(checks) - len(misplaced(calibration))} of {len(checks)} "
        f"thresholds lie between right and wrong solutions; {len(calibration.seeds)} trainings "
        f"of the reference on {calibration.made.device}"
    )
    print(_one_line(words))
    _show(threshold_troubles(calibration))


def _table(calibration: Calibration) -> Table:
    title = f"{calibration.assignment}: bounds at probability {calibration.probability:g}"
    table = Table(title=plain(title))
    table.add_column("check", overflow="fold")
    for column in ("right", "threshold", "wrong", "failures", "between"):
        table.add_column(column, justify="right")
    for check in calibration.checks:
        found = assess(check, calibration.probability)
        wrong = "" if found.mutant_bound is None else f"{found.mutant_bound:.4g}"
        table.add_row(
            plain(f"{check.question}.{check.case}"), f"{found.bound:.4g}", f"{check.threshold:g}",
            wrong, f"{found.failures} of {found.trainings}", "yes" if found.between else "NO",
        )  # fmt: skip
    return table


def _show(found: Iterable[Trouble]) -> None:
    for one in found:
        print("  " + _one_line(f"{one.kind}: {one.name}: {one.words}: {one.remedy}"))


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())
