"""The release: current, reproducible, and free of solutions and hidden tests."""

import json
import os
import shutil
import zipfile

import nbformat
import otter
import pytest

from autograder import config, release, restore
from autograder.submit import SUBMIT
from tests.conftest import NAME, NAMES, REPOSITORY

HIDDEN = {
    "cnn_vs_fnn": {"hidden_digits.npz", "hidden_digits_labels.npz"},
    "sequence_models": {"hidden_trajectories.npz", "hidden_trajectories_labels.npz"},
    "gradient_flow": set(),
    "encoder_decoder": set(),
    "convolution_basics": set(),
    "sequence_shapes": set(),
    "attention": set(),
}
of_all = pytest.mark.parametrize("name", NAMES)


@of_all
def test_the_committed_student_files_are_current(name, built):
    """What is committed is what text, reference and grading.yml make: the same bytes."""
    assert release._compare(built(name) / "student" / name, REPOSITORY / "student" / name) == []


def test_a_second_build_makes_the_same_bytes(release_root, tmp_path):
    settings = config.load(release_root / "grading.yml")
    again = release._make(NAME, settings, release_root, tmp_path / NAME)
    assert release._compare(again, release_root / "dist" / NAME) == []


def test_a_difference_is_named(release_root, tmp_path):
    settings = config.load(release_root / "grading.yml")
    shutil.copytree(release_root, tmp_path / "copy")
    changed = tmp_path / "copy" / "student" / NAME
    (changed / "autograder.py").write_text("x", encoding="utf-8")
    (changed / "requirements.txt").unlink()
    (changed / "more.txt").write_text("x", encoding="utf-8")
    words = " ".join(release.differences(NAME, settings, tmp_path / "copy"))
    assert "autograder.py differs" in words
    assert "requirements.txt is missing" in words
    assert "more.txt is no longer made" in words


@of_all
def test_students_get_no_solution(name, built):
    """Every solution line of the reference is absent from everything that students get."""
    student, lines, inside = built(name) / "student" / name, [], False
    for line in (REPOSITORY / "reference" / f"{name}.py").read_text().splitlines():
        if "# END SOLUTION" in line:
            inside = False
        if len(line.strip()) > 3 and (inside or line.endswith("# SOLUTION")):
            lines.append(line.strip())
        inside = inside or "# BEGIN SOLUTION" in line
    assert len(lines) >= 30
    notebook = nbformat.read(student / f"{name}.ipynb", as_version=4)
    given = {line.strip() for c in notebook.cells for line in c.source.splitlines()}
    assert not given.intersection(lines)
    everything = "".join(p.read_text() for p in student.rglob("*.py")) + str(notebook)
    assert "SOLUTION" not in everything
    assert "Rubric" not in everything


@of_all
def test_students_get_no_hidden_test_and_no_hidden_data(name, built, grading):
    student = built(name) / "student" / name
    tests = "".join(p.read_text() for p in (student / "tests").glob("*.py"))
    for key, question in grading.assignment(name).questions.items():
        for case, entry in question.checks.items():
            assert (f"{key}.{case}'" in tests) != entry.hidden
    assert "hidden=True" not in tests
    assert not [p for p in student.rglob("*") if "hidden" in p.name]
    data = {p.stem for p in student.rglob("*.npz")}
    assert data == {key.removeprefix("hidden_").removesuffix(".npz") for key in HIDDEN[name]
                    if "_labels" not in key}  # fmt: skip


