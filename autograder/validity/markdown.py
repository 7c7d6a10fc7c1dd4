"""All records as one page of Markdown; the prose is in validity.md beside this file."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import mean, stdev
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograder.validity.proposal import Assessment, assess
from autograder.validity.record import Audit, Calibrated, Calibration
from autograder.validity.summary import Trouble, numbers, threshold_troubles, troubles

_PROSE = Environment(
    loader=PackageLoader("autograder", "validity"), autoescape=False, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip


def validity(
    audits: Sequence[Audit], calibrations: Sequence[Calibration], folder: str = "validity"
) -> str:
    """The page, with links to matrices and plots in `folder`, which lies beside it.

    The same records give the same page, in whatever order.
    """
    audits = sorted(audits, key=lambda a: a.assignment)
    calibrations = sorted(calibrations, key=lambda c: (c.assignment, c.made.device))
    return _PROSE.get_template("validity.md").render(
        overview=_overview(audits, folder), troubles=_troubles(audits, calibrations),
        calibrations=[
            (text(_where(c)), _thresholds(c, folder), c, _doubts(c)) for c in calibrations
        ],
        equivalents=_equivalents(audits), origins=_origins(audits, calibrations), folder=folder,
    )  # fmt: skip


def _overview(audits: Iterable[Audit], folder: str) -> str:
    head = ["assignment", "written mutants caught as expected", "generated: killed", "equivalent",
            "survived", "false fails of right solutions", "changed verdicts in further runs",
            "cases exercised"]  # fmt: skip
    rows = []
    for audit in audits:
        n = numbers(audit)
        rows.append([
            _link(audit.assignment, f"{folder}/{audit.assignment}-audit.html"),
            f"{n.expected} of {n.written}", f"{n.killed} of {n.generated}", f"{n.equivalent}",
            f"{n.survived}", f"{n.false_fails} of {n.right}", f"{n.changed} in {n.runs}",
            f"{n.exercised} of {n.cases}",
        ])  # fmt: skip
    return _table(head, rows)


def _troubles(audits: Iterable[Audit], calibrations: Iterable[Calibration]) -> list[str]:
    """One item of a list for each thing that is off."""
    found = [(audit.assignment, one) for audit in audits for one in troubles(audit)]
    found += [(_where(c), one) for c in calibrations for one in threshold_troubles(c)]
    return [f"- {text(where)}, {one.kind}: {_told(one)}" for where, one in found]


def _told(one: Trouble) -> str:
    return f"{code(one.name)}: {text(one.words)}. To do: {text(one.remedy)}."


def _where(calibration: Calibration) -> str:
    return f"{calibration.assignment} ({calibration.made.device})"


def _thresholds(calibration: Calibration, folder: str) -> str:
    head = ["check", "right networks", "reference", "worst right", "right bound",
            "threshold", "wrong bound", "between", "failed trainings"]  # fmt: skip
    rows = [_threshold(calibration, check, folder) for check in calibration.checks]
    return _table(head, rows)


def _threshold(calibration: Calibration, check: Calibrated, folder: str) -> list[str]:
    found = assess(check, calibration.probability)
    right = sum(sample.kind != "mutant" for sample in check.samples)
    sign = "≥" if check.at_least else "≤"
    return [
        _link(f"{check.question}: {check.case}", _plot(calibration, check, folder)),
        str(right), _reference(check), f"{found.extreme:.4g}",
        f"{found.bound:.4g} {code(found.bound_of)}", f"{sign} {check.threshold:g}",
        _wrong(found), "yes" if found.between else "**no**",
        f"{found.failures} of {found.trainings}, so < {found.share:.2%}",
    ]  # fmt: skip


def _plot(calibration: Calibration, check: Calibrated, folder: str) -> str:
    # Plots are named by the kind of device, records may tell the GPU's name.
    device = "cpu" if calibration.made.device == "cpu" else "cuda"
    name = f"{calibration.assignment}-{check.question}-{check.case}-{device}"
    return f"{folder}/plots/{name}.svg"


def _reference(check: Calibrated) -> str:
    """Mean and standard deviation of the reference solution."""
    values = [v for s in check.samples if s.kind == "reference" for v in s.values if v is not None]
    return f"{mean(values):.4g} ± {stdev(values):.2g}" if len(values) > 1 else "–"


def _wrong(found: Assessment) -> str:
    if found.mutant_bound is None:
        return "none tried"
    return f"{found.mutant_bound:.4g} {code(found.mutant)}"


def _doubts(calibration: Calibration) -> list[str]:
    """Where the trainings contradict the normal model."""
    doubts = []
    for check in calibration.checks:
        found = assess(check, calibration.probability)
        right = sum(sample.kind != "mutant" for sample in check.samples)
        if found.normal is not None and found.normal < 0.05 / right:
            doubts.append(text(f"{check.question}: {check.case} ({found.normal:.1g})"))
    return doubts


def _equivalents(audits: Iterable[Audit]) -> str:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for audit in audits:
        for mutant in audit.mutants:
            if mutant.outcome == "equivalent":
                counts[mutant.reason][audit.assignment] += 1
    rows = []
    for reason in sorted(counts, key=lambda r: (-counts[r].total(), r)):
        where = ", ".join(f"{text(name)} {count}" for name, count in counts[reason].items())
        rows.append([text(reason), f"{counts[reason].total()}", where])
    return _table(["reason", "mutants", "where"], rows)


def _origins(audits: Iterable[Audit], calibrations: Iterable[Calibration]) -> str:
    head = ["record", "date", "release version", "device", "processor", "Python, PyTorch",
            "threads", "seeds", "splits"]  # fmt: skip
    rows = [[text(f"{a.assignment} audit"), *_made(a), "–", "–"] for a in audits]
    for one in calibrations:
        rows.append(
            [text(f"{one.assignment} calibration"), *_made(one), _span(one.seeds), str(one.splits)]
        )
    return _table(head, rows)


def _made(record: Audit | Calibration) -> Iterator[str]:
    made = record.made
    yield from (text(made.date), code(made.version), text(made.device), text(made.processor))
    yield from (text(f"{made.python}, {made.torch}"), str(made.threads))


def _span(seeds: Sequence[int]) -> str:
    whole = seeds and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, "" without rows; its cells are Markdown already, but for bars, even in code."""
    lines = [head, ["---"] * len(head), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if len(lines) > 2 else ""


def _cell(markdown: str) -> str:
    """An even number of backslashes before a bar doesn't escape it."""
    return re.sub(r"(?<!\\)((?:\\\\)*)\|", r"\1\\|", markdown)


def _link(words: str, path: str) -> str:
    return f"[{text(words)}]({quote(path)})"


def text(words: str) -> str:
    """Words on one line, with nothing in them that Markdown or HTML takes for markup."""
    return re.sub(
        r"[\\`*\[\]<>&~$#!]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", " ".join(words.split())
    )


def code(words: str) -> str:
    """Code on one line, between more backticks than it holds in a row."""
    line = " ".join(words.split()) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    gap = " " if "`" in (line[0], line[-1]) else ""
    return f"{fence}{gap}{line}{gap}{fence}"
