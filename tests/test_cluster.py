"""A batch on a Dask cluster: real scheduler and workers, confined submissions, on loopback.

Each cluster takes a quarter of a minute; `make test-all` runs all of these, `make test` some.
"""

import signal
from contextlib import closing
from importlib.metadata import version

import nbformat
import pytest
import yaml

from autograder.gradebook import Gradebook
from tests.dask_cluster import Command, DaskCluster, servers
from tests.hostile import assignment

NAME = assignment.NAME
STUDENTS = 60
ANSWERS = {  # to the question `attacked`, by the number of the student
    7: "raise RuntimeError('not done')",
    13: "import os\nos._exit(3)",
    21: "def pool_output_size(size, kernel, stride=None, padding=0):\n    return 1",
    33: "x = b'1' * 10**10",
    44: "...",
}
SLOW, SLOW_STUDENTS = "import time\ntime.sleep(3)", 8


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """grading.yml and the release of a small assignment, solved in a second."""
    folder = tmp_path_factory.mktemp("course")
    assignment.build(folder)
    return folder


def writer(root, inbox):
    """Writes submissions into an inbox: a number, and the cell that answers `attacked`."""
    inbox.mkdir()
    path = root / "dist" / NAME / "autograder" / f"{NAME}.ipynb"

    def write(number, cell=None):
        solved = nbformat.read(path, as_version=4)
        (answer,) = [c for c in solved.cells if c.id == f"{NAME}-attacked-answer-1"]
        answer.source = f"{answer.source if cell is None else cell}\n# {number}"
        nbformat.write(solved, inbox / f"s{number:02}.ipynb")
        return inbox

    return write


@pytest.fixture
def hand_in(root, tmp_path):
    return writer(root, tmp_path / "inbox")


@pytest.fixture(scope="module")
def slow_class(root, tmp_path_factory):
    """Submissions that take some seconds each, and what a batch on this machine gives."""
    folder = tmp_path_factory.mktemp("slow")
    write = writer(root, folder / "inbox")
    for number in range(SLOW_STUDENTS):
        inbox = write(number, SLOW)
    return inbox, local(root, inbox, folder / "here")


@pytest.fixture
def dask(tmp_path):
    """Starts clusters."""
    running = []

    def start(**env):
        folder = tmp_path / f"dask{len(running)}"
        folder.mkdir()
        running.append(DaskCluster(folder, **env))
        return running[-1]

    yield start
    for cluster in running:
        cluster.close()


def command(root, inbox, out, cluster, *more):
    where = cluster if isinstance(cluster, str) else cluster.address
    return Command("--root", root, "grade", NAME, inbox, "--out", out, "--scheduler", where, *more)


def local(root, inbox, out):
    """What a batch on this machine gives: grades.csv, and of each student what was measured."""
    Command("--root", root, "grade", NAME, inbox, "--out", out, "--workers", "2").end()
    return results(out)


def results(out):
    return (out / NAME / "grades.csv").read_text(encoding="utf-8"), measured(out)


def measured(out):
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        made = list(gradebook.attempts(NAME))
    assert len(made) == len({attempt.student for attempt in made})
    return {a.student: (a.status, a.reason, a.results, a.records, a.notes) for a in made}


def statuses(out):
    return {status for status, *_ in measured(out).values()}


def class_of_sixty(hand_in):
    """Right ones, wrong ones, some that end their process, twins, and one that is no notebook."""
    for number in range(STUDENTS - 2):
        inbox = hand_in(number, ANSWERS.get(number))
    (inbox / "s58.ipynb").write_bytes((inbox / "s21.ipynb").read_bytes())
    (inbox / "s59.ipynb").write_text("no notebook")
    return inbox


