"""Reading the bank, and making notebooks of its entries."""

import re

import pytest

from autograder.validity import bank
from autograder.validity.bank import BankError, Entry
from autograder.validity.notebooks import notebook
from tests.conftest import NAME


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edits": {"cnn-answer-1": {"no such text": ""}}}, "cnn-answer-1 does not contain"),
        ({"edits": {"cnn-check-1": {"cnn": ""}}}, "no answer cell cnn-check-1; there are"),
        ({"answers": {"cnn-answer-9": ""}}, "no answer cell cnn-answer-9"),
        ({"inserted": {"page-setup-1": ""}}, "no answer cell page-setup-1"),
    ],
)
def test_a_change_that_does_not_fit_the_notebook_is_refused(changes, message, release_root):
    entry = Entry(NAME, "mutants", "test", "a test", **changes)
    with pytest.raises(BankError, match=re.escape(message)):
        notebook(entry, release_root / "dist" / NAME)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("just text", "must be a mapping"),
        ("misconception: a", "lacks fails"),
        ("{misconception: a, fails: [b.c], edit: {}}", "unknown keys edit"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(text, message, tmp_path):
    folder = tmp_path / "mutants" / NAME
    folder.mkdir(parents=True)
    (folder / "broken.yml").write_text(text)
    with pytest.raises(BankError, match=rf"broken\.yml.*{message}"):
        bank.load(tmp_path, NAME)


def test_an_assignment_without_files_is_refused(tmp_path):
    with pytest.raises(BankError, match="no wrong and right solutions of nothing"):
        bank.load(tmp_path, "nothing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{misconception: a, fails: }", "fails: Input should be a valid list"),
        ("{misconception: , fails: [a.b]}", "misconception: Input should be a valid string"),
        ("{misconception: a, fails: training.score}", "fails: Input should be a valid list"),
        (
            "{misconception: a, fails: [a.b], edits: {x: y}}",
            "edits.x: Input should be a valid dict",
        ),
    ],
)
def test_a_value_of_another_kind_is_refused(text, message, tmp_path):
    folder = tmp_path / "mutants" / NAME
    folder.mkdir(parents=True)
    (folder / "broken.yml").write_text(text)
    with pytest.raises(BankError, match=re.escape(message)):
        bank.load(tmp_path, NAME)


@pytest.mark.parametrize(
    "text",
    [
        "- {mutants: [a]}",
        "- {reason: , mutants: [a]}",
        "- {reason: none, mutants: [cell constant: 1 -> 2]}",  # not quoted, so a mapping
        "a: b",
    ],
)
def test_equivalents_of_another_form_are_refused(text, tmp_path):
    (tmp_path / "equivalent").mkdir()
    (tmp_path / "equivalent" / "x.yml").write_text(text)
    with pytest.raises(BankError, match=r"x\.yml"):
        bank.equivalents(tmp_path, "x")
