"""Notebooks of our own making run through the worker; the checks package is a small stand-in."""

import atexit
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from autograder.sandbox import Bounds, Outcome, Pool
from autograder.sandbox.start import WORKER
from autograder.worker.outputs import Outputs

BOUNDS = Bounds(
    cell_s=20, notebook_s=90, memory_mib=4000, file_mib=64, disk_mib=256, files=2000,
    open_files=1024, processes=20, output_kib=64, grace_s=1,
)  # fmt: skip
CORE = """
_sink = perform = decide = None
def set_sink(sink):
    global _sink
    _sink = sink
def run(where, value):
    question, case = where.split(".")
    if _sink is not None:
        _sink({"question": question, "case": case, "check": "value", "evidence": {"value": value}})
    assert value == 1, "not one"
"""
TEST = """
OK_FORMAT = False
from otter.test_files import test_case
from autograder import checks
name = "{question}"
points = None

@test_case(points=1)
def test_value(env):
    checks.run("{question}.value", {value})

@test_case(points=1)
def test_sum(env):
    checks.run("{question}.total", sum(list([1])))
"""


def code(source: str, role: str = "answer", question: str | None = None) -> dict[str, Any]:
    mark = {"role": role} | ({"question": question} if question else {})
    return {
        "cell_type": "code", "id": f"c{abs(hash(source)) % 10**6}", "source": source,
        "metadata": {"autograder": mark}, "outputs": [], "execution_count": None,
    }  # fmt: skip


def check(question: str) -> dict[str, Any]:
    return code(f"raise SystemError('check cell of {question} was run')", "check", question)


def make_job(
    folder: Path, cells: list[dict[str, Any]], tests: dict[str, str], bounds: Bounds = BOUNDS
) -> Path:
    """A job folder; `tests` gives each question the expression that its first case checks."""
    package = folder / "autograder" / "checks"
    package.mkdir(parents=True)
    (folder / "autograder" / "__init__.py").touch()
    (package / "core.py").write_text(CORE)
    (package / "__init__.py").write_text("from autograder.checks.core import run\nCHECKS = {}\n")
    (folder / "tests").mkdir()
    for question, value in tests.items():
        text = TEST.format(question=question, value=value)
        (folder / "tests" / f"{question}.py").write_text(text)
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "notebook.ipynb").write_text(json.dumps(notebook))
    settings = {"seed": 7, "output_kib": bounds.output_kib, "cell_s": bounds.cell_s}
    (folder / "job.json").write_text(json.dumps(settings))
    return folder


@functools.cache
def pool_of(bounds: Bounds) -> Pool:
    """A pool that all tests share; its servers end with this process."""
    pool = Pool(bounds, 1, {})
    assert pool.confined, pool.guarantee
    atexit.register(pool.close)
    return pool


def run_job(job: Path, bounds: Bounds = BOUNDS) -> Outcome:
    return pool_of(bounds).run(job, lambda event: None)


def kinds(outcome: Outcome, *names: str) -> list[dict[str, Any]]:
    return [event for event in outcome.events if event["event"] in names]


def values(outcome: Outcome) -> dict[str, Any]:
    found = kinds(outcome, "evidence")
    return {f"{e['question']}.{e['case']}": e["evidence"]["value"] for e in found}


def executed(job: Path) -> list[dict[str, Any]]:
    cells = json.loads((job / "executed.ipynb").read_text())["cells"]
    assert isinstance(cells, list)
    return cells


def text_of(cell: dict[str, Any]) -> str:
    return "".join(o["text"] for o in cell["outputs"] if o["output_type"] == "stream")


# --- one ordinary run ----------------------------------------------------------------------------