@of_all
def test_every_cell_has_a_role_a_lasting_id_and_no_output(name, built):
    notebook = nbformat.read(built(name) / "student" / name / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [c.id for c in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        role = cell.metadata["autograder"]["role"]
        assert role in {"text", "given", "setup", "answer", "check", "export"}
        assert cell.metadata.get("editable", True) == (role == "answer")
        assert not cell.get("outputs")
    assert all(key.startswith(f"{name}-") for key in ids)
    assert {f"{name}-reflection-answer-1", f"{name}-page-export-1"} <= set(ids)


@of_all
def test_the_zip_has_what_otter_and_gradescope_need(name, built, grading):
    path = built(name) / "dist" / name / "autograder" / f"{name}-autograder.zip"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        environment = archive.read("environment.yml").decode()
        settings = json.loads(archive.read("otter_config.json"))
    assert {"run_autograder", "setup.sh", "otter_config.json", "files/autograder.py"} <= names
    hidden = {key.removeprefix("files/") for key in names if key.startswith("files/hidden_")}
    assert hidden == HIDDEN[name]
    assert {"files/kit/checks/core.py", "files/kit/training/__init__.py"} <= names
    questions = grading.assignment(name).questions
    assert {f"tests/{key}.py" for key, q in questions.items() if not q.manual} <= names
    assert "pytorch-cpu" in environment
    assert "python=3.12" in environment
    assert "://" not in environment
    assert settings["assignment_name"] == name
    assert not settings.get("plugins")


def test_a_reference_that_fails_leaves_everything_as_it_was(release_root, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(release_root, root)
    path = root / "reference" / f"{NAME}.py"
    path.write_text(path.read_text().replace("// stride + 1", "// stride"), encoding="utf-8")
    before = (root / "student" / NAME / f"{NAME}.ipynb").read_bytes()
    with pytest.raises(release.BuildError, match=r"conv_size"):
        release.build(NAME, config.load(root / "grading.yml"), root)
    assert (root / "student" / NAME / f"{NAME}.ipynb").read_bytes() == before
    assert release._compare(root / "dist" / NAME, release_root / "dist" / NAME) == []


@pytest.mark.parametrize("training", SUBMIT)
def test_the_last_cell_makes_a_zip_without_pandoc_and_says_where(
    training, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no pandoc, no LaTeX, no browser
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    monkeypatch.setattr(otter.Notebook, "_grading_mode", False)
    nbformat.write(nbformat.v4.new_notebook(), f"{NAME}.ipynb")
    code = SUBMIT[training][1].format(name=NAME)
    exec(code, {"os": os, "grader": otter.Notebook()})
    (made,) = tmp_path.glob(f"{NAME}_*.zip")
    assert f"Hand in this file: {made}" in capsys.readouterr().out
    with zipfile.ZipFile(made) as archive:
        assert f"{NAME}.ipynb" in archive.namelist()
    nbformat.write(nbformat.v4.new_notebook(), "second.ipynb")
    exec(code, {"os": os, "grader": otter.Notebook()})
    told = capsys.readouterr().out
    assert "No zip was made" in told
    assert "Hand in this file" not in told


PAIRS = [(one, other) for one in NAMES for other in NAMES if one != other]


@pytest.mark.parametrize("bare", [False, True], ids=["with ids", "without ids"])
@pytest.mark.parametrize("pair", PAIRS, ids="-for-".join)
def test_the_notebook_of_another_assignment_is_refused_without_its_name(pair, bare, built):
    """Several assignments have a question called training: that must not be enough."""
    notebooks = [built(n) / "dist" / n / "student" / f"{n}.ipynb" for n in pair]
    handed_in, pristine = (nbformat.read(path, as_version=4) for path in notebooks)
    del handed_in.metadata["otter"]
    for number, cell in enumerate(handed_in.cells):
        if bare:
            cell.id, cell.metadata = f"c{number}", {}
    assert "does not look like" in (restore.wrong_assignment(handed_in, pristine) or "")


def test_where_no_network_could_be_kept_a_build_says_so(grading, tmp_path):
    asked = grading.model_dump()
    asked["assignments"]["gradient_flow"] |= {
        "training": "checkpoint", "verify": {"loss": 1, "accuracy": 1, "samples": 0},
    }  # fmt: skip
    settings = config.Config.model_validate(asked)
    with pytest.raises(release.BuildError, match=r"no question .* `learned`"):
        release.build("gradient_flow", settings, tmp_path)
