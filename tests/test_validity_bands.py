"""Bands of the reference's trainings, from made-up evidence."""

import pytest

from autograder.validity.calibration import bands


def learned(case, losses):
    evidence = {"guessing": 2.3, "losses": losses, "unchanged": [], "recorded": 0.9, "now": 0.9}
    return {"question": "training", "case": case, "check": "learned", "evidence": evidence}


@pytest.fixture
def assignment(grading):
    return grading.assignment("cnn_vs_fnn")


def test_a_band_holds_every_training(assignment):
    losses = [[2.0, 0.5], [1.0, 0.7], [1.5, 0.1]]
    (band,) = bands(assignment, [[learned("cnn_learned", one)] for one in losses])
    assert (band.network, band.quantity) == ("cnn", "training loss")
    assert (band.lowest, band.middle, band.highest) == ([1.0, 0.1], [1.5, 0.5], [2.0, 0.7])


def test_a_network_that_once_was_not_finite_has_no_band(assignment):
    trainings = [
        [learned("cnn_learned", [2.0, None]), learned("fnn_learned", [2.0, 1.0])],
        [learned("cnn_learned", [2.0, 1.0]), learned("fnn_learned", [2.0, 1.0])],
    ]
    assert [band.network for band in bands(assignment, trainings)] == ["fnn"]