ORDINARY = [
    code("import otter; grader = otter.Notebook(); import copy, random, numpy, torch", "setup"),
    {"cell_type": "markdown", "id": "m", "source": "text", "metadata": {}},
    code("x = 1\nprint('hello')\nx + 41", question="first"),
    check("first"),
    code("y = undefined_name", question="second"),
    check("second"),
    code(
        "import torch.nn as nn, inspect\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(2, 3)\n"
        "ok = int(type(copy.deepcopy(Net())) is Net and inspect.getmodule(Net).Net is Net)",
        question="classes",
    ),
    check("classes"),
    code("grader.check('first'); drawn = (random.random(), numpy.random.rand(), torch.rand(1))"),
    code("import asyncio\nawait asyncio.sleep(0)\nasked = 1", question="waiting"),
    check("waiting"),
    code("raise SystemError('the export cell was run')", "export"),
]


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    wanted = {
        "first": "env['x']", "second": "env.get('y', -1)", "classes": "env['ok']",
        "waiting": "env['asked']", "late": "[float(v) for v in env['drawn']]",
    }  # fmt: skip
    job = make_job(tmp_path_factory.mktemp("w"), ORDINARY, wanted)
    return job, run_job(job)


def test_evidence_comes_between_its_question_and_the_next_cell(ordinary):
    _, outcome = ordinary
    assert (outcome.ended, outcome.reason) == ("finished", "")
    order = [e["event"] for e in outcome.events[:9]]
    assert order == [
        "ready", "cell", "cell_done", "cell", "cell_done",
        "question", "evidence", "evidence", "question_done",
    ]  # fmt: skip
    assert [e["question"] for e in kinds(outcome, "question")] == [
        "first", "second", "classes", "waiting", "late",
    ]  # fmt: skip
    assert {k: v for k, v in values(outcome).items() if k != "late.value"} == {
        "first.value": 1, "first.total": 1, "second.value": -1, "second.total": 1,
        "classes.value": 1, "classes.total": 1, "waiting.value": 1, "waiting.total": 1,
        "late.total": 1,
    }  # fmt: skip
    assert outcome.events[-1] == {"event": "finished"}


def test_a_cell_event_carries_the_place_in_the_notebook(ordinary):
    cell = kinds(ordinary[1], "cell")[1]
    assert (cell["index"], cell["id"]) == (2, ORDINARY[2]["id"])
    assert cell["question"] == "first"


def test_a_failing_cell_names_error_and_line_and_the_run_goes_on(ordinary):
    done = {e["index"]: e for e in kinds(ordinary[1], "cell_done")}
    assert done[4]["error"] == "NameError: name 'undefined_name' is not defined"
    assert done[4]["line"] == "y = undefined_name"
    assert [i for i, e in done.items() if e["error"]] == [4]


def test_the_students_own_call_of_check_sends_no_evidence(ordinary):
    first = [e for e in kinds(ordinary[1], "evidence") if e["question"] == "first"]
    assert len(first) == 2


def test_seeds_are_those_of_the_job(ordinary):
    import random

    import numpy as np
    import torch

    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    # Net() in an earlier cell drew 9 numbers for its parameters
    torch.nn.Linear(2, 3)
    drawn = [random.random(), np.random.rand(), float(torch.rand(1))]
    assert values(ordinary[1])["late.value"] == pytest.approx(drawn)


def test_the_executed_notebook_is_valid_and_holds_the_outputs(ordinary):
    import nbformat

    job, _ = ordinary
    nbformat.validate(nbformat.read(job / "executed.ipynb", as_version=4))
    cells = executed(job)
    assert [o["output_type"] for o in cells[2]["outputs"]] == ["stream", "execute_result"]
    assert text_of(cells[2]) == "hello\n"
    assert cells[2]["outputs"][1]["data"]["text/plain"] == "42"
    error = cells[4]["outputs"][0]
    assert error["ename"] == "NameError"
    assert any("<cell 4>" in line for line in error["traceback"])
    assert not [line for line in error["traceback"] if "autograder" in line or "IPython" in line]
    assert cells[3]["outputs"] == []


# --- what real notebooks hold ---------------------------------------------------------------------

