"""Pages of the records: the matrix of an audit (HTML), and all records in one table (Markdown)."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograder.report.pages import headline
from autograder.validity import record
from autograder.validity.markdown import validity
from autograder.validity.record import Audit, Calibration, Mutant, Variant
from autograder.validity.summary import Kind, numbers, troubles

_PAGES = Environment(
    loader=PackageLoader("autograder", "validity"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip
_PAGES.filters["headline"] = headline

HEADINGS: dict[Kind, str] = {
    "survivor": "Wrong solutions that no check notices",
    "other check": "Wrong solutions that fail other checks than expected",
    "stale": "Listed as equivalent without need",
    "false fail": "Right solutions that fail",
    "unsteady": "Right solutions with verdicts that change",
    "unexercised": "Cases that no mutant fails",
}
SIGNS = {
    "hit": ("✓", "failed, as expected"),
    "extra": ("+", "failed, but was not expected to"),
    "missed": ("✗", "passed, but was expected to fail"),
    "killed": ("●", "failed"),
}


def write_matrix(audit: Audit, path: Path) -> None:
    """Write the page of one audit: what is off, and mutants by checks."""
    found = troubles(audit)
    kinds = {one.kind for one in found}
    questions = [(name, list(cases)) for name, cases in groupby(audit.cases, lambda c: c.question)]
    generated = [m for m in audit.mutants if not m.written and m.outcome != "equivalent"]
    page = _PAGES.get_template("matrix.html").render(
        audit=audit, numbers=numbers(audit), outcomes=_outcomes(audit.mutants),
        troubles=found, headings={k: h for k, h in HEADINGS.items() if k in kinds},
        questions=questions,
        written=_ordered(audit, [m for m in audit.mutants if m.written]),
        generated=_ordered(audit, generated), equivalents=_by_reason(audit.mutants),
        noticed=Counter(case for mutant in audit.mutants for case in mutant.failed),
        sign=_sign, signs=SIGNS, told=_told, duration=_duration,
    )  # fmt: skip
    path.write_text(page, encoding="utf-8")


def _outcomes(mutants: Sequence[Mutant]) -> dict[bool, Counter[str]]:
    """How many came out how; True: those written by hand."""
    return {
        kind: Counter(m.outcome for m in mutants if m.written is kind) for kind in (True, False)
    }


def _ordered(audit: Audit, mutants: Sequence[Mutant]) -> list[Mutant]:
    """By the first case that notices or should notice each; what nothing notices comes first."""
    place = {case.name: number for number, case in enumerate(audit.cases)}

    def first(mutant: Mutant) -> int:
        names = mutant.failed and (mutant.expected or mutant.failed)
        return min((place[n] for n in names if n in place), default=-1)

    return sorted(mutants, key=first)


def _by_reason(mutants: Sequence[Mutant]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for mutant in mutants:
        if mutant.outcome == "equivalent":
            found[mutant.reason].append(mutant.idea)
    return dict(found)


def _sign(mutant: Mutant, case: str) -> str:
    """The key of SIGNS for a cell of the matrix; "" for an empty one."""
    if case in mutant.failed:
        if not mutant.written:
            return "killed"
        return "hit" if case in mutant.expected else "extra"
    return "missed" if case in mutant.expected else ""


def _told(variant: Variant) -> str:
    """What a right solution's runs gave."""
    told = [f"fails {', '.join(variant.failed)}"] if variant.failed else []
    if variant.unsteady:
        changed = ", ".join(one.case for one in variant.unsteady)
        told.append(f"{changed}: not the same in all runs")
    return "; ".join(told) or "passes all"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )


def write_validity(folder: Path) -> Path:
    """Write the page of all records in a folder; docs/validity/ becomes docs/validity.md.

    Raises:
        ConfigError: a record has another form.
    """
    audits = [record.read(Audit, path) for path in sorted(folder.glob("*-audit.json"))]
    found = sorted(folder.glob("*-calibration-*.json"))
    calibrations = [record.read(Calibration, path) for path in found]
    page = folder.with_suffix(".md")
    page.write_text(validity(audits, calibrations, folder.name), encoding="utf-8")
    return page
