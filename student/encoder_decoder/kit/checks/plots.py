"""Does a figure show what it should? Read from the figure's own objects, not from its pixels."""

import re
from dataclasses import dataclass
from typing import Any

from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from autograder.checks.core import Check, Stop, Verdict, number, require
from autograder.checks.trained import history_of


@dataclass(frozen=True)
class Panels:
    """What stands around the curves of each panel.

    Attributes:
        x_labels: label of the x axis; "" where there is none.
        y_labels: label of the y axis.
        columns: the first panel in the same column of the figure's grid.
        rows: the first panel in the same row.
        names: names in legend, text and title.
    """

    x_labels: list[str]
    y_labels: list[str]
    columns: list[int]
    rows: list[int]
    names: list[list[str]]


@dataclass(frozen=True)
class Drawing:
    """The panels, and per panel the y values of its curves and what each curve is called."""

    panels: Panels
    curves: list[list[list[float | None]]]
    called: list[list[list[str]]]
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
        panels=panels_of(shown),
        curves=[drawn(p) for p in shown.axes],
        called=[called(p, shown) for p in shown.axes],
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


def panels_of(figure: Figure) -> Panels:
    """Labels and names of all panels, as far as a reader would read them."""
    return Panels(
        x_labels=[axis_label(p, figure, "x")[:100] for p in figure.axes],
        y_labels=[axis_label(p, figure, "y")[:100] for p in figure.axes],
        columns=_lines_of_grid(figure, "colspan"),
        rows=_lines_of_grid(figure, "rowspan"),
        names=[[text[:100] for text in written(p, figure)][:20] for p in figure.axes],
    )


def _lines_of_grid(figure: Figure, span: str) -> list[int]:
    """The row or column of each panel; a panel outside any grid has one of its own."""
    places = [panel.get_subplotspec() for panel in figure.axes]
    lines = [(p.get_gridspec(), getattr(p, span)) if p else n for n, p in enumerate(places)]
    return [lines.index(line) for line in lines]


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
    texts += _titles(panel) if len(figure.axes) > 1 else []
    return [text for text in texts if text.strip()]


def _titles(panel: Any) -> list[str]:
    return [str(panel.get_title(loc=place)) for place in ("center", "left", "right")]


def drawn(panel: Any) -> list[list[float | None]]:
    """The y values of each line and of each set of points."""
    values = [line.get_ydata() for line in panel.lines]
    values += [points.get_offsets()[:, 1] for points in _points(panel)]
    return [[number(v) for v in list(curve)[:2000]] for curve in values]


def _points(panel: Any) -> list[Any]:
    return [points for points in panel.collections if len(points.get_offsets())]


def called(panel: Any, figure: Figure) -> list[list[str]]:
    """For each curve of `drawn` the texts that may name it, the nearest one first.

    Its entry in the panel's legend, the panel's title and y label, texts in the panel if it has
    no other curve, and its entry in the figure's legend.
    """
    artists = [*panel.lines, *_points(panel)]
    around = [*_titles(panel), panel.get_ylabel()] if len(figure.axes) > 1 else []
    around += [" ".join(text.get_text() for text in panel.texts)] if len(artists) == 1 else []
    everything = [a for p in figure.axes for a in (*p.lines, *_points(p))]
    names = [
        [
            _entry(artist, artists, panel.get_legend()),
            *around,
            *(_entry(artist, everything, legend) for legend in figure.legends),
        ]
        for artist in artists
    ]
    return [[text[:100] for text in some if text.strip()] for some in names]


def _entry(artist: Any, others: list[Any], legend: Any) -> str:
    """The curve's text in a legend, found by its looks; "" where two curves look alike.

    A legend keeps copies of the curves, in an order of its own, and none of their labels.
    """
    entries = list(zip(legend.legend_handles, legend.get_texts(), strict=False)) if legend else []
    for look in (_colour, _style):
        wanted = look(artist)
        texts = [text.get_text() for handle, text in entries if look(handle) == wanted]
        if wanted and len(texts) == 1 == [look(other) for other in others].count(wanted):
            return str(texts[0])
    label = str(artist.get_label())
    return label if label in [text.get_text() for _, text in entries] else ""


def _colour(artist: Any) -> str:
    """Red, green and blue; "" for what has no colour."""
    colour: Any = getattr(artist, "get_color", getattr(artist, "get_facecolor", list))()
    rows = to_rgba_array(colour).tolist()
    return str(rows[0][:3]) if rows else ""


def _style(artist: Any) -> str:
    ways = (getattr(artist, name, str)() for name in ("get_linestyle", "get_marker"))
    return " ".join([_colour(artist), *map(str, ways)])


def mentioned(texts: list[str], names: list[str]) -> list[str]:
    """The names in the first text that has any of them as a whole word, in upper or lower case."""
    found = [[name for name in names if _has_word(text, name)] for text in texts]
    return next(filter(None, found), [])


def _has_word(text: str, word: str) -> bool:
    return bool(re.search(rf"(?<![a-z]){re.escape(word)}s?(?![a-z])", text, re.IGNORECASE))


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
    if wrong := _misnamed(seen, tolerance):
        return Verdict("failed", wrong, "Take each curve's label from the network that it is of.")
    used = {panels[0] for panels in where.values()}
    return readable(seen.panels, used, [_network(name) for name in seen.wanted])


def _network(history: str) -> str:
    return history.removesuffix("_history")


def _misnamed(seen: Drawing, tolerance: float) -> str:
    """A curve that has the names of other networks alone, wherever it is drawn."""
    networks = [_network(name) for name in seen.wanted]
    curves = [pair for panel in zip(seen.curves, seen.called, strict=True)
              for pair in zip(*panel, strict=True)]  # fmt: skip
    for name, wanted in seen.wanted.items():
        said = [mentioned(texts, networks) for v, texts in curves if _shows(v, wanted, tolerance)]
        others = [names[0] for names in said if names]
        if others and not any(_network(name) in names for names in said):
            return f"The curve of {name} is called {others[0]}."
    return ""


def readable(panels: Panels, used: set[int], names: list[str]) -> Verdict:
    """Whether the `used` panels have labelled axes, and texts for as many curves as `names`.

    A label on one of them serves those beside it (y) or above and below it (x); a y label counts
    as a name where it mentions one of `names`.
    """
    across = {panels.rows[i] for i in used if panels.y_labels[i].strip()}
    down = {panels.columns[i] for i in used if panels.x_labels[i].strip()}
    if any(panels.rows[i] not in across or panels.columns[i] not in down for i in used):
        return UNLABELLED
    texts = {text for i in used for text in panels.names[i]}
    texts |= {panels.y_labels[i] for i in used if mentioned([panels.y_labels[i]], names)}
    return all_apart(texts, len(names))


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
