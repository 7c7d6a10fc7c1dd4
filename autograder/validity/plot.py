"""A check's numbers over many trainings as a strip plot, beside its threshold."""

from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import SymmetricalLogLocator

from autograder.validity.proposal import Assessment
from autograder.validity.record import Calibrated, Sample

# Blue and vermilion of Okabe and Ito: colour-blind people tell them apart. Markers differ as well.
RIGHT, WRONG = "#0072B2", "#D55E00"
WIDTH_INCH = 7.0  # with letters of 9 points: readable at a width of 700 pixels
ROW_INCH, REST_INCH = 0.26, 1.75
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9.0,
    "svg.hashsalt": "autograder",  # without one the ids in the file are random
    "svg.fonttype": "path",  # looks the same everywhere, and no label is cut
}


def draw(check: Calibrated, seen: Assessment, path: Path) -> None:
    """Write an SVG file with one row for each solution, the reference first and wrong ones last.

    The same data give the same bytes, with the same version of matplotlib.
    """
    with matplotlib.rc_context(STYLE):
        _figure(check, seen).savefig(path, format="svg", metadata={"Date": None})


def _figure(check: Calibrated, seen: Assessment) -> Figure:
    rows = sorted(zip(check.samples, seen.bounds, strict=True), key=lambda row: _rank(row[0]))
    height = REST_INCH + ROW_INCH * len(rows)
    figure = Figure(figsize=(WIDTH_INCH, height), layout="constrained")
    axes = figure.add_subplot()
    _scale(axes, check)
    for place, (sample, bound) in enumerate(rows):
        _row(axes, place, sample, bound)
    axes.set_yticks(range(len(rows)), [sample.name for sample, _ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(f"measured number, in the unit of “{_words(check)}”")
    _threshold(axes, check)
    handles = _legend(check)
    if seen.proposal != check.threshold:
        label = f"proposed threshold: {seen.proposal:g}"
        handles.insert(2, axes.axvline(seen.proposal, color="black", ls=":", label=label))
    figure.suptitle(f"{check.question}.{check.case}", fontweight="bold")
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _rank(sample: Sample) -> int:
    return ["reference", "variant", "mutant"].index(sample.kind)


def _words(check: Calibrated) -> str:
    return check.setting.replace("_", " ")


def _scale(axes: Axes, check: Calibrated) -> None:
    """Powers of ten where the solutions and the threshold are more than three of them apart."""
    given = [[v for v in sample.values if v is not None] for sample in check.samples]
    typical = [abs(median(values)) for values in given if values] + [abs(check.threshold)]
    sizes = [size for size in typical if size > 0]
    if sizes and max(sizes) > 1000 * min(sizes):
        least = min(sizes) / 10
        axes.set_xscale("symlog", linthresh=least, linscale=1)
        ticks = SymmetricalLogLocator(base=10, linthresh=least)
        ticks.set_params(numticks=7)  # fewer than it would make, whose labels touch
        axes.xaxis.set_major_locator(ticks)


def _row(axes: Axes, place: int, sample: Sample, bound: float | None) -> None:
    colour, marker = _look(sample.kind != "mutant")
    given = [value for value in sample.values if value is not None]
    # Golden-ratio steps up and down keep equal numbers apart, the same way each time.
    places = [place + 0.5 * ((0.618 * number) % 1 - 0.5) for number in range(len(given))]
    axes.plot(given, places, marker, color=colour, ms=4, mew=0, alpha=0.6, gid=f"values-{place}")
    if bound is not None:
        axes.plot([bound], [place], "|", color=colour, ms=13, mew=2, gid=f"bound-{place}")
    n = len(given) if len(given) == len(sample.values) else f"{len(given)} of {len(sample.values)}"
    axes.text(1.01, place, f"n = {n}", transform=axes.get_yaxis_transform(), va="center")


def _look(right: bool) -> tuple[str, str]:
    return (RIGHT, "o") if right else (WRONG, "D")


def _threshold(axes: Axes, check: Calibrated) -> None:
    """A line at the threshold, in words what fails, and grey where it does."""
    axes.axvline(check.threshold, color="black", lw=1.2, gid="threshold")
    left, right = axes.get_xlim()
    edge, side = (left, "below") if check.at_least else (right, "above")
    axes.axvspan(edge, check.threshold, color="0.95", zorder=0)
    axes.set_xlim(left, right)
    across = axes.transLimits.transform(axes.transScale.transform((check.threshold, 0)))[0]
    axes.annotate(
        f"fails {side} {check.threshold:g} ({_words(check)})",
        (check.threshold, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="left" if across < 0.3 else "right" if across > 0.7 else "center",
    )


def _legend(check: Calibrated) -> list[Line2D]:
    """What the marks mean, of those solutions that there are."""
    handles = []
    for right in sorted({sample.kind != "mutant" for sample in check.samples}, reverse=True):
        colour, marker = _look(right)
        word = "right" if right else "wrong"
        handles += [
            Line2D(
                [],
                [],
                color=colour,
                marker=marker,
                ls="",
                ms=4,
                mew=0,
                label=f"one training of a {word} solution",
            ),
            Line2D(
                [],
                [],
                color=colour,
                marker="|",
                ls="",
                ms=11,
                mew=2,
                label=f"predictive bound of a {word} solution",
            ),
        ]
    return handles
