"""What becomes of a gradient on its way back through time? Experiments of the student, run again.

Both experiments draw a network and its initial state from a seed, feed zeros, take the mean of the
squared last output as loss, and return the norm of the loss's gradient with respect to the initial
state. Lengths in steps; norms have no unit.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from autograder.checks.core import Check, Threshold, Verdict, call, number, verdict


def norm_of(function: Any, *arguments: Any, name: str) -> float | None:
    """What the student's experiment gives for some arguments: a number, or None."""
    result = call(function, *arguments, name=name)
    return number(result.detach() if hasattr(result, "detach") else result)


@dataclass(frozen=True)
class Vanishing:
    """The gradient's norm at a short and at a long length for each seed, and the first one again.

    Attributes:
        short: norms at the short length, one for each seed.
        long: norms at the long length.
        repeated: the norm at the short length for the first seed, from a second call.
    """

    short: list[float | None]
    long: list[float | None]
    repeated: float | None


def measure_vanishing(
    function: Any, *, name: str, lengths: list[int], seeds: list[int]
) -> Vanishing:
    """Call function(length, seed) at a short and a long length for each seed."""
    short, long = (
        [norm_of(function, length, seed, name=name) for seed in seeds] for length in lengths
    )
    return Vanishing(short, long, norm_of(function, lengths[0], seeds[0], name=name))


def judge_vanishing(
    seen: Vanishing, *, seeds: list[int], largest: float, largest_median: float, exceptions: int
) -> Verdict:
    """The gradient at the long length is a tiny share of that at the short one.

    Not for every seed: of 200,000 networks nn.RNN(1, 5) 0.03 % have a share over 1e-2, without
    biases 0.15 %, since a random matrix can happen to be large. With one exception allowed in ten
    seeds, a right solution that draws its networks in its own way fails with p = 2e-4 at most.
    """
    if not len(seen.short) == len(seen.long) == len(seeds):
        raise ValueError("not one norm for each seed and length")
    if fault := unusable([*seen.short, *seen.long]) or _undrawn(seen):
        return fault
    shares = [_share(b, a) or 0.0 for a, b in zip(seen.short, seen.long, strict=True)]
    over = sum(share > largest for share in shares)
    return verdict(
        over <= exceptions and median(shares) <= largest_median,
        f"At the long length {median(shares):.1e} of the gradient is left (median; at most "
        f"{largest_median:.0e}), and {over} of {len(seeds)} networks keep more than {largest:.0e} "
        f"(at most {exceptions}).",
        "Differentiate the loss of the last output alone, with respect to the initial state h0: "
        "the inputs of the last steps, and losses of earlier steps, don't fade.",
    )


def _undrawn(seen: Vanishing) -> Verdict | None:
    """A failed verdict if the seed doesn't decide what is drawn."""
    first, again = seen.short[0] or 0.0, seen.repeated or 0.0
    if abs(again / first - 1) > 1e-6:
        return Verdict(
            "failed",
            "Two calls with the same seed give different norms.",
            "Call torch.manual_seed(seed) before network and initial state are drawn.",
        )
    if len(seen.short) > 1 and len(set(seen.short)) == 1:
        return Verdict(
            "failed",
            f"All {len(seen.short)} seeds give the same norm.",
            "Use the argument: torch.manual_seed(seed).",
        )
    return None


def unusable(norms: list[float | None]) -> Verdict | None:
    """A failed verdict if a norm is not a finite number above 0."""
    if any(norm is None for norm in norms):
        return Verdict(
            "failed", "A norm is not a finite number.", "Return a float: gradient.norm().item()."
        )
    if any(norm is not None and norm < 0 for norm in norms):
        return Verdict("failed", "A norm is negative.", "Use gradient.norm(), not the sum.")
    if zeros := norms.count(0):
        return Verdict(
            "failed",
            f"{zeros} of {len(norms)} norms are exactly 0.",
            "A norm squares its values, so that in float32 it is 0 for gradients below 1e-23: stay "
            "with float64, the default type of this notebook. If it is float64: does the gradient "
            "reach the initial state?",
        )
    return None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


@dataclass(frozen=True)
class Remembering:
    """For each seed the gradient's norms, one for each bias, at a short and at a long length."""

    short: list[list[float | None]]
    long: list[list[float | None]]


def measure_remembering(
    function: Any, *, name: str, lengths: list[int], biases: list[float], seeds: list[int]
) -> Remembering:
    """Call function(length, bias, seed) at a short and a long length for all biases and seeds."""
    short, long = (
        [[norm_of(function, n, b, seed, name=name) for b in biases] for seed in seeds]
        for n in lengths
    )
    return Remembering(short, long)


