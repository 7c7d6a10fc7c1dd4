"""What holds for every rule: the reference agrees with the oracle, each slip fails and is told."""

import pytest
import torch

from autograder.checks.rules import RULES
from tests import (
    test_checks_rules_attention,
    test_checks_rules_convolution,
    test_checks_rules_recurrent,
    test_checks_rules_sequence_shapes,
)
from tests.rules import decided

MODULES = (
    test_checks_rules_attention,
    test_checks_rules_convolution,
    test_checks_rules_recurrent,
    test_checks_rules_sequence_shapes,
)
FUNCTIONS = {rule: function for m in MODULES for rule, function in m.FUNCTIONS.items()}
CASES = [(rule, case) for rule in FUNCTIONS for case in RULES[rule].cases]
SLIPS = [(rule, hint) for rule in FUNCTIONS for hint in RULES[rule].slips]


@pytest.fixture(autouse=True)
def _doubles():
    """As in the notebooks."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("rule", "case"), CASES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_reference_agrees_with_the_oracle(rule, case, seed):
    verdict = decided(rule, FUNCTIONS[rule], [case], seed)
    assert verdict.status == "passed", str(verdict)


@pytest.mark.parametrize(("rule", "hint"), SLIPS)
def test_every_slip_fails_with_its_own_hint(rule, hint):
    verdict = decided(rule, RULES[rule].slips[hint])
    assert verdict.status == "failed"
    assert verdict.hint == hint
