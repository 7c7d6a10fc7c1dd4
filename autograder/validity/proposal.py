"""Where a check's threshold lies among right and wrong solutions, and where it should lie."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from math import exp, log
from statistics import mean, stdev
from typing import Any

import yaml

from autograder.config import Assignment, ConfigError
from autograder.validity.record import Calibrated, Calibration, Sample
from autograder.validity.statistics import (
    chance_above,
    chance_below,
    failure_share,
    lower_bound,
    normality,
    upper_bound,
)

Place = tuple[str, str, str]
"""Question, case and setting: what a threshold of an assignment is called."""
Keys = tuple[str, ...]
"""The keys of grading.yml that lead to a value."""
NUMBERS = {"tag:yaml.org,2002:float", "tag:yaml.org,2002:int"}


@dataclass(frozen=True)
class Assessment:
    """What the trainings say of a check's threshold. "Worst" is nearest to failing, or beyond.

    Numbers that a training didn't give are not part of the normal model; they count as failures.

    Attributes:
        n: numbers of the right solution `bound_of`; also `mean` and `sd` are its.
        extreme: the worst number of any right solution.
        bound: the worst predictive bound of right solutions, each by itself.
        bound_of: the solution that it is of.
        bounds: each solution's bound, in the order of the samples: on the side of failing for right
            ones, of passing for wrong ones. None for fewer than two numbers.
        failures: trainings of right solutions that fail the present threshold.
        trainings: all trainings of right solutions.
        share: 95 % upper limit of the share of right trainings that fail (Clopper and Pearson).
        chance: the largest probability, by the normal model, that one more training of a right
            solution fails the present threshold.
        mutant_bound: the bound that comes nearest to passing, of wrong solutions; None if none of
            them has a bound.
        mutant: the solution that it is of, or "".
        normal: smallest Shapiro-Wilk p-value of right solutions. Of m normal samples the smallest
            is below 0.05 / m with probability 0.05 at most (Bonferroni), so compare it with that.
        between: the threshold fails no right solution up to its bound, and no wrong one passes up
            to its.
        separable: there is room between both bounds; also if there is no wrong one.
        proposal: the threshold to set, see `assess`.
    """

    n: int
    mean: float
    sd: float
    extreme: float
    bound: float
    bound_of: str
    bounds: tuple[float | None, ...]
    failures: int
    trainings: int
    share: float
    chance: float
    mutant_bound: float | None
    mutant: str
    normal: float | None
    between: bool
    separable: bool
    proposal: float


def assess(check: Calibrated, probability: float) -> Assessment:
    """See where the threshold lies, and propose one.

    A threshold that lies between the bounds of right and wrong solutions is kept. Else, where there
    is room between them, the proposal is the number with the fewest digits in the half of the gap
    that is nearer to the right ones' bound, and of those the nearest to it. Else it is that bound,
    rounded to 2 decimals or 2 significant digits, since a right answer marked wrong weighs more
    than a wrong one marked right. Rounding is always towards passing. Without room, a bound that is
    not positive is no reason to move a positive threshold: then the normal model has left the range
    of the quantity (a share, a ratio), and what it has to say.

    Args:
        check: with at least two numbers from some right solution.
        probability: with which one more training of a solution lies beyond its bound, 0 to 1.

    Raises:
        ValueError: no right solution gave two numbers.
    """
    sign = 1 if check.at_least else -1
    model = _Model(check.magnitude)
    all_seen = [_seen(sample, sign, model, probability) for sample in check.samples]
    right, wrong = ([s for s in all_seen if s.right is kind] for kind in (True, False))
    worst = min((s for s in right if s.bound is not None), key=_Seen.order, default=None)
    mutant = max((s for s in wrong if s.bound is not None), key=_Seen.order, default=None)
    if worst is None or worst.bound is None:
        raise ValueError(f"{check.question}.{check.case}: no right solution gave two numbers")
    now, high = sign * check.threshold, mutant.bound if mutant else None
    low = min(worst.bound, *(value for seen in right for value in seen.values))
    failures = sum(s.missing + sum(v < now for v in s.values) for s in right)
    trainings = sum(s.missing + len(s.values) for s in right)
    numbers = [[sign * value for value in s.values] for s in right if s.values]
    normal = [p for values in numbers if (p := normality(model.scaled(values))) is not None]
    return Assessment(
        n=len(worst.values),
        mean=sign * mean(worst.values) + 0.0,  # never -0
        sd=stdev(worst.values),
        extreme=sign * min(v for s in right for v in s.values) + 0.0,
        bound=sign * worst.bound + 0.0,
        bound_of=worst.name,
        bounds=tuple(None if s.bound is None else sign * s.bound + 0.0 for s in all_seen),
        failures=failures,
        trainings=trainings,
        share=failure_share(failures, trainings),
        chance=max(
            model.chance(values, check.threshold, at_least=check.at_least)
            for values in numbers
            if len(values) > 1
        ),
        mutant_bound=None if high is None else sign * high + 0.0,
        mutant=mutant.name if mutant else "",
        normal=min(normal, default=None),
        between=_between(now, low, high),
        separable=high is None or high < low,
        proposal=sign * _proposal(now, low, high, check) + 0.0,
    )


@dataclass(frozen=True)
class _Seen:
    """A solution's numbers, mirrored where needed: larger ones pass."""

    name: str
    right: bool
    values: list[float]
    missing: int
    bound: float | None

    def order(self) -> tuple[float, str]:
        """By bound, then by name; only for those with a bound."""
        assert self.bound is not None
        return self.bound, self.name


