"""Masters -> `otter assign` -> student/ and the autograder zip, byte for byte the same each time.

Layout (all made here):
    dist/<name>/<name>.ipynb     the master, with the files that `otter assign` needs beside it
    dist/<name>/autograder/      the solved notebook, <name>-autograder.zip, all tests
    dist/<name>/student/         what students get; copied to student/<name>/, which is committed

Students import the package `autograder` too. Otter's own output folder has that name, and a folder
in a submission would shadow ours, so the release carries a module `autograder.py`, which Otter
always puts back, and which points to the folder `kit` that holds checks, data and training.
"""

import filecmp
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import autograder
from autograder import master
from autograder.config import Assignment, Config
from autograder.identity import running_cells
from autograder.training import checkpoints

PACKAGE = Path(autograder.__file__).parent

SHIM = '''\
"""Makes `import autograder` find the exercise's checks, data and training in the folder kit."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parent / "kit")]
'''

# conda-forge has torch for the CPU under a name of its own; PyPI's default one is ten times larger.
ENVIRONMENT = """\
dependencies:
  - pytorch-cpu >=2.6,<3
  - torchvision >=0.21,<1
  - numpy >=1.26,<3
  - matplotlib-base >=3.8,<4
  - tqdm >=4.66,<5
  - pip:
      - torchsummary>=1.5.1,<2
"""

REQUIREMENTS = """\
otter-grader>=7.0,<8
torch>=2.6,<3
torchvision>=0.21,<1
torchsummary>=1.5.1,<2
numpy>=1.26,<3
matplotlib>=3.8,<4
tqdm>=4.66,<5
jupyterlab>=4,<5
"""

SAFETENSORS = "safetensors>=0.5,<1"  # where networks are kept


class BuildError(RuntimeError):
    """A release could not be built; what was there before is untouched."""


def build(name: str, config: Config, root: Path) -> None:
    """Build an assignment's release into dist/<name>/ and student/<name>/.

    Everything is made in a temporary folder, and moved only when the solved notebook has passed
    every test.

    Raises:
        BuildError: `otter assign` refused the master, the reference fails a test, or networks are
            to be kept and there are none.
        master.AuthoringError: text, reference and grading.yml don't fit together.
    """
    _require_networks(name, config.assignment(name))
    with tempfile.TemporaryDirectory(prefix="build-") as temporary:
        made = _make(name, config, root, Path(temporary) / name)
        _replace(made, root / "dist" / name)
        _replace(root / "dist" / name / "student", root / "student" / name, keep_source=True)


def _require_networks(name: str, assignment: Assignment) -> None:
    checks = {e.check for q in assignment.questions.values() for e in q.checks.values()}
    if assignment.training == "checkpoint" and "learned" not in checks:
        raise BuildError(
            f"{name}: training: checkpoint keeps networks that `fit` has trained, and no question "
            "here has the check `learned` of such a training. Set training: rerun."
        )


def differences(name: str, config: Config, root: Path) -> list[str]:
    """Paths below student/<name>/ that a fresh build would change, in words; empty when current."""
    with tempfile.TemporaryDirectory(prefix="check-") as temporary:
        fresh = _make(name, config, root, Path(temporary) / name) / "student"
        return _compare(fresh, root / "student" / name)


def changed_since_build(name: str, config: Config, root: Path) -> list[str]:
    """What runs in dist/<name>/ and no longer fits text, reference, grading.yml or code, in words.

    Points, thresholds and prose don't run: a batch judges by grading.yml as it is.
    """
    built = root / "dist" / name
    with tempfile.TemporaryDirectory(prefix="check-") as temporary:
        fresh = Path(temporary)
        path = master.write(name, config, root, fresh)
        _support_files(name, config.assignment(name), fresh)
        words = [w for w in _compare(fresh, built) if not w.endswith("is no longer made")]
        masters = [nbformat.read(p, as_version=4) for p in (path, built / path.name) if p.exists()]
    texts = f"{built / path.name} differs"
    same = len({json.dumps(running_cells(one)) for one in masters}) == 1
    return [word for word in words if not (same and word == texts)]


