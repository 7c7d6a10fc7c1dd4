"""Do curves over sequence lengths, on a logarithmic axis, show what the student's function gives?

Read from the figure's own objects. x values are lengths in steps, y values gradient norms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autograder.checks.core import Check, Verdict, number
from autograder.checks.flow import norm_of, unusable
from autograder.checks.plots import UNLABELLED, all_apart, axis_label, the_figure, written

Points = list[tuple[float | None, float | None]]


@dataclass(frozen=True)
class LogCurves:
    """Each wanted curve with the drawn one that fits it best; and per panel what stands there.

    Attributes:
        wanted: norms at the lengths that are looked at, for each curve, from a fresh call.
        errors: largest relative error of the best drawn curve; None where none has these lengths.
        panels: the panel of that curve, or -1.
        misplaced: the norms are drawn, at other lengths.
        scales: scale of each panel's y axis.
        x_labels: label of each panel's x axis.
        y_labels: label of each panel's y axis.
        names: texts of legend and panel.
    """

    wanted: list[list[float | None]]
    errors: list[float | None]
    panels: list[int]
    misplaced: list[bool]
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
    drawn = [(i, points) for i, panel in enumerate(shown.axes) for points in _points(panel)]
    found = [_best(drawn, lengths, norms) for norms in wanted]
    return LogCurves(
        wanted=wanted,
        errors=[error for error, _ in found],
        panels=[panel for _, panel in found],
        misplaced=[any(_holds(points, norms) for _, points in drawn) for norms in wanted],
        scales=[str(panel.get_yscale()) for panel in shown.axes],
        x_labels=[axis_label(panel, shown, "x") for panel in shown.axes],
        y_labels=[axis_label(panel, shown, "y") for panel in shown.axes],
        names=[written(panel, shown) for panel in shown.axes],
    )


def _points(panel: Any) -> Iterator[Points]:
    """Points (x, y) of each line and of each set of points."""
    for line in panel.lines:
        yield _numbers(zip(line.get_xdata(orig=False), line.get_ydata(orig=False), strict=True))
    for dots in panel.collections:
        yield _numbers(dots.get_offsets())


def _numbers(pairs: Any) -> Points:
    return [(number(x), number(y)) for x, y in pairs]


def _best(
    drawn: list[tuple[int, Points]], lengths: list[int], norms: list[float | None]
) -> tuple[float | None, int]:
    """Relative error and panel of the curve that fits best."""
    fits = [
        (error, panel)
        for panel, points in drawn
        if (error := _error(dict(points), lengths, norms)) is not None
    ]
    return min(fits, default=(None, -1))


def _error(
    curve: dict[float | None, float | None], lengths: list[int], norms: list[float | None]
) -> float | None:
    pairs = [(curve.get(float(n)), norm) for n, norm in zip(lengths, norms, strict=True)]
    errors = [abs(y / norm - 1) for y, norm in pairs if y is not None and norm]
    return max(errors) if len(errors) == len(lengths) else None


def _holds(points: Points, norms: list[float | None]) -> bool:
    heights = [y for _, y in points if y is not None]
    return all(norm and any(abs(y / norm - 1) < 1e-6 for y in heights) for norm in norms)


def judge_log_curves(
    seen: LogCurves, *, lengths: list[int], curves: list[list[Any]], tolerance: float
) -> Verdict:
    """Every curve is there, over its lengths, on a logarithmic axis, and can be told apart."""
    counts = {len(part) for part in (seen.wanted, seen.errors, seen.panels, seen.misplaced)}
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
    return all_apart({text for i in used for text in seen.names[i]}, len(curves))


def _fits(error: float | None, tolerance: float) -> bool:
    return error is not None and 0 <= error <= tolerance


def _not_drawn(seen: LogCurves, absent: list[int], curves: list[list[Any]]) -> Verdict:
    first = ", ".join(map(str, curves[absent[0]]))
    rationale = (
        f"The figure lacks {len(absent)} of {len(curves)} curves, first that of the norms for "
        f"(length, {first})."
    )
    if seen.misplaced[absent[0]]:
        return Verdict(
            "failed",
            rationale,
            "The values are drawn, but not above their lengths: plot(lengths, …).",
        )
    return Verdict(
        "failed",
        rationale,
        "Plot what your function gives, for every length and exactly these other arguments.",
    )


log_curves = Check(measure_log_curves, judge_log_curves)
