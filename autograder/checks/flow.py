"""What becomes of a gradient on its way back through time? Experiments of the student, run again.

Both experiments draw a network and its initial state from a seed, feed zeros, take the mean of the
squared last output as loss, and return the norm of the loss's gradient with respect to the initial
state. Lengths in steps; norms have no unit.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

from autograder.checks.core import Check, Verdict, call, number, verdict


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


def judge_vanishing(  # noqa: PLR0913 - one limit each for single seeds and for their median
    seen: Vanishing,
    *,
    lengths: list[int],
    seeds: list[int],
    largest: float,
    largest_median: float,
    exceptions: int,
) -> Verdict:
    """The gradient at the long length is a tiny share of that at the short one.

    Not for every seed: of 200,000 networks nn.RNN(1, 5) 0.03 % have a share over 1e-2, without
    biases 0.15 %, since a random matrix can happen to be large. With one exception allowed in ten
    seeds, a right solution that draws its networks in its own way fails with p = 1e-4 at most.
    """
    if not len(seen.short) == len(seen.long) == len(seeds):
        raise ValueError("not one norm for each seed and length")
    if fault := unusable([*seen.short, *seen.long]) or _undrawn(seen):
        return fault
    shares = [b / a for a, b in zip(seen.short, seen.long, strict=True) if a and b is not None]
    over = sum(share > largest for share in shares)
    near, far = lengths
    return verdict(
        over <= exceptions and median(shares) <= largest_median,
        f"From length {near} to {far} the gradient shrinks to {median(shares):.1e} (median; at most"
        f" {largest_median:.0e}), and {over} of {len(seeds)} networks keep more than {largest:.0e} "
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
            "A float32 below 1e-45 becomes 0: stay with float64, the default type of this notebook."
            " If it is float64: does the gradient reach the initial state?",
        )
    return None


@dataclass(frozen=True)
class Remembering:
    """Norms by seed and bias, at a short and at a long length, and with a closed gate.

    Attributes:
        short: for each seed the norms at the short length, one for each bias.
        long: the same at the long length.
        closed: for each seed the norm after one step with the closed gate.
        open: for each seed the norm after one step with bias 0.
    """

    short: list[list[float | None]]
    long: list[list[float | None]]
    closed: list[float | None]
    open: list[float | None]


def measure_remembering(  # noqa: PLR0913 - lengths, biases and seeds span the experiment
    function: Any,
    *,
    name: str,
    lengths: list[int],
    biases: list[float],
    closing: float,
    seeds: list[int],
) -> Remembering:
    """Call function(length, bias, seed) at two lengths for all biases, and once at `closing`."""
    short, long = (
        [[norm_of(function, n, b, seed, name=name) for b in biases] for seed in seeds]
        for n in lengths
    )
    closed, opened = (
        [norm_of(function, 1, b, seed, name=name) for seed in seeds] for b in (closing, 0.0)
    )
    return Remembering(short, long, closed, opened)


def judge_remembering(  # noqa: PLR0913 - two findings, each with its limit
    seen: Remembering,
    *,
    lengths: list[int],
    biases: list[float],
    seeds: list[int],
    smallest_gain: float,
    needed: int,
    largest_closed: float,
) -> Verdict:
    """A forget bias keeps the gradient alive, and a closed forget gate ends it.

    `biases` begin with 0. A network follows if its gradient at the long length grows with the
    first three biases, and if with each bias its share (long over short) is `smallest_gain` times
    that of bias 0. Of 60,000 networks nn.LSTM(1, 5) 0.9 % don't, so that a right solution that
    draws in its own way fails "8 of 10" with p = 1e-4. Behind a closed gate (bias -20) a right
    solution keeps at most 1e-15 after one step, one that changes a single bias vector 1e-10.
    """
    shape = [len(biases)] * len(seeds)
    if [len(r) for r in seen.short] != shape or [len(r) for r in seen.long] != shape:
        raise ValueError("not one norm for each seed and bias")
    if not len(seen.closed) == len(seen.open) == len(seeds):
        raise ValueError("not one norm for each seed")
    if fault := unusable([n for row in (*seen.short, *seen.long, seen.open) for n in row]):
        return fault
    follows = sum(_follows(a, b, smallest_gain) for a, b in zip(seen.short, seen.long, strict=True))
    if follows < needed:
        return Verdict("failed", _shares(seen, lengths, biases), GROWS.format(follows, len(seeds)))
    leaks = [
        share
        for c, o in zip(seen.closed, seen.open, strict=True)
        if (share := _share(c, o)) is None or not 0 <= share <= largest_closed
    ]
    return verdict(
        not leaks,
        f"{_shares(seen, lengths, biases)} Closing the forget gate leaves more than "
        f"{largest_closed:.0e} of the gradient in {len(leaks)} of {len(seeds)} networks "
        "(allowed: 0).",
        "A large negative forget bias must cut the path from the last output to c0: add the bias "
        "to both vectors, and differentiate with respect to c0, not h0.",
    )


GROWS = (
    "The share must grow with the bias (it does in {} of {} networks): does the bias go into the "
    "forget gate, and is one network compared with itself (same seed, same weights)?"
)


def _follows(short: list[Any], long: list[Any], gain: float) -> bool:
    """`short` and `long` hold the positive norms of one network, one for each bias."""
    none, *shares = (b / a for a, b in zip(short, long, strict=True))
    return long[0] < long[1] < long[2] and all(share >= gain * none for share in shares)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


def _shares(seen: Remembering, lengths: list[int], biases: list[float]) -> str:
    """Median shares by bias, in words."""
    rows = list(zip(seen.short, seen.long, strict=True))
    shares = [
        median(_share(long[k], short[k]) or 0.0 for short, long in rows) for k in range(len(biases))
    ]
    words = ", ".join(f"{b:g}: {share:.0e}" for b, share in zip(biases, shares, strict=True))
    return f"Share of the gradient at length {lengths[0]} that is left at {lengths[1]}: {words}."


vanishing = Check(measure_vanishing, judge_vanishing)
remembering = Check(measure_remembering, judge_remembering)