ODD = {
    "magic": "\n\n%%time\nimport time\nmagic = 1",
    "magic_error": "%%time\nbefore = 1\nafter = 1 / 0",
    "inline": "%matplotlib inline\n%matplotlib widget\n%pip install nothing\ninline = 1",
    "shell": "!pip install nothing\nlines = !ls\nshell = 1 + len(lines)",
    "script": "%%bash\ntouch made_by_bash",
    "colab": "import sys\nseen = 'google.colab' in sys.modules\n"
    "from google.colab import drive\ndrive.mount('/content/drive')\ncolab = int(not seen)",
    "asks": "a = 1\nb = input('n? ')\nc = 2",
    "leaves": "leaves = 1\nimport sys\nsys.exit()\nleaves = 2",
    "quits": "quits = 1\nexit(0)\nquits = 2",
    "moves": "import os, shutil\nopen('f', 'w').close(); os.remove('f')\nos.chdir('/')\n"
    "shutil.rmtree(os.environ['HOME'] + '/../work')\nmoves = 1",
    "here": "import os\nhere = int(os.path.basename(os.getcwd()) == 'work')",
    "writes": "%%writefile helper.py\nwrites = 1",
    "imports": "import helper\nimports = helper.writes",
    "debugs": "breakpoint()\n%load_ext autoreload\n%autoreload 2\n%nowhere_known\ndebugs = 1",
    "names": "sum = 0\nlist = [1]\nprint = 3\nlen = None\nstr = 5\nnames = 1",
    "deep": "import sys\nsys.setrecursionlimit(60)\ndef f(n): return f(n + 1)\nf(0)",
    "still": "still = 1",
    "strict": "import warnings\nwarnings.simplefilter('error')\nstrict = 1",
    "huge": "bytearray(10**15)",
    "draws": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\ndraws = 1",
    "forks": "import os\nif os.fork() == 0:\n    forks = 2\nelse:\n    os.wait()\n    forks = 1",
    "streams": "import sys\nsys.stdout = sys.stderr = None\nstreams = 1",
    "breaks": "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
    "syntax": "1 +",
    "surrogate": "del print\nsurrogate = 1\nprint('\\ud83d!')",
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    cells = [c for name, source in ODD.items() for c in (code(source, question=name), check(name))]
    tests = {name: f"env.get('{name}', 0)" for name in ODD}
    job = make_job(tmp_path_factory.mktemp("o"), cells, tests)
    return job, run_job(job)


def test_odd_notebooks_give_all_their_evidence(odd):
    _, outcome = odd
    assert outcome.ended == "finished", outcome.reason
    found = values(outcome)
    nothing = {"magic_error", "script", "writes", "asks", "deep", "huge", "breaks", "syntax"}
    assert {n for n in ODD if found[f"{n}.value"] != 1} == nothing
    assert all(found[f"{n}.total"] == 1 for n in ODD)
    assert not [e for e in kinds(outcome, "question_done") if e["error"]]


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        ("magic_error", "ZeroDivisionError: division by zero", "after = 1 / 0"),
        (
            "asks",
            "RuntimeError: input() can't be answered while grading (line 2: b = input('n? '))",
            "b = input('n? ')",
        ),
        ("leaves", "SystemExit", "sys.exit()"),
        ("quits", "SystemExit: 0", "exit(0)"),
        ("deep", "RecursionError: maximum recursion depth exceeded", "def f(n): return f(n + 1)"),
        ("huge", "MemoryError", "bytearray(10**15)"),
        ("breaks", "Odd: (its message can't be shown)", "raise Odd"),
        (
            "syntax",
            f"SyntaxError: invalid syntax (<cell {2 * list(ODD).index('syntax')}>, line 1)",
            "1 +",
        ),
    ],
)
def test_an_odd_cell_that_fails_says_how_and_where(odd, name, error, line):
    index = 2 * list(ODD).index(name)
    done = next(e for e in kinds(odd[1], "cell_done") if e["index"] == index)
    assert (done["error"], done["line"]) == (error, line)


