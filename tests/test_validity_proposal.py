"""Where thresholds lie among right and wrong solutions, what is proposed, and how it is written."""

import difflib
import random
from dataclasses import replace

import pytest
import yaml

from autograder.config import ConfigError, load
from autograder.validity import proposal
from autograder.validity.proposal import apply, assess
from autograder.validity.record import Calibrated, Calibration, Made, Sample
from tests.conftest import REPOSITORY

PATH = REPOSITORY / "grading.yml"
TEXT = PATH.read_text(encoding="utf-8")
# By hand: t(0.01, 4) = 3.7469; five values in steps of 0.02 have sd sqrt(0.001), and their bound is
# 3.7469 · sqrt(0.001 · 1.2) = 0.1298 from their mean.
STEPS = [-0.04, -0.02, 0, 0.02, 0.04]
REACH = 0.1298


def around(name, kind, mean):
    return Sample(name, kind, [mean + step for step in STEPS])


REFERENCE, VARIANT = around("reference", "reference", 0.96), around("dropout", "variant", 0.9)
MUTANT, WORSE = around("linear", "mutant", 0.4), around("silent", "mutant", 0.1)


def check(*samples, threshold=0.7, at_least=True):
    return Calibrated("cnn", "accuracy", "smallest", at_least, threshold, list(samples))


def mirrored(one):
    def flipped(values):
        return [None if value is None else -value for value in values]

    samples = [Sample(s.name, s.kind, flipped(s.values)) for s in one.samples]
    return replace(one, at_least=not one.at_least, threshold=-one.threshold, samples=samples)


FULL = check(REFERENCE, VARIANT, WORSE, MUTANT)


def test_the_worst_right_and_the_best_wrong_solution_count():
    seen = assess(FULL, 0.01)
    assert (seen.bound_of, seen.mutant, seen.n) == ("dropout", "linear", 5)
    assert (seen.mean, seen.sd) == (pytest.approx(0.9), pytest.approx(0.001**0.5))
    assert seen.extreme == pytest.approx(0.86)
    assert seen.bound == pytest.approx(0.9 - REACH, abs=1e-4)
    assert seen.mutant_bound == pytest.approx(0.4 + REACH, abs=1e-4)
    bounds = [0.96 - REACH, 0.9 - REACH, 0.1 + REACH, 0.4 + REACH]
    assert seen.bounds == pytest.approx(bounds, abs=1e-4)
    assert (seen.failures, seen.trainings) == (0, 10)
    assert seen.share == pytest.approx(1 - 0.05**0.1)
    assert 0 < seen.chance < 0.01  # the threshold is beyond the bound at 0.01
    assert seen.normal > 0.9  # five values in equal steps look normal


def test_a_threshold_in_the_gap_is_kept():
    seen = assess(FULL, 0.01)
    assert seen.between
    assert seen.separable
    assert seen.proposal == 0.7


@pytest.mark.parametrize(
    ("threshold", "proposed"),
    [(0.85, 0.7), (0.5, 0.7), (0.77, 0.77), (0.54, 0.54)],  # the gap is 0.5298 to 0.7702
)
def test_a_threshold_beside_the_gap_goes_near_the_right_solutions(threshold, proposed):
    seen = assess(replace(FULL, threshold=threshold), 0.01)
    assert seen.between == (threshold == proposed)
    assert seen.proposal == proposed


def test_at_the_bounds_right_solutions_pass_and_so_would_wrong_ones():
    right, wrong = (Sample(k, k, [v] * 3) for k, v in (("reference", 0.9), ("mutant", 0.5)))
    assert assess(check(right, wrong, threshold=0.9), 0.01).between
    assert not assess(check(right, wrong, threshold=0.5), 0.01).between


def test_a_narrow_gap_gets_as_many_digits_as_it_needs():
    near = around(
        "near", "mutant", 0.629
    )  # up to 0.7588; the right ones from 0.7702; middle 0.7645
    seen = assess(check(VARIANT, near, threshold=0.9), 0.01)
    assert (seen.separable, seen.proposal) == (True, 0.77)


def test_overlapping_solutions_get_the_bound_of_the_right_ones_rounded_to_passing():
    seen = assess(check(VARIANT, around("near", "mutant", 0.8), threshold=0.6), 0.01)
    assert (seen.between, seen.separable, seen.proposal) == (False, False, 0.77)
    assert assess(mirrored(check(VARIANT, threshold=0.9)), 0.01).proposal == -0.77


