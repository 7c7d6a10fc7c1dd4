"""Charts of one student as inline SVG: text stays text, and both light and dark pages can show it.

The same numbers give the same bytes, with the same version of matplotlib.
"""

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from autograder.measured import QUANTITIES, Band, Curve, Size

# Blue of Okabe and Ito, a little lighter: stands out from white and from black.
STUDENT = "#1f8fd6"
INK = "#010203"  # stands for currentColor, which matplotlib doesn't know
GREY = "#808080"
SVG = "http://www.w3.org/2000/svg"
LINK = "http://www.w3.org/1999/xlink"
# A drawing of 4.2 inches is 302 units wide. A phone shows it at about that width in pixels, so
# letters of 9 units stay readable.
WIDTH_INCH, CURVE_INCH = 4.2, 2.3
BAR_INCH, REST_INCH = 0.36, 0.35
LETTER = 6.0  # units, of the widest usual ones
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib; wider than most that a page will use
    "font.size": 9.0,
    "svg.hashsalt": "autograder",  # without one the ids in the file are random
    "svg.fonttype": "none",
    "svg.id": None,
    "text.color": INK, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False,
    "text.parse_math": False,
}  # fmt: skip

ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", LINK)


@dataclass(frozen=True)
class Chart:
    """A drawing, its title, and the line below it, which tells its most important numbers."""

    title: str
    svg: Markup
    caption: str


def curve_charts(curves: Sequence[Curve], bands: Sequence[Band]) -> list[Chart]:
    """One for each curve, those of a quantity with the same scale, with the reference's band."""
    found = {(band.network, band.quantity): band for band in bands}
    pairs = [(curve, found.get((curve.network, curve.quantity))) for curve in curves]
    charts = []
    for quantity in dict.fromkeys(curve.quantity for curve in curves):
        same = [pair for pair in pairs if pair[0].quantity == quantity]
        limits = _limits(quantity, [value for pair in same for value in _values(*pair)])
        charts += [_curve(curve, band, limits) for curve, band in same]
    return charts


def size_chart(sizes: Sequence[Size]) -> Chart:
    """A bar for each network, and what grading.yml allows."""
    with matplotlib.rc_context(STYLE):
        height = REST_INCH + BAR_INCH * len(sizes)
        figure, axes = _axes(height, max(len(size.network) for size in sizes), 0.27)
        for place, size in enumerate(sizes):
            axes.barh(place, size.count, height=0.5, color=STUDENT)
            if size.smallest is not None and size.largest is not None:
                middle = (size.smallest + size.largest) / 2
                half = size.largest - middle
                axes.errorbar(middle, place, xerr=half, color=INK, capsize=5, lw=1.4)
        axes.set_yticks(range(len(sizes)), [size.network for size in sizes])
        axes.set_ylim(len(sizes) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        told = "; ".join(map(_size, sizes))
        return Chart("trainable parameters", inline(figure, "sizes", f"{told}."), f"{told}.")


def _size(size: Size) -> str:
    if size.smallest is None or size.largest is None:
        return f"{size.network}: {size.count:,}"
    return f"{size.network}: {size.count:,} (allowed: {size.smallest:,} to {size.largest:,})"


def _values(curve: Curve, band: Band | None) -> Iterator[float]:
    """All that is drawn."""
    yield from (value for value in curve.values if value is not None)
    if band:
        yield from (*band.lowest, *band.highest)


def _limits(quantity: str, values: Sequence[float]) -> tuple[float, float]:
    """From 0 for a loss; for accuracies, which lie close to each other, from a tenth below them."""
    if quantity == QUANTITIES["validation_accuracy"]:
        return math.floor(10 * min(values) - 0.5) / 10, 1.01
    return min(0, *values), 1.06 * max(0, *values) or 1


def _curve(curve: Curve, band: Band | None, limits: tuple[float, float]) -> Chart:
    with matplotlib.rc_context(STYLE):
        figure, axes = _axes(CURVE_INCH, 4, 0.42)
        if band:
            epochs = range(1, len(band.middle) + 1)
            axes.fill_between(epochs, band.lowest, band.highest, color=GREY, alpha=0.35, lw=0)
            axes.plot(epochs, band.middle, color=INK, lw=1, ls="--")
        values = [float("nan") if value is None else value for value in curve.values]
        axes.plot(range(1, len(values) + 1), values, "o-", color=STUDENT, lw=1.8, ms=3.5)
        axes.set_ylim(*limits)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        caption = _told(curve, band)
        each = ", ".join("not finite" if v is None else f"{v:.3g}" for v in _thinned(curve.values))
        words = f"{curve.network}, {curve.quantity}, epoch by epoch: {each}. {caption}"
        title = f"{curve.network}: {curve.quantity}"
        return Chart(title, inline(figure, title, words), caption)


def _thinned(values: Sequence[float | None], most: int = 20) -> Sequence[float | None]:
    """All of a few; else so many that a voice can read them out, the last among them."""
    step = -(-len(values) // most)
    return values[(len(values) - 1) % step :: step]


def _told(curve: Curve, band: Band | None) -> str:
    last = curve.values[-1]
    told = f"After epoch {len(curve.values)}: {'not finite' if last is None else f'{last:.3g}'}"
    if band is None:
        return f"{told}."
    lowest, highest = band.lowest[-1], band.highest[-1]
    return f"{told}; the reference, in many trainings: {lowest:.3g} to {highest:.3g}."


def _axes(height: float, letters: int, below: float) -> tuple[Figure, Axes]:
    """Axes with room for labels of so many letters; an own layout would take most of the time."""
    figure = Figure(figsize=(WIDTH_INCH, height))
    figure.patch.set_visible(False)
    left = (letters * LETTER + 8) / (72 * WIDTH_INCH)
    axes = figure.add_axes((left, below / height, 0.96 - left, 1 - (below + 0.08) / height))
    axes.patch.set_visible(False)
    return figure, axes


def inline(figure: Figure, name: str, words: str) -> Markup:
    """The figure as an element that can stand in a page among others."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in root.iter():
        for part in ("metadata", "style"):  # rules would be those of the whole page
            for found in parent.findall(f"{{{SVG}}}{part}"):
                parent.remove(found)
    prefix = re.sub(r"[^a-z0-9]+", "-", name.lower())
    for element in root.iter():
        for key, value in element.attrib.items():
            element.set(key, _attribute(key, value, prefix))
    for size in ("width", "height"):
        del root.attrib[size]
    root.attrib |= {"role": "img", "aria-label": words, "class": "chart"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _attribute(key: str, value: str, prefix: str) -> str:
    """With ids of this chart alone, colours of the page, and its letters."""
    if key == "id":
        return f"{prefix}-{value}"
    if key == f"{{{LINK}}}href":
        return value.replace("#", f"#{prefix}-", 1)
    value = value.replace("url(#", f"url(#{prefix}-").replace(INK, "currentColor")
    return re.sub(r"font-family: [^;]*;", "", value)