def _seen(sample: Sample, sign: int, model: "_Model", probability: float) -> _Seen:
    known = [value for value in sample.values if value is not None]
    right, missing = sample.kind != "mutant", len(sample.values) - len(known)
    bound_on = lower_bound if right == (sign > 0) else upper_bound
    bound = sign * model.bound(known, bound_on, probability) if len(known) > 1 else None
    if len(known) == 1 and not right:
        bound = sign * known[0]  # too few for a bound, but it is there
    return _Seen(sample.name, right, [sign * value for value in known], missing, bound)


@dataclass(frozen=True)
class _Model:
    """What is taken for normal: numbers, or, for a magnitude, their logarithms.

    Numbers of which one is not positive are taken as they are.
    """

    magnitude: bool

    def scaled(self, values: Sequence[float]) -> list[float]:
        """The numbers that are taken for normal."""
        return [log(v) for v in values] if self._takes_logarithms(values) else list(values)

    def bound(
        self, values: Sequence[float], on: Callable[[Sequence[float], float], float], p: float
    ) -> float:
        """`lower_bound` or `upper_bound` of the numbers."""
        found = on(self.scaled(values), p)
        return exp(found) if self._takes_logarithms(values) else found

    def chance(self, values: Sequence[float], threshold: float, *, at_least: bool) -> float:
        """Probability that one more number is beyond the threshold."""
        if self._takes_logarithms(values):
            if threshold <= 0:
                return 0.0 if at_least else 1.0
            threshold = log(threshold)
        return (chance_below if at_least else chance_above)(self.scaled(values), threshold)

    def _takes_logarithms(self, values: Sequence[float]) -> bool:
        return self.magnitude and min(values) > 0


def _between(now: float, low: float, high: float | None) -> bool:
    return now <= low and (high is None or high < now)


def _proposal(now: float, low: float, high: float | None, check: Calibrated) -> float:
    """The threshold to set; all mirrored where needed, larger numbers pass."""
    if _between(now, low, high):
        return now
    if high is not None and high < low:
        return _coarsest((high + low) / 2, low)
    if check.at_least and low <= 0 < now:
        return now
    bound = Decimal(repr(low))
    return _floor(bound, min(-2, bound.adjusted() - 1))


def _coarsest(above: float, most: float) -> float:
    """The largest of the numbers with the fewest digits in the interval (above, most]."""
    bound = Decimal(repr(most))
    places = bound.adjusted() + 1
    while (rounded := _floor(bound, places)) <= above:
        places -= 1
    return rounded


