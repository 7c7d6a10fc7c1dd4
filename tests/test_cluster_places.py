"""Who gets which job on a cluster, with workers in this process and runs that answer at once."""

import asyncio
import socket
import sys
import threading
import uuid
from contextlib import closing
from pathlib import Path

import otter
import pytest
import torch
from distributed import LocalCluster, Scheduler, SpecCluster, Worker

from autograder import cli, cluster, crews, sandbox
from autograder.cluster import coordinator, versions
from autograder.cluster.worker import Faulty, Grading, Refused
from autograder.config import ConfigError
from autograder.grade import Batch, Job, Outage, Release, devices
from autograder.intake import find
from tests import tiny


class Pool(tiny.FakePool):
    """Notes in which environment each job ran, and which files it had."""

    ran_in, seen, failing = [], [], ""

    def __init__(self, bounds, workers, env, **_):
        super().__init__()
        self.env = env

    def run(self, job, on_event):
        if Pool.failing:
            raise OSError(28, Pool.failing)
        Pool.ran_in.append(self.env)
        Pool.seen.append(sorted(str(p.relative_to(job)) for p in job.rglob("*") if p.is_file()))
        return super().run(job, on_event)


TCP = {"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard": False, "port": 0}}


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setattr(Pool, "ran_in", [])
    monkeypatch.setattr(Pool, "seen", [])
    monkeypatch.setattr(Pool, "failing", "")
    tiny.use_fakes(monkeypatch, Pool)
    tiny.make_root(tmp_path)
    for student in ("ada", "bob", "cara"):
        tiny.hand_in(tmp_path / "inbox", student)
    return tmp_path


@pytest.fixture
def dask():
    """Starts workers in threads of this process, two unless said otherwise."""
    running = []

    def start(count=2, **options):
        running.append(
            LocalCluster(n_workers=count, processes=False, dashboard_address=None, **options)
        )
        return running[-1]

    yield start
    for one in running:
        one.close()


def told(_):
    raise AssertionError("nothing is told here")


def graded(root, where, wait_s=300, **settings):
    """Status of each student."""
    grading = tiny.config.load(root / "grading.yml")
    grading = grading.model_copy(
        update={
            "device": "cpu",
            "workers": 0,
            "cluster": tiny.config.Cluster(wait_s=wait_s, tries=3),
        }
        | settings
    )
    release = Release.load(tiny.NAME, root)
    batch = Batch(release, grading, root / "out")
    with closing(batch), closing(cluster.Cluster(where, grading, release, told)) as crew:
        waiting, _ = batch.pending(find(root / "inbox", tiny.NAME))
        return {a.student: (a.status, a.reason) for a in batch.run(waiting, crew)}


def test_jobs_carry_their_files_but_no_hidden_labels(course, dask):
    assert {status for status, _ in graded(course, dask()).values()} == {"graded"}
    assert Pool.seen[0] == ["hidden_x.npz", "job.json", "kit/code.py", "notebook.ipynb",
                            "tests/size.py"]  # fmt: skip
    assert Pool.ran_in == [{"AUTOGRADER_DEVICE": "cpu"}] * 3


def test_as_many_places_as_threads_of_workers_or_as_asked_for(course, dask):
    release = Release.load(tiny.NAME, course)
    where = dask(2, threads_per_worker=3)
    for asked, count in ((0, 6), (4, 4)):
        grading = tiny.config.load(course / "grading.yml")
        grading = grading.model_copy(update={"workers": asked, "device": "cpu"})
        with closing(cluster.Cluster(where.scheduler_address, grading, release, told)) as crew:
            assert len(crew.places(release, course)) == count


def test_gpu_jobs_go_to_the_workers_with_that_label(course, dask, monkeypatch):
    monkeypatch.setattr(devices, "_gpus", lambda device: ["7"] if device == "cuda" else [])
    labelled = {"nthreads": 1, "resources": {"GPU": 1}}
    workers = {name: {"cls": Worker, "options": given} for name, given in
               (("plain", {"nthreads": 4}), ("labelled", labelled))}  # fmt: skip
    scheduler = {"cls": Scheduler, "options": {"protocol": "inproc://", "dashboard": False}}
    with SpecCluster(workers, scheduler) as where:
        found = graded(course, where.scheduler_address, device="cuda")
    assert {status for status, _ in found.values()} == {"graded"}
    assert {env["CUDA_VISIBLE_DEVICES"] for env in Pool.ran_in} == {"7"}


