"""References and golden bank trained on a GPU: `pytest -m cuda`. Without a GPU these tests skip."""

import pytest
import torch

from tests.conftest import NAMES
from tests.test_golden import BANK, assert_as_expected, graded

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def attempts(built, grading, tmp_path_factory):
    """All notebooks of the bank, graded with the device of grading.yml set to cuda."""
    found = {}
    for name in NAMES:
        entries = [entry for entry in BANK if entry.assignment == name]
        found |= graded(entries, built(name), grading, tmp_path_factory.mktemp(name), "cuda")
    return found


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.full_name)
def test_the_verdicts_on_a_gpu_are_those_on_the_cpu(entry, attempts, grading):
    assert_as_expected(entry, *attempts[entry.full_name], grading)
