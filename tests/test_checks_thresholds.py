"""Which number does a check compare with which setting? Evidence and numbers here are by hand."""

import inspect
import math

import pytest

from autograder.checks import CHECKS
from autograder.checks.core import Unavailable, stopped
from autograder.config import Assignment
from autograder.data import digits, oscillation, pairs
from autograder.judge import Run, judge, threshold_value

THRESHOLDS = {name: c.threshold for name, c in CHECKS.items() if c.threshold}
NETWORK = {"name": "N", "input_shape": [9, 2], "seed": 1}
TOKENS = {"name": "N", "lengths": [2, 3], "seed": 1}
LABELS = [int(label) for label in digits().test.labels]
PREDICTED = {"dataset": "digits", "split": "test"}
GREEDY = {"name": "m", "count": 4, "length": 3, "seed": 5}
RIGHT = pairs(4, 3, 5)[1].tolist()
SERIES = {"name": "m", "seed": 1, "first": 0, "steps": 20, "width": 4, "held_out": 5}
FUTURE = oscillation(20, 1).double()[-6:].tolist()  # with the value before the held-out ones
SPOKEN = [[9.0, 9.0, 9.0], [0.02, 0.3, 0.05], [0.03, 0.01, 0.4]]  # rows: places, columns: steps
TOLD = [[0.4, 0.2, 0.3], [0.5, 0.07, 0.6]]


def predictions(*wrong):
    """One model for each number of wrong predictions."""
    classes = [[(k + (n < count)) % 10 for n, k in enumerate(LABELS)] for count in wrong]
    return {"classes": classes, **PREDICTED}


def share(*wrong):
    """How much more often the first of two models is right; of one, how often it is."""
    first, second = (*wrong, len(LABELS))[:2]
    return (second - first) / len(LABELS)


def learning(*losses):
    return {"guessing": 2.3, "losses": [*losses], "unchanged": [], "recorded": 0.9, "now": 0.9}


def forecasts(error):
    return {"values": [value + error for value in FUTURE[1:]]}


def ratio(error):
    """A constant error against that of the value before."""
    squares = [(a - b) ** 2 for a, b in zip(FUTURE[1:], FUTURE, strict=False)]
    return error / math.sqrt(sum(squares) / 5)


def translated(wrong):
    return {"tokens": [[1 - row[0] % 2, *row[1:]] if n < wrong else row
                       for n, row in enumerate(RIGHT)]}  # fmt: skip


def attention(*maps):
    """Each map is its size, its weight elsewhere, its change with the input, and its spread."""
    sizes, weights, changes, spreads = (list(part) for part in zip(*maps, strict=True))
    return {"queries": sizes, "keys": sizes, "maps": [1] * len(maps), "off_diagonal": weights,
            "change": changes, "spread": spreads}  # fmt: skip


