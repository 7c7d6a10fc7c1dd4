"""The strip plot: every number is in it, in its place, and every word inside the picture."""

import random
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg

from autograder.validity import plot
from autograder.validity.proposal import assess
from autograder.validity.record import Calibrated, Sample

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"


def sample(name, kind, mean, n=30, missing=0):
    generator = random.Random(name)
    return Sample(name, kind, [generator.gauss(mean, 0.01) for _ in range(n)] + [None] * missing)


MANY = [
    sample("mutant_that_is_listed_first", "mutant", 0.7),
    *(sample(f"variant_{k}", "variant", 0.95) for k in range(9)),
    sample("reference", "reference", 0.96),
    sample("a_misconception_with_a_very_long_name_indeed", "mutant", 0.75, n=12, missing=3),
]


def check(*samples, threshold=0.9, at_least=True):
    return Calibrated("training", "accuracy", "smallest_share", at_least, threshold, list(samples))


def drawn(one, path):
    plot.draw(one, assess(one, 0.001), path)
    return path.read_text(encoding="utf-8")


def marks(root, gid):
    (group,) = [g for g in root.iter(f"{SVG}g") if g.get("id") == gid]
    return [(float(u.get("x")), float(u.get("y"))) for u in group.iter(f"{SVG}use")]


def figure_of(one):
    with matplotlib.rc_context(plot.STYLE):
        figure = plot._figure(one, assess(one, 0.001))
        FigureCanvasAgg(figure).draw()
    return figure


def texts_of(figure):
    return [t for t in figure.findobj(matplotlib.text.Text) if t.get_text() and t.get_visible()]


def test_every_number_is_a_mark_in_the_row_of_its_solution(tmp_path):
    root = ElementTree.fromstring(drawn(check(*MANY), tmp_path / "a.svg"))
    order = ["reference", *(f"variant_{k}" for k in range(9))]
    order += ["mutant_that_is_listed_first", "a_misconception_with_a_very_long_name_indeed"]
    by_name = {s.name: [v for v in s.values if v is not None] for s in MANY}
    ((line, _),) = marks(root, "bound-0")
    previous = 0.0
    for place, name in enumerate(order):
        dots = marks(root, f"values-{place}")
        assert len(dots) == len(by_name[name])
        rows = [y for _, y in dots]
        assert min(rows) > previous  # below all dots of the row before
        previous = max(rows)
        across = [x for x, _ in dots]
        assert sorted(range(len(dots)), key=across.__getitem__) == sorted(
            range(len(dots)), key=by_name[name].__getitem__
        )
    assert line < min(x for x, _ in marks(root, "values-0"))  # it is beyond all of 30 numbers


def test_a_bound_is_where_the_assessment_has_it():
    one = check(*MANY)
    axes = figure_of(one).axes[0]
    lines = {line.get_gid(): line for line in axes.lines}
    seen = assess(one, 0.001)
    assert lines["bound-0"].get_xdata() == [seen.bounds[10]]  # of the reference
    assert lines["bound-10"].get_xdata() == [seen.bounds[0]]  # of the first mutant
    assert list(lines["threshold"].get_xdata()) == [0.9, 0.9]
    assert lines["values-0"].get_color() != lines["values-10"].get_color()
    assert lines["values-0"].get_marker() != lines["values-10"].get_marker()


@pytest.mark.parametrize("at_least", [True, False])
@pytest.mark.parametrize("threshold", [0.5, 0.72, 0.8, 0.9, 0.99])
def test_no_word_is_cut(at_least, threshold):
    figure = figure_of(check(*MANY, threshold=threshold, at_least=at_least))
    page = figure.bbox
    for text in texts_of(figure):
        box = text.get_window_extent()
        assert box.x0 >= page.x0, text
        assert box.x1 <= page.x1, text
        assert box.y0 >= page.y0, text
        assert box.y1 <= page.y1, text


def test_it_says_in_words_what_it_shows():
    words = " ".join(t.get_text() for t in texts_of(figure_of(check(*MANY))))
    assert "training.accuracy" in words
    assert "fails below 0.9 (smallest share)" in words
    assert "n = 12 of 15" in words
    assert "proposed" not in words
    one = check(*MANY, threshold=0.99)
    words = " ".join(t.get_text() for t in texts_of(figure_of(one)))
    assert f"proposed threshold: {assess(one, 0.001).proposal:g}" in words
    words = " ".join(t.get_text() for t in texts_of(figure_of(check(MANY[10], at_least=False))))
    assert "fails above 0.9" in words
    assert "wrong" not in words


def test_the_failing_side_is_grey():
    def grey(one):
        axes = figure_of(one).axes[0]
        (patch,) = axes.patches
        box = patch.get_extents().transformed(axes.transData.inverted())
        return pytest.approx((box.x0, box.x1)), axes.get_xlim()

    span, (left, _) = grey(check(*MANY))
    assert span == (left, 0.9)
    span, (_, right) = grey(check(*MANY, at_least=False))
    assert span == (0.9, right)


def test_numbers_far_apart_stand_on_powers_of_ten_and_zero_is_shown():
    def scale(*samples, threshold):
        return figure_of(check(*samples, threshold=threshold)).axes[0].get_xscale()

    blind = Sample("blind", "mutant", [0.0] * 30)
    assert scale(MANY[10], threshold=0.9) == "linear"
    assert scale(MANY[10], blind, threshold=0.9) == "linear"
    assert scale(MANY[10], blind, threshold=1e-5) == "symlog"
    assert scale(blind, MANY[10], Sample("none", "mutant", [None]), threshold=0) == "linear"


def test_the_same_data_give_the_same_bytes(tmp_path):
    first = drawn(check(*MANY), tmp_path / "a.svg")
    figure_of(check(MANY[0], MANY[10]))
    with matplotlib.rc_context({"font.size": 20, "font.family": "monospace"}):
        assert drawn(check(*MANY), tmp_path / "b.svg") == first
    assert drawn(check(*MANY, threshold=0.8), tmp_path / "c.svg") != first


def test_drawing_leaves_pyplot_and_its_settings_alone(tmp_path):
    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    drawn(check(*MANY), tmp_path / "a.svg")
    assert pyplot.get_fignums() == figures
    assert dict(matplotlib.rcParams) == before