def test_no_gpu_label_is_said_in_words(course, dask):
    with pytest.raises(cluster.ClusterRefused, match=r"No worker with --resources GPU=1 has been"):
        graded(course, dask(), wait_s=0.1, device="cuda")


def test_a_label_without_a_gpu_is_refused(course, dask, monkeypatch):
    monkeypatch.setattr(devices, "_has_driver", lambda: False)
    monkeypatch.setattr(devices, "count_gpus", lambda: 0)
    with pytest.raises(cluster.ClusterRefused, match="PyTorch sees no GPU here"):
        graded(course, dask(resources={"GPU": 1}), device="cuda")


def test_workers_that_can_not_confine_are_refused(course, dask, monkeypatch):
    class Open(Pool):
        def __init__(self, *_, require, **__):
            assert require
            raise sandbox.SandboxMissing("no namespaces")

    monkeypatch.setattr(sandbox, "Pool", Open)
    with pytest.raises(cluster.ClusterRefused, match=r"can't confine submissions: no namespaces\."):
        graded(course, dask())


def test_a_fault_of_a_worker_is_infrastructure_and_names_it(course, dask):
    """Also a full disk: this machine's isn't full, so the batch goes on."""
    Pool.failing = "No space left on device"
    found = graded(course, dask(1))
    assert {status for status, _ in found.values()} == {"infrastructure"}
    assert "No space left on device" in found["ada"][1]
    assert found["ada"][1].count("inproc://") == 3


def test_a_faulty_worker_costs_nobody_anything_if_there_is_another(course, dask, monkeypatch):
    real, faulty = Grading.run, []

    def run(self, *job):
        faulty.append(self._address)
        if self._address == faulty[0]:
            raise Faulty(self._address, "OSError: its disk is full")
        return real(self, *job)

    monkeypatch.setattr(Grading, "run", run)
    assert {status for status, _ in graded(course, dask()).values()} == {"graded"}


def test_a_batch_whose_last_worker_was_left_out_ends_in_words(course, dask, monkeypatch):
    def tired(self, *_):
        raise Refused(self._address, "It is tired.")

    lines = []
    monkeypatch.setattr(coordinator, "LOOK_S", 0.1)
    monkeypatch.setattr(Grading, "run", tired)
    monkeypatch.setitem(globals(), "told", lines.append)
    with pytest.raises(Outage, match="No worker that fits has been at"):
        graded(course, dask(1), wait_s=0.2)
    (line,) = lines
    assert "is left out. It is tired." in line


def test_a_cluster_whose_workers_never_fit_ends_the_batch(course, dask, monkeypatch):
    """New ones come again and again, with other addresses."""

    def tired(self, *_):
        raise Refused(f"tcp://{uuid.uuid4()}", "It is tired.")

    monkeypatch.setattr(Grading, "run", tired)
    monkeypatch.setitem(globals(), "told", lambda _: None)
    with pytest.raises(Outage, match="Too many workers in a row don't fit"):
        graded(course, dask(1))


def test_processes_that_are_still_starting_when_a_batch_ends_are_ended(course, dask, monkeypatch):
    started, go, closed = threading.Event(), threading.Event(), []

    class Slow(Pool):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            started.set()
            go.wait(30)

        def __exit__(self, *_):
            closed.append(self)

    monkeypatch.setattr(sandbox, "Pool", Slow)
    where = dask(1)
    (worker,) = where.workers.values()
    plugin = Grading("x", tiny.config.load(course / "grading.yml"), ("r", {}))

    async def begin_and_end():
        setting_up = asyncio.ensure_future(plugin.setup(worker))
        await asyncio.to_thread(started.wait, 30)
        ending = asyncio.ensure_future(plugin.teardown(worker))
        go.set()
        await asyncio.gather(setting_up, ending)

    asyncio.run(begin_and_end())
    assert len(closed) == 1
    assert plugin.refusal == "It is closing."
    assert not list(Path(worker.local_directory).glob("tmp*"))


def test_a_job_of_another_release_is_not_run(course):
    grading = tiny.config.load(course / "grading.yml")
    plugin = Grading("x", grading, ("r1", {}))
    plugin._address, plugin.refusal = "tcp://a", ""
    with pytest.raises(RuntimeError) as caught:
        plugin.run("r2", Job("{}", "{}", {}))
    assert caught.value.args == ("tcp://a", "It holds release r1, not r2.")


