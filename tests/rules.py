"""A function that a student could write, judged by `same_values` with a tolerance of its own."""

import json

from autograder.checks import CHECKS, core
from autograder.checks.rules import RULES


def decided(rule, function, cases=None, seed=11, tolerance=1e-9):
    """The verdict on a function, for the rule's cases, all if none are named."""
    settings = {"name": "answer", "rule": rule, "cases": list(cases or RULES[rule].cases),
                "seed": seed, "tolerance": tolerance}  # fmt: skip
    evidence = core.perform(CHECKS["same_values"], settings, {"function": function})
    assert len(json.dumps(evidence, allow_nan=False)) < 6000
    return core.decide(CHECKS["same_values"], settings, evidence)
