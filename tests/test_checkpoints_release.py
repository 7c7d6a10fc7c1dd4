"""A release with `training: checkpoint`, from the student's kernel to the grades, for real."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from contextlib import closing

import nbformat
import otter
import pytest
from nbclient import NotebookClient
from safetensors import safe_open
from safetensors.torch import load, save

from autograder import config, data, release
from autograder.grade import Batch, Crew, Release
from autograder.intake import find
from autograder.training import checkpoints
from autograder.validity.notebooks import notebook as solved_by
from autograder.validity.runs import not_passed
from tests import golden
from tests.conftest import NAME, REPOSITORY


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """cnn_vs_fnn built with the one key changed."""
    root = tmp_path_factory.mktemp("checkpoint")
    for part in ("assignments", "reference"):
        shutil.copytree(REPOSITORY / part, root / part)
    text = (REPOSITORY / "grading.yml").read_text(encoding="utf-8")
    text = text.replace("training: rerun", "training: checkpoint", 1)
    (root / "grading.yml").write_text(text, encoding="utf-8")
    release.build(NAME, config.load(root / "grading.yml"), root)
    return root


@pytest.fixture(scope="module")
def grading(root):
    return config.load(root / "grading.yml")


@pytest.fixture(scope="module")
def exported(root, tmp_path_factory):
    """The zip that the last cell makes in a student's folder, where the reference was run."""
    place = tmp_path_factory.mktemp("student") / NAME
    shutil.copytree(root / "student" / NAME, place)
    (reference,) = [g for g in golden.load(NAME) if g.student == "submissions_reference"]
    notebook = solved_by(reference, root / "dist" / NAME)
    nbformat.write(notebook, place / f"{NAME}.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_DEVICE", "cpu")
        patch.delenv("PYTHONPATH", raising=False)  # the student's own package, not ours
        NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(place)}}
        ).execute()
    (made,) = place.glob("*.zip")
    return made


