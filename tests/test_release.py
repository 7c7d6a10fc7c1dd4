"""The release: current, reproducible, and free of solutions and hidden tests."""

import json
import shutil
import zipfile

import nbformat
import pytest

from autograder import config, release
from tests.conftest import NAME, REPOSITORY


@pytest.fixture(scope="module")
def student(release_root):
    return release_root / "student" / NAME


def test_the_committed_student_files_are_current(release_root):
    """What is committed is what text, reference and grading.yml make: the same bytes."""
    assert release._compare(release_root / "student" / NAME, REPOSITORY / "student" / NAME) == []


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


def test_students_get_no_solution(student):
    """Every solution line of the reference is absent from everything that students get."""
    lines, inside = [], False
    for line in (REPOSITORY / "reference" / f"{NAME}.py").read_text().splitlines():
        if "# END SOLUTION" in line:
            inside = False
        if len(line.strip()) > 3 and (inside or line.endswith("# SOLUTION")):
            lines.append(line.strip())
        inside = inside or "# BEGIN SOLUTION" in line
    assert len(lines) > 30
    notebook = nbformat.read(student / f"{NAME}.ipynb", as_version=4)
    given = {line.strip() for c in notebook.cells for line in c.source.splitlines()}
    assert not given.intersection(lines)
    everything = "".join(p.read_text() for p in student.rglob("*.py")) + str(notebook)
    assert "SOLUTION" not in everything
    assert "Rubric" not in everything


def test_students_get_no_hidden_test_and_no_hidden_data(student, grading):
    tests = "".join(p.read_text() for p in (student / "tests").glob("*.py"))
    for name, question in grading.assignment(NAME).questions.items():
        for case, entry in question.checks.items():
            assert (f"{name}.{case}'" in tests) != entry.hidden
    assert "hidden=True" not in tests
    assert not [p for p in student.rglob("*") if "hidden" in p.name]


def test_every_cell_has_a_role_a_lasting_id_and_no_output(student):
    notebook = nbformat.read(student / f"{NAME}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [c.id for c in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        role = cell.metadata["autograder"]["role"]
        assert role in {"text", "given", "setup", "answer", "check", "export"}
        assert cell.metadata.get("editable", True) == (role == "answer")
        assert not cell.get("outputs")
    assert {"cnn-answer-1", "cnn-check-1", "reflection-answer-1"} <= set(ids)


def test_the_zip_has_what_otter_and_gradescope_need(release_root):
    path = release_root / "dist" / NAME / "autograder" / f"{NAME}-autograder.zip"
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        environment = archive.read("environment.yml").decode()
        settings = json.loads(archive.read("otter_config.json"))
    assert {"run_autograder", "setup.sh", "otter_config.json", "files/autograder.py"} <= names
    assert {"files/hidden_digits.npz", "files/hidden_digits_labels.npz"} <= names
    assert {"files/kit/checks/core.py", "files/kit/training/__init__.py", "tests/cnn.py"} <= names
    assert "pytorch-cpu" in environment
    assert "python=3.12" in environment
    assert "://" not in environment
    assert settings["assignment_name"] == NAME
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