def test_a_small_bound_keeps_two_digits():
    values = [2e-5 * (1 + step / 10) for step in STEPS]  # up to 2e-5 · 1.01298
    seen = assess(
        check(Sample("reference", "reference", values), threshold=1e-5, at_least=False), 0.01
    )
    assert seen.proposal == 2.1e-5


def test_without_wrong_solutions_only_the_right_ones_count():
    seen = assess(check(REFERENCE, VARIANT), 0.01)
    assert (seen.mutant_bound, seen.mutant) == (None, "")
    assert (seen.between, seen.separable) == (True, True)
    assert assess(check(REFERENCE, threshold=0.9), 0.01).proposal == 0.83


def test_a_bound_below_zero_moves_no_positive_threshold():
    few = Sample("reference", "reference", [0.1, 0.5, 0.9])
    nothing = Sample("blind", "mutant", [0.0, 0.0, 0.0])
    seen = assess(check(few, nothing, threshold=1e-5), 0.001)
    assert seen.bound < 0
    assert not seen.between
    assert not seen.separable
    assert seen.mutant_bound == 0
    assert seen.proposal == 1e-5


def test_what_a_training_did_not_give_counts_as_failure_and_nothing_else():
    holes = replace(VARIANT, values=[*VARIANT.values, None, None])
    silent = Sample("silent", "mutant", [None, None, None])
    broken = Sample("broken", "variant", [None, 0.5])
    seen = assess(check(REFERENCE, holes, broken, silent), 0.01)
    plain = assess(check(REFERENCE, VARIANT), 0.01)
    assert (seen.failures, seen.trainings) == (4, 14)  # three without number, one below 0.7
    assert seen.share > plain.share
    assert seen.extreme == 0.5
    assert (seen.bound, seen.chance, seen.normal) == (plain.bound, plain.chance, plain.normal)
    assert seen.bounds == (*plain.bounds, None, None)
    assert (seen.n, seen.mutant_bound) == (5, None)


def test_no_numbers_are_no_assessment():
    with pytest.raises(ValueError, match=r"cnn\.accuracy"):
        assess(check(Sample("reference", "reference", [0.9, None]), MUTANT), 0.01)


def test_a_value_at_the_threshold_passes():
    exact = [0.7, 0.8, 0.9]
    seen = assess(check(Sample("reference", "reference", exact)), 0.01)
    assert seen.failures == 0
    assert assess(mirrored(check(Sample("reference", "reference", exact))), 0.01).failures == 0


@pytest.mark.parametrize("threshold", [0.3, 0.54, 0.7, 0.77, 0.85, 0.99])
@pytest.mark.parametrize("probability", [0.001, 0.01, 0.1])
def test_the_other_direction_is_the_mirror_image(threshold, probability):
    one = replace(FULL, threshold=threshold)
    here, there = assess(one, probability), assess(mirrored(one), probability)
    for name in ("mean", "extreme", "bound", "mutant_bound"):
        assert getattr(there, name) == pytest.approx(-getattr(here, name))
    for name in ("n", "bound_of", "failures", "trainings", "mutant", "between", "separable"):
        assert getattr(there, name) == getattr(here, name)
    assert there.chance == pytest.approx(here.chance)
    assert there.proposal == -here.proposal


def test_no_proposal_in_a_gap_is_beyond_the_right_solutions_bound_or_in_the_farther_half():
    """Random gaps, fixed seed. No number with one digit fewer may have fitted as well."""
    generator = random.Random(3)
    for _ in range(300):
        low = round(generator.uniform(0, 1), 4)
        high = low + generator.uniform(1e-3, 0.5)
        right = Sample("reference", "reference", [high, high])
        wrong = Sample("wrong", "mutant", [low, low])
        found = assess(check(right, wrong, threshold=2.0), 0.001).proposal
        assert (low + high) / 2 < found <= high
        digits = len(repr(found).partition(".")[2].rstrip("0"))
        coarser = [k / 10 ** (digits - 1) for k in range(10**digits)] if digits else []
        assert not [c for c in coarser if (low + high) / 2 < c <= high]


MADE = Made("2026-11-30", "1", "cpu", "", "3.12", "2.6", 1)


def calibrated(case, mean, setting="largest_loss_ratio", threshold=0.3, at_least=False):
    samples = [around("reference", "reference", mean)]
    return Calibrated("training", case, setting, at_least, threshold, samples)