def members(archive):
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def write(inbox, student, files):
    with zipfile.ZipFile(inbox / f"{student}.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def named(files, kind, ending):
    (name,) = [n for n in files if n.startswith(f"checkpoints/{kind}-") and n.endswith(ending)]
    return name


def forged(files, history=lambda record: None, weights=lambda tensors: None):
    """The files with other weights or another history of the CNN, but right names and hashes."""
    name, record = (named(files, "CNN", end) for end in (".safetensors", ".json"))
    told = json.loads(files[record])
    history(told)
    text = json.dumps(told).encode()
    tensors = load(files[name])
    weights(tensors)
    about = {"assignment": NAME, "history": checkpoints._digest(text)}
    return {**files, record: text, name: save(tensors, metadata=about)}


def untrained(tensors):
    """Equal logits, so that every digit is a 0."""
    for tensor in tensors.values():
        tensor.zero_()


def other_accuracy(record):
    labels = data.load("digits").validation[1]
    record["validation_accuracy"][-1] = (labels == 0).double().mean().item()


def lower_losses(record):
    record["train_loss"] = [2.0, *[1.0] * 6, 0.5]


def edited(files, old, new):
    notebook = nbformat.reads(files[f"{NAME}.ipynb"].decode(), as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    return {**files, f"{NAME}.ipynb": nbformat.writes(notebook).encode()}


@pytest.fixture(scope="module")
def graded(root, exported, grading, tmp_path_factory):
    """Attempts by student, all of them trained again where that is to be done."""
    inbox = tmp_path_factory.mktemp("inbox")
    files = members(exported)
    without = {n: d for n, d in files.items() if not n.startswith("checkpoints/CNN")}
    made = {
        "honest": files,
        "missing": without,
        "changed class": edited(files, "62", "63"),  # units of the hidden layer
        "untrained": forged(files, weights=untrained),
        "untrained, and told so": forged(files, other_accuracy, untrained),
        "invented losses": forged(files, lower_losses),
    }
    for student, content in made.items():
        write(inbox, student, content)
    out = tmp_path_factory.mktemp("out")
    settings = grading.model_copy(update={"device": "cpu"})
    built = Release.load(NAME, root)
    with closing(Batch(built, settings, out, 1.0)) as batch, closing(Crew(settings, 2)) as crew:
        waiting, _ = batch.pending(find(inbox, NAME))
        return {attempt.student: attempt for attempt in batch.run(waiting, crew)}


def failed(attempt):
    return {f"{r.question}.{r.case}" for r in attempt.results if r.verdict.status == "failed"}


def test_the_last_cell_makes_one_zip_with_the_networks(exported):
    files = members(exported)
    kept = sorted(name for name in files if name.startswith("checkpoints/"))
    assert [name.partition("-")[0] for name in kept] == ["checkpoints/CNN"] * 2 + [
        "checkpoints/FNN"
    ] * 2
    assert f"{NAME}.ipynb" in files
    weights = exported.parent / named(files, "CNN", ".safetensors")
    with safe_open(str(weights), framework="pt") as opened:
        assert opened.metadata()["assignment"] == NAME


def test_right_answers_get_full_marks_without_training(graded):
    attempt = graded["honest"]
    assert (attempt.status, attempt.reason, attempt.notes) == ("graded", "", ())
    assert not_passed(attempt) == set()


def test_a_network_without_checkpoint_is_told_and_costs_nobody_a_silent_zero(graded):
    attempt = graded["missing"]
    assert attempt.status == "partial"
    assert "training, comparison: No checkpoint for CNN (" in attempt.reason
    assert "hand in the folder checkpoints with the notebook." in attempt.reason
    assert attempt.points("training") is attempt.points("comparison") is None
    assert attempt.points("cnn") == 9


def test_a_class_that_was_changed_after_training_is_told(graded):
    attempt = graded["changed class"]
    assert attempt.status == "partial"
    assert "was something changed after training?" in attempt.reason
    assert attempt.points("training") is None


def test_weights_that_were_never_trained_are_found_by_the_same_checks(graded):
    assert {"training.cnn_learned", "training.cnn_accuracy"} <= failed(graded["untrained"])
    told = failed(graded["untrained, and told so"])
    assert "training.cnn_accuracy" in told
    assert "training.cnn_learned" not in told  # the record fits the weights


@pytest.mark.parametrize(
    ("student", "expected"),
    [
        ("untrained", "training.cnn_learned: failed by its checkpoint, passed when trained again"),
        ("untrained, and told so", "training.cnn_accuracy: failed by its checkpoint, passed when"),
        ("invented losses", "training.cnn_learned: the last training loss is 0.5, 0.0"),
    ],
)
def test_a_second_run_with_training_finds_what_was_invented(graded, student, expected):
    attempt = graded[student]
    assert attempt.status == "flagged"
    assert attempt.reason.startswith("Trained again, it differs from its checkpoints. ")
    assert expected in attempt.reason


def test_otter_trains_again_and_gives_the_same_points(root, exported, graded, grading, tmp_path):
    archive = Release.load(NAME, root).zip
    command = [sys.executable, "-m", "otter", "run", "-a", archive, "-o", tmp_path, "--no-logo"]
    env = {**os.environ, "AUTOGRADER_DEVICE": "cpu"}
    done = subprocess.run(
        [*command, exported], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    scores = {test["name"]: test["score"] for test in results["tests"] if "score" in test}
    automatic = [n for n, q in grading.assignment(NAME).questions.items() if not q.manual]
    assert scores == {name: graded["honest"].points(name) for name in automatic}


def test_the_notebook_alone_can_be_exported_before_anything_was_trained(
    root, tmp_path, monkeypatch
):
    shutil.copytree(root / "student" / NAME, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    grader = otter.Notebook(f"{NAME}.ipynb", tests_dir="tests")
    namespace = {"os": os, "grader": grader}
    exec(export_cell(root), namespace)
    (made,) = (tmp_path / "place").glob("*.zip")
    assert f"{NAME}.ipynb" in members(made)


def export_cell(root):
    notebook = nbformat.read(root / "student" / NAME / f"{NAME}.ipynb", as_version=4)
    return notebook.cells[-1].source


@pytest.mark.parametrize("gives_notebook", [True, False])
def test_on_colab_the_zip_holds_notebook_and_networks(
    root, tmp_path, monkeypatch, capsys, gives_notebook
):
    """Colab's two functions are ours here: this shows what the cell makes of their answers."""
    given = []

    class Message:
        @staticmethod
        def blocking_request(name, timeout_sec):
            assert name == "get_ipynb"
            return {"ipynb": {"cells": []}} if gives_notebook else None

    class Files:
        download = given.append

    colab = type(otter)("google.colab")
    colab._message, colab.files = Message, Files
    monkeypatch.setitem(sys.modules, "google", type(otter)("google"))
    monkeypatch.setitem(sys.modules, "google.colab", colab)
    monkeypatch.setenv("COLAB_RELEASE_TAG", "x")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "CNN-1.json").write_text("{}")
    for _ in range(2):  # the second time the folder is there already
        exec(export_cell(root), {"os": os})
    with open(given[1], "rb") as file:
        names = set(zipfile.ZipFile(io.BytesIO(file.read())).namelist())
    assert "checkpoints/CNN-1.json" in names
    assert (f"{NAME}.ipynb" in names) == gives_notebook
    assert ("put that file into the zip" in capsys.readouterr().out) != gives_notebook


def test_the_mode_is_part_of_the_releases_version(root, release_root):
    assert Release.load(NAME, root).version != Release.load(NAME, release_root).version


def test_a_change_of_the_mode_needs_a_new_build(root, release_root):
    for built, other in ((root, release_root), (release_root, root)):
        grading = config.load(other / "grading.yml")
        assert release.changed_since_build(NAME, grading, built)


def test_only_releases_with_checkpoints_ask_for_the_format(root, release_root):
    for built, expected in ((root, True), (release_root, False)):
        student = built / "student" / NAME
        texts = (student / "requirements.txt", built / "dist" / NAME / "environment.yml")
        assert {"safetensors" in path.read_text() for path in texts} == {expected}
        assert (student / "kit" / "training" / "checkpoints.json").exists() == expected
