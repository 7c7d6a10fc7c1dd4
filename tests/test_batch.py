"""The batch: what runs, what doesn't, and which attempt counts."""

import json
import weakref
from contextlib import closing

import pytest

from autograder.config import ConfigError
from autograder.grade import Batch, Crew, Release, environments
from autograder.grade import batch as running
from autograder.grade import devices as placing
from autograder.grade.executed import Executed
from autograder.grade.twins import Twins
from autograder.gradebook import Gradebook
from autograder.intake import find
from tests import tiny


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Root, inbox and folder of results; the pools that were made."""
    made = []

    class Pool(tiny.FakePool):
        def __init__(self, *_, **__):
            super().__init__()
            made.append(self)

    tiny.use_fakes(monkeypatch, Pool)
    tiny.make_root(tmp_path)
    return tmp_path, tmp_path / "inbox", tmp_path / "out", made


def runs(made):
    """Whose answers were run, in order."""
    return [answer.split("'")[1] for pool in made for answer in pool.ran]


def attempts(out):
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        return list(gradebook.attempts(tiny.NAME))


def counting(root, out):
    grading = tiny.config.load(root / "grading.yml")
    with closing(Batch(Release.load(tiny.NAME, root), grading, out)) as batch:
        return {a.student: a for a in batch.latest()}


def copy_of(inbox, student, twin):
    (inbox / f"{twin}.ipynb").write_bytes((inbox / f"{student}.ipynb").read_bytes())


# What runs.


def test_a_second_batch_runs_only_what_is_new_changed_or_has_no_grade(course):
    root, inbox, out, made = course
    tiny.hand_in(inbox, "ada")
    tiny.hand_in(inbox, "bob", ended="infrastructure")
    tiny.hand_in(inbox, "cara", ended="died")
    tiny.grade(root, inbox, out)
    made.clear()
    tiny.hand_in(inbox, "cara", [14, 8])
    tiny.hand_in(inbox, "dan")
    tiny.grade(root, inbox, out)
    assert runs(made) == ["bob", "cara", "dan"]


def test_only_those_named_are_graded(course):
    root, inbox, out, made = course
    for student in ("ada", "bob", "cara"):
        tiny.hand_in(inbox, student)
    assert list(tiny.grade(root, inbox, out, ["bob"])) == ["bob"]
    with pytest.raises(ConfigError, match="no submission of adam, eve"):
        tiny.grade(root, inbox, out, ["eve", "ada", "adam"])
    assert runs(made) == ["bob"]


def test_regrading_runs_again_and_keeps_the_earlier_attempt(course):
    root, inbox, out, made = course
    for student in ("ada", "bob"):
        tiny.hand_in(inbox, student)
    tiny.grade(root, inbox, out)
    tiny.grade(root, inbox, out, ["ada"], regrade=True)
    assert runs(made) == ["ada", "bob", "ada"]
    assert [a.student for a in attempts(out)] == ["ada", "bob", "ada"]
    assert tiny.grade(root, inbox, out) == {}


def test_regrading_that_is_stopped_goes_on_without_the_option(course):
    root, inbox, out, made = course
    for student in ("ada", "bob", "cara"):
        tiny.hand_in(inbox, student)
    tiny.grade(root, inbox, out)
    grading = tiny.config.load(root / "grading.yml")
    with (
        closing(Batch(Release.load(tiny.NAME, root), grading, out)) as batch,
        closing(Crew(grading, 1)) as crew,
    ):
        waiting, _ = batch.pending(find(inbox, tiny.NAME), regrade=True)
        for _ in batch.run(waiting, crew):
            batch.stop()
        assert batch.gradebook.waiting(tiny.NAME) == ["bob", "cara"]
        assert len(batch.latest()) == 3
    made.clear()
    tiny.grade(root, inbox, out)
    assert runs(made) == ["bob", "cara"]


def test_another_seed_or_other_code_is_another_run(course):
    root, inbox, out, made = course
    tiny.hand_in(inbox, "ada")
    tiny.grade(root, inbox, out)
    raw = tiny.settings()
    raw["assignments"][tiny.NAME]["seed"] = 4
    tiny.write_settings(root, raw)
    tiny.grade(root, inbox, out)
    assert runs(made) == ["ada", "ada"]
    assert counting(root, out)["ada"].notes == ()


def test_the_last_attempt_counts_also_if_it_equals_an_earlier_one(course):
    """A right file, a wrong one, and the right one again, in a Canvas download."""
    root, inbox, out, _ = course
    tiny.hand_in(inbox, "right")
    tiny.hand_in(inbox, "wrong", [0, 0])
    files = {name: (inbox / f"{name}.ipynb").read_bytes() for name in ("right", "wrong")}
    for name in files:
        (inbox / f"{name}.ipynb").unlink()
    for number, name in enumerate(("right", "wrong", "right")):
        again = f"-{number}" if number else ""
        (inbox / f"doejane_111_900{number}_hw{again}.ipynb").write_bytes(files[name])
    (inbox / "roejim_222_9009_hw.ipynb").write_bytes(files["wrong"])
    tiny.grade(root, inbox, out)
    points = {a.student: a.points("size") for a in counting(root, out).values()}
    assert points == {"111": 3, "222": 0}


# Identical notebooks.


def test_identical_notebooks_run_once_and_everybody_gets_an_attempt(course):
    root, inbox, out, made = course
    tiny.hand_in(inbox, "ada", [14, 9])
    for twin in ("bob", "cara"):
        copy_of(inbox, "ada", twin)
    tiny.hand_in(inbox, "dan")
    found = tiny.grade(root, inbox, out)
    assert runs(made) == ["ada", "dan"]
    assert {a.student: a.points("size") for a in attempts(out)} == {
        "ada": 1, "bob": 1, "cara": 1, "dan": 3,
    }  # fmt: skip
    assert found["bob"].run == found["ada"].run
    assert found["bob"].results == found["ada"].results
    assert found["bob"].content == found["ada"].content != found["dan"].content


def test_a_twin_keeps_its_own_text_in_the_executed_notebook(course):
    root, inbox, out, _ = course
    tiny.hand_in(inbox, "ada")
    raw = json.loads((inbox / "ada.ipynb").read_text())
    raw["cells"].append({"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "My own"})
    (inbox / "bob.ipynb").write_text(json.dumps(raw))
    tiny.grade(root, inbox, out)
    executed = Executed(out / tiny.NAME / "executed", 1)
    for attempt in attempts(out):
        executed.publish(attempt)
    ada, bob = ((executed.folder / f"{s}.ipynb").read_text() for s in ("ada", "bob"))
    assert "My own" in bob
    assert "My own" not in ada
    assert '"stdout"' in ada
    assert '"stdout"' in bob


@pytest.mark.parametrize("end", [{"ended": "died"}, {"refused": 1}, {"ended": "infrastructure"}])
def test_a_result_that_may_be_chance_is_not_shared(course, end):
    root, inbox, out, made = course
    tiny.hand_in(inbox, "ada", [14], **end)
    for twin in ("bob", "cara"):
        copy_of(inbox, "ada", twin)
    tiny.grade(root, inbox, out)
    assert runs(made) == ["ada", "ada", "ada"]


def test_twins_wait_for_the_one_that_runs():
    twins = Twins()
    assert not twins.must_wait("x", "ada")
    assert twins.must_wait("x", "bob")
    assert not twins.must_wait("y", "cara")
    assert twins.done("x", "graded", 7) == ["bob"]
    assert twins.finished("x") == 7
    assert twins.done("y", "partial", 8) == []
    assert twins.finished("y") is None
    assert not twins.must_wait("y", "dan")
    assert not twins.must_wait("y", "eve")


# Memory.


def test_notebooks_are_read_when_their_turn_comes_and_then_forgotten(course, monkeypatch):
    root, inbox, out, _ = course
    for number in range(12):
        tiny.hand_in(inbox, f"s{number:02}")
    read, kept = [], []
    real = running.read

    def reading(*arguments, **more):
        submission = real(*arguments, **more)
        read.append(submission.student)
        kept.append(weakref.ref(submission))
        return submission

    monkeypatch.setattr(running, "read", reading)
    grading = tiny.config.load(root / "grading.yml")
    with (
        closing(Batch(Release.load(tiny.NAME, root), grading, out)) as batch,
        closing(Crew(grading, 2)) as crew,
    ):
        waiting, _ = batch.pending(find(inbox, tiny.NAME))
        assert read == []
        for number, _ in enumerate(batch.run(waiting, crew), 1):
            assert len(read) <= number + 3  # two run, one is ready
            assert sum(ref() is not None for ref in kept) <= 5
    assert len(read) == 12


# Which attempt counts.


def test_an_older_file_that_is_put_back_counts_again_without_a_run(course):
    root, inbox, out, made = course
    tiny.hand_in(inbox, "ada", [14, 7])
    before = (inbox / "ada.ipynb").read_bytes()
    tiny.grade(root, inbox, out)
    tiny.hand_in(inbox, "ada", [14, 9])
    tiny.grade(root, inbox, out)
    assert counting(root, out)["ada"].points("size") == 1
    (inbox / "ada.ipynb").write_bytes(before)
    made.clear()
    assert tiny.grade(root, inbox, out) == {}
    assert counting(root, out)["ada"].points("size") == 3


def test_the_notebook_that_is_shown_is_the_one_that_counts(course):
    root, inbox, out, _ = course
    executed = Executed(out / tiny.NAME / "executed", 1)
    shown = executed.folder / "ada.ipynb"
    for sizes in ([14, 7], [14, 9], [14, 7]):
        tiny.hand_in(inbox, "ada", sizes)
        tiny.grade(root, inbox, out)
        executed.publish(counting(root, out)["ada"])
        assert json.dumps(json.dumps(sizes))[1:-1] in shown.read_text()
    (inbox / "ada.ipynb").write_text("broken")
    tiny.grade(root, inbox, out)
    executed.publish(counting(root, out)["ada"])
    assert not shown.exists()


# Where it runs.


def gpus(monkeypatch, count):
    monkeypatch.setattr(placing, "count_gpus", lambda: count)
    monkeypatch.setattr(placing, "_has_driver", lambda: count > 0)


def on(root, device, **gpu):
    raw = tiny.settings()
    raw["device"] = device
    raw["gpu"].update(gpu)
    return tiny.write_settings(root, raw)


@pytest.mark.parametrize(
    ("device", "count", "expected"),
    [("cpu", 2, "cpu"), ("auto", 0, "cpu"), ("auto", 1, "cuda"), ("cuda", 1, "cuda")],
)
def test_the_device(tmp_path, monkeypatch, device, count, expected):
    gpus(monkeypatch, count)
    slots = environments(on(tmp_path, device), 1)
    assert [s["AUTOGRADER_DEVICE"] for s in slots] == [expected]


def test_cuda_without_a_gpu_is_refused(tmp_path, monkeypatch):
    gpus(monkeypatch, 0)
    with pytest.raises(ConfigError, match="--device cpu"):
        environments(on(tmp_path, "cuda"), 1)


def test_each_gpu_has_its_slots_and_no_more(tmp_path, monkeypatch):
    gpus(monkeypatch, 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    config = on(tmp_path, "cuda", slots_per_device=2, memory_fraction=0.4)
    slots = environments(config, 16)
    assert [s["CUDA_VISIBLE_DEVICES"] for s in slots] == ["4", "7", "4", "7"]
    assert {s["AUTOGRADER_GPU_MEMORY_FRACTION"] for s in slots} == {"0.4"}
    assert len(environments(config, 3)) == 3


def test_a_gpu_is_not_given_away_more_than_once(tmp_path):
    with pytest.raises(ConfigError, match="times memory_fraction must not be more than 1"):
        on(tmp_path, "cuda", slots_per_device=2, memory_fraction=0.6)


def test_counting_gpus_does_not_initialise_cuda_here():
    import torch

    placing.count_gpus.cache_clear()
    assert placing.count_gpus() == torch.cuda.device_count()
    assert not torch.cuda.is_initialized()


def test_a_worker_keeps_to_its_share_of_the_gpu(monkeypatch):
    import torch

    from autograder.worker.process import seed_everything

    taken = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", taken.append)
    seed_everything(1)
    assert taken == []
    monkeypatch.setenv("AUTOGRADER_GPU_MEMORY_FRACTION", "0.4")
    seed_everything(1)
    assert taken == [0.4]
