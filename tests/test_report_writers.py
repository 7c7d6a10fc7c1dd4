"""Pages of a class by several processes: the same files as by one."""

import json
import os
from pathlib import Path

import pytest

from autograder.gradebook import Attempt
from autograder.policy import grade
from autograder.report import writers
from autograder.report.writers import Pages, Writers

NOTEBOOK = {"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [],
                       "execution_count": None, "source": "x = 1"}],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 5}  # fmt: skip


def pages(folder, assignment, student, notebook=NOTEBOOK):
    made = Attempt(assignment="gradient_flow", version="1", student=student, sha256="0" * 64,
                   source="a.ipynb", status="graded", reason="", results=(), notes=())  # fmt: skip
    folder.mkdir(exist_ok=True)
    content = json.dumps(notebook).encode() if notebook else b""
    return Pages(
        folder / f"{student}.html", assignment, grade(assignment, [made], {}), (), [], content
    )


@pytest.fixture
def assignment(grading):
    return grading.assignment("gradient_flow")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_several_processes_write_the_same_files(assignment, tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "FEW", 4)
    for folder, processes in (("one", 1), ("two", 2)):
        with Writers(processes, 12) as many:
            for number in range(12):
                many.write(pages(tmp_path / folder, assignment, f"s{number}"))
    assert len(contents(tmp_path / "one")) == 24
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_page_that_can_not_be_written_is_an_error_here(assignment, tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "FEW", 1)
    lost = pages(tmp_path / "out", assignment, "ada")
    (tmp_path / "out").rmdir()
    with pytest.raises(OSError, match="ada"), Writers(2, 2) as many:
        many.write(lost)


def test_pages_of_few_students_are_written_by_this_process(assignment, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Pages, "write", lambda self: seen.append(os.getpid()))
    with Writers(8, writers.FEW) as many:
        many.write(pages(tmp_path / "out", assignment, "ada"))
    assert seen == [os.getpid()]


def test_the_notebook_page_of_an_earlier_attempt_goes(assignment, tmp_path):
    with Writers(1, 1) as many:
        many.write(pages(tmp_path / "out", assignment, "ada"))
        assert (tmp_path / "out" / "ada.notebook.html").exists()
        many.write(pages(tmp_path / "out", assignment, "ada", notebook=None))
    assert [Path(name).name for name in contents(tmp_path / "out")] == ["ada.html"]
