"""Is a trained forecaster better than the naive forecast, and was it trained on the past alone?

The forecasts are evidence; the values that really came are drawn from the seed by the judging half.
Shapes: series (S,), windows (N, W, 1), targets and forecasts (N, 1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograder import data, training
from autograder.checks.core import Check, Stop, Threshold, Verdict, number, require, verdict
from autograder.checks.models import forward
from autograder.checks.trained import trained

DIGITS = 6  # kept of a forecast: the evidence stays small, and errors are a thousand times larger


def _pairs(steps: int, seed: int, first: int, width: int) -> tuple[Tensor, Tensor]:
    """All windows of the series, and the values after them."""
    series = data.oscillation(steps, seed, first)
    return series.unfold(0, width, 1)[:-1, :, None], series[width:, None]


@dataclass(frozen=True)
class Forecasts:
    """A forecast for each of the last values; None where it is not finite."""

    values: list[float | None]


def measure_forecast(  # noqa: PLR0913 - the series has four settings
    model: Any, *, name: str, seed: int, first: int, steps: int, width: int, held_out: int
) -> Forecasts:
    """Forecast each of the last `held_out` values from the `width` values before it."""
    inputs, _ = _pairs(steps, seed, first, width)
    with torch.no_grad():
        forecasts = forward(trained(model, name), inputs[-held_out:].clone(), name)
    if forecasts.shape != (held_out, 1):
        raise Stop(
            f"{name} gives shape {tuple(forecasts.shape)} for {held_out} windows.",
            f"Mend the shape first: one forecast for each window, ({held_out}, 1).",
        )
    return Forecasts([_short(value) for value in forecasts.flatten().tolist()])


def _short(value: float) -> float | None:
    finite = number(value)
    return None if finite is None else float(f"{finite:.{DIGITS}g}")


def _errors(
    seen: Forecasts, series: tuple[int, int, int, int], held_out: int
) -> tuple[float, float] | None:
    """Errors of these and of the naive forecasts; None where a forecast is not finite.

    `series` is what `_pairs` takes.
    """
    if len(seen.values) != held_out:
        raise ValueError("not one forecast a value")
    values = [value for value in seen.values if value is not None]
    if len(values) < held_out:
        return None
    inputs, targets = (part[-held_out:] for part in _pairs(*series))
    forecasts = torch.tensor(values, dtype=torch.float64)[:, None]
    return _rmse(forecasts, targets), _rmse(inputs[:, -1], targets)


def _ratio(  # noqa: PLR0913 - as above
    seen: Forecasts, *, seed: int, first: int, steps: int, width: int, held_out: int
) -> float | None:
    errors = _errors(seen, (steps, seed, first, width), held_out)
    return errors[0] / errors[1] if errors else None


def judge_forecast(  # noqa: PLR0913 - as above
    seen: Forecasts,
    *,
    seed: int,
    first: int,
    steps: int,
    width: int,
    held_out: int,
    largest_ratio: float,
) -> Verdict:
    """The error is at most `largest_ratio` of that of the last value taken as forecast."""
    errors = _errors(seen, (steps, seed, first, width), held_out)
    if errors is None:
        return Verdict("failed", "The forecasts are not finite.", "Look for a division by zero.")
    error, naive = errors
    ratio = error / naive
    return verdict(
        ratio <= largest_ratio,
        f"Error over {held_out} values: {error:.3g}; of the naive forecast: {naive:.3g}. The ratio "
        f"is {ratio:.2f} (at most {largest_ratio:g}).",
        _why(ratio),
    )


def _rmse(forecasts: Tensor, targets: Tensor) -> float:
    return float((forecasts.double() - targets.double()).square().mean().sqrt())


def _why(ratio: float) -> str:
    """Where to look, by how large the error is."""
    if 0.9 <= ratio <= 1.1:
        return (
            "That is as good as repeating the last value: do the training targets stand in their "
            "windows already, or does the network see the last value alone?"
        )
    return (
        "Make the network, then train it once by the given recipe on the training windows; look "
        "at the loss of the last epochs."
    )


@dataclass(frozen=True)
class TrainedOn:
    """Pairs that were trained on; of these different ones, past ones, and held-out ones."""

    samples: int
    different: int
    past: int
    later: int


def measure_past_only(  # noqa: PLR0913 - as above
    history: Any, *, name: str, seed: int, first: int, steps: int, width: int, held_out: int
) -> TrainedOn:
    """Compare finger prints of the pairs that were trained on with those of the given series."""
    if not isinstance(require(history, name), training.Regression):
        raise Stop(
            f"{name} is a {type(history).__name__}, not the record that fit_values returns.",
            f"Write {name} = fit_values(…).",
        )
    seen = list(history.fingerprints)
    marks = training.pair_fingerprints(*_pairs(steps, seed, first, width))
    past, later = set(marks[:-held_out]), set(marks[-held_out:])
    return TrainedOn(
        len(seen), len(set(seen)), sum(m in past for m in seen), sum(m in later for m in seen)
    )


def judge_past_only(seen: TrainedOn, *, steps: int, width: int, held_out: int) -> Verdict:
    """Every pair is one of the given series, with a target before the held-out part, used once."""
    counts = (seen.samples, seen.different, seen.past, seen.later)
    if min(counts) < 0 or max(seen.different, seen.past + seen.later) > seen.samples:
        raise ValueError("counts that can't be")
    faults = list(_foreign(seen))
    known = steps - held_out - width
    return verdict(
        not faults and seen.samples > 0,
        " ".join(faults) or f"Trained on {seen.past:,} of the {known:,} pairs of the past.",
        "Train on the first two of the four tensors that split_windows returns, as they are.",
    )


def _foreign(seen: TrainedOn) -> Iterator[str]:
    if seen.later:
        yield (
            f"{seen.later:,} of {seen.samples:,} training targets are held-out values: what the "
            "forecaster is tested on, it has seen."
        )
    if others := seen.samples - seen.past - seen.later:
        yield f"{others:,} of {seen.samples:,} training pairs are not pairs of the given series."
    if repeated := seen.samples - seen.different:
        yield f"{repeated:,} training pairs are there more than once."


forecast = Check(
    measure_forecast, judge_forecast, Threshold("largest_ratio", _ratio, at_least=False)
)
past_only = Check(measure_past_only, judge_past_only)