def judge_remembering(
    seen: Remembering, *, biases: list[float], seeds: list[int], smallest_gain: float, needed: int
) -> Verdict:
    """A forget bias keeps the gradient alive, in `needed` of the networks.

    `biases` begin with 0. A network follows if its gradient at the long length grows with the
    first three biases, and if with each bias its share (long over short) is `smallest_gain` times
    that of bias 0. Of 60,000 networks nn.LSTM(1, 5) 0.9 % don't (biases 0 to 2, gain 1000), so that
    a right solution that draws in its own way misses 8 of 10 with p = 2e-4.
    """
    shape = [len(biases)] * len(seeds)
    if [len(r) for r in seen.short] != shape or [len(r) for r in seen.long] != shape:
        raise ValueError("not one norm for each seed and bias")
    if fault := unusable([norm for row in (*seen.short, *seen.long) for norm in row]):
        return fault
    rows = list(zip(seen.short, seen.long, strict=True))
    follows = _following(seen, smallest_gain=smallest_gain)
    shares = [
        median(_share(long[k], short[k]) or 0.0 for short, long in rows) for k in range(len(biases))
    ]
    words = ", ".join(f"{b:g}: {share:.0e}" for b, share in zip(biases, shares, strict=True))
    return verdict(
        follows >= needed,
        f"Share of the gradient that is left at the long length, by bias: {words} (medians). It "
        f"grows as it must in {follows} of {len(seeds)} networks (at least {needed}).",
        "Add the bias to the forget gate, take the loss of the last output alone, and compare one "
        "network with itself: same seed, same weights.",
    )


def _following(seen: Remembering, *, smallest_gain: float) -> int:
    """How many networks follow."""
    rows = zip(seen.short, seen.long, strict=True)
    return sum(_follows(short, long, smallest_gain) for short, long in rows)


def _follows(short: list[Any], long: list[Any], gain: float) -> bool:
    """`short` and `long` hold the positive norms of one network, one for each bias."""
    none, *shares = (b / a for a, b in zip(short, long, strict=True))
    return long[0] < long[1] < long[2] and all(share >= gain * none for share in shares)


@dataclass(frozen=True)
class ClosedGate:
    """For each seed the gradient's norm after one step, with a closed gate and with bias 0."""

    closed: list[float | None]
    open: list[float | None]


def measure_closed_gate(
    function: Any, *, name: str, closing: float, seeds: list[int]
) -> ClosedGate:
    """Call function(1, bias, seed) with the bias `closing` and with 0 for each seed."""
    closed, opened = (
        [norm_of(function, 1, bias, seed, name=name) for seed in seeds] for bias in (closing, 0.0)
    )
    return ClosedGate(closed, opened)


def _kept(seen: ClosedGate) -> float | None:
    """The largest share that is left behind a closed gate; None where one is no share."""
    shares = [_share(c, o) for c, o in zip(seen.closed, seen.open, strict=True)]
    if any(share is None or share < 0 for share in shares):
        return None
    return max(share or 0.0 for share in shares)


def judge_closed_gate(
    seen: ClosedGate, *, closing: float, seeds: list[int], largest: float
) -> Verdict:
    """Behind a closed forget gate nothing is left of the gradient with respect to c0.

    With bias -20 and 300,000 networks nn.LSTM(1, 5) a right solution keeps 1e-15 at most, one that
    changes a single bias vector 1e-10 at least, and the gradient with respect to h0 1e-2.
    """
    if not len(seen.closed) == len(seen.open) == len(seeds):
        raise ValueError("not one norm for each seed")
    if fault := unusable(seen.open):
        return fault
    worst = _kept(seen)
    if worst is None:
        return Verdict("failed", "A norm is not a finite number.", "Look for a division by zero.")
    return verdict(
        worst <= largest,
        f"With a forget bias of {closing:g} up to {worst:.1e} of the gradient is left after one "
        f"step (at most {largest:.0e}).",
        "A closed forget gate cuts the way from the output back to c0. Add the bias to the forget "
        "gate of both vectors, and differentiate with respect to c0, not to h0.",
    )


vanishing = Check(measure_vanishing, judge_vanishing)
remembering = Check(
    measure_remembering, judge_remembering, Threshold("needed", _following, at_least=True)
)
closed_gate = Check(
    measure_closed_gate, judge_closed_gate, Threshold("largest", _kept, at_least=False)
)
