"""The checks that notebooks and Otter tests run: `run` by name, `CHECKS` for all of them."""

from collections.abc import Mapping
from typing import Any

from autograder.checks import (
    accuracy,
    arithmetic,
    attention,
    by_hand,
    class_plot,
    core,
    flow,
    flow_plots,
    forecast,
    functions,
    gradients,
    greedy,
    learning,
    outputs,
    parameters,
    plots,
    reactions,
    readout,
    recurrence,
    sequences,
    structure,
    translation,
)
from autograder.checks.core import Check, CheckFailed, CheckNotRun, Verdict

__all__ = ["CHECKS", "Check", "CheckFailed", "CheckNotRun", "Verdict", "run"]

MODULES = (
    arithmetic,
    functions,
    by_hand,
    outputs,
    parameters,
    structure,
    sequences,
    recurrence,
    readout,
    attention,
    gradients,
    learning,
    accuracy,
    forecast,
    translation,
    reactions,
    greedy,
    plots,
    class_plot,
    flow,
    flow_plots,
)

CHECKS: dict[str, Check] = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Check)
}


def run(where: str, check: str, settings: Mapping[str, Any], **objects: Any) -> None:
    """Measure and judge one check; the body of every test case.

    Args:
        where: "question.case", the case's place in grading.yml.
        check: name of the check, a key of `CHECKS`.
        settings: the check's settings from grading.yml, written in when the release was built.
        objects: the student's objects by the check's own names for them.

    Raises:
        CheckFailed: the answer is missing or wrong; the message says what was measured, what was
            expected, and where to look.
        CheckNotRun: the check could not be done, which is not the student's fault.
    """
    question, case = where.split(".")
    core.latest.pop((question, case), None)  # one that is interrupted has no verdict any more
    evidence = core.perform(CHECKS[check], settings, objects)
    if core._sink is not None:
        core._sink({"question": question, "case": case, "check": check, "evidence": evidence})
    decided = core.decide(CHECKS[check], settings, evidence)
    core.latest[question, case] = decided
    if decided.status == "not_run":
        raise CheckNotRun(str(decided))
    if decided.status != "passed":
        raise CheckFailed(str(decided))
