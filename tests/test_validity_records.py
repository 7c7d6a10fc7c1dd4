"""What ships in docs/validity: the page is that of the records, and the records are whole."""

import shutil

import pytest

from autograder.validity import bank, page, record
from autograder.validity.record import Audit, Calibration
from autograder.validity.summary import troubles
from tests.conftest import NAMES, REPOSITORY

FOLDER = REPOSITORY / "docs" / "validity"


def audit(name):
    return record.read(Audit, FOLDER / f"{name}-audit.json")


def calibration(name):
    return record.read(Calibration, FOLDER / f"{name}-calibration-cpu.json")


def test_the_page_was_made_of_the_records(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "validity")
    made = page.write_validity(tmp_path / "validity")
    assert made.read_text(encoding="utf-8") == FOLDER.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_has_no_survivor_no_false_fail_and_five_further_runs(name):
    found = audit(name)
    assert troubles(found) == []
    assert all(variant.runs >= 5 for variant in found.variants)


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_is_of_the_bank_as_it_is(name):
    entries = bank.load(REPOSITORY / "tests", name)
    for kind, seen in (("mutants", audit(name).mutants), ("variants", audit(name).variants)):
        written = {e.name for e in entries if e.kind == kind}
        assert written <= {one.name for one in seen}


@pytest.mark.parametrize("name", NAMES)
def test_a_calibration_has_thirty_trainings_of_the_reference(name):
    found = calibration(name)
    assert len(found.seeds) >= 30
    for check in found.checks:
        (reference,) = [s for s in check.samples if s.kind == "reference"]
        assert len(reference.values) == len(found.seeds)
        assert None not in reference.values


@pytest.mark.parametrize("name", NAMES)
def test_a_calibrated_threshold_is_that_of_grading_yml(name, grading):
    for check in calibration(name).checks:
        question = grading.assignment(name).questions[check.question]
        settings = {**question.settings, **question.checks[check.case].settings}
        assert settings[check.setting] == check.threshold


def test_the_banks_are_as_large_as_they_should_be():
    audits = [audit(name) for name in NAMES]
    assert sum(m.written for a in audits for m in a.mutants) >= 80
    assert sum(len(a.variants) - 1 for a in audits) >= 50
