"""The notebooks in a real Jupyter kernel: the solved one, and the untouched one of a student."""

import re
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import NAMES


def execute(folder, source):
    """Run a notebook top to bottom in `folder`, errors kept as outputs."""
    notebook = nbformat.read(source, as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute()
    return {cell.id: cell for cell in notebook.cells if cell.cell_type == "code"}


def errors(cells):
    return [
        (key, output.ename, output.evalue)
        for key, cell in cells.items()
        for output in cell.outputs
        if output.output_type == "error"
    ]


def shown(cell):
    """What a check cell shows: its plain text and its HTML."""
    (data,) = [o.data for o in cell.outputs if o.output_type == "execute_result"]
    return data["text/plain"], data["text/html"]


@pytest.fixture(scope="module", params=NAMES)
def folders(request, built, tmp_path_factory):
    """The student's folder, and it again with the solved notebook under another name."""
    name, made = request.param, []
    root = built(name)
    for kind in ("untouched", "solved"):
        made.append(tmp_path_factory.mktemp("student") / kind / name)
        shutil.copytree(root / "student" / name, made[-1])
    solved = made[1] / "my work (1).ipynb"
    shutil.copy(root / "dist" / name / "autograder" / f"{name}.ipynb", solved)
    (made[1] / f"{name}.ipynb").unlink()
    return made


def test_the_solved_notebook_runs_and_passes_under_any_name(folders, grading):
    cells = execute(folders[1], folders[1] / "my work (1).ipynb")
    assert errors(cells) == []
    checks = [c for c in cells.values() if c.metadata.autograder.role == "check"]
    questions = grading.assignment(folders[1].name).questions.values()
    assert len(checks) == sum(not question.manual for question in questions)
    for cell in checks:
        assert re.fullmatch(r"✓ \w+: (all \d+|the) visible checks? passed\.", shown(cell)[0])
    exported = list(folders[1].glob("my work (1)*.zip"))
    assert len(exported) == 1
    if folders[1].name == "cnn_vs_fnn":
        printed = [o.text for o in cells["cnn_vs_fnn-page-given-2"].outputs if "text" in o]
        assert "Total params: 19,988" in "".join(printed)
        assert "counted directly: 19,988 trainable parameters" in "".join(printed)


def test_in_the_untouched_notebook_each_check_is_one_friendly_line(folders):
    cells = execute(folders[0], folders[0] / f"{folders[0].name}.ipynb")
    assert errors(cells) == []
    for cell in cells.values():
        if cell.metadata.autograder.role == "check":
            text, page = shown(cell)
            assert len(text.splitlines()) == 1
            assert text.startswith(f"○ {cell.metadata.autograder.question}: ")
            assert "<table" not in page
            assert "Error" not in text