def _floor(number: Decimal, places: int) -> float:
    """Rounded down to a multiple of 10^places."""
    return float(number.quantize(Decimal((0, (1,), places)), ROUND_FLOOR))


def changes(assignment: Assignment, found: Calibration) -> dict[Place, float]:
    """The thresholds to change, each to its proposal.

    One in a question's `settings` is shared: of the proposals of the checks that were calibrated,
    those to keep it included, the most lenient one counts for all of them.
    """
    groups: dict[Place, list[tuple[Calibrated, float]]] = defaultdict(list)
    for check in found.checks:
        own = check.setting in assignment.questions[check.question].checks[check.case].settings
        group = check.question, check.case if own else "", check.setting
        groups[group].append((check, assess(check, found.probability).proposal))
    changed: dict[Place, float] = {}
    for alike in groups.values():
        choose = min if alike[0][0].at_least else max
        value = choose(proposal for _, proposal in alike)
        changed |= {_place(check): value for check, _ in alike if value != check.threshold}
    return changed


def _place(check: Calibrated) -> Place:
    return check.question, check.case, check.setting


def apply(text: str, assignment: str, changes: Mapping[Place, float]) -> str:
    """The text of grading.yml with thresholds replaced, and every other character as it was.

    A threshold stands at its check, or else in the `settings` of its question.

    Args:
        text: of grading.yml, as it is.
        assignment: name of the assignment that all changes are in.
        changes: the new thresholds.

    Raises:
        ConfigError: a threshold is not written there as a plain number, but by an alias or a merge
            key; other values would change with it; or two changes of one number disagree.
    """
    tree, before = yaml.compose(text, Loader=yaml.SafeLoader), _leaves(yaml.safe_load(text))
    wanted: dict[Keys, float] = {}
    for place, value in changes.items():
        keys = _keys(before, assignment, place)
        if wanted.setdefault(keys, value) != value:
            raise _refused(keys, f"asked to be both {wanted[keys]} and {value}")
    changed = text
    spans = {keys: _span(text, tree, keys) for keys in wanted}
    for keys in sorted(spans, key=spans.__getitem__, reverse=True):  # so that earlier spans stay
        start, end = spans[keys]
        changed = changed[:start] + _written(wanted[keys]) + changed[end:]
    after, expected = _leaves(yaml.safe_load(changed)), before | wanted
    for keys in before:
        if after.get(keys) != expected[keys]:
            raise _refused(keys, "would have changed as well, for it refers to what was changed")
    return changed


def _leaves(tree: Any, keys: Keys = ()) -> dict[Keys, Any]:
    """All that is no mapping, by its keys; what aliases and merge keys bring, at each place."""
    if not isinstance(tree, dict):
        return {keys: tree}
    return {k: v for key, part in tree.items() for k, v in _leaves(part, (*keys, key)).items()}


def _keys(leaves: Mapping[Keys, Any], assignment: str, place: Place) -> Keys:
    question, case, setting = place
    start = ("assignments", assignment, "questions", question)
    own, shared = (*start, "checks", case, setting), (*start, "settings", setting)
    return own if own in leaves else shared


def _span(text: str, tree: Any, keys: Keys) -> tuple[int, int]:
    """Where the number at the end of keys begins and ends in the text."""
    node = tree
    for key in keys:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = [(name, value) for name, value in pairs if name.value == key]
        if not found:
            raise _refused(keys, "not written there")
        name, node = found[-1]
        if node.start_mark.index < name.end_mark.index:
            raise _refused(keys, "written elsewhere, an alias stands there")
    start, end = node.start_mark.index, node.end_mark.index
    if node.tag not in NUMBERS or text[start:end] != node.value:
        raise _refused(keys, "not a plain number")
    return start, end


def _written(value: float) -> str:
    """A number as YAML has it, for which 1e-05 is text and 1.0e-05 a number."""
    written: str = yaml.safe_dump(int(value) if float(value).is_integer() else value)
    return written.splitlines()[0]


def _refused(keys: Keys, reason: str) -> ConfigError:
    return ConfigError(f"grading.yml: {'.'.join(map(str, keys))}: {reason}. Change it by hand.")
