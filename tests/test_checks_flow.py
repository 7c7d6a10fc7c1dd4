import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from torch import nn

from autograder import config
from autograder.checks import CHECKS, core
from autograder.checks.core import Check
from reference import gradient_flow as reference
from tests.conftest import REPOSITORY

QUESTIONS = config.load(REPOSITORY / "grading.yml").assignment("gradient_flow").questions
VANISHING = QUESTIONS["vanishing"].checks["vanishing"].settings
REMEMBERING = QUESTIONS["forget_bias"].checks["remembering"].settings
CURVE = {**QUESTIONS["vanishing"].checks["curve"].settings, "curves": [[7]]}
CURVES = {
    **QUESTIONS["forget_bias"].checks["curves"].settings,
    "curves": [[b, 7] for b in REMEMBERING["biases"]],
}
CLOSED = QUESTIONS["forget_bias"].checks["closed_gate"].settings


@pytest.fixture(autouse=True)
def _double():
    """As in the notebook."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
    plt.close("all")


def decided(check, settings, **objects):
    chosen: Check = CHECKS[check]
    evidence = core.perform(chosen, settings, objects)
    text = json.dumps(evidence, allow_nan=False)
    assert len(text) < 8000
    return core.decide(chosen, settings, json.loads(text))


# vanishing


def experiment(loss=None, wrt="h0", dtype=None, draw=torch.randn, bias=True, seeded=True):
    """A student's gradient_norm, with a choice for each thing that can go another way."""

    def norm(length, seed):
        if seeded:
            torch.manual_seed(seed)
        h0 = draw(1, 1, 5, dtype=dtype).requires_grad_()
        inputs = torch.zeros(1, length, 1, dtype=dtype).requires_grad_()
        output, _ = nn.RNN(1, 5, bias=bias, batch_first=True).to(dtype or torch.float64)(inputs, h0)
        value = (loss or (lambda o: o[:, -1].square().mean()))(output)
        return torch.autograd.grad(value, h0 if wrt == "h0" else inputs)[0].norm()

    return norm


@pytest.mark.parametrize(
    "function",
    [
        reference.gradient_norm,
        experiment(),
        experiment(draw=torch.rand),
        experiment(bias=False),
        experiment(loss=lambda o: o[:, -1].square().sum()),
        lambda length, seed: reference.gradient_norm(length=length, seed=seed),
        lambda length, seed: np.float64(reference.gradient_norm(length, seed)),
    ],
)
def test_a_right_experiment_vanishes(function):
    verdict = decided("vanishing", VANISHING, function=function)
    assert verdict.status == "passed", str(verdict)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (experiment(wrt="inputs"), "initial state h0"),
        (experiment(loss=lambda o: o[:, 0].square().mean()), "last output alone"),
        (experiment(loss=lambda o: o.square().mean()), "last output alone"),
        (experiment(dtype=torch.float32), "float64"),
        (experiment(seeded=False), "manual_seed(seed)"),
        (lambda n, seed: reference.gradient_norm(n, 3), "Use the argument"),
        (lambda n, seed: -reference.gradient_norm(n, seed), "not the sum"),
        (lambda n, seed: math.nan, "Return a float"),
        (lambda n, seed: torch.ones(5), "Return a float"),
        (lambda n, seed: 1.0 + seed, "last output alone"),
    ],
)
def test_a_wrong_experiment_fails_with_its_hint(function, words):
    verdict = decided("vanishing", VANISHING, function=function)
    assert verdict.status == "failed"
    assert words in verdict.hint, str(verdict)


def test_a_detached_state_is_quoted():
    def cut(length, seed):
        h0 = torch.randn(1, 1, 5, requires_grad=True)
        output, _ = nn.RNN(1, 5, batch_first=True)(torch.zeros(1, length, 1), h0.detach())
        return torch.autograd.grad(output[:, -1].square().mean(), h0)[0].norm()

    verdict = decided("vanishing", VANISHING, function=cut)
    assert verdict.status == "failed"
    assert "gradient_norm(2, 1) raised RuntimeError" in verdict.rationale


@pytest.mark.parametrize(
    ("check", "settings"),
    [("vanishing", VANISHING), ("remembering", REMEMBERING), ("closed_gate", CLOSED)],
)
@pytest.mark.parametrize("answer", [None, ..., lambda *arguments: None])
def test_no_experiment_yet(check, settings, answer):
    assert decided(check, settings, function=answer).status == "not_answered"