# For each check settings without the threshold, and evidence with the number that counts.
KNOWN = {
    "accuracy": (
        {"model_name": "m", **PREDICTED}, [(predictions(n), share(n)) for n in (0, 7, 100)]
    ),
    "accuracy_gap": (
        {"names": ["m", "n"], **PREDICTED},
        [(predictions(*wrong), share(*wrong)) for wrong in ((3, 40), (0, 1), (20, 5))],
    ),
    "learned": (
        {"model_name": "m", "history_name": "h", "dataset": "digits", "tolerance": 0.01},
        [(learning(2.0, 9.0, 1.0), 0.5), (learning(3.0, 0.3), 0.1), (learning(0.7), 1.0)],
    ),
    "forecast": (SERIES, [(forecasts(k / 20), ratio(k / 20)) for k in range(1, 20)]),
    "translation_accuracy": (GREEDY, [(translated(n), 1 - n / 4) for n in (0, 1, 3)]),
    "untrained": (GREEDY, [(translated(n), 1 - n / 4) for n in (1, 3, 4)]),
    "no_look_ahead": (
        TOKENS, [({"source": TOLD, "said": SPOKEN}, 0.03),
                 ({"source": TOLD, "said": [SPOKEN[0], [0.2, 0, 0], [0.1, 0.05, 0]]}, 0.2)],
    ),
    "reads_the_past": (
        TOKENS, [({"source": TOLD, "said": SPOKEN}, 0.05),
                 ({"source": TOLD, "said": [[0.0] * 3, [0, 0.3, 0.2], [0, 0, 0.1]]}, 0.1)],
    ),
    "reads_the_source": (TOKENS, [({"source": TOLD, "said": SPOKEN}, 0.07)]),
    "source_order": (TOKENS, [({"relative": 0.25}, 0.25), ({"relative": 0.0}, 0.0)]),
    "sequence_order": (NETWORK, [({"relative": 0.25}, 0.25), ({"relative": 0.0}, 0.0)]),
    "pixel_order": (NETWORK, [({"relative": 0.25}, 0.25), ({"relative": 0.0}, 0.0)]),
    "nonlinearity": (NETWORK, [({"deviation": 0.7}, 0.7), ({"deviation": 3e-7}, 3e-7)]),
    "positions": (
        {**NETWORK, "steps": 9},
        [({"queries": [9, 9, 8], "keys": [9, 10, 9], "change": [0.1, 0.3, 0.8]}, 0.3)],
    ),
    "self_attention": (
        {**NETWORK, "steps": 9},
        [(attention((9, 0.2, 0.1, 0.1)), 0.1), (attention((9, 0.02, 0.1, 0.1)), 0.02),
         (attention((9, 0.2, 0.1, 0.1), (10, 0.4, 0.3, 0.2)), 0.3),
         (attention((9, 0.9, 0.9, 1.0), (10, 0.4, 0.3, 0.2)), 0.3),
         (attention((8, 0.9, 0.9, 0.1), (10, 0.4, 0.3, 0.2)), 0.3)],
    ),
    "batch_independence": (
        NETWORK, [({"difference": 0.02, "scale": 0.1}, 0.02), ({"difference": 2, "scale": 8}, 0.25)]
    ),
    "token_batches": (
        TOKENS, [({"difference": k / 1e6, "scale": 3.7}, k / 3.7e6) for k in range(1, 20)]
    ),
    "evaluation_mode": (NETWORK, [({"difference": 3e-8}, 3e-8), ({"difference": 0.0}, 0.0)]),
    "token_evaluation": (TOKENS, [({"difference": 3e-8}, 3e-8)]),
    "remembering": (
        {"name": "f", "lengths": [2, 9], "biases": [0, 1, 2], "seeds": [1, 2], "smallest_gain": 10},
        [({"short": [[1.0, 1.0, 1.0]] * 2, "long": [[0.001, 0.1, 0.2], [0.01, 0.05, 0.2]]}, 1.0),
         ({"short": [[1.0, 1.0, 1.0]] * 2, "long": [[0.001, 0.1, 0.2]] * 2}, 2.0)],
    ),
    "closed_gate": (
        {"name": "f", "closing": -20, "seeds": [1, 2]},
        [({"closed": [1e-15, 4e-15], "open": [0.5, 0.5]}, 8e-15)],
    ),
}  # fmt: skip
# Evidence that has no number, as what is compared isn't there.
NOTHING = {
    "learned": [learning(2.0, None), learning(None, 1.0), learning(0.0, 0.0), learning()],
    "accuracy": [{"classes": [LABELS[1:]], **PREDICTED}, {**predictions(0), "split": "hidden"},
                 predictions(0, 0)],
    "forecast": [{"values": [*FUTURE[2:], None]}, {"values": FUTURE}],
    "translation_accuracy": [{"tokens": RIGHT[1:]}],
    "no_look_ahead": [{"source": TOLD, "said": [*SPOKEN[:2], [0.1, None, 0.1]]},
                      {"source": TOLD, "said": SPOKEN[:2]}],
    "sequence_order": [{"relative": None}],
    "nonlinearity": [{"deviation": None}],
    "evaluation_mode": [{"difference": None}],
    "batch_independence": [{"difference": None, "scale": 1.0}, {"difference": 1.0, "scale": None}],
    "positions": [{"queries": [8], "keys": [9], "change": [0.1]},
                  {"queries": [], "keys": [], "change": []}],
    "self_attention": [attention((9, 0.9, 0.9, 1.0)), attention((8, 0.9, 0.9, 0.1)),
                       {**attention((9, 0.9, 0.9, 0.1)), "maps": [-1]}],
    "closed_gate": [{"closed": [None, 0.0], "open": [1.0, 1.0]},
                    {"closed": [0.0, 0.0], "open": [0.0, 1.0]}],
    "remembering": [{"short": [[0.0, 1.0, 1.0]] * 2, "long": [[0.1, 0.2, 0.3]] * 2},
                    {"short": [[None, 1.0, 1.0]] * 2, "long": [[0.1, 0.2, 0.3]] * 2}],
}  # fmt: skip
CASES = [(name, *known) for name, (_, rows) in KNOWN.items() for known in rows]
EMPTY = [(name, evidence) for name, rows in NOTHING.items() for evidence in rows]