def test_a_shared_setting_gets_the_most_lenient_of_its_proposals():
    assignment = load(PATH).assignment("cnn_vs_fnn")
    own = {"setting": "smallest", "at_least": True}
    checks = [
        calibrated("cnn_learned", 0.3),  # up to 0.4298
        calibrated("fnn_learned", 0.4),  # up to 0.5298
        calibrated("cnn_accuracy", 0.95, threshold=0.9, **own),  # from 0.8202
        calibrated("fnn_accuracy", 0.95, threshold=0.8, **own),  # which is kept
    ]
    found = Calibration("cnn_vs_fnn", MADE, 0.01, [1], 1, checks, [], [])
    assert proposal.changes(assignment, found) == {
        ("training", "cnn_learned", "largest_loss_ratio"): 0.53,
        ("training", "fnn_learned", "largest_loss_ratio"): 0.53,
        ("training", "cnn_accuracy", "smallest"): 0.82,
    }


def test_of_a_shared_least_number_the_smallest_proposal_counts():
    least = {"setting": "smallest", "at_least": True, "threshold": 0.97}
    checks = [calibrated("translations", 0.95, **least), calibrated("unseen", 0.9, **least)]
    found = Calibration("encoder_decoder", MADE, 0.01, [1], 1, checks, [], [])
    assert proposal.changes(load(PATH).assignment("encoder_decoder"), found) == {
        ("training", "translations", "smallest"): 0.77,
        ("training", "unseen", "smallest"): 0.77,
    }


def test_a_shared_setting_that_one_check_needs_as_it_is_is_kept():
    assignment = load(PATH).assignment("cnn_vs_fnn")
    wrong = around("wrong", "mutant", 0.35)  # from 0.2202: more than 0.3 is too lenient for it
    strict = calibrated("cnn_learned", 0.05)  # up to 0.1798
    strict = replace(strict, samples=[*strict.samples, wrong])
    checks = [strict, calibrated("fnn_learned", 0.1)]  # up to 0.2298
    assert assess(strict, 0.01).proposal == 0.18
    found = Calibration("cnn_vs_fnn", MADE, 0.01, [1], 1, checks, [], [])
    assert proposal.changes(assignment, found) == {}


def differences(old, new):
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(old[a:b], new[c:d]) for kind, a, b, c, d in blocks if kind != "equal"]


def by_line(old, new):
    pairs = zip(old.splitlines(), new.splitlines(), strict=True)
    return [(a, b) for a, b in pairs if a != b]


def test_exactly_the_numbers_are_replaced():
    changes = {
        ("training", "cnn_accuracy", "smallest"): 0.937,
        ("training", "cnn_learned", "largest_loss_ratio"): 0.25,
        ("training", "fnn_learned", "largest_loss_ratio"): 0.25,
    }
    changed = apply(TEXT, "cnn_vs_fnn", changes)
    (shared, shared_new), (own, own_new) = by_line(TEXT, changed)
    assert shared.lstrip().startswith("settings: {dataset: digits, epochs: 8,")
    assert shared_new == shared.replace("largest_loss_ratio: 0.3,", "largest_loss_ratio: 0.25,")
    assert own.lstrip().startswith("cnn_accuracy: {check: accuracy,")
    assert own_new == own.replace("smallest: 0.90", "smallest: 0.937")
    assert TEXT.count("#") == changed.count("#")
    raw, now = yaml.safe_load(TEXT), yaml.safe_load(changed)
    questions = raw["assignments"]["cnn_vs_fnn"]["questions"]
    questions["training"]["settings"]["largest_loss_ratio"] = 0.25
    questions["training"]["checks"]["cnn_accuracy"]["smallest"] = 0.937
    assert now == raw


def test_no_change_leaves_the_text_alone():
    assert apply(TEXT, "cnn_vs_fnn", {}) == TEXT


@pytest.mark.parametrize(("value", "written"), [(1e-5, "1.0e-05"), (2.5e-7, "2.5e-07"), (1.0, "1")])
def test_a_number_is_written_so_that_yaml_reads_a_number(value, written):
    changed = apply(TEXT, "cnn_vs_fnn", {("training", "cnn_accuracy", "smallest"): value})
    assert f"model_name: cnn, smallest: {written}}}" in changed
    read = yaml.safe_load(changed)["assignments"]["cnn_vs_fnn"]["questions"]["training"]
    assert read["checks"]["cnn_accuracy"]["smallest"] == value


SMALL = """\
# naïve: α
shared: {{limit: &limit 0.9, base: &base {{smallest: 0.8}}}}
assignments:
  a:
    questions:
      q:
        settings: {{smallest: 0.7}}   # of all
        checks:
          one: {one}
      r:
        checks:
          two: {two}
"""
KEY = ("q", "one", "smallest")


