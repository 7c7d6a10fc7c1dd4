"""Plain `otter run`, as on Gradescope, decides as our batch does: every case, every point.

`warm_otter` runs Otter's command in forks, which saves what the command costs by itself; some
notebooks go through a command of their own as well, and must come out the same. `make test-all`
takes all of the golden bank; by default it is a part in which every check fails once.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import otter
import pytest

from autograder import config
from autograder.grade import Release
from autograder.gradebook import Attempt
from autograder.validity.bank import Entry
from autograder.validity.notebooks import merge
from autograder.validity.runs import not_passed
from tests import golden
from tests.conftest import NAMES, REPOSITORY

WARM = Path(__file__).with_name("warm_otter.py")
GRADING = config.load(REPOSITORY / "grading.yml")
BANK = [merge(group) for name in NAMES for group in golden.pack(golden.load(name))]


def check_of(entry, case):
    """The check behind a case."""
    question, _, name = case.partition(".")
    return GRADING.assignment(entry.assignment).questions[question].checks[name].check


SAMPLE = golden.sample(BANK, check_of)
MARKED = [
    pytest.param(e, marks=() if e.full_name in SAMPLE else pytest.mark.whole_bank) for e in BANK
]
HALF_DONE = [entry for entry in BANK if entry.student == "submissions_half_done"]
CPU = {**os.environ, "AUTOGRADER_DEVICE": "cpu"}


class Pair(NamedTuple):
    """A notebook, how our batch graded it, and the text of Otter's results.json."""

    archive: Path
    notebook: Path
    ours: Attempt
    otters: str = ""


@pytest.fixture(scope="session")
def pairs(request, built, grading, tmp_path_factory):
    """The notebooks of the selected tests, graded by our batch and by Otter."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    names = {p["notebook"].full_name for p in chosen if isinstance(p.get("notebook"), Entry)}
    ours = {}
    for name in NAMES:
        entries = [e for e in BANK if e.assignment == name and e.full_name in names]
        if entries:
            ours |= graded(entries, built(name), grading, tmp_path_factory.mktemp(name))
    otters = otter_runs_in_forks(ours, tmp_path_factory.mktemp("otter"))
    return {name: pair._replace(otters=otters[name]) for name, pair in ours.items()}


def graded(entries, root, grading, out):
    release = Release.load(entries[0].assignment, root)
    paths = golden.hand_in(entries, root / "dist" / release.name, out / "inbox")
    made = golden.grade(out / "inbox", release, grading, out / "out")
    return {e.full_name: Pair(release.zip, paths[e.student], made[e.student]) for e in entries}


def otter_runs_in_forks(pairs, out):
    """results.json of each notebook, as text."""
    jobs = [[str(p.archive), str(p.notebook), str(out / name)] for name, p in pairs.items()]
    command = [sys.executable, "-P", WARM, str(len(os.sched_getaffinity(0)))]
    done = subprocess.run(
        command, env=CPU, input=json.dumps(jobs), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: results_in(out / name) for name in pairs}


def otter_run(archive, submission, out):
    """results.json, as text, from a command of its own."""
    with (out / "log.txt").open("w") as log:
        command = [sys.executable, "-m", "otter", "run", "-a", archive, "-o", out, "--no-logo"]
        subprocess.run([*command, submission], env=CPU, stdout=log, stderr=log, check=False)
    return results_in(out)


def results_in(folder):
    results = folder / "results.json"
    assert results.exists(), (folder / "log.txt").read_text(encoding="utf-8")
    return results.read_text(encoding="utf-8")


def exported(path, folder):
    """The zip that the last cell of the notebook makes, with `grader.export`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        notebook = otter.Notebook(path.name, tests_dir=str(folder))
        notebook.export(export_path=str(folder / "handed_in.zip"), pdf=False, ignore_log=True)
    return folder / "handed_in.zip"


def otter_points(results):
    return {test["name"]: test["score"] for test in results["tests"] if "score" in test}


def otter_not_passed(results, questions):
    """Otter's numbers of the cases that did not pass, as names from grading.yml; their words."""
    failed = {}
    for test in results["tests"]:
        parts = re.split(r"^ *\w+ - (\d+) result:\n +", test["output"], flags=re.MULTILINE)
        if "score" in test and len(parts) > 1:
            cases = list(questions[test["name"]].checks)
            assert [int(number) for number in parts[1::2]] == list(range(1, len(cases) + 1))
            words = zip(cases, parts[2::2], strict=True)
            failed |= {f"{test['name']}.{case}": said for case, said in words if said[0] != "✅"}
    return failed


def assert_agree(results, attempt, assignment):
    """The same points for each question, and the same words for each case that did not pass."""
    assert attempt.status == "graded", attempt.reason
    questions = {n: q for n, q in assignment.questions.items() if not q.manual}
    assert otter_points(results) == {name: attempt.points(name) for name in questions}
    failed = otter_not_passed(results, questions)
    assert failed.keys() == not_passed(attempt)
    for result in attempt.results:
        if result.verdict.status != "passed":
            assert unspaced(told(result.verdict)) in unspaced(
                failed[f"{result.question}.{result.case}"]
            )


def told(verdict):
    """The part of its words that our batch takes over unchanged when a cell above has failed."""
    return verdict.hint if verdict.status == "not_answered" else verdict.rationale


def unspaced(text):
    return "".join(text.split())


@pytest.mark.parametrize("notebook", MARKED, ids=lambda n: n.full_name)
def test_otter_and_our_batch_agree_on_every_case(notebook, pairs, grading):
    pair = pairs[notebook.full_name]
    assert_agree(json.loads(pair.otters), pair.ours, grading.assignment(notebook.assignment))


@pytest.mark.parametrize("notebook", HALF_DONE, ids=lambda n: n.full_name)
def test_a_fork_runs_otter_as_its_command_does(notebook, pairs, tmp_path):
    pair = pairs[notebook.full_name]
    assert pair.otters == otter_run(pair.archive, pair.notebook, tmp_path)


@pytest.mark.parametrize("notebook", HALF_DONE[:1], ids=lambda n: n.full_name)
def test_the_zip_that_students_export_is_graded_like_its_notebook(notebook, pairs, tmp_path):
    pair = pairs[notebook.full_name]
    assert pair.otters == otter_run(pair.archive, exported(pair.notebook, tmp_path), tmp_path)
