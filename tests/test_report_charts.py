"""Charts: unique ids, colours of the page, numbers in words, the same bytes for the same data."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from autograder.measured import Band, Curve, Size
from autograder.report.charts import SVG, curve_charts, size_chart

LOSS = Curve("cnn", "training loss", (2.0, 1.0, None, 0.25))
OTHER = Curve("fnn", "training loss", (4.0, 3.0, 2.0, 1.0))
RIGHT = Curve("cnn", "validation accuracy", (0.5, 0.75, 0.9, 0.96))
BAND = Band("cnn", "training loss", [1.5, 0.8, 0.4, 0.2], [1.8, 0.9, 0.5, 0.3], [2, 1, 0.6, 0.4])
SIZES = [Size("cnn", 20_160, 10_000, 25_000), Size("fnn", 19_935, None, None)]


def elements(chart, name):
    return list(ElementTree.fromstring(chart.svg).iter(f"{{{SVG}}}{name}"))


def texts(chart):
    return [element.text for element in elements(chart, "text")]


def points(chart, colour):
    """Corners of the line of a colour, from left to right, y upwards."""
    lines = [e for e in elements(chart, "path") if f"stroke: {colour}" in e.get("style", "")]
    (line,) = [e for e in lines if "fill: none" in e.get("style") and "clip-path" in e.attrib]
    found = re.findall(r"[ML] ([\d.]+) ([\d.]+)", line.get("d"))
    return [(float(x), -float(y)) for x, y in found]


def test_a_curve_has_a_corner_for_each_finite_value_in_the_right_order():
    (chart,) = curve_charts([RIGHT], [])
    xs, ys = zip(*points(chart, "#1f8fd6"), strict=True)
    assert len(xs) == 4
    steps = [(b - a) / (ys[-1] - ys[0]) for a, b in pairwise(ys)]
    assert steps == pytest.approx([0.25 / 0.46, 0.15 / 0.46, 0.06 / 0.46], abs=1e-4)
    assert len(points(curve_charts([LOSS], [])[0], "#1f8fd6")) == 3


def test_curves_of_a_quantity_have_the_same_scale():
    charts = curve_charts([LOSS, RIGHT, OTHER], [BAND])
    assert [chart.title for chart in charts] == [
        "cnn: training loss", "fnn: training loss", "cnn: validation accuracy",
    ]  # fmt: skip
    loss, other, right = map(texts, charts)
    assert loss == other != right


def test_words_tell_all_values_and_the_band():
    (chart,) = curve_charts([LOSS], [BAND])
    (label,) = re.findall('aria-label="([^"]*)"', chart.svg)
    assert "2, 1, not finite, 0.25" in label
    assert chart.caption in label
    assert chart.caption == "After epoch 4: 0.25; the reference, in many trainings: 0.2 to 0.4."
    assert "reference" not in curve_charts([OTHER], [BAND])[0].caption


def test_a_long_curve_is_told_in_few_words():
    (chart,) = curve_charts([Curve("cnn", "training loss", tuple(map(float, range(500))))], [])
    (label,) = re.findall('aria-label="([^"]*)"', chart.svg)
    assert label.count(",") < 25
    assert "499" in label


def test_sizes_are_told_with_what_is_allowed():
    chart = size_chart(SIZES)
    assert chart.caption == "cnn: 20,160 (allowed: 10,000 to 25,000); fnn: 19,935."
    assert {"cnn", "fnn", "0"} <= set(texts(chart))
    assert chart.caption in chart.svg


def test_bars_are_as_long_as_the_counts():
    chart = size_chart([Size("a", 1000, None, None), Size("b", 250, None, None)])
    bars = [e.get("d") for e in elements(chart, "path") if "fill: #1f8fd6" in e.get("style", "")]
    widths = []
    for bar in bars:
        xs = [float(x) for x in re.findall(r"[ML] ([\d.]+) ", bar)]
        widths.append(max(xs) - min(xs))
    assert widths[0] / widths[1] == pytest.approx(4, rel=1e-3)


def test_charts_of_a_page_share_no_id():
    charts = [*curve_charts([LOSS, OTHER, RIGHT], [BAND]), size_chart(SIZES)]
    ids = [
        e.get("id")
        for c in charts
        for e in ElementTree.fromstring(c.svg).iter()
        if "id" in e.attrib
    ]
    assert len(ids) == len(set(ids)) > 50
    for chart in charts:
        used = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', chart.svg)
        assert used
        assert {a or b for a, b in used} <= set(re.findall(r'id="([^"]+)"', chart.svg))


@pytest.mark.parametrize("chart", [*curve_charts([LOSS, RIGHT], [BAND]), size_chart(SIZES)])
def test_a_chart_takes_ink_and_letters_of_the_page(chart):
    assert 'role="img"' in chart.svg
    assert "currentColor" in chart.svg
    assert "#010203" not in chart.svg
    assert not re.findall(r"fill: #(?:000|fff)|font-family|<style|<metadata|<\?xml", chart.svg)
    assert not elements(chart, "image")
    assert len(chart.svg) < 15_000


def test_the_same_numbers_give_the_same_bytes():
    first, second = (curve_charts([LOSS, RIGHT], [BAND]) for _ in range(2))
    assert first == second
    assert size_chart(SIZES) == size_chart(SIZES)


@pytest.mark.parametrize(
    "values", [(1.0,), (None, 1.0), (0.0, 0.0), (1e12, 1e-12), (-3.0, 1.0), (1.0, None)]
)
def test_odd_curves_are_drawn(values):
    (chart,) = curve_charts([Curve("cnn", "training loss", values)], [BAND])
    assert "nan" not in chart.svg
    last = values[-1]
    told = "not finite" if last is None else f"{last:.3g}"
    assert f"After epoch {len(values)}: {told}" in chart.caption
