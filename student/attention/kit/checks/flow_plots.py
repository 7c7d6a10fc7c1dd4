"""Do curves over sequence lengths, on a logarithmic axis, show what the student's function gives?

Read from the figure's own objects. x values are lengths in steps, y values gradient norms.
"""

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.patches import Rectangle

from autograder.checks.core import Check, Verdict, number
from autograder.checks.flow import norm_of, unusable
from autograder.checks.plots import UNLABELLED, all_apart, axis_label, the_figure, written

Points = list[tuple[float | None, float | None]]
CLOSE = 1e-6  # relative difference below which a point is that of a norm
LOGARITHMS = (math.log10, math.log, math.log2)


class Drawn(NamedTuple):
    """What one object of a panel shows, or all of them together, with the label of a curve."""

    panel: int
    points: Points
    label: str
    together: bool


@dataclass(frozen=True)
class LogCurves:
    """Each wanted curve with the drawn one that fits it best; and per panel what stands there.

    Attributes:
        wanted: norms at the lengths that are looked at, for each curve, from a fresh call.
        errors: largest relative error of the best drawn curve; None where none has these lengths.
        panels: the panel of that curve, or -1.
        labels: its name in the legend, or "".
        astray: how the norms are drawn elsewhere: "lengths" (at others), "logarithms", or "".
        scales: scale of each panel's y axis.
        x_labels: label of each panel's x axis.
        y_labels: label of each panel's y axis.
        names: texts of legend and panel.
    """

    wanted: list[list[float | None]]
    errors: list[float | None]
    panels: list[int]
    labels: list[str]
    astray: list[str]
    scales: list[str]
    x_labels: list[str]
    y_labels: list[str]
    names: list[list[str]]


def measure_log_curves(
    figure: Any, function: Any, *, names: list[str], lengths: list[int], curves: list[list[Any]]
) -> LogCurves:
    """Find the curves of function(length, *arguments) in the figure.

    Args:
        figure: the student's figure.
        function: the student's experiment.
        names: names of figure and function in the notebook.
        lengths: where the curves are compared.
        curves: the arguments after the length, for each curve.
    """
    wanted = [[norm_of(function, n, *rest, name=names[1]) for n in lengths] for rest in curves]
    shown = the_figure(figure, names[0])
    drawn = [one for i, panel in enumerate(shown.axes) for one in _drawn(i, panel, shown)]
    scales = [str(panel.get_yscale()) for panel in shown.axes]
    found = [_best(drawn, lengths, norms, scales) for norms in wanted]
    return LogCurves(
        wanted=wanted,
        errors=[error for error, _ in found],
        panels=[best.panel for _, best in found],
        labels=[best.label for _, best in found],
        astray=[_astray(drawn, lengths, norms) for norms in wanted],
        scales=scales,
        x_labels=[axis_label(panel, shown, "x") for panel in shown.axes],
        y_labels=[axis_label(panel, shown, "y") for panel in shown.axes],
        names=[written(panel, shown) for panel in shown.axes],
    )