def _make(name: str, config: Config, root: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = master.write(name, config, root, folder)
    _support_files(name, config.assignment(name), folder)
    _otter_assign(path, folder)
    (made_zip,) = (folder / "autograder").glob("*.zip")
    _normalise_zip(made_zip, folder / "autograder" / f"{name}-autograder.zip")
    made_zip.unlink()
    requirements = REQUIREMENTS + _more(config.assignment(name), SAFETENSORS)
    (folder / "student" / "requirements.txt").write_text(requirements, encoding="utf-8")
    for side in ("autograder", "student"):
        _finish_notebook(folder / side / f"{name}.ipynb")
    for cache in folder.rglob("__pycache__"):
        shutil.rmtree(cache)
    return folder


def _more(assignment: Assignment, line: str) -> str:
    """A line that only assignments need whose networks are kept."""
    return f"{line}\n" if assignment.training == "checkpoint" else ""


def _support_files(name: str, assignment: Assignment, folder: Path) -> None:
    """The files that the master's configuration names, beside it."""
    (folder / "autograder.py").write_text(SHIM, encoding="utf-8")
    environment = ENVIRONMENT + _more(assignment, f"      - {SAFETENSORS}")
    (folder / "environment.yml").write_text(environment, encoding="utf-8")
    data = PACKAGE / "data"
    others = [p.name for p in data.glob("*.npz") if p.stem not in assignment.datasets]
    leave = shutil.ignore_patterns("hidden", "__pycache__", "make_*.py", *others)
    for part in ("checks", "data", "training"):
        shutil.copytree(PACKAGE / part, folder / "kit" / part, ignore=leave)
    if assignment.training == "checkpoint":
        place = folder / "kit" / "training" / checkpoints.SETTINGS.name
        place.write_text(checkpoints.settings(name, "keep"), encoding="utf-8")
    for hidden in master.hidden_files(assignment):
        shutil.copy(data / "hidden" / hidden.removeprefix("hidden_"), folder / hidden)


def _otter_assign(path: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "otter", "assign", "--no-pdfs", str(path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"otter assign failed on {path.name}:\n{_tail(done.stdout + done.stderr)}")


def _tail(text: str, lines: int = 40) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _normalise_zip(source: Path, target: Path) -> None:
    """The same members in sorted order with a fixed date, so that two builds give equal bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in sorted(set(old.namelist())):
            if "__pycache__" in name:
                continue
            member = zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0))
            member.external_attr = (
                0o755 if name in ("run_autograder", "setup.sh") else 0o644
            ) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(member, old.read(name))


def _finish_notebook(path: Path) -> None:
    """Give every cell its role and a lasting id (`cnn_vs_fnn-cnn-answer-1`), and drop outputs."""
    notebook = nbformat.read(path, as_version=4)
    question, seen = None, Counter[str]()
    for cell in notebook.cells:
        if "autograder" not in cell.metadata:
            cell.metadata["autograder"] = _mark_of_new(cell, question)
        mark = cell.metadata["autograder"]
        question = mark.get("question")
        stem = f"{question or 'page'}-{mark['role']}"
        seen[stem] += 1
        cell.id = f"{path.stem}-{stem}-{seen[stem]}"
        if mark["role"] != "answer":  # Jupyter and VS Code then refuse to edit or delete it
            cell.metadata.update(editable=False, deletable=False)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def _mark_of_new(cell: NotebookNode, question: str | None) -> dict[str, str]:
    """Role of a cell that Otter added: a check, the place for a written answer, or text."""
    if cell.cell_type == "code":
        return {"role": "check", "question": str(cell.source).split('"')[1]}
    role = "answer" if "otter_answer_cell" in cell.metadata.get("tags", []) else "text"
    return {"role": role, **({"question": question} if question else {})}


def _replace(source: Path, target: Path, *, keep_source: bool = False) -> None:
    """Put `source` in the place of `target`, which is removed only when its successor is there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(source, new) if keep_source else shutil.move(source, new)
    shutil.rmtree(target, ignore_errors=True)
    new.rename(target)


def _compare(fresh: Path, old: Path) -> list[str]:
    paths = {p.relative_to(top) for top in (fresh, old) for p in top.rglob("*") if p.is_file()}
    paths = {p for p in paths if not {"__pycache__", ".ipynb_checkpoints"} & set(p.parts)}
    words = []
    for path in sorted(paths):
        if not (old / path).exists():
            words.append(f"{old / path} is missing")
        elif not (fresh / path).exists():
            words.append(f"{old / path} is no longer made")
        elif not filecmp.cmp(fresh / path, old / path, shallow=False):
            words.append(f"{old / path} differs")
    return words