def asked(name, limit=1.0):
    """The question that a check is asked in, with `limit` for its threshold."""
    settings = {**KNOWN[name][0], THRESHOLDS[name].setting: limit}
    entry = {"check": name, "points": 2, **settings}
    return Assignment(title="t", seed=1, values={}, questions={"q": {"checks": {"c": entry}}})


def value_of(name, evidence):
    question = asked(name).questions["q"]
    return threshold_value(question, question.checks["c"], evidence)


def status(name, evidence, limit):
    record = {"question": "q", "case": "c", "check": name, "evidence": evidence}
    (result,) = judge(asked(name, limit), Run([record], {}, {}))
    return result.verdict.status


def test_every_threshold_has_evidence_here():
    assert KNOWN.keys() == THRESHOLDS.keys()


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_threshold_names_a_setting_of_the_judging_half_and_reads_others(name):
    check, threshold = CHECKS[name], THRESHOLDS[name]
    parameters = inspect.signature(check.judge).parameters
    _, *others = inspect.signature(threshold.value).parameters.values()
    assert threshold.setting in check.settings
    assert threshold.setting in parameters
    assert all(p.kind is p.KEYWORD_ONLY and p.name in parameters for p in others)
    assert threshold.setting not in [p.name for p in others]


@pytest.mark.parametrize(("name", "evidence", "number"), CASES)
def test_the_number_is_that_of_the_evidence(name, evidence, number):
    value = value_of(name, evidence)
    assert value == (number if number == 0 else pytest.approx(number))
    assert isinstance(value, float)


@pytest.mark.parametrize(("name", "evidence", "number"), CASES)
def test_the_verdict_turns_where_the_setting_crosses_the_number(name, evidence, number):
    value, at_least = value_of(name, evidence), THRESHOLDS[name].at_least
    above, below = math.nextafter(value, math.inf), math.nextafter(value, -math.inf)
    easier, harder = (below, above) if at_least else (above, below)
    assert status(name, evidence, value) == "passed"
    assert status(name, evidence, easier) == "passed"
    assert status(name, evidence, harder) == "failed"


@pytest.mark.parametrize(("name", "evidence"), EMPTY)
def test_where_no_number_is_compared_there_is_none_and_nothing_passes(name, evidence):
    generous = 0.0 if THRESHOLDS[name].at_least else 1e9
    assert value_of(name, evidence) is None
    assert status(name, evidence, generous) in ("failed", "refused")


def test_a_loss_that_is_zero_from_the_start_did_not_fall():
    assert status("learned", learning(0.0, 0.0), 0.5) == "failed"


@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("kind", ["failed", "not_answered", "not_run"])
def test_a_measurement_that_stopped_has_no_number(name, kind):
    assert value_of(name, stopped(kind, "Seen.", "Look.")) is None


@pytest.mark.parametrize("name", THRESHOLDS)
def test_evidence_that_does_not_fit_has_no_number(name):
    _, [(evidence, _), *_] = KNOWN[name]
    first = next(iter(evidence))
    for damaged in (
        None, 5, "passed", [], {}, float("nan"), {1, 2}, {**evidence, "extra": 1},
        {**evidence, first: "text"}, {k: v for k, v in evidence.items() if k != first},
        {"stopped": {"kind": "passed", "rationale": "", "hint": ""}},
    ):  # fmt: skip
        assert value_of(name, damaged) is None


@pytest.mark.parametrize("name", ["accuracy", "accuracy_gap"])
def test_without_labels_there_is_no_number(name, monkeypatch):
    def missing(dataset, split):
        raise Unavailable("No labels.")

    monkeypatch.setattr("autograder.checks.accuracy.labels_of", missing)
    _, [(evidence, _), *_] = KNOWN[name]
    assert value_of(name, evidence) is None


def test_a_check_without_a_threshold_has_no_number():
    entry = {"check": "no_convolution", "points": 1, **NETWORK}
    made = Assignment(title="t", seed=1, values={}, questions={"q": {"checks": {"c": entry}}})
    question = made.questions["q"]
    evidence = {"kernels": [], "outputs": [], "places": 1}
    assert threshold_value(question, question.checks["c"], evidence) is None


def test_a_threshold_takes_settings_of_the_question():
    entry = {"check": "positions", "points": 1, "smallest": 0.5}
    shared = {"settings": {**NETWORK, "steps": 9}, "checks": {"c": entry}}
    question = Assignment(title="t", seed=1, values={}, questions={"q": shared}).questions["q"]
    _, [(evidence, _)] = KNOWN["positions"]
    assert threshold_value(question, question.checks["c"], evidence) == 0.3
