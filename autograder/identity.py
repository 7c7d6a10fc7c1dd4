"""What a run depends on, and what only judges it.

The evidence of a run depends on the code that runs, on what the tests measure, and on the files
beside them: checks, data, training. Points, thresholds, what is hidden, hidden labels and prose
only judge or explain. So after a change of the former a submission runs again, and after a change
of the latter its stored evidence is judged again.
"""

import ast
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder import data
from autograder.checks import CHECKS, Check
from autograder.config import Assignment, CheckEntry, Question, settings_of

LABELS = "_labels.npz"  # files with this ending are for the judging half alone


def run_identity(notebook: NotebookNode, files: Iterable[tuple[str, bytes]]) -> str:
    """A short hash of all that a release gives to a run.

    Args:
        notebook: a student notebook, or a master, whose tests are cells of it.
        files: name and content of the files beside it; tests are those in the folder tests/.
    """
    digest = hashlib.sha256(json.dumps(running_cells(notebook)).encode())
    for name, content in sorted(files):
        test = measured(content.decode("utf-8")) if name.startswith("tests/") else None
        part = content if test is None else test.encode()
        if not name.endswith(LABELS):
            digest.update(f"\n{name} {hashlib.sha256(part).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def running_cells(notebook: NotebookNode) -> list[list[str | None]]:
    """Id, role, question and source of each code cell; of a test cell only what it measures."""
    cells = []
    for cell in notebook.cells:
        mark = cell.metadata.get("autograder", {})
        if cell.cell_type == "code":
            source = measured(cell.source) if mark.get("role") == "test" else cell.source
            cells.append([cell.get("id"), mark.get("role"), mark.get("question"), source])
    return cells


def content_of(notebook: NotebookNode, files: Mapping[str, bytes] | None = None) -> str:
    """A hash of the code in a restored notebook, and of the files that were handed in with it.

    Equal ones need to run only once.
    """
    digest = hashlib.sha256(json.dumps(running_cells(notebook)).encode())
    for name, content in sorted((files or {}).items()):
        digest.update(f"\n{name} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def measured(source: str) -> str:
    """A test's source without points, and without settings that only the judging half takes."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "checks.run":
            _where, check, settings = node.args[:3]
            chosen = measuring(ast.literal_eval(check), ast.literal_eval(settings))
            node.args[2] = ast.Constant(json.dumps(chosen, sort_keys=True))
    options = (
        n for n in tree.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    )
    tree.body = [node for node in tree.body if node not in set(options)]
    return ast.unparse(tree)


def measuring(check: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings that the measuring half of a check takes."""
    return {name: value for name, value in settings.items() if name in _parameters(check)}


@cache
def settings_names(check: Check) -> tuple[str, ...]:
    """`check.settings`, which takes its time."""
    return check.settings


@cache
def _parameters(check: str) -> tuple[str, ...]:
    return tuple(inspect.signature(CHECKS[check].measure).parameters)


def asked(assignment: Assignment) -> dict[str, str]:
    """What each case, as "question.case", measures: evidence of something else can't be judged."""
    return {
        f"{name}.{case}": _asked(question, entry)
        for name, question in assignment.questions.items()
        for case, entry in question.checks.items()
    }


def _asked(question: Question, entry: CheckEntry) -> str:
    settings = settings_of(question, entry, settings_names(CHECKS[entry.check]))
    chosen = json.dumps(measuring(entry.check, settings), sort_keys=True)
    files = f" {data_digest(settings['dataset'])}" if "dataset" in settings else ""
    return f"{entry.check} {chosen}{files}"


@cache
def data_digest(dataset: str) -> str:
    """A short hash of the files of a data set on this machine, hidden labels excepted."""
    folder = Path(data.__file__).parent
    paths = sorted(p for p in folder.rglob(f"{dataset}*.npz") if not p.name.endswith(LABELS))
    content = b"".join(hashlib.sha256(p.read_bytes()).digest() for p in paths)
    return hashlib.sha256(content).hexdigest()[:16]


def judging_identity(assignment: Assignment) -> str:
    """A short hash of all that verdicts depend on beside the evidence: grading.yml and labels."""
    shown_only = {"policy", "released"}
    digest = hashlib.sha256(assignment.model_dump_json(exclude=shown_only).encode())
    for path in sorted(Path(data.__file__).parent.rglob(f"*{LABELS}")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