def test_what_answers_but_is_no_scheduler_is_said_in_words(course, monkeypatch):
    monkeypatch.setattr(coordinator, "CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(cluster.ClusterRefused, match=f"No Dask scheduler answers at {address}"):
            graded(course, address)


@pytest.mark.parametrize("address", ["tls://127.0.0.1:9", "ucx://127.0.0.1:9", "nonsense", "a:b"])
def test_an_address_that_can_not_be_is_said_in_words(course, address, monkeypatch):
    monkeypatch.setattr(coordinator, "CONNECT_S", 0.2)
    with pytest.raises(cluster.ClusterRefused, match=f"No Dask scheduler answers at {address}"):
        graded(course, address)


def test_the_address_of_a_worker_is_said_in_words(course):
    """That is another program's port, which speaks Dask, but not as a scheduler does."""
    with SpecCluster({0: {"cls": Worker}}, TCP) as where:
        (worker,) = where.workers.values()
        with pytest.raises(cluster.ClusterRefused, match=worker.address):
            graded(course, worker.address, wait_s=0.2)


# Versions.


OURS = {versions.KIT: "1 (code a)", "torch": "2.9.1", "pandas": "3.0", "python": "3.12.1"}


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({}, ""),
        ({"scikit-learn": "1"}, ""),  # what only workers have
        ({"pandas": "2.0"}, ""),  # the kit doesn't use it
        ({"torch": "2.8.0"}, "torch 2.8.0 there, 2.9.1 here"),
        ({versions.KIT: "1 (code b)"}, f"{versions.KIT} 1 (code b) there, 1 (code a) here"),
        ({"python": "3.11.9"}, "python 3.11.9 there, 3.12.1 here"),
        ({"pandas": None}, "missing there: pandas 3.0"),
        ({"torch": None, "pandas": None}, "missing there: pandas 3.0, torch 2.9.1"),
    ],
)
def test_both_versions_of_all_that_matters_are_told(theirs, words):
    there = {name: version for name, version in {**OURS, **theirs}.items() if version}
    assert versions.differences(there, OURS) == words


def test_of_many_missing_packages_some_are_named():
    ours = {f"p{number}": "1" for number in range(10)}
    assert versions.differences({}, ours).endswith("p6 1, p7 1 and 2 more")


def test_versions_here_are_those_of_the_packages():
    here = versions.here()
    assert here["torch"] == torch.__version__.partition("+")[0]
    assert here["otter-grader"] == otter.__version__
    assert "(code " in here[versions.KIT]


# The options.


def options(*more):
    return cli._parser().parse_args(["grade", tiny.NAME, "inbox", "--out", "out", *more])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--local-cluster", "0"), "--local-cluster: at least 1"),
        (("--local-cluster", "2", "--workers", "2"), "Leave out --workers"),
        (("--local-cluster", "2", "--device", "cuda"), "on the CPU"),
        (("--scheduler", "x", "--workers", "0"), "--workers: at least 1"),
        (("--scheduler", ""), "--scheduler: give an address"),
    ],
)
def test_options_that_make_no_sense_are_refused(grading, given, words):
    with pytest.raises(ConfigError, match=words):
        crews.chosen(options(*given), grading)


def test_on_a_cluster_auto_is_the_cpu(grading):
    chosen, words = crews.chosen(options("--scheduler", "tcp://a:1"), grading)
    assert (chosen.device, chosen.workers) == ("cpu", 0)
    assert words == "Device: CPU, on tcp://a:1."
    chosen, words = crews.chosen(options("--scheduler", "tcp://a:1", "--device", "cuda"), grading)
    assert chosen.device == "cuda"
    assert "workers with the resource GPU" in words


def test_both_kinds_of_cluster_at_once_are_refused(capsys):
    with pytest.raises(SystemExit):
        options("--scheduler", "tcp://a:1", "--local-cluster", "2")
    assert "not allowed with" in capsys.readouterr().err


def test_without_dask_it_says_what_to_install(grading, monkeypatch):
    monkeypatch.delattr("autograder.cluster")
    monkeypatch.setitem(sys.modules, "autograder.cluster", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[cluster\]'"):
        crews.opened(options("--scheduler", "tcp://a:1"), grading, None)