def test_a_worker_killed_and_another_started_change_nothing(root, hand_in, dask, tmp_path):
    """60 submissions; one of two workers is killed half way, and later there is a new one."""
    inbox = class_of_sixty(hand_in)
    here = local(root, inbox, tmp_path / "here")
    cluster = dask()
    first, _ = cluster.add(count=2)
    batch = command(root, inbox, tmp_path / "there", cluster)
    batch.until(f"{STUDENTS // 2}/{STUDENTS} ")
    first.kill()
    batch.until(f"{STUDENTS // 2 + 5}/{STUDENTS} ")
    (third,) = cluster.add()
    batch.until(f"{STUDENTS - 5}/{STUDENTS} ")
    assert servers(third)
    assert batch.end() == 1, batch.text
    assert results(tmp_path / "there") == here
    assert {status for status, *_ in here[1].values()} == {"graded", "partial", "invalid"}
    assert not servers(third)
    assert "Traceback" not in batch.text


POISON = """
import os
from autograder.grade import Here

def poisoned(self, job, real=Here.__call__):
    if "POISON" in job.notebook:
        os._exit(1)
    return real(self, job)

if Here.__call__.__name__ != "poisoned":  # a nanny loads this, too
    Here.__call__ = poisoned
"""


def test_a_submission_that_ends_workers_ends_as_infrastructure(root, hand_in, dask, tmp_path):
    cluster = dask(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
    cluster.add("--nanny", count=2, preload=POISON)
    for number in range(6):
        inbox = hand_in(number, "# POISON" if number == 3 else None)
    batch = command(root, inbox, tmp_path / "out", cluster)
    assert batch.end() == 1, batch.text
    found = measured(tmp_path / "out")
    status, reason, *_ = found.pop("s03")
    assert status == "infrastructure"
    assert "the workers that ran it ended, each time" in reason
    assert {status for status, *_ in found.values()} == {"graded"}
    assert "s03" in batch.text.partition("infrastructure")[2]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A cluster of two workers for batches that leave it as it is."""
    with closing(DaskCluster(tmp_path_factory.mktemp("pair"))) as cluster:
        yield cluster, cluster.add(count=2)


@pytest.fixture
def slow(root, slow_class, tmp_path):
    """Starts a batch of slow submissions on a cluster, and waits until the first ones are done."""
    inbox, _ = slow_class

    def begin(cluster):
        batch = command(root, inbox, tmp_path / "out", cluster)
        batch.until(f"2/{SLOW_STUDENTS} ")
        return batch

    return begin


def test_ctrl_c_finishes_what_runs_and_the_same_command_goes_on(
    root, slow, slow_class, pair, tmp_path
):
    cluster, workers = pair
    batch = slow(cluster)
    batch.signal(signal.SIGINT)
    batch.until("Ctrl-C again")
    assert batch.end() == 1
    assert "To go on, give the same command" in batch.text
    assert 2 < len(measured(tmp_path / "out")) < SLOW_STUDENTS
    assert not any(map(servers, workers))
    inbox, expected = slow_class
    assert command(root, inbox, tmp_path / "out", cluster).end() == 0
    assert results(tmp_path / "out") == expected


@pytest.mark.every_end
def test_a_second_ctrl_c_ends_what_runs_on_the_workers(slow, pair, tmp_path):
    cluster, workers = pair
    batch = slow(cluster)
    batch.signal(signal.SIGINT)
    batch.until("Ctrl-C again")
    batch.signal(signal.SIGINT)
    assert batch.end() == 1
    assert "Traceback" not in batch.text
    assert not any(map(servers, workers))
    assert len(cluster.workers()) == 2
    assert statuses(tmp_path / "out") == {"graded"}


@pytest.mark.every_end
def test_the_processes_of_a_killed_batch_end_when_the_next_one_begins(
    root, slow, slow_class, pair, tmp_path
):
    cluster, workers = pair
    batch = slow(cluster)
    left = [one for worker in workers for one in servers(worker)]
    batch.signal(signal.SIGKILL)
    batch.end()
    inbox, expected = slow_class
    assert command(root, inbox, tmp_path / "out", cluster).end() == 0
    assert left
    assert not any(one.is_running() for one in left)
    assert results(tmp_path / "out") == expected


@pytest.mark.every_end
def test_a_worker_that_is_closed_hands_its_work_to_another(slow, slow_class, dask, tmp_path):
    """What its processes said when they were ended is nobody's fault, and counts for nobody."""
    cluster = dask()
    first, _ = cluster.add(count=2)
    batch = slow(cluster)
    first.terminate()
    assert batch.end() == 0, batch.text
    assert results(tmp_path / "out") == slow_class[1]


@pytest.mark.every_end
def test_a_lost_scheduler_stops_the_batch_in_words(slow, dask, tmp_path):
    cluster = dask()
    cluster.add()
    batch = slow(cluster)
    cluster.processes[0].kill()
    assert batch.end() == 1
    assert "Traceback" not in batch.text
    assert f"The scheduler {cluster.address} is gone" in batch.text
    assert "To go on, give the same command" in batch.text
    assert statuses(tmp_path / "out") == {"graded"}


@pytest.mark.every_end
def test_ctrl_c_leaves_the_workers_of_a_local_cluster_alive(root, slow_class, tmp_path):
    """In a terminal they get it, too."""
    inbox, expected = slow_class
    start = ("--root", root, "grade", NAME, inbox, "--out", tmp_path / "out")
    batch = Command(*start, "--local-cluster", "2")
    batch.until(f"2/{SLOW_STUDENTS} ")
    batch.signal(signal.SIGINT)
    batch.until("Ctrl-C again")
    assert batch.end() == 1
    assert "Traceback" not in batch.text
    assert 2 < len(measured(tmp_path / "out")) < SLOW_STUDENTS
    assert statuses(tmp_path / "out") == {"graded"}
    assert Command(*start, "--local-cluster", "2").end() == 0
    assert results(tmp_path / "out") == expected


OTHER = """
from autograder.cluster import versions

seen = {**versions.here(), "torch": "1.0.7"}
versions.here = lambda: seen
"""


def test_other_versions_are_refused_with_both(root, hand_in, dask, tmp_path):
    cluster = dask()
    cluster.add()
    cluster.add(preload=OTHER)
    batch = command(root, hand_in(0), tmp_path / "out", cluster)
    assert batch.end() == 2
    ours = version("torch").partition("+")[0]
    assert f": torch 1.0.7 there, {ours} here\n" in batch.text
    assert batch.text.count(" there, ") == 1
    assert not (tmp_path / "out" / NAME / "grades.csv").exists()


GATED = """
import os, time
from autograder.grade import Here

def gated(self, job, real=Here.__call__):
    while "# 0" not in job.notebook:  # for good: this worker will be killed
        time.sleep(1)
    return real(self, job)

Here.__call__ = gated
"""


@pytest.mark.every_end
def test_a_worker_that_comes_late_and_does_not_fit_is_left_out(root, hand_in, dask, tmp_path):
    cluster = dask()
    (first,) = cluster.add(preload=GATED)
    for number in range(3):
        inbox = hand_in(number)
    batch = command(root, inbox, tmp_path / "out", cluster)
    batch.until("1/3 ")
    cluster.add(preload=OTHER)
    first.kill()
    assert "torch 1.0.7 there" in batch.until(" is left out. ")
    cluster.add()
    assert batch.end() == 0, batch.text
    assert statuses(tmp_path / "out") == {"graded"}


@pytest.mark.every_end
def test_nobody_there_is_said_in_words(root, hand_in, dask, tmp_path):
    raw = yaml.safe_load((root / "grading.yml").read_text())
    raw["cluster"]["wait_s"] = 1
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "grading.yml").write_text(yaml.safe_dump(raw))
    for part in ("dist", "assignments", "reference"):
        (tmp_path / "course" / part).symlink_to(root / part)
    cluster = dask()
    lonely = command(tmp_path / "course", hand_in(0), tmp_path / "out", cluster)
    assert lonely.end() == 2
    assert f"dask worker {cluster.address}" in lonely.text
    nothing = command(tmp_path / "course", hand_in(0), tmp_path / "out", "tcp://127.0.0.1:9")
    assert nothing.end() == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in nothing.text
    assert "Traceback" not in lonely.text + nothing.text