def vanishing_evidence(shares):
    ones = [1.0 + k / 100 for k in range(len(shares))]
    long = [a * share for a, share in zip(ones, shares, strict=True)]
    return {"short": ones, "long": long, "repeated": 1.0}


@pytest.mark.parametrize(
    ("shares", "status"),
    [
        ([1e-9] * 10, "passed"),
        ([1e-9] * 9 + [50.0], "passed"),
        ([1e-9] * 8 + [0.02, 0.02], "failed"),
        ([9e-7] * 6 + [1e-3] * 4, "passed"),
        ([9e-7] * 4 + [1e-3] * 6, "failed"),
    ],
)
def test_limits_of_vanishing(shares, status):
    seen = vanishing_evidence(shares)
    assert core.decide(CHECKS["vanishing"], VANISHING, seen).status == status


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repeated": 1.001}, "different norms"),
        ({"repeated": None}, "different norms"),
        ({"long": [1e-9] * 9 + [None]}, "not a finite number"),
        ({"long": [1e-9] * 9 + [0.0]}, "1 of 20 norms are exactly 0"),
        ({"long": [-1e-9] * 10}, "negative"),
    ],
)
def test_norms_that_can_not_be_right_are_named(change, words):
    verdict = core.decide(
        CHECKS["vanishing"], VANISHING, {**vanishing_evidence([1e-9] * 10), **change}
    )
    assert verdict.status == "failed"
    assert words in verdict.rationale


@pytest.mark.parametrize("part", ["short", "long"])
def test_vanishing_with_other_seeds_is_refused(part):
    seen = {**vanishing_evidence([1e-9] * 10), part: [1.0]}
    with pytest.raises(ValueError, match="not one norm"):
        core.decide(CHECKS["vanishing"], VANISHING, seen)


# remembering


def memory(gate=1, vectors=("bias_ih_l0", "bias_hh_l0"), wrt="c0", whole=False):
    """A student's memory_norm: which gate, which bias vectors, which initial state."""

    def norm(length, bias, seed):
        torch.manual_seed(seed)
        lstm = nn.LSTM(1, 5, batch_first=True)
        for vector in vectors:
            block = slice(None) if whole else slice(5 * gate, 5 * gate + 5)
            getattr(lstm, vector).data[block] += bias
        h0, c0 = torch.randn(2, 1, 1, 5, requires_grad=True)
        output, _ = lstm(torch.zeros(1, length, 1), (h0, c0))
        loss = output[:, -1].square().mean()
        return torch.autograd.grad(loss, c0 if wrt == "c0" else h0)[0].norm().item()

    return norm


