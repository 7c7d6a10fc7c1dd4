"""An assignment without training, and a pool that answers at once: a batch in a second.

The release lies in dist/tiny as the real ones do. A submission says in its answer cell what its run
shall look like, as JSON after `#`: {"sizes": [...]} are the answers of its function, "ends": how.
"""

import copy
import json
import zipfile
from contextlib import closing
from pathlib import Path

import nbformat
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder import config, release, sandbox
from autograder.grade import Batch, Crew, Release
from autograder.intake import find
from autograder.sandbox import Outcome
from tests.conftest import REPOSITORY

NAME = "tiny"
RIGHT = [14, 7]
CASES = {
    "examples": {"check": "output_size", "points": 1, "cases": 1, "seed": 1},
    "more": {"check": "output_size", "points": 2, "hidden": True, "cases": 1, "seed": 2},
}
ASSIGNMENT = {
    "title": "Sizes", "seed": 3, "values": {},
    "questions": {
        "size": {"settings": {"name": "f", "rule": "convolution"}, "checks": CASES},
        "shape": {"checks": {"mean": {
            "check": "global_pool", "points": 4, "name": "g", "shapes": [[1, 2, 3, 3]], "seed": 1,
            "tolerance": 0.1,
        }}},
        "why": {"manual": True, "points": 5},
    },
}  # fmt: skip
TEST = """from otter.test_files import test_case

OK_FORMAT = False

name = "size"
points = None

@test_case(points=1, hidden=False)
def examples(f):
    from autograder import checks
    checks.run('size.examples', 'output_size', {'name': 'f', 'rule': 'convolution', 'cases': 1, \
'seed': 1}, function=f)
"""


def settings():
    """grading.yml with this assignment alone, as plain values."""
    raw = yaml.safe_load((REPOSITORY / "grading.yml").read_text(encoding="utf-8"))
    raw.pop("shared", None)
    return {**raw, "device": "cpu", "assignments": {NAME: copy.deepcopy(ASSIGNMENT)}}


def write_settings(root, raw):
    (root / "grading.yml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    return config.load(root / "grading.yml")


def notebook(answer="...", text=""):
    def cell(role, made, **mark):
        made.id = f"{NAME}-{role}"
        made.metadata["autograder"] = {"role": role, **mark}
        return made

    return new_notebook(
        cells=[
            cell("setup", new_code_cell("import otter")),
            cell("answer", new_code_cell(answer), question="size"),
            cell("check", new_code_cell('grader.check("size")'), question="size"),
            cell("text", new_markdown_cell(text or "*why?*")),
        ],
        metadata={"otter": {"assignment_name": NAME}},
    )


def make_root(root):
    """The folder of grading.yml and dist/; gives the settings."""
    folder = root / "dist" / NAME
    for part in ("autograder", "student"):
        (folder / part).mkdir(parents=True)
    with zipfile.ZipFile(folder / "autograder" / f"{NAME}-autograder.zip", "w") as archive:
        archive.writestr("tests/size.py", TEST)
        archive.writestr("files/kit/code.py", "x = 1")
        archive.writestr("files/hidden_x.npz", b"inputs")
        archive.writestr("files/hidden_x_labels.npz", b"labels")
    nbformat.write(notebook(), folder / "student" / f"{NAME}.ipynb")
    return write_settings(root, settings())


def hand_in(inbox, student, sizes=RIGHT, **more):
    """Write a submission whose function gives these two sizes, right ones unless said otherwise."""
    inbox.mkdir(exist_ok=True)
    answer = f"f = {student!r}\n# {json.dumps({'sizes': sizes, **more})}"
    nbformat.write(notebook(answer), inbox / f"{student}.ipynb")


class FakePool:
    """Runs nothing, but sends the events of a run that did."""

    guarantee = "Nothing is run."

    def __init__(self, *_, **__):
        self.ran = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def end_jobs(self):
        pass

    def run(self, job, on_event):
        cells = json.loads((job / "notebook.ipynb").read_text())["cells"]
        (answer,) = ["".join(c["source"]) for c in cells if c["id"] == f"{NAME}-answer"]
        self.ran.append(answer.splitlines()[0])
        wanted = json.loads(answer.partition("# ")[2] or '{"sizes": []}')
        for cell in cells:
            if cell["cell_type"] == "code":
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": answer}]
        (job / "executed.ipynb").write_text(json.dumps({"cells": cells}))
        return outcome(wanted)


def outcome(wanted):
    events = [
        {"event": "cell", "index": 1, "id": f"{NAME}-answer", "question": "size"},
        {"event": "cell_done", "index": 1, "error": wanted.get("error"), "line": None},
    ]
    for case, size, right in zip(CASES, wanted["sizes"], RIGHT, strict=False):
        seen = {"arguments": [[1]], "answers": [size], "expected": [right], "oracle": "torch"}
        events.append({"event": "evidence", "question": "size", "case": case,
                       "check": "output_size", "evidence": seen})  # fmt: skip
    pooled = {"inputs": [[1, 2, 3, 3]], "shapes": [[1, 2]], "errors": [wanted.get("off", 0.05)]}
    events.append({"event": "evidence", "question": "shape", "case": "mean",
                   "check": "global_pool", "evidence": pooled})  # fmt: skip
    ended, refused = wanted.get("ended", "finished"), wanted.get("refused", 0)
    reason = "" if ended == "finished" else f"killed by {ended}"
    return Outcome(ended, reason, events, 1.0, 0.5, 10.0, refused)


def use_fakes(monkeypatch, pool=FakePool):
    monkeypatch.setattr(sandbox, "Pool", pool)
    monkeypatch.setattr(release, "changed_since_build", lambda *_: [])


def grade(root, inbox, out, only=(), **more):
    """One batch; its attempts by student, in the order in which they came."""
    grading = config.load(root / "grading.yml")
    release_ = Release.load(NAME, root)
    with closing(Batch(release_, grading, out)) as batch, closing(Crew(grading, 1)) as crew:
        waiting, _ = batch.pending(find(inbox, NAME), only, **more)
        return {attempt.student: attempt for attempt in batch.run(waiting, crew)}


def command(root, inbox, out, *more):
    return ["--root", str(root), "grade", NAME, str(inbox), "--out", str(out), *more]


def table(out):
    return (Path(out) / NAME / "grades.csv").read_text(encoding="utf-8-sig")
