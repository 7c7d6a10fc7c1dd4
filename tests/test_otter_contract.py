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

CHOSEN = {
    "cnn_vs_fnn": [
        "submissions_reference",
        "submissions_blank",
        "submissions_half_done",
        "mutants_cnn_that_flattens_first",
        "mutants_nan_output",
        "variants_lazy_layers",
    ],
    "sequence_models": ["submissions_reference", "submissions_half_done"],
    "gradient_flow": ["submissions_reference", "submissions_half_done"],
    "encoder_decoder": ["submissions_reference", "submissions_half_done"],
    "convolution_basics": ["submissions_reference", "submissions_half_done"],
}
PAIRS = [(name, student) for name, students in CHOSEN.items() for student in students]
ZIPPED = ("cnn_vs_fnn", "submissions_half_done")


@pytest.fixture(scope="module")
def inboxes(built, tmp_path_factory):
    """For each assignment its release and the chosen notebooks, by student."""
    made = {}
    for name, students in CHOSEN.items():
        bank = [entry for entry in golden.load(name) if entry.student in students]
        root, inbox = built(name), tmp_path_factory.mktemp(name) / "inbox"
        paths = golden.hand_in(bank, root / "dist" / name, inbox)
        made[name] = (Release.load(name, root), paths)
    return made


@pytest.fixture(scope="module")
def ours(inboxes, grading, tmp_path_factory):
    """Our attempt for each assignment and student."""
    found = {}
    for name, (release, paths) in inboxes.items():
        inbox = next(iter(paths.values())).parent
        graded = golden.grade(inbox, release, grading, tmp_path_factory.mktemp("ours"))
        found |= {(name, student): attempt for student, attempt in graded.items()}
    return found


@pytest.fixture(scope="module")
def otters(inboxes, tmp_path_factory):
    """results.json of `otter run` for each notebook, and for the zip of one."""
    out = tmp_path_factory.mktemp("otter")
    jobs = {(n, s): (r.zip, path) for n, (r, paths) in inboxes.items() for s, path in paths.items()}
    archive, path = jobs[ZIPPED]
    jobs["zip"] = (archive, exported(path, out))
    with ThreadPoolExecutor(2) as pool:
        folders = [out / str(number) for number in range(len(jobs))]
        found = pool.map(lambda job, folder: otter_run(*job, folder), jobs.values(), folders)
        return dict(zip(jobs, found, strict=True))


def exported(path, folder):
    """The zip that the last cell of the notebook makes, with `grader.export`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        notebook = otter.Notebook(path.name, tests_dir=str(folder))
        notebook.export(export_path=str(folder / "handed_in.zip"), pdf=False, ignore_log=True)
    return folder / "handed_in.zip"


def otter_run(archive, submission, out):
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


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_otter_and_our_batch_agree_on_every_case(pair, ours, otters, grading):
    assert ours[pair].status == "graded", ours[pair].reason
    assert_agree(otters[pair], ours[pair], grading.assignment(pair[0]))


def test_the_zip_that_students_export_is_graded_like_its_notebook(ours, otters, grading):
    assert_agree(otters["zip"], ours[ZIPPED], grading.assignment(ZIPPED[0]))
