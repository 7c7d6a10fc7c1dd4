"""Charts of a class as inline SVG; each tells its numbers in words, too."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, PercentFormatter

from autograder.report.charts import INK, STUDENT, STYLE, inline

# Okabe and Ito, as far as they stand out from white and from black; markers differ as well.
LOOKS = (
    (STUDENT, "o"), ("#d55e00", "D"), ("#009e73", "s"), ("#cc79a7", "^"), ("#b8860b", "v"),
    ("#7570b3", "P"),
)  # fmt: skip
WIDTH_INCH = 6.4
BINS = 20
GRID = 80  # points that lie closer than a part of so many of an axis are drawn once
WIDE = 10.0  # times the median, above which the largest number asks for a logarithmic axis


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Figure, Axes]]:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCH, height), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        yield figure, axes


def totals_chart(totals: Sequence[float], highest: float, unit: str) -> Markup:
    """How many students have how much; `totals`: 0 to `highest`, in `unit`."""
    edges = np.linspace(0, highest or 1, min(BINS, max(5, round(highest))) + 1)
    return _histogram("totals", totals, edges, f"total, {unit}")


def times_chart(seconds: Sequence[float]) -> Markup:
    """How many submissions took how long; `seconds`: all above 0."""
    low, high, middle = min(seconds), max(seconds), float(np.median(seconds))
    if high > WIDE * middle:
        return _histogram("times", seconds, np.geomspace(low, high * 1.001, BINS + 1), "seconds")
    return _histogram("times", seconds, np.linspace(0, high * 1.001, BINS + 1), "seconds")


def _histogram(name: str, values: Sequence[float], edges: np.ndarray, label: str) -> Markup:
    counts, _ = np.histogram(values, edges)
    with _drawing(2.2) as (figure, axes):
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=STUDENT, ec=INK, lw=0.4)
        if edges[0] > 0:  # steps of equal ratio
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        axes.set_xlim(edges[0], edges[-1])
        axes.set_xlabel(label)
        axes.set_ylabel("students")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        found = [
            f"{low:.3g} to {high:.3g}: {count}"
            for low, high, count in zip(edges, edges[1:], counts, strict=False) if count
        ]  # fmt: skip
        return inline(figure, name, f"Number of students by {label}. {'; '.join(found)}.")


def questions_chart(shares: Mapping[str, Sequence[float]]) -> Markup:
    """Quartiles, median and mean of each question, as shares of what is possible, 0 to 1.

    Args:
        shares: for a question's name those of the students whose points are known, one at least.
    """
    told = []
    with _drawing(0.7 + 0.3 * len(shares)) as (figure, axes):
        for place, (name, values) in enumerate(shares.items()):
            low, middle, high = np.percentile(values, (25, 50, 75))
            mean = float(np.mean(values))
            axes.barh(place, high - low, 0.5, low, color=STUDENT, alpha=0.5)
            axes.plot([middle, middle], [place - 0.33, place + 0.33], color=INK, lw=2)
            axes.plot(mean, place, "D", color="#d55e00", ms=5, mew=0)
            told.append(f"{name}: mean {mean:.0%}, quartiles {low:.0%}, {middle:.0%}, {high:.0%}")
        axes.set_yticks(range(len(shares)), list(shares))
        axes.set_ylim(len(shares) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
        axes.set_xlabel("share of the possible points")
        return inline(figure, "questions", f"Points by question. {'; '.join(told)}.")


def accuracy_chart(points: Mapping[str, Sequence[tuple[int, float]]]) -> Markup:
    """Accuracy (0 to 1) against trainable parameters, on the same axes for all networks.

    Args:
        points: for a network's name those of the students, one at least.
    """
    counts = [count for pairs in points.values() for count, _ in pairs]
    lowest = max(0.0, np.floor(10 * min(v for pairs in points.values() for _, v in pairs)) / 10)
    wide = max(counts) > WIDE * max(1, min(counts)) and min(counts) > 0
    told = []
    with _drawing(3.2) as (figure, axes):
        for number, (name, pairs) in enumerate(points.items()):
            colour, marker = LOOKS[number % len(LOOKS)]
            drawn = _apart(pairs, (min(counts), max(counts)), log=wide)
            axes.plot(*drawn, marker, color=colour, ms=5, mew=0, alpha=0.65, label=name)
            middle, accuracy = np.median(pairs, axis=0)
            told.append(f"{name}, {len(pairs)} students: medians {middle:,.0f} and {accuracy:.3g}")
        if wide:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.set_ylim(lowest - 0.02, 1.02)
        axes.set_xlabel("trainable parameters")
        axes.set_ylabel("accuracy")
        figure.legend(loc="outside upper right", ncols=3, frameon=False)
        words = f"Parameters and accuracy by network. {'; '.join(told)}."
        return inline(figure, "accuracies", words)


def _apart(
    pairs: Sequence[tuple[int, float]], limits: tuple[int, int], *, log: bool
) -> tuple[list[float], list[float]]:
    """Points without those that cover each other, so that a large class stays a small page."""
    scale = np.log if log else float
    width = (float(scale(limits[1])) - float(scale(limits[0]))) or 1.0
    kept = {
        (round(GRID * (float(scale(x)) - float(scale(limits[0]))) / width), round(GRID * y)): (x, y)
        for x, y in pairs
    }
    return [float(x) for x, _ in kept.values()], [y for _, y in kept.values()]