def test_only_the_cells_that_must_fail_do(odd):
    failing = {list(ODD)[e["index"] // 2] for e in kinds(odd[1], "cell_done") if e["error"]}
    assert failing == {
        "magic_error", "asks", "leaves", "quits", "deep", "huge", "breaks", "syntax",
    }  # fmt: skip


def test_commands_are_noted_and_not_run(odd):
    job, _ = odd
    cells = {name: executed(job)[2 * i] for i, name in enumerate(ODD)}
    assert "not run while grading: %pip install nothing" in text_of(cells["inline"])
    assert "not run while grading: !pip install nothing" in text_of(cells["shell"])
    assert "not run while grading: google.colab.drive.mount()" in text_of(cells["colab"])
    assert not list(job.rglob("made_by_bash"))
    assert "Wall time" in text_of(cells["magic"])


def test_figures_and_half_characters_are_kept_in_the_notebook(odd):
    job, _ = odd
    cells = {name: executed(job)[2 * i] for i, name in enumerate(ODD)}
    shown = [o for o in cells["draws"]["outputs"] if o["output_type"] == "display_data"]
    assert len(shown) == 1
    assert shown[0]["data"]["image/png"].startswith("iVBOR")
    assert text_of(cells["surrogate"]) == "?!\n"
    (job / "executed.ipynb").read_bytes().decode("ascii")


def test_a_flood_of_output_is_cut_off(tmp_path):
    flood = "line = 'x' * 999\nfor _ in range(200_000): print(line)\ndone = 1"
    picture = "from IPython.display import display, HTML\nfor _ in range(100): display(HTML(line))"
    job = make_job(tmp_path, [code(flood), code(picture)], {"q": "env['done']"})
    outcome = run_job(job)
    assert values(outcome)["q.value"] == 1
    assert (job / "executed.ipynb").stat().st_size < 3 * BOUNDS.output_kib * 1024
    cells = executed(job)
    assert text_of(cells[0]).endswith("[output cut off after 64 KiB]\n")
    assert len(text_of(cells[0])) < 65 * 1024
    assert 5 < len(cells[1]["outputs"]) < 66
    assert outcome.peak_mib < 1000


def test_a_thread_may_write_after_the_outputs_of_its_cell_were_taken():
    outputs = Outputs(100)
    outputs.write("stdout", "a")
    taken = outputs.done()
    outputs.write("stdout", "b")
    assert [item["text"] for item in taken] == ["a"]
    assert [item["text"] for item in outputs.done()] == ["ab"]


def test_an_import_finds_the_students_module_and_not_one_of_ours(tmp_path):
    ours = sorted(path.stem for path in WORKER.parent.glob("[a-z]*.py"))
    assert "shell" in ours
    source = (
        f"import sys, autograder, shell\ntaken = [n for n in {ours} if n in sys.modules]\n"
        "found = [shell.mine, taken, autograder.__file__, sys.path]"
    )
    job = make_job(tmp_path, [code(source)], {"q": "env['found']"})
    (job / "work").mkdir()
    (job / "work" / "shell.py").write_text("mine = 1")
    mine, taken, package, path = values(run_job(job))["q.value"]
    assert (mine, taken) == (1, ["shell"])
    assert package == "/job/autograder/__init__.py"
    assert (path[0], path[-1]) == ("/job", "/job/work")
    assert not {str(WORKER.parent), str(WORKER.parents[1])} & set(path)


def test_evidence_that_json_cannot_hold_is_an_error_of_the_question(tmp_path):
    cells = [code("x = float('nan')"), check("q"), check("r")]
    outcome = run_job(make_job(tmp_path, cells, {"q": "env['x']", "r": "env['nothing']"}))
    assert values(outcome) == {"q.total": 1, "r.total": 1}
    first, second = (e["error"] for e in kinds(outcome, "question_done"))
    assert first.startswith("1 of 2 tests sent no evidence: ValueError: Out of range float")
    assert second == "1 of 2 tests sent no evidence: KeyError: nothing"
    assert outcome.refused == 0


def test_a_check_cell_without_tests_is_nobodys_fault(tmp_path):
    outcome = run_job(make_job(tmp_path, [check("absent")], {}))
    assert outcome.ended == "infrastructure"
    assert outcome.events == []
    assert "no test file for absent" in outcome.reason
