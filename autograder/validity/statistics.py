"""What the numbers of n trainings say of one more training, by a normal model and by counting.

The normal model takes the numbers for independent draws of one normal distribution whose mean and
standard deviation aren't known. Then (next - mean) / (sd · sqrt(1 + 1/n)) is Student's t with n - 1
degrees of freedom: Hahn and Meeker, Statistical Intervals (Wiley, 1991), chapter 4; Geisser,
Predictive Inference (Chapman and Hall, 1993). The probability is over both, the n trainings and the
next one: of many calibrations, each followed by one training, that share misses its bound.

What this does not say: a probability far below 1/(n + 1) is about a tail in which no training lies,
so it rests on the normal shape alone. 30 trainings can contradict that shape (see `normality`), but
not confirm it out there. A network that sometimes doesn't learn at all has no such shape.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from scipy import stats


def lower_bound(values: Sequence[float], probability: float) -> float:
    """The number that one more value falls below with the given probability (normal model).

    Without any spread among the values it is the value itself, since nothing is known of a spread.

    Raises:
        ValueError: there are fewer than two values.
    """
    return mean(values) - _reach(values, probability)


def upper_bound(values: Sequence[float], probability: float) -> float:
    """The number that one more value exceeds with the given probability; see `lower_bound`."""
    return mean(values) + _reach(values, probability)


def chance_below(values: Sequence[float], threshold: float) -> float:
    """Probability that one more value falls below a threshold (normal model).

    Without any spread among the values it is 0 or 1.

    Raises:
        ValueError: there are fewer than two values.
    """
    spread, distance = _spread(values), threshold - mean(values)
    if spread == 0:
        return float(distance > 0)
    return float(stats.t.cdf(distance / spread, len(values) - 1))


def chance_above(values: Sequence[float], threshold: float) -> float:
    """Probability that one more value exceeds a threshold; see `chance_below`."""
    return chance_below([-value for value in values], -threshold)


def failure_share(failures: int, n: int, confidence: float = 0.95) -> float:
    """Upper limit of the share of trainings that fail, when so many of n did.

    One-sided and exact: Clopper and Pearson, Biometrika 26 (1934), 404-413. With a larger share
    there would be as few failures with a probability of at most 1 - confidence.

    Raises:
        ValueError: n is 0, or there are more failures than trainings.
    """
    counted = stats.binomtest(failures, n, alternative="less")
    return float(counted.proportion_ci(confidence, method="exact").high)


def normality(values: Sequence[float]) -> float | None:
    """p-value of the hypothesis that the values are normal; None for fewer than 3, or all equal.

    Shapiro and Wilk, Biometrika 52 (1965), 591-611. A small one contradicts the normal model; a
    large one doesn't confirm it.
    """
    if len(values) < 3 or len(set(values)) == 1:
        return None
    return float(stats.shapiro(values).pvalue)


def _reach(values: Sequence[float], probability: float) -> float:
    """How far a bound is from the mean."""
    return _spread(values) * float(stats.t.isf(probability, len(values) - 1))


def _spread(values: Sequence[float]) -> float:
    """Standard deviation of the next value from the mean of these."""
    if len(values) < 2:
        raise ValueError(f"a spread needs at least 2 values, not {len(values)}")
    return stdev(values) * sqrt(1 + 1 / len(values))
