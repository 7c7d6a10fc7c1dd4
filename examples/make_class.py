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

from autograder.validity import notebooks
from tests import golden

NAME = "cnn_vs_fnn"
CLASS = Path(__file__).parent / NAME
RELEASE = Path(__file__).parents[1] / "dist" / NAME
ANSWERS = {
    "ada.ipynb": """The CNN reaches about 0.97, the FNN about 0.92, with equally many parameters.

A convolution takes it for granted that **neighbouring pixels belong together** (its kernels are
small) and that a pattern means the same wherever it stands (its weights are shared). So the same
few numbers are used at every place, and the budget buys more features. With permuted pixels the FNN
would learn just as well, since it knows nothing of neighbours; the CNN would lose its lead.""",
    "00417.ipynb": "The CNN is better because it is a CNN and CNNs are good for images.",
    "bruno (1).ipynb": "CNN 0.96, FNN 0.92. Small kernels, shared weights. Permuted: as before.",
    "chiara": """1. CNN is ahead by five points.
2. It assumes *locality* and *translation equivariance*.
3. After a permutation its kernels see pixels that have nothing to do with each other.""",
    "emil/homework.ipynb": "My kernel died, I could not compare them.",
}
SIGN_IN = "<!doctype html>\n<html><title>Sign in</title><body>Please sign in.</body></html>\n"


def main() -> None:
    """Write the folder anew."""
    bank = {entry.student: entry for entry in golden.load(NAME)}
    made = {student: notebooks.notebook(entry, RELEASE) for student, entry in bank.items()}
    shutil.rmtree(CLASS, ignore_errors=True)
    CLASS.mkdir()
    write("ada.ipynb", made["variants_batch_norm"])
    write("00417.ipynb", made["mutants_softmax_before_the_loss"])
    write("bruno (1).ipynb", made["mutants_cnn_without_activation"])
    write("dana.ipynb", made["submissions_half_done"])
    write("farah.ipynb", made["submissions_blank"])
    with zipfile.ZipFile(CLASS / "chiara.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        told = as_handed_in("chiara", made["variants_global_average"])
        archive.writestr(f"{NAME}.ipynb", nbformat.writes(told))
    (CLASS / "emil").mkdir()
    write("emil/homework.ipynb", dying(made["submissions_reference"]))
    (CLASS / "gustav.ipynb").write_text(SIGN_IN, encoding="utf-8")


def write(name: str, notebook: NotebookNode) -> None:
    """Write a notebook as it would be handed in."""
    nbformat.write(as_handed_in(name, notebook), CLASS / name)


def as_handed_in(name: str, notebook: NotebookNode) -> NotebookNode:
    """Without rubric and marks of the solution, and with an answer to the manual question."""
    notebook.cells = [c for c in notebook.cells if not is_rubric(c)]
    for cell in notebook.cells:
        cell.source = re.sub(r"\n *# (BEGIN|END) SOLUTION|  # SOLUTION", "", cell.source)
        if cell.id == f"{NAME}-reflection-answer-1":
            cell.source = ANSWERS.get(name, cell.source)
    return notebook


def is_rubric(cell: NotebookNode) -> bool:
    """Whether it tells what a manual answer should hold."""
    solved = "otter_assign_solution_cell" in cell.metadata.get("tags", ())
    return solved and cell.cell_type == "markdown"


def dying(notebook: NotebookNode) -> NotebookNode:
    """The kernel dies while the second network is trained."""
    (cell,) = [c for c in notebook.cells if c.id == f"{NAME}-training-answer-2"]
    cell.source += "\nimport ctypes\nctypes.string_at(0)  # reads where nothing may be read"
    return notebook


if __name__ == "__main__":
    main()