def by_hand(length, bias, seed):
    """Another network of another draw, stepped by hand, gradient by backward."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *size: (2 * torch.rand(*size, generator=generator) - 1) * 5**-0.5
    w, b = draw(20, 5), draw(20) + draw(20)
    b[5:10] += 2 * bias
    c0 = torch.randn(1, 5, generator=generator).requires_grad_()
    h, c = torch.zeros(1, 5), c0
    for _ in range(length):
        i, f, g, o = (h @ w.T + b).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    h.square().mean().backward()
    return float(c0.grad.norm())


@pytest.mark.parametrize("function", [reference.memory_norm, memory(), by_hand])
def test_a_right_memory_remembers(function):
    for check, settings in (("remembering", REMEMBERING), ("closed_gate", CLOSED)):
        verdict = decided(check, settings, function=function)
        assert verdict.status == "passed", str(verdict)


BOTH, GROWTH, GATE = {"remembering", "closed_gate"}, {"remembering"}, {"closed_gate"}


@pytest.mark.parametrize(
    ("function", "fails", "words"),
    [
        (memory(gate=0), BOTH, "forget gate"),
        (memory(gate=2), BOTH, "forget gate"),
        (memory(gate=3), GROWTH, "forget gate"),
        (memory(vectors=()), BOTH, "forget gate"),
        (memory(vectors=("bias_ih_l0",)), GATE, "both vectors"),
        (memory(vectors=("bias_hh_l0",)), GATE, "both vectors"),
        (memory(wrt="h0"), GATE, "not to h0"),
        (lambda n, bias, seed: 0.0, BOTH, "float64"),
        (lambda n, bias, seed: 1.0, BOTH, "forget gate"),
        (lambda n, bias, seed: math.inf, BOTH, "Return a float"),
        (lambda n, bias, seed: math.nan if bias < 0 else by_hand(n, bias, seed), GATE, "division"),
    ],
)
def test_a_wrong_memory_fails_with_its_hint(function, fails, words):
    for check, settings in (("remembering", REMEMBERING), ("closed_gate", CLOSED)):
        verdict = decided(check, settings, function=function)
        assert verdict.status == ("failed" if check in fails else "passed"), str(verdict)
        assert check not in fails or words in verdict.hint, str(verdict)


RIGHT, FALLING, WEAK = (
    [1e-19, 1e-8, 1e-4, 1e-3, 1e-2],
    [1e-19, 1e-4, 1e-8, 1e-3, 1e-2],
    [1e-19, 1e-17, 1e-4, 1e-3, 1e-2],
)


@pytest.mark.parametrize(
    ("long", "status"),
    [
        ([RIGHT] * 10, "passed"),
        ([[1e-19, 1e-8, 1e-4, 1e-5, 1e-6]] * 10, "passed"),
        ([RIGHT] * 8 + [FALLING, WEAK], "passed"),
        ([RIGHT] * 7 + [FALLING] * 3, "failed"),
        ([RIGHT] * 7 + [WEAK] * 3, "failed"),
        ([RIGHT] * 9 + [[0.0, *RIGHT[1:]]], "failed"),
        ([RIGHT] * 9 + [[None, *RIGHT[1:]]], "failed"),
    ],
)
def test_limits_of_remembering(long, status):
    seen = {"short": [[1.0] * 5] * 10, "long": long}
    assert core.decide(CHECKS["remembering"], REMEMBERING, seen).status == status


@pytest.mark.parametrize(
    ("closed", "opened", "status"),
    [
        ([0.0] * 10, [1.0] * 10, "passed"),
        ([0.9e-12] * 10, [1.0] * 10, "passed"),
        ([1e-17] * 9 + [1.1e-12], [1.0] * 10, "failed"),
        ([1e-14] * 10, [1e-3] * 10, "failed"),
        ([1e-17] * 9 + [None], [1.0] * 10, "failed"),
        ([-1.0] * 10, [1.0] * 10, "failed"),
        ([1e-17] * 10, [1.0] * 9 + [0.0], "failed"),
    ],
)
def test_limits_of_a_closed_gate(closed, opened, status):
    seen = {"closed": closed, "open": opened}
    assert core.decide(CHECKS["closed_gate"], CLOSED, seen).status == status


@pytest.mark.parametrize(
    ("check", "settings", "seen"),
    [
        ("remembering", REMEMBERING, {"short": [[1.0] * 5], "long": [RIGHT] * 10}),
        ("remembering", REMEMBERING, {"short": [[1.0] * 5] * 10, "long": [[1.0] * 4] * 10}),
        ("closed_gate", CLOSED, {"closed": [0.0], "open": [1.0] * 10}),
        ("closed_gate", CLOSED, {"closed": [0.0] * 10, "open": [1.0] * 11}),
    ],
)
def test_a_memory_of_other_seeds_is_refused(check, settings, seen):
    with pytest.raises(ValueError, match="not one norm"):
        core.decide(CHECKS[check], settings, seen)


def test_shares_are_told_by_bias():
    seen = {"short": [[1.0] * 5] * 10, "long": [RIGHT] * 10}
    rationale = core.decide(CHECKS["remembering"], REMEMBERING, seen).rationale
    assert "by bias: 0: 1e-19, 0.5: 1e-08, 1: 1e-04, 1.5: 1e-03, 2: 1e-02" in rationale


# log_curves


def norm_at(length, seed):
    return 2.0 ** -(length + seed)


def norm_by_bias(length, bias, seed):
    return (bias + 1) * 2.0**-length


def figure_of(draw, lengths=range(2, 101), panels=1):
    figure, axes = plt.subplots(1, panels)
    draw(axes, np.array(lengths))
    for panel in figure.axes:
        panel.set_xlabel("length")
        panel.set_ylabel("norm")
    return figure


def norms(lengths, *rest, function=norm_at):
    return [function(int(n), *(rest or (7,))) for n in lengths]


def scattered(axes, lengths):
    axes.scatter(lengths, norms(lengths))
    axes.set_yscale("log")


def beside_others(axes, lengths):
    for seed in (1, 7, 9):
        axes.semilogy(lengths, norms(lengths, seed))
    axes.axhline(1e-9)


def point_by_point(axes, lengths):
    for n in lengths:
        axes.plot(n, norm_at(int(n), 7), "k.")
    axes.set_yscale("log")


def with_twin_axes(axes, lengths):
    axes.plot(lengths, norms(lengths))
    axes.twinx().semilogy(lengths, norms(lengths))


def with_frame(axes, lengths):
    import pandas as pd

    pd.Series(norms(lengths), index=lengths).plot(ax=axes, logy=True)


@pytest.mark.parametrize(
    "draw",
    [
        lambda axes, n: axes.semilogy(n, norms(n)),
        lambda axes, n: axes.loglog(n, norms(n), "o-"),
        lambda axes, n: axes.semilogy(list(map(int, n)), torch.tensor(norms(n))),
        lambda axes, n: axes.semilogy(n[::-1], norms(n[::-1])),
        scattered,
        beside_others,
        with_frame,
        point_by_point,
        lambda axes, n: axes.bar(n, norms(n), log=True),
        with_twin_axes,
    ],
)
def test_a_right_curve_passes(draw):
    verdict = decided("log_curves", CURVE, figure=figure_of(draw), function=norm_at)
    assert verdict.status == "passed", str(verdict)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda axes, n: axes.plot(n, norms(n)), "set_yscale"),
        (lambda axes, n: (axes.plot(n, norms(n)), axes.set_yscale("symlog")), "set_yscale"),
        (lambda axes, n: axes.semilogx(n, norms(n)), "set_yscale"),
        (lambda axes, n: axes.plot(n, np.log10(norms(n))), "These are logarithms"),
        (lambda axes, n: axes.plot(n, np.log(norms(n))), "These are logarithms"),
        (lambda axes, n: axes.semilogy(n[::2], norms(n[::2])), "for every length"),
        (lambda axes, n: axes.semilogy(norms(n)), "above their lengths"),
        (lambda axes, n: axes.semilogy(norms(n), n), "for every length"),
        (lambda axes, n: axes.semilogy(n, norms(n, 8)), "for every length"),
        (lambda axes, n: axes.semilogy(n[:40], norms(n[:40])), "for every length"),
        (lambda axes, n: None, "for every length"),
    ],
)
def test_a_wrong_curve_fails_with_its_hint(draw, words):
    verdict = decided("log_curves", CURVE, figure=figure_of(draw), function=norm_at)
    assert verdict.status == "failed"
    assert words in verdict.hint, str(verdict)


@pytest.mark.parametrize("axis", ["x", "y"])
def test_labels_are_needed(axis):
    figure = figure_of(lambda axes, n: axes.semilogy(n, norms(n)))
    getattr(figure.axes[0], f"set_{axis}label")(" ")
    verdict = decided("log_curves", CURVE, figure=figure, function=norm_at)
    assert (verdict.status, verdict.rationale) == ("failed", "An axis has no label.")


@pytest.mark.parametrize("value", [0.0, math.nan, -1.0])
def test_norms_that_a_log_axis_can_not_show_are_named(value):
    figure = figure_of(lambda axes, n: axes.semilogy(n, norms(n)))
    verdict = decided("log_curves", CURVE, figure=figure, function=lambda n, seed: value)
    assert verdict.status == "failed"
    assert "norm" in verdict.rationale


def test_no_figure_and_no_function_yet():
    figure = figure_of(lambda axes, n: None)
    for objects in (
        {"figure": figure, "function": None},
        {"figure": figure, "function": lambda n, seed: None},
        {"figure": ..., "function": norm_at},
    ):
        assert decided("log_curves", CURVE, **objects).status == "not_answered"
    assert decided("log_curves", CURVE, figure=3, function=norm_at).status == "failed"


def of_all_biases(axes, lengths, biases=REMEMBERING["biases"], named=True):
    panels = np.ravel(axes)
    for k, bias in enumerate(biases):
        values = norms(lengths, bias, 7, function=norm_by_bias)
        panels[k % len(panels)].semilogy(lengths, values, label=f"bias {bias}")
    if named:
        for panel in panels:
            panel.legend()


MEMORY_LENGTHS = range(2, 101, 7)


@pytest.mark.parametrize("panels", [1, 5])
def test_a_curve_for_each_bias_passes(panels):
    figure = figure_of(of_all_biases, MEMORY_LENGTHS, panels)
    verdict = decided("log_curves", CURVES, figure=figure, function=norm_by_bias)
    assert verdict.status == "passed", str(verdict)


def test_a_bias_that_is_not_drawn_is_named():
    figure = figure_of(lambda a, n: of_all_biases(a, n, [0, 0.5, 1.5, 2]), MEMORY_LENGTHS)
    verdict = decided("log_curves", CURVES, figure=figure, function=norm_by_bias)
    assert verdict.status == "failed"
    assert "lacks 1 of 5 curves, first that of the norms for (length, 1, 7)" in verdict.rationale


def test_curves_without_names_can_not_be_told_apart():
    figure = figure_of(lambda a, n: of_all_biases(a, n, named=False), MEMORY_LENGTHS)
    verdict = decided("log_curves", CURVES, figure=figure, function=norm_by_bias)
    assert verdict.status == "failed"
    assert "legend" in verdict.hint


def labelled(own, **legend):
    def draw(axes, lengths):
        for bias, label in zip(REMEMBERING["biases"], own, strict=True):
            axes.semilogy(lengths, norms(lengths, bias, 7, function=norm_by_bias), label=label)
        axes.legend(**legend)

    return figure_of(draw, MEMORY_LENGTHS)


@pytest.mark.parametrize(
    ("labels", "legend", "status"),
    [
        (["0", "0.5", "1", "1.5", "2"], {}, "passed"),
        (["2", "1.5", "1", "0.5", "0"], {}, "failed"),
        (["b = 0.5", "b = 0", "b = 1.0", "b = 1.5", "b = 2.0"], {}, "failed"),
        (["curve 1", "curve 2", "curve 3", "curve 4", "curve 5"], {}, "passed"),
        (list("abcde"), {}, "passed"),
        ([None] * 5, {"labels": [0, 0.5, 1, 1.5, 2]}, "passed"),
        ([None] * 5, {"labels": [2, 1.5, 1, 0.5, 0]}, "failed"),
    ],
)
def test_a_label_that_names_a_bias_names_its_own(labels, legend, status):
    verdict = decided(
        "log_curves", CURVES, figure=labelled(labels, **legend), function=norm_by_bias
    )
    assert verdict.status == status, str(verdict)
    assert status == "passed" or "is called" in verdict.rationale


@pytest.mark.parametrize("apart", [True, False])
def test_curves_of_points_pass(apart):
    def draw(axes, lengths):
        points = [
            (n, norm_by_bias(int(n), b, 7), b) for b in REMEMBERING["biases"] for n in lengths
        ]
        if apart:
            for k, (x, y, b) in enumerate(points):
                axes.scatter(x, y, label=f"bias {b}" if k % len(lengths) == 0 else "")
            axes.legend()
        else:
            x, y, b = zip(*points, strict=True)
            axes.legend(*axes.scatter(x, y, c=b).legend_elements())
        axes.set_yscale("log")

    verdict = decided(
        "log_curves", CURVES, figure=figure_of(draw, MEMORY_LENGTHS), function=norm_by_bias
    )
    assert verdict.status == "passed", str(verdict)


def test_a_linear_panel_beside_a_logarithmic_one_does_no_harm():
    def draw(panels, lengths):
        panels[0].plot(lengths, norms(lengths))
        panels[1].semilogy(lengths, norms(lengths))

    verdict = decided("log_curves", CURVE, figure=figure_of(draw, panels=2), function=norm_at)
    assert verdict.status == "passed", str(verdict)


def test_one_linear_panel_among_others_is_seen():
    figure = figure_of(of_all_biases, MEMORY_LENGTHS, 5)
    figure.axes[3].set_yscale("linear")
    assert decided("log_curves", CURVES, figure=figure, function=norm_by_bias).status == "failed"


DRAWN = {"wanted": [[0.5] * len(CURVE["lengths"])], "errors": [1e-7], "panels": [0],
         "labels": [""], "astray": [""], "scales": ["log"], "x_labels": ["x"], "y_labels": ["y"],
         "names": [[]]}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "passed"),
        ({"errors": [1.1e-6]}, "failed"),
        ({"errors": [-1.0]}, "failed"),
        ({"errors": [None]}, "failed"),
        ({"scales": ["linear"]}, "failed"),
    ],
)
def test_limits_of_a_curve(change, status):
    assert core.decide(CHECKS["log_curves"], CURVE, {**DRAWN, **change}).status == status


@pytest.mark.parametrize(
    "change", [{"errors": []}, {"wanted": [[0.5]]}, {"wanted": []}, {"panels": [0, 0]}]
)
def test_evidence_of_other_curves_is_refused(change):
    with pytest.raises(ValueError, match="not the curves"):
        core.decide(CHECKS["log_curves"], CURVE, {**DRAWN, **change})


def test_a_panel_that_is_not_there_is_refused():
    with pytest.raises((ValueError, LookupError)):
        core.decide(CHECKS["log_curves"], CURVE, {**DRAWN, "panels": [4]})