def small(one="{points: 1}", two="{points: 1}"):
    return SMALL.format(one=one, two=two)


@pytest.mark.parametrize(
    "one",
    [
        "{smallest: *limit}",
        "{<<: *base, points: 1}",
        "*base",
        "{smallest: '0.9'}",
        "{smallest: &other 0.9}",
        "{smallest: !!float 1}",
        "{smallest: [0.9]}",
    ],
)
def test_a_threshold_that_is_no_plain_number_there_is_refused(one):
    with pytest.raises(ConfigError, match=r"assignments\.a\.questions\.q\.checks\.one\.smallest"):
        apply(small(one), "a", {KEY: 0.5})


def test_an_own_number_beside_a_merge_key_is_found():
    old = small("{<<: *base, smallest: 0.6}  # own", "{smallest: 0.6}")
    assert differences(old, apply(old, "a", {KEY: 0.4})) == [("6", "4")]
    assert by_line(old, apply(old, "a", {KEY: 0.4}))[0][1].strip() == (
        "one: {<<: *base, smallest: 0.4}  # own"
    )


def test_of_a_key_that_stands_twice_the_one_that_counts_is_changed():
    old = small("{smallest: 0.5, smallest: 0.6}")
    assert differences(old, apply(old, "a", {KEY: 0.4})) == [("6", "4")]


def test_a_number_that_others_refer_to_is_refused():
    with pytest.raises(ConfigError, match=r"r\.checks\.two\.smallest"):
        apply(small("&one {smallest: 0.6}", "*one"), "a", {KEY: 0.4})
    with pytest.raises(ConfigError, match=r"r\.checks\.two\.smallest"):
        apply(small("&one {smallest: 0.6}", "{<<: *one}"), "a", {KEY: 0.4})


def test_two_changes_of_one_number_have_to_agree():
    old = small("{points: 1}\n          other: {points: 1}")
    both = {KEY: 0.4, ("q", "other", "smallest"): 0.4}
    assert by_line(old, apply(old, "a", both)) == [
        (
            "        settings: {smallest: 0.7}   # of all",
            "        settings: {smallest: 0.4}   # of all",
        )
    ]
    with pytest.raises(ConfigError, match=r"q\.settings\.smallest.*0\.4 and 0\.5"):
        apply(old, "a", both | {("q", "other", "smallest"): 0.5})


@pytest.mark.parametrize("place", [("q", "one", "largest"), ("s", "one", "smallest")])
def test_a_threshold_that_is_not_there_is_refused(place):
    with pytest.raises(ConfigError, match=place[2]):
        apply(small(), "a", {place: 0.4})
    with pytest.raises(ConfigError, match=place[2]):
        apply(small(), "b", {place: 0.4})


def ratios(*logarithms, at_least=False, threshold=0.3):
    """A check of ratios, whose logarithms to base 10 are given."""
    right = Sample("reference", "reference", [10.0**value for value in logarithms])
    wrong = Sample("softmax", "mutant", [0.7, 0.7])
    return Calibrated(
        "training", "learned", "largest", at_least, threshold, [right, wrong], magnitude=True
    )


def test_of_a_magnitude_the_logarithm_is_normal():
    """By hand: logarithms -2 ± 0.04 … as above, so the bound is 10^(-2 + 0.1298)."""
    seen = assess(ratios(*(-2 + step for step in STEPS)), 0.01)
    assert seen.bound == pytest.approx(10 ** (-2 + REACH), rel=1e-4)
    assert seen.between
    wide = assess(ratios(-3, -2, -1.5, threshold=0.9), 0.001)
    assert wide.bound > 0.9, "the model says it can be missed"
    assert 0.001 < wide.chance < 0.5


def test_a_magnitude_never_gets_a_bound_below_zero():
    changes = Sample("reference", "reference", [0.01, 0.2, 1.5])
    check = Calibrated("training", "reads", "smallest", True, 1e-5, [changes], magnitude=True)
    assert assess(check, 0.01).bound > 0
    assert assess(replace(check, magnitude=False), 0.01).bound < 0


def test_numbers_of_a_magnitude_that_are_zero_are_taken_as_they_are():
    zeros = Sample("echo", "mutant", [0.0, 0.0, 0.0])
    right = Sample("reference", "reference", [0.3, 0.4, 0.5])
    check = Calibrated("training", "reads", "smallest", True, 1e-5, [right, zeros], magnitude=True)
    seen = assess(check, 0.001)
    assert (seen.mutant_bound, seen.between) == (0.0, True)
