"""Does a figure show what it should? Read from the figure's own objects, not from its pixels."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from autograder.checks.core import Check, Stop, Verdict, number, require
from autograder.checks.trained import history_of


@dataclass(frozen=True)
class Drawing:
    """Per panel: axis labels, names in legend or text, and the y values of its curves."""

    x_labels: list[str]
    y_labels: list[str]
    names: list[list[str]]
    curves: list[list[list[float | None]]]
    wanted: dict[str, list[float | None]]


def measure_curves(
    figure: Any, first: Any, second: Any, *, names: list[str], quantity: str
) -> Drawing:
    """Read a figure's panels; wanted are the `quantity` lists of the two histories.

    `names` are those of figure and histories in the notebook.
    """
    return _drawing(figure, (first, second), names, quantity)


def measure_three_curves(  # noqa: PLR0913 - three histories, each an object of the student
    figure: Any, first: Any, second: Any, third: Any, *, names: list[str], quantity: str
) -> Drawing:
    """The same for three histories."""
    return _drawing(figure, (first, second, third), names, quantity)


def _drawing(figure: Any, histories: tuple[Any, ...], names: list[str], quantity: str) -> Drawing:
    shown = the_figure(figure, names[0])
    kept = {n: history_of(h, n) for n, h in zip(names[1:], histories, strict=True)}
    return Drawing(
        x_labels=[axis_label(p, shown, "x") for p in shown.axes],
        y_labels=[axis_label(p, shown, "y") for p in shown.axes],
        names=[written(p, shown) for p in shown.axes],
        curves=[drawn(p) for p in shown.axes],
        wanted={n: [number(v) for v in getattr(h, quantity)] for n, h in kept.items()},
    )


def the_figure(figure: Any, name: str) -> Figure:
    """The student's matplotlib figure, or a `Stop` that says how to keep one."""
    if not isinstance(require(figure, name), Figure):
        raise Stop(
            f"{name} is a {type(figure).__name__}, not a matplotlib Figure.",
            f"Keep the figure in a variable: {name}, axes = plt.subplots()",
        )
    assert isinstance(figure, Figure)
    return figure


def axis_label(panel: Any, figure: Figure, axis: str) -> str:
    """The label of axis "x" or "y".

    The panel's own, else that of a panel which shares the axis, else the figure's.
    """
    shared = getattr(panel, f"get_shared_{axis}_axes")()
    sharing = [panel, *(other for other in figure.axes if shared.joined(panel, other))]
    labels = [getattr(p, f"get_{axis}label")() for p in sharing]
    labels.append(getattr(figure, f"get_sup{axis}label")())
    return next((str(label) for label in labels if label.strip()), "")


def written(panel: Any, figure: Figure) -> list[str]:
    """Texts of legends and in the panel, and its title where there are several panels."""
    legends = [legend for legend in (panel.get_legend(), *figure.legends) if legend is not None]
    texts = [text.get_text() for legend in legends for text in legend.get_texts()]
    texts += [text.get_text() for text in panel.texts]
    texts += [panel.get_title()] if len(figure.axes) > 1 else []
    return [text for text in texts if text.strip()]


def drawn(panel: Any) -> list[list[float | None]]:
    """The y values of each line and of each set of points."""
    values = [line.get_ydata() for line in panel.lines]
    values += [
        points.get_offsets()[:, 1] for points in panel.collections if len(points.get_offsets())
    ]
    return [[number(v) for v in list(curve)[:2000]] for curve in values]


def _shows(curve: list[float | None], wanted: list[float | None], tolerance: float) -> bool:
    """The curve holds the wanted values, as fractions or percentages; one may stand before them."""
    if len(curve) == len(wanted) + 1:
        curve = curve[1:]  # a value before the first epoch
    if len(curve) != len(wanted) or not curve:
        return False
    pairs = [(c, w) for c, w in zip(curve, wanted, strict=True) if c is not None and w is not None]
    return len(pairs) == len(curve) and any(
        all(abs(c - factor * w) <= tolerance * factor for c, w in pairs) for factor in (1, 100)
    )


def judge_curves(seen: Drawing, *, names: list[str], quantity: str, tolerance: float) -> Verdict:
    """The curve of every history is there, with labelled axes, and can be told apart."""
    if list(seen.wanted) != names[1:]:
        raise ValueError("not the histories that were asked for")
    where = {
        name: [i for i, c in enumerate(seen.curves) if any(_shows(v, y, tolerance) for v in c)]
        for name, y in seen.wanted.items()
    }
    if absent := [name for name, panels in where.items() if not panels]:
        return Verdict(
            "failed",
            f"The figure does not show the curve of {' or '.join(absent)}.",
            f"Plot {quantity} of each history, one value an epoch.",
        )
    used = sorted({panels[0] for panels in where.values()})
    if any(not (seen.x_labels[i].strip() and seen.y_labels[i].strip()) for i in used):
        return UNLABELLED
    return all_apart({text for i in used for text in seen.names[i]}, len(seen.wanted))


UNLABELLED = Verdict("failed", "An axis has no label.", "Use axes.set_xlabel and axes.set_ylabel.")


def all_apart(names: set[str], count: int) -> Verdict:
    """Passed when there is a name for each of `count` curves."""
    if len(names) >= count:
        return Verdict("passed", f"All {count} curves, labelled axes and names are there.")
    return Verdict(
        "failed",
        f"The {count} curves can't be told apart: legend and text hold {len(names)} names.",
        "Give each plot a label, and call axes.legend().",
    )


curves = Check(measure_curves, judge_curves)
three_curves = Check(measure_three_curves, judge_curves)
