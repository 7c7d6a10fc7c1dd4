"""What ships in docs/validity: the page is that of the records, and the records are whole."""

import shutil
from operator import le

import pytest

from autograder.measured import QUANTITIES
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
def test_nothing_is_off_in_an_audit(name):
    assert troubles(audit(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_verdict_of_a_right_solution_changes_in_five_further_runs(name):
    for one in audit(name).variants:
        assert one.runs >= 5
        assert one.unsteady == []


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_is_of_the_bank_as_it_is(name):
    entries = bank.load(REPOSITORY / "tests", name)
    for kind, seen in (("mutants", audit(name).mutants), ("variants", audit(name).variants)):
        written = {e.name for e in entries if e.kind == kind}
        assert written <= {one.name for one in seen}


@pytest.mark.parametrize("name", NAMES)
def test_a_calibration_has_thirty_trainings_of_each_right_solution(name):
    found = calibration(name)
    assert len(found.seeds) >= 30
    for check in found.checks:
        right = [s for s in check.samples if s.kind != "mutant"]
        assert [s.kind for s in right].count("reference") == 1
        for solution in right:
            assert len(solution.values) == len(found.seeds)
            assert None not in solution.values
    for band in found.bands:
        assert len(band.lowest) == len(band.highest) == len(band.middle) > 1
        assert all(map(le, band.lowest, band.highest))


@pytest.mark.parametrize(
    ("name", "networks"),
    [("cnn_vs_fnn", {"cnn", "fnn"}), ("sequence_models", {"rnn", "lstm", "transformer"})],
)
def test_curves_of_the_exercises_have_bands(name, networks):
    bands = calibration(name).bands
    for quantity in QUANTITIES.values():
        assert {b.network for b in bands if b.quantity == quantity} == networks


@pytest.mark.parametrize("name", NAMES)
def test_a_calibrated_threshold_is_that_of_grading_yml(name, grading):
    for check in calibration(name).checks:
        question = grading.assignment(name).questions[check.question]
        settings = {**question.settings, **question.checks[check.case].settings}
        assert settings[check.setting] == check.threshold


def test_the_banks_are_as_large_as_they_should_be():
    entries = [e for name in NAMES for e in bank.load(REPOSITORY / "tests", name)]
    assert sum(e.kind == "mutants" for e in entries) >= 80
    assert sum(e.kind == "variants" for e in entries) >= 50
