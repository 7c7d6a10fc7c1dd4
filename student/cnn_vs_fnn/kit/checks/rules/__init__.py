"""The tasks of functions that students write, by the names that grading.yml uses."""

from autograder.checks.rules import (
    counts,
    experiments,
    gates,
    influence,
    recurrent,
    sequences,
    shapes,
)
from autograder.checks.rules.rule import Rule

__all__ = ["RULES", "Rule"]

RULES: dict[str, Rule] = {
    **counts.RULES,
    **sequences.RULES,
    **recurrent.RULES,
    **shapes.RULES,
    **gates.RULES,
    **experiments.RULES,
    **influence.RULES,
}
