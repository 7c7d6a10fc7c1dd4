"""What is off in a record is found, and told with what to do about it."""

from dataclasses import replace

import pytest

from autograder.validity.record import Unsteady
from autograder.validity.summary import (
    about_audit,
    about_calibration,
    is_off,
    misplaced,
    numbers,
    threshold_troubles,
    troubles,
)
from tests.records import GENERATED, GOOD, OFF, also, calibration, checked, mutant


def told(capsys, show, record):
    show(record)
    return capsys.readouterr().out.splitlines()


def test_nothing_is_off_where_all_is_well(capsys):
    assert not is_off(GOOD)
    (line,) = told(capsys, about_audit, GOOD)
    assert line == (
        "tiny: 1 of 1 written mutants caught as expected; 2 generated: 1 killed, 1 equivalent, "
        "0 survived; 0 of 2 right solutions failed; 0 verdicts changed in 8 further runs; "
        "2 of 2 cases exercised; 61 s, 125 s of CPU"
    )


@pytest.mark.parametrize("kind", OFF)
def test_each_kind_of_trouble_is_off_and_a_line_of_its_own(capsys, kind):
    assert is_off(OFF[kind])
    assert [one.kind for one in troubles(OFF[kind])] == [kind]
    _, line = told(capsys, about_audit, OFF[kind])
    assert line.startswith(f"  {kind}: ")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "survivor",
            "missed: no check notices it (Sizes are rounded.): strengthen a check of size",
        ),
        ("other check", "astray: should fail size.shape; failed net.reach: correct the check"),
        ("stale", f"{GENERATED}: noticed by size.shape: take it off tests/equivalent/tiny.yml"),
        ("false fail", "loop: right, but fails net.reach: correct the check"),
        ("unsteady", "loop: right, but size.shape changes: 3 passed, 1 failed: make the check"),
        ("unexercised", "net.reach: no mutant fails it: write a mutant"),
    ],
)
def test_a_line_says_what_is_off_and_what_to_do(capsys, kind, words):
    assert words in told(capsys, about_audit, OFF[kind])[1]


def test_a_generated_survivor_can_be_strengthened_against_or_listed(capsys):
    line = told(capsys, about_audit, also(mutant("m3", "survived", written=False)))[1]
    assert line == (
        f"  survivor: {GENERATED}: no check notices it: strengthen a check of net, "
        "or list it in tests/equivalent/tiny.yml with a reason"
    )


def test_what_is_listed_but_gone_is_no_mutant(capsys):
    gone = mutant("m3", "stale", written=False, failed=[], reason="listed, but gone")
    assert numbers(also(gone)).generated == numbers(GOOD).generated == 2
    assert "listed, but gone: take it off" in told(capsys, about_audit, also(gone))[1]


def test_verdicts_that_are_not_the_usual_one_are_counted():
    statuses = [Unsteady("loop", "a.b", {"passed": 7, "failed": 2, "not_run": 1})]
    audit = replace(GOOD, variants=[replace(GOOD.variants[0], unsteady=statuses)])
    assert (numbers(audit).changed, numbers(audit).runs) == (3, 4)


def test_control_characters_do_not_reach_the_terminal(capsys):
    hostile = mutant("\x1b[2Jx\ny", "survived", idea="\x1b]0;title\x07")
    lines = told(capsys, about_audit, also(hostile))
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


# By hand: the reference has mean 0.915, sd 0.01291, so its bound at 0.01 is
# 0.915 - 4.5407 · 0.01291 · sqrt(1.25) = 0.8495; the mutant's 0.515 + 0.0655 = 0.5805.


@pytest.mark.parametrize(("threshold", "lies"), [(0.84, True), (0.86, False), (0.57, False)])
def test_a_threshold_has_to_lie_between_the_bounds(capsys, threshold, lies):
    found = calibration(checked(threshold))
    assert misplaced(found) == ([] if lies else found.checks)
    lines = told(capsys, about_calibration, found)
    assert any("net.accuracy" in line and ("yes" if lies else "NO") in line for line in lines)
    words = f"smallest is {threshold:g}, but right solutions reach down to 0.8495 (reference)"
    assert any(words in line for line in lines) is not lies


def test_where_there_is_room_a_threshold_is_proposed():
    (trouble,) = threshold_troubles(calibration(checked(0.86)))
    assert "wrong ones up to 0.5805 (rounded)" in trouble.words
    assert trouble.remedy == "set 0.8 (autograder calibrate tiny --apply)"


def test_where_there_is_no_room_another_check_is_asked_for():
    overlapping = checked(0.6, right=(0.4, 0.9, 0.5, 0.8))
    threshold, failed = threshold_troubles(calibration(overlapping))
    assert "let another check notice" in threshold.remedy
    assert failed.words == "2 of 8 trainings of right solutions fail it"


def test_a_training_without_a_number_failed():
    (trouble,) = threshold_troubles(calibration(checked(0.8, right=(0.9, None, 0.92, 0.91))))
    assert (trouble.kind, trouble.name) == ("failed training", "net.accuracy")
    assert trouble.words.startswith("1 of 8 ")


def test_verdicts_that_change_from_training_to_training_are_told(capsys):
    one = Unsteady("loop", "net.learned", {"passed": 3, "failed": 1})
    lines = told(capsys, about_calibration, calibration(unstable=[one]))
    assert lines[0].startswith("tiny: 0 of 0 thresholds lie between")
    assert "unstable: loop: right, but net.learned is not passed in every training" in lines[1]


def test_without_mutants_only_right_solutions_count():
    assert not misplaced(calibration(checked(0.1, mutant=False)))
    (trouble,) = threshold_troubles(calibration(checked(0.86, mutant=False)))
    assert "wrong" not in trouble.words
