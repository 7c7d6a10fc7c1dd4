"""Make the sample class of `make demo`: eight submissions such as a teacher really gets.

Run by hand after a change of the assignment, from the repository root, with a built release:
python -m examples.make_class
"""

import re
import shutil
import zipfile
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests import golden

NAME = "cnn_vs_fnn"
CLASS = Path(__file__).parent / NAME
RELEASE = Path(__file__).parents[1] / "dist" / NAME
SIGN_IN = "<!doctype html>\n<html><title>Sign in</title><body>Please sign in.</body></html>\n"


def main() -> None:
    """Write the folder anew."""
    bank = {entry.student: entry for entry in golden.load(NAME)}
    made = {student: golden.notebook(entry, RELEASE) for student, entry in bank.items()}
    shutil.rmtree(CLASS, ignore_errors=True)
    CLASS.mkdir()
    write("ada.ipynb", made["variants_batch_norm"])
    write("00417.ipynb", made["mutants_softmax_before_the_loss"])
    write("bruno (1).ipynb", made["mutants_cnn_without_activation"])
    write("dana.ipynb", made["submissions_half_done"])
    write("farah.ipynb", made["submissions_blank"])
    with zipfile.ZipFile(CLASS / "chiara.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{NAME}.ipynb", nbformat.writes(made["variants_global_average"]))
    (CLASS / "emil").mkdir()
    write("emil/homework.ipynb", dying(made["submissions_reference"]))
    (CLASS / "gustav.ipynb").write_text(SIGN_IN, encoding="utf-8")


def write(name: str, notebook: NotebookNode) -> None:
    """Write a notebook as it would be handed in, without the marks of the solution."""
    for cell in notebook.cells:
        cell.source = re.sub(r"\n *# (BEGIN|END) SOLUTION|  # SOLUTION", "", cell.source)
    nbformat.write(notebook, CLASS / name)


def dying(notebook: NotebookNode) -> NotebookNode:
    """The kernel dies while the second network is trained."""
    (cell,) = [c for c in notebook.cells if c.id == f"{NAME}-training-answer-2"]
    cell.source += "\nimport ctypes\nctypes.string_at(0)  # reads where nothing may be read"
    return notebook


if __name__ == "__main__":
    main()
