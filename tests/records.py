"""Small records of audits and calibrations, made by hand."""

from dataclasses import replace

from autograder.validity.record import (
    Audit,
    Calibrated,
    Calibration,
    Case,
    Made,
    Mutant,
    Sample,
    Unsteady,
    Variant,
)

MADE = Made("2026-11-30", "v1", "cpu", "A processor", "3.11.2", "2.14.1", 1)
CASES = [Case("size", "shape", "same_values", 1, False), Case("net", "reach", "reach", 0.5, True)]
GENERATED = "net-answer-1 constant: 1 -> 2"
SHIFTED = Unsteady("loop", "size.shape", {"passed": 3, "failed": 1})


def mutant(name="rounded", outcome="expected", written=True, **changed):
    """Written: should fail size.shape, and does; generated: one of net, and something failed."""
    seen = [] if outcome in ("survived", "equivalent") else ["size.shape"]
    idea, expected = ("Sizes are rounded.", ["size.shape"]) if written else (GENERATED, [])
    return replace(Mutant(name, written, idea, expected, seen, outcome), **changed)


RIGHT = Variant("loop", "Steps in a loop.", [], 4, [])
GOOD = Audit(
    "tiny", MADE, CASES,
    [mutant(), mutant("m1", "killed", written=False, failed=["net.reach"]),
     mutant("m2", "equivalent", written=False, idea="net-answer-1 sign: a | b", reason="Same.")],
    [replace(RIGHT, name="reference"), RIGHT], [], 61.2, 125.0,
)  # fmt: skip


def also(*mutants, audit=GOOD):
    """With further mutants."""
    return replace(audit, mutants=[*audit.mutants, *mutants])


OFF = {
    "survivor": also(mutant("missed", "survived")),
    "other check": also(mutant("astray", "other", failed=["net.reach"])),
    "stale": also(mutant("m3", "stale", written=False, reason="Rounding.")),
    "false fail": replace(GOOD, variants=[replace(RIGHT, failed=["net.reach"])]),
    "unsteady": replace(GOOD, variants=[replace(RIGHT, unsteady=[SHIFTED])]),
    "unexercised": replace(GOOD, unexercised=["net.reach"]),
}
"""The audit with one thing off, by its kind."""


def checked(threshold, *, mutant=True, right=(0.9, 0.91, 0.92, 0.93)):
    """A check with reference 0.90 to 0.93, a variant 0.01 above, a mutant at about 0.5."""
    samples = [
        Sample("reference", "reference", list(right)),
        Sample("loop", "variant", [0.91, 0.92, 0.93, 0.94]),
    ]
    if mutant:
        samples.append(Sample("rounded", "mutant", [0.5, 0.51, 0.52, 0.53]))
    return Calibrated("net", "accuracy", "smallest", True, threshold, samples)


def calibration(*checks, unstable=()):
    return Calibration("tiny", MADE, 0.01, [5, 6, 7, 8], 2, list(checks), list(unstable), [])
