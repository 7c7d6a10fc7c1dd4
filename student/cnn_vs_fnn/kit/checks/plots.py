"""Does a figure show what it should? Read from the figure's own objects, not from its pixels."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from autograder.checks.core import Check, Stop, Verdict, number, require
from autograder.checks.learning import _history


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
    name, *history_names = names
    if not isinstance(require(figure, name), Figure):
        raise Stop(
            f"{name} is a {type(figure).__name__}, not a matplotlib Figure.",
            f"Keep the figure in a variable: {name}, axes = plt.subplots()",
        )
    histories = [_history(h, n) for h, n in zip((first, second), history_names, strict=True)]
    panels = list(figure.axes)
    return Drawing(
        x_labels=[_label(p, figure, "x") for p in panels],
        y_labels=[_label(p, figure, "y") for p in panels],
        names=[_names(p, figure, titled=len(panels) > 1) for p in panels],
        curves=[_curves(p) for p in panels],
        wanted={
            n: [number(v) for v in getattr(h, quantity)]
            for n, h in zip(history_names, histories, strict=True)
        },
    )


def _label(panel: Any, figure: Figure, axis: str) -> str:
    """The panel's own label, else that of a panel which shares the axis, else the figure's."""
    shared = getattr(panel, f"get_shared_{axis}_axes")()
    sharing = [panel, *(other for other in figure.axes if shared.joined(panel, other))]
    labels = [getattr(p, f"get_{axis}label")() for p in sharing]
    labels.append(getattr(figure, f"get_sup{axis}label")())
    return next((str(label) for label in labels if label.strip()), "")


def _names(panel: Any, figure: Figure, *, titled: bool) -> list[str]:
    legends = [legend for legend in (panel.get_legend(), *figure.legends) if legend is not None]
    texts = [text.get_text() for legend in legends for text in legend.get_texts()]
    texts += [text.get_text() for text in panel.texts]
    texts += [panel.get_title()] if titled else []
    return [text for text in texts if text.strip()]


def _curves(panel: Any) -> list[list[float | None]]:
    drawn = [line.get_ydata() for line in panel.lines]
    drawn += [
        points.get_offsets()[:, 1] for points in panel.collections if len(points.get_offsets())
    ]
    return [[number(v) for v in list(values)[:2000]] for values in drawn]


def _shows(curve: list[float | None], wanted: list[float | None]) -> bool:
    """The curve holds the wanted values, as fractions or percentages; one may stand before them."""
    if len(curve) == len(wanted) + 1:
        curve = curve[1:]  # a value before the first epoch
    if len(curve) != len(wanted) or not curve:
        return False
    pairs = [(c, w) for c, w in zip(curve, wanted, strict=True) if c is not None and w is not None]
    return len(pairs) == len(curve) and any(
        all(abs(c - factor * w) <= 1e-6 * factor for c, w in pairs) for factor in (1, 100)
    )


def judge_curves(seen: Drawing, *, names: list[str]) -> Verdict:
    """Both curves are there, with labelled axes, and can be told apart."""
    if list(seen.wanted) != names[1:]:
        raise ValueError("not the histories that were asked for")
    where = {
        name: [i for i, curves in enumerate(seen.curves) if any(_shows(c, values) for c in curves)]
        for name, values in seen.wanted.items()
    }
    absent = [name for name, panels in where.items() if not panels]
    if absent:
        return Verdict(
            "failed",
            f"The figure does not show the curve of {' or '.join(absent)}.",
            "Plot validation_accuracy of both histories, one value an epoch.",
        )
    used = sorted({panels[0] for panels in where.values()})
    unlabelled = [i for i in used if not (seen.x_labels[i].strip() and seen.y_labels[i].strip())]
    if unlabelled:
        return Verdict(
            "failed", "An axis has no label.", "Use axes.set_xlabel and axes.set_ylabel."
        )
    if len({text for i in used for text in seen.names[i]}) < len(seen.wanted):
        return Verdict(
            "failed",
            "The curves can't be told apart.",
            "Give each plot a label, and call axes.legend().",
        )
    return Verdict("passed", "Both curves, labelled axes and names are there.")


curves = Check(measure_curves, judge_curves)