def _drawn(index: int, panel: Any, figure: Any) -> list[Drawn]:
    """Each line and each set of points of a panel, then all of its points together.

    Points may be drawn one by one, or those of all curves by one call.
    """
    points = [_numbers(line.get_xydata()) for line in panel.lines]
    dots = [d for d in panel.collections if len(d.get_offsets())]
    points += [_numbers(d.get_offsets()) for d in dots]
    labels = _labels([*panel.lines, *dots], panel, figure)
    bars = _numbers((bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in _bars(panel))
    apart = [Drawn(index, *pair, together=False) for pair in zip(points, labels, strict=True)]
    everything = [point for some in (*points, bars) for point in some]
    return [*apart, Drawn(index, everything, "", together=True)]


def _bars(panel: Any) -> list[Rectangle]:
    return [patch for patch in panel.patches if isinstance(patch, Rectangle)]


def _numbers(pairs: Any) -> Points:
    return [(number(x), number(y)) for x, y in pairs]


def _labels(artists: list[Any], panel: Any, figure: Any) -> list[str]:
    """What each curve is called: its entry in the legend, its own label, or the panel's title."""
    legend = next((box for box in (panel.get_legend(), *figure.legends) if box is not None), None)
    texts = [text.get_text() for text in legend.get_texts()] if legend is not None else []
    if len(texts) == len(artists):
        return texts
    title = panel.get_title() if len(figure.axes) > 1 else ""
    own = [str(artist.get_label()) for artist in artists]
    return [title if label.startswith("_") else label[:100] for label in own]


def _best(
    drawn: list[Drawn], lengths: list[int], norms: list[float | None], scales: list[str]
) -> tuple[float | None, Drawn]:
    """What fits best, with its relative error: best a curve of its own, on a logarithmic axis."""
    fits = [(e, one) for one in drawn if (e := _error(one.points, lengths, norms)) is not None]
    order = [(e > CLOSE, scales[one.panel] != "log", one.together, e) for e, one in fits]
    return fits[order.index(min(order))] if fits else (None, Drawn(-1, [], "", together=False))


def _error(points: Points, lengths: list[int], norms: list[float | None]) -> float | None:
    """Largest relative error over the lengths; None where nothing is drawn above one of them."""
    heights: dict[float | None, list[float]] = defaultdict(list)
    for x, y in points:
        if y is not None:
            heights[x].append(y)
    errors = [
        min((abs(y / norm - 1) for y in heights[float(n)]), default=math.inf)
        for n, norm in zip(lengths, norms, strict=True)
        if norm
    ]
    return number(max(errors)) if len(errors) == len(lengths) else None


def _astray(drawn: list[Drawn], lengths: list[int], norms: list[float | None]) -> str:
    if any(_holds(one.points, norms) for one in drawn):
        return "lengths"
    for logarithm in LOGARITHMS:
        heights = [logarithm(norm) if norm and norm > 0 else None for norm in norms]
        errors = [_error(one.points, lengths, heights) for one in drawn]
        if any(error is not None and error < CLOSE for error in errors):
            return "logarithms"
    return ""


def _holds(points: Points, norms: list[float | None]) -> bool:
    heights = [y for _, y in points if y is not None]
    return all(norm and any(abs(y / norm - 1) < CLOSE for y in heights) for norm in norms)


def judge_log_curves(
    seen: LogCurves, *, lengths: list[int], curves: list[list[Any]], tolerance: float
) -> Verdict:
    """Every curve is there, over its lengths, on a logarithmic axis, and can be told apart."""
    parts = (seen.wanted, seen.errors, seen.panels, seen.labels, seen.astray)
    counts = {len(part) for part in parts}
    if counts != {len(curves)} or any(len(norms) != len(lengths) for norms in seen.wanted):
        raise ValueError("not the curves that were asked for")
    if fault := unusable([norm for norms in seen.wanted for norm in norms]):
        return fault
    absent = [k for k, error in enumerate(seen.errors) if not _fits(error, tolerance)]
    if absent:
        return _not_drawn(seen, absent, curves)
    used = sorted(set(seen.panels))
    if linear := [seen.scales[i] for i in used if seen.scales[i] != "log"]:
        return Verdict(
            "failed",
            f"The vertical axis is {linear[0]}, not logarithmic.",
            'Call axes.set_yscale("log"), or plot with axes.semilogy.',
        )
    if any(not (seen.x_labels[i].strip() and seen.y_labels[i].strip()) for i in used):
        return UNLABELLED
    if len(curves) == 1:
        return Verdict("passed", "The curve, a logarithmic axis and labels are there.")
    return _named(seen.labels, {text for i in used for text in seen.names[i]}, curves)


def _fits(error: float | None, tolerance: float) -> bool:
    return error is not None and 0 <= error <= tolerance


def _named(labels: list[str], names: set[str], curves: list[list[Any]]) -> Verdict:
    if wrong := _misnamed(labels, curves):
        return Verdict("failed", wrong, "Take the label from the argument that made the curve.")
    return all_apart(names, len(curves))


def _misnamed(labels: list[str], curves: list[list[Any]]) -> str:
    """What is wrong if the labels name the curves' first arguments, but not each its own."""
    named = [{abs(float(n)) for n in re.findall(r"\d+(?:\.\d+)?", label)} for label in labels]
    values = [abs(float(curve[0])) for curve in curves]
    if not set(values) <= set[float]().union(*named):
        return ""
    wrong = [k for k, (value, said) in enumerate(zip(values, named, strict=True))
             if said and value not in said]  # fmt: skip
    return f'The curve for {curves[wrong[0]][0]} is called "{labels[wrong[0]]}".' if wrong else ""


HINTS = {
    "lengths": "The values are drawn, but not above their lengths: plot(lengths, …).",
    "logarithms": 'These are logarithms: plot the norms and use set_yscale("log").',
    "": "Plot what your function gives, for every length and exactly these other arguments.",
}


def _not_drawn(seen: LogCurves, absent: list[int], curves: list[list[Any]]) -> Verdict:
    first = ", ".join(map(str, curves[absent[0]]))
    return Verdict(
        "failed",
        f"The figure lacks {len(absent)} of {len(curves)} curves, first that of the norms for "
        f"(length, {first}).",
        HINTS[seen.astray[absent[0]]],
    )


log_curves = Check(measure_log_curves, judge_log_curves)
