"""Bounds, chances and limits against hand computation, simulation and closed forms."""

import numpy as np
import pytest

from autograder.validity import statistics as s

FIVE = [0.90, 0.92, 0.94, 0.96, 0.98]  # mean 0.94, sd sqrt(0.001)


def test_a_bound_by_hand():
    # t(0.01, 4) = 3.7469 in Student's table; sqrt(0.001) · sqrt(1.2) = 0.034641
    assert s.lower_bound(FIVE, 0.01) == pytest.approx(0.94 - 3.7469 * 0.034641, abs=2e-6)
    assert s.upper_bound(FIVE, 0.01) == pytest.approx(0.94 + 3.7469 * 0.034641, abs=2e-6)
    # t(0.001, 1) = 318.309; two values 1 apart have sd sqrt(0.5), which grows by sqrt(1.5)
    assert s.lower_bound([0, 1], 0.001) == pytest.approx(0.5 - 318.309 * 0.75**0.5, abs=1e-3)


def test_a_chance_by_hand():
    # Student's t with 1 degree of freedom is Cauchy's distribution: P(below -1) = 1/4.
    assert s.chance_below([0, 1], 0.5 - 0.75**0.5) == pytest.approx(0.25)
    assert s.chance_above([0, 1], 0.5 - 0.75**0.5) == pytest.approx(0.75)
    # With 2 degrees of freedom P(below t) = 1/2 + t / (2 sqrt(2 + t²)); spread here: sqrt(4/3).
    t = -3 / (4 / 3) ** 0.5
    assert s.chance_below([-1, 0, 1], -3) == pytest.approx(0.5 + t / (2 * (2 + t**2) ** 0.5))


def test_the_bound_is_where_the_chance_is_the_probability():
    for probability in (1e-6, 1e-3, 0.2):
        assert s.chance_below(FIVE, s.lower_bound(FIVE, probability)) == pytest.approx(probability)
        assert s.chance_above(FIVE, s.upper_bound(FIVE, probability)) == pytest.approx(probability)


@pytest.mark.parametrize("n", [2, 5])
def test_one_more_value_misses_its_bound_as_often_as_it_says(n):
    """8,000 calibrations, each with one more training, at probability 0.2.

    The number of misses is binomial. A right bound is more than 4 sd off for 1 seed in 16,000, and
    the seed is fixed; one without the sqrt(1 + 1/n) is off by 4 to 7 sd.
    """
    draws = np.random.default_rng(n).normal(3, 2, (8000, n + 1))
    calibrations = [(row[:n].tolist(), row[n]) for row in draws]
    below = sum(new < s.lower_bound(old, 0.2) for old, new in calibrations)
    above = sum(new > s.upper_bound(old, 0.2) for old, new in calibrations)
    sd = (8000 * 0.2 * 0.8) ** 0.5
    assert abs(below - 1600) < 4 * sd
    assert abs(above - 1600) < 4 * sd


def test_without_spread_the_bound_is_the_value():
    same = [0.1] * 3  # whose sum is not 0.3 in floating point
    assert s.lower_bound(same, 1e-3) == s.upper_bound(same, 1e-3) == 0.1
    assert (s.chance_below(same, 0.1), s.chance_below(same, 0.11)) == (0, 1)
    assert (s.chance_above(same, 0.1), s.chance_above(same, 0.09)) == (0, 1)


@pytest.mark.parametrize("values", [[], [0.9]])
@pytest.mark.parametrize("function", [s.lower_bound, s.upper_bound, s.chance_below, s.chance_above])
def test_fewer_than_two_values_give_no_bound(function, values):
    with pytest.raises(ValueError):
        function(values, 0.01)


def test_the_limit_of_a_share_is_where_so_few_failures_get_improbable():
    for n in (1, 12, 30, 300):
        assert s.failure_share(0, n) == pytest.approx(1 - 0.05 ** (1 / n))
        assert s.failure_share(0, n, 0.99) == pytest.approx(1 - 0.01 ** (1 / n))
        assert s.failure_share(n, n) == 1
    p = s.failure_share(1, 30)  # none or one of 30 must have probability 0.05
    assert (1 - p) ** 30 + 30 * p * (1 - p) ** 29 == pytest.approx(0.05)


@pytest.mark.parametrize(("failures", "n"), [(0, 0), (3, 2)])
def test_impossible_counts_have_no_limit(failures, n):
    with pytest.raises(ValueError):
        s.failure_share(failures, n)


def test_normality_tells_an_outlier_from_a_normal_sample():
    # The weights of eleven men, the example in Shapiro and Wilk (1965): below the 1 % point of W.
    weights = [148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236]
    assert s.normality(weights) == pytest.approx(0.0067, abs=2e-4)
    generator = np.random.default_rng(2)
    assert (
        s.normality(generator.normal(size=30).tolist()) > 0.05
    )  # fixed seed; 5 % of seeds are below
    assert s.normality([1, 2]) is None
    assert s.normality([0.5] * 10) is None
