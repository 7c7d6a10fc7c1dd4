"""Plain `otter run`, as on Gradescope, decides as our batch does: every case, every point."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import otter
import pytest

from autograder.grade import Release
from tests import golden

NAME = "cnn_vs_fnn"
CHOSEN = [
    "submissions_reference",
    "submissions_blank",
    "submissions_half_done",
    "mutants_cnn_that_flattens_first",
    "mutants_nan_output",
    "variants_lazy_layers",
]
ZIPPED = "submissions_half_done"


@pytest.fixture(scope="module")
def bank():
    return [entry for entry in golden.load(NAME) if entry.student in CHOSEN]


@pytest.fixture(scope="module")
def ours(bank, release_root, grading, tmp_path_factory):
    out = tmp_path_factory.mktemp("ours")
    golden.hand_in(bank, release_root / "dist" / NAME, out / "inbox")
    return golden.grade(out / "inbox", Release.load(NAME, release_root), grading, out)


@pytest.fixture(scope="module")
def otters(bank, release_root, tmp_path_factory):
    """results.json of `otter run` for each notebook, and for the zip of one."""
    inbox = tmp_path_factory.mktemp("otter") / "inbox"
    paths = golden.hand_in(bank, release_root / "dist" / NAME, inbox)
    handed_in = {**paths, "zip": exported(paths[ZIPPED], inbox.parent)}
    archive = Release.load(NAME, release_root).zip
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda item: otter_run(archive, *item), handed_in.items())
        return dict(zip(handed_in, found, strict=True))


def exported(path, folder):
    """The zip that the last cell of the notebook makes, with `grader.export`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        notebook = otter.Notebook(path.name, tests_dir=str(folder))
        notebook.export(export_path=str(folder / "handed_in.zip"), pdf=False, ignore_log=True)
    return folder / "handed_in.zip"


def otter_run(archive, name, submission):
    out = submission.parent / f"otter-{name}"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "otter", "run", "-a", archive, "-o", out, "--no-logo", submission],
        env={**os.environ, "AUTOGRADER_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "results.json").read_text(encoding="utf-8"))


def otter_points(results):
    return {test["name"]: test["score"] for test in results["tests"] if "score" in test}


def otter_not_passed(results, questions):
    """Otter's numbers of the cases that did not pass, as names from grading.yml."""
    failed = set()
    for test in results["tests"]:
        marks = re.findall(r"^ *\w+ - (\d+) result:\n +(\S)", test["output"], re.MULTILINE)
        if "score" in test and marks:
            cases = list(questions[test["name"]].checks)
            assert [int(number) for number, _ in marks] == list(range(1, len(cases) + 1))
            failed |= {f"{test['name']}.{cases[int(n) - 1]}" for n, mark in marks if mark != "✅"}
    return failed


def assert_agree(results, attempt, assignment):
    questions = {n: q for n, q in assignment.questions.items() if not q.manual}
    assert otter_points(results) == {name: attempt.points(name) for name in questions}
    assert otter_not_passed(results, questions) == golden.not_passed(attempt)


@pytest.mark.parametrize("student", CHOSEN)
def test_otter_and_our_batch_agree_on_every_case(student, ours, otters, grading):
    assert ours[student].status == "graded", ours[student].reason
    assert_agree(otters[student], ours[student], grading.assignment(NAME))


def test_the_zip_that_students_export_is_graded_like_its_notebook(ours, otters, grading):
    assert_agree(otters["zip"], ours[ZIPPED], grading.assignment(NAME))
