"""Student code that changes the process that measures it is told; honest code is not.

Cells run through the real worker, with the real checks and the tiny assignment of tests/hostile.
"""

import json
from contextlib import closing
from pathlib import Path

import nbformat
import pytest

from autograder import config
from autograder.grade import Release, put
from autograder.grade.grader import run_of
from autograder.gradebook import Attempt, Gradebook
from autograder.judge import Run, judge, status_of
from autograder.sandbox import Outcome
from tests.hostile import assignment
from tests.hostile.inputs import RIGHT, WRONG
from tests.test_worker import BOUNDS, run_job

RUN = (
    "from autograder.checks import core\n"
    "def pool_output_size(*a):\n    run = core._sink.func.__self__\n    "
)
# name of the attack: the cell, and a word of what is told
ATTACKS = {
    "allclose": ("import torch\ntorch.allclose = lambda *a, **k: True", "torch.allclose"),
    "numel": ("import torch\ntorch.Tensor.numel = lambda self: 1", "torch.Tensor.numel"),
    "equality": (
        "import torch\ntorch.Tensor.__eq__ = lambda s, o: torch.tensor(True)", "torch.Tensor.__eq__"
    ),
    "numpy": ("import numpy\nnumpy.linalg.norm = lambda *a: 0", "numpy.linalg.norm"),
    "named_parameters": (
        "from torch import nn\nnn.Module.named_parameters = lambda self, *a, **k: iter([])",
        "named_parameters",
    ),
    "parameters of one layer": (
        "from torch import nn\nnn.Linear.named_parameters = lambda s, *a, **k: iter([])",
        "Linear.named_parameters",
    ),
    "cross_entropy": (
        "import torch.nn.functional as F\nF.cross_entropy = lambda *a, **k: 0", "cross_entropy"
    ),
    "code of a function": (
        "import torch.nn.functional as F\nF.cross_entropy.__code__ = (lambda *a, **k: 0).__code__",
        "cross_entropy.__code__",
    ),
    "no_grad": ("import torch\ntorch.no_grad = lambda: 1 / 0", "torch.no_grad"),
    "enter of no_grad": ("import torch\ntorch.no_grad.__enter__ = lambda s: None", "__enter__"),
    "forward of a layer": (
        "from torch import nn\nnn.MaxPool2d.forward = lambda s, x: x", "MaxPool2d.forward"
    ),
    "a layer": ("from torch import nn\nnn.MaxPool2d = nn.Identity", "nn.MaxPool2d"),
    "a builtin": ("import builtins\nbuiltins.sum = lambda *a: 0", "builtins.sum"),
    "an exception": ("import builtins\nbuiltins.AssertionError = Warning", "AssertionError"),
    "isfinite": ("import math\nmath.isfinite = lambda x: True", "math.isfinite"),
    "json": ("import json\njson.dumps = lambda *a, **k: '{}'", "json.dumps"),
    "json's encoder": (
        "import json.encoder\njson.encoder.JSONEncoder.encode = lambda *a: '{}'", "encode"
    ),
    "random": ("import random\nrandom.Random.randint = lambda s, a, b: a", "Random.randint"),
    "a judge": (
        "from autograder.checks import arithmetic\n"
        "arithmetic.judge_output_size.__code__ = (lambda seen: 1 / 0).__code__",
        "judge_output_size.__code__",
    ),
    "a measurement": (
        "from autograder.checks import arithmetic as a\n"
        "object.__setattr__(a.output_size, 'measure', lambda *x, **k: 1)",
        "output_size.measure",
    ),
    "what a check compares": (
        "from autograder.checks import structure as s\n"
        "s.nonlinearity.threshold.value.__code__ = (lambda seen: 1.0).__code__",
        "threshold.value",
    ),
    "a check's fields": (
        "from autograder.checks import arithmetic as a\n"
        "fields = {'measure': lambda *x, **k: 1, 'judge': None}\n"
        "object.__setattr__(a.output_size, '__dict__', fields)",
        "output_size.__dict__",
    ),
    "an empty closure": (
        "import torch.nn.functional as F\nfor cell in F.max_pool2d.__closure__:\n"
        "    if callable(cell.cell_contents): del cell.cell_contents; break",
        "cell_contents",
    ),
    "bases of a layer": (
        "from torch import nn\nclass Other(nn.Module): pass\nnn.Linear.__bases__ = (Other,)",
        "Linear.__bases__",
    ),
    "what layers call": (
        "import torch, types\nfake = types.ModuleType('F')\n"
        "fake.__dict__.update(vars(torch.nn.functional))\n"
        "torch.nn.modules.linear.F = fake",
        "linear.F",
    ),
    "the list of checks": (
        "from autograder.checks import CHECKS\nCHECKS['output_size'] = CHECKS['global_pool']",
        "CHECKS.output_size",
    ),
    "a rule": (
        "from autograder.checks import arithmetic as a\n"
        "a.RULES['pooling'] = (lambda *x: 1, *a.RULES['pooling'][1:])",
        "RULES.pooling",
    ),
    "a name that hides a builtin": (
        "from autograder.checks import core\ncore.float = lambda x: 2.0", "core.float"
    ),
    "the sink": (
        "from autograder.checks import core\n"
        "def pool_output_size(*a):\n"
        "    core._sink = (lambda sink: lambda record: sink(record))(core._sink)\n    return 1",
        "the sink of evidence",
    ),
    "Otter": (
        "from otter.test_files import TestFile, ExceptionTestFile\n"
        "ExceptionTestFile.run = lambda *a: None",
        "ExceptionTestFile.run",
    ),
    "a test's own function": (
        "import gc\nfrom otter.test_files import ExceptionTestFile\n"
        "for file in [o for o in gc.get_objects() if isinstance(o, ExceptionTestFile)]:\n"
        "    for case in file.test_cases:\n"
        "        case.body.test_func.__code__ = (lambda env: None).__code__",
        "__code__",
    ),
    "the worker": (f"{RUN}type(run)._tell = lambda *a: None\n    return 1", "Run._tell"),
    "the look": (
        f"{RUN}looks = type(run._changes.__self__)\n"
        "    looks.changes = looks.changes_after_tests = lambda s: []\n    return 1",
        "Integrity.changes_after_tests",
    ),
    "a sink that puts itself back": (
        "from autograder.checks import core\n"
        "def pool_output_size(*a):\n"
        "    def forge(record):\n"
        "        core._sink = sink\n"
        "        record['evidence']['answers'] = record['evidence']['expected']\n"
        "        sink(record)\n"
        "    sink = core._sink\n    core._sink = sink if sink.__class__ is type(forge) else forge\n"
        "    return 1",
        "evidence that no check has sent",
    ),
    "a trace": ("import sys\nsys.settrace(lambda *a: None)", "sys.settrace"),
    "a profile": ("import sys\nsys.setprofile(lambda *a: None)", "sys.setprofile"),
    "a dispatch mode": (
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "class Mode(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, f, types, args=(), kwargs=None):\n"
        "        return f(*args, **(kwargs or {}))\n"
        "Mode().__enter__()",
        "dispatch mode",
    ),
    "a function mode": (
        "from torch.overrides import TorchFunctionMode\n"
        "class Mode(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, types, args=(), kwargs=None):\n"
        "        return f(*args, **(kwargs or {}))\n"
        "Mode().__enter__()",
        "function mode",
    ),
    "hooks on saved tensors": (
        "import torch\nidle = lambda x: x\n"
        "torch.autograd.graph.saved_tensors_hooks(idle, idle).__enter__()",
        "saved_tensors_hooks",
    ),
    "a hook on all modules": (
        "from torch.nn.modules.module import register_module_forward_hook\n"
        "register_module_forward_hook(lambda *a: None)",
        "_global_forward_hooks",
    ),
    "an operator": (
        "import torch\nlib = torch.library.Library('aten', 'IMPL')\n"
        "lib.impl('trunc', lambda x: x, 'CPU')",
        "aten/trunc",
    ),
    "a thread": (
        "import threading, time\ndef forever():\n    while True: time.sleep(0.01)\n"
        "threading.Thread(target=forever, daemon=True).start()",
        "thread",
    ),
    "a collector's hook": ("import gc\ngc.callbacks.append(lambda *a: None)", "gc.callbacks"),
    "an import hook": (
        "import sys\nclass Finder:\n    def find_spec(self, *a): return None\n"
        "sys.meta_path.insert(0, Finder())",
        "meta_path",
    ),
    "a module": (
        "import sys, types\nsys.modules['torch.nn.functional'] = types.ModuleType('fake')",
        "sys.modules",
    ),
    "a module of the kit": (
        "import sys, types\nsys.modules['autograder.checks'] = types.ModuleType('fake')",
        "sys.modules.autograder.checks",
    ),
    "while it is tested": (
        "import torch\ndef pool_output_size(*a):\n    torch.equal = lambda *a: True\n    return 1",
        "torch.equal",
    ),
    "a timer": (
        "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\n"
        "signal.setitimer(signal.ITIMER_REAL, 50)",
        "setitimer",
    ),
}  # fmt: skip
HONEST = {
    "own names": "sum = 0; list = [1]; print = 3; max = any = isinstance = type = None",
    "default dtype": "import torch\ntorch.set_default_dtype(torch.float64)",
    "default device": "import torch\ntorch.set_default_device('cpu')",
    "gradients off": "import torch\ntorch.set_grad_enabled(False)",
    "seeds": "import random, numpy, torch\nrandom.seed(1); numpy.random.seed(1)\n"
    "torch.manual_seed(1); torch.use_deterministic_algorithms(True)",
    "plots": "import matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 50\n"
    "plt.style.use('ggplot')\nplt.plot([1, 2]); plt.show()",
    "warnings": "import warnings\nwarnings.filterwarnings('ignore')\nwarnings.warn = print\n"
    "import logging\nlogging.captureWarnings(True)",
    "threads of torch": "import torch\ntorch.set_num_threads(2)",
    "printing": "import torch, numpy\ntorch.set_printoptions(precision=2)\n"
    "numpy.set_printoptions(precision=2)",
    "recursion": "import sys\nsys.setrecursionlimit(5000)",
    "own classes": "from torch import nn\nclass A(nn.Linear):\n    def forward(self, x): return x\n"
    "A.forward = lambda s, x: 2 * x\nA.named_parameters = lambda s: []\nA(2, 3)",
    "a method more": "import torch\ntorch.nn.Module.count = lambda s: 1\n"
    "torch.Tensor.show = print\ntorch.Tensor.__repr__ = lambda s: 'tensor'",
    "progress bars": "from tqdm import tqdm\nfrom tqdm.auto import trange\n"
    "for _ in tqdm(range(3)): pass\nfor _ in trange(3): pass",
    "a training": "import torch\nfrom torch import nn, optim\n"
    "for kind in (optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop):\n"
    "    model = nn.Sequential(nn.LazyLinear(4), nn.BatchNorm1d(4), nn.LSTM(4, 2))\n"
    "    out = model(torch.ones(5, 3))[0].sum()\n    best = kind(model.parameters(), lr=0.1)\n"
    "    torch.optim.lr_scheduler.StepLR(best, 1)\n    out.backward(); best.step()",
    "a hook on a model": "from torch import nn\nimport torch\nlayer = nn.Linear(2, 2)\n"
    "layer.register_forward_hook(lambda *a: None)\nlayer(torch.ones(1, 2))",
    "parametrized layers": "import torch\nfrom torch import nn\n"
    "from torch.nn.utils import parametrizations, prune\n"
    "parametrizations.weight_norm(nn.Linear(2, 2)); prune.random_unstructured(\n"
    "    nn.Linear(2, 2), 'weight', 1)",
    "a data loader": "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\n"
    "loader = DataLoader(TensorDataset(torch.ones(8, 2)), 4, num_workers=1,"
    " persistent_workers=True)\nfor _ in loader: pass",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor\n"
    "pool = ThreadPoolExecutor(2)\nlist(pool.map(abs, [1, 2]))",
    "a short thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(0.05,)).start()",
    "a debugger": "import pdb\npdb.set_trace()\nx = 1",
    "imports": "import torch.fx, torch.func, torch.distributions, torch.export, sqlite3\n"
    "from torch.func import vmap, grad\ngrad(lambda x: x ** 2)(torch.tensor(2.0))",
    "torchvision": "import torchvision, torchvision.transforms.v2\n"
    "torchvision.models.resnet18()",
    "a profile, a trace, amp": "import torch\nfrom torch.profiler import profile\n"
    "with profile(): torch.ones(2) + 1\n"
    "torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))\n"
    "with torch.autocast('cpu'): torch.nn.Linear(2, 2)(torch.ones(1, 2))",
    "other optimisers": "import torch\nweight = torch.nn.Parameter(torch.ones(1))\n"
    "weight.sum().backward()\n"
    "for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop):\n"
    "    kind([weight], 0.1).step()",
    "old names of numpy": "import numpy as np\nnp.float = float; np.int = int; np.bool = bool",
    "other loaders": "import functools, numpy as np, torch\n"
    "np.load = functools.partial(np.load, allow_pickle=True)\n"
    "torch.load = functools.partial(torch.load, weights_only=False)",
    "silence": "import builtins, sys\nbuiltins.print = lambda *a, **k: None\n"
    "sys.stdout = sys.stderr; sys.excepthook = lambda *a: None",
    "half precision": "import torch\ntorch.set_default_dtype(torch.bfloat16)",
    "no gradients any more": "import torch\ntorch.inference_mode().__enter__()",
    "names of PyTorch": "import torch\nfrom torch import nn\nclass Linear(nn.Module): pass\n"
    "class Module(nn.Module): pass\nTensor = equal = F = None\n"
    "class Tensor(torch.Tensor):\n    def __eq__(s, o): return True\n"
    "class Double(torch.autograd.Function):\n"
    "    @staticmethod\n    def forward(c, x): return 2 * x\n"
    "    @staticmethod\n    def backward(c, g): return 2 * g\n"
    "Double.apply(torch.ones(2, requires_grad=True)).sum().backward()",
    "profilers": "import cProfile, torch\nfrom torch.profiler import profile\n"
    "with profile(): torch.ones(2) + 1\n"
    "with torch.autograd.profiler.profile(): torch.ones(2) + 1\n"
    "cProfile.Profile().enable()",
    "a compiled model": "import torch\nmodel = torch.nn.Linear(2, 2)\n"
    "torch.compile(model, backend='eager')(torch.ones(1, 2))",
    "graphs": "import torch\nfrom torch import nn\n"
    "model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())\ntorch.fx.symbolic_trace(model)\n"
    "torch.jit.script(model)\n"
    "torch.func.functional_call(model, dict(model.named_parameters()), torch.ones(1, 2))",
    "tables": "import pandas\npandas.set_option('display.precision', 2)\n"
    "pandas.DataFrame({'a': [1.0, 2.0]}).style.background_gradient()",
    "memory": "import gc, tracemalloc\ngc.collect(); gc.disable(); gc.set_threshold(5)\n"
    "tracemalloc.start(); len(gc.get_objects()); tracemalloc.stop()",
    "processes": "from concurrent.futures import ProcessPoolExecutor\n"
    "with ProcessPoolExecutor(2) as pool: list(pool.map(abs, [1, 2]))",
    "frames": "import inspect, logging, traceback\ninspect.currentframe(); inspect.stack()\n"
    "logging.basicConfig(level=10); logging.info('here'); traceback.print_stack()",
    "an alarm": "import signal, time\nsignal.signal(signal.SIGALRM, lambda *a: None)\n"
    "signal.alarm(50); signal.alarm(0)",
    "at the end": "import atexit, weakref\natexit.register(print)\n"
    "class A: pass\nweakref.finalize(A(), print)",
    "functions of the kit": "import torch\ntorch.vmap(torch.sin)(torch.ones(2))\n"
    "torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))",
    "saved tensors": "import torch\nwith torch.autograd.graph.save_on_cpu():\n"
    "    (torch.ones(2, requires_grad=True) ** 2).sum().backward()",
    "timing": "%timeit -n1 -r1 1 + 1\n%time x = 1\n%prun -q 1 + 1",
    "contexts": "import torch\nwith torch.no_grad(), torch.autocast('cpu'): torch.ones(2)\n"
    "torch.autograd.set_detect_anomaly(True)",
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    assignment.build(root)
    return root


def outcome_of(root: Path, folder: Path, cell: str) -> Outcome:
    """What comes of the solved notebook with `cell` as the answer to `attacked`."""
    folder.mkdir()
    put(Release.load(assignment.NAME, root).files, folder)
    path = root / "dist" / assignment.NAME / "autograder" / f"{assignment.NAME}.ipynb"
    solved = nbformat.read(path, as_version=4)
    (answer,) = [c for c in solved.cells if c.id == f"{assignment.NAME}-attacked-answer-1"]
    answer.source = cell
    nbformat.write(solved, folder / "notebook.ipynb")
    settings = {"seed": 1, "output_kib": 64, "cell_s": BOUNDS.cell_s}
    (folder / "job.json").write_text(json.dumps(settings))
    return run_job(folder)


def judged(root: Path, outcome: Outcome) -> tuple[Run, str, str, dict[str, float]]:
    settings = config.load(root / "grading.yml").assignment(assignment.NAME)
    run = run_of(outcome)
    results = judge(settings, run)
    return run, *status_of(results, run), {r.question: r.points for r in results}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_told_and_later_answers_are_judged(name, tiny, tmp_path):
    cell, word = ATTACKS[name]
    cell = cell if "def pool_output_size" in cell else WRONG + cell
    run, status, reason, points = judged(tiny, outcome_of(tiny, tmp_path / "job", cell))
    assert status == "flagged", (run.tampered, points)
    assert "attacked: " in reason
    assert word in " ".join(run.tampered)
    assert {"before": 1, "model": 1, "after": 1}.items() <= points.items()
    assert all(told.startswith("attacked: ") for told in run.tampered), "put back or taken out"


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_is_not_told(name, tiny, tmp_path):
    outcome = outcome_of(tiny, tmp_path / "job", f"{HONEST[name]}{RIGHT}")
    run, status, reason, points = judged(tiny, outcome)
    errors = [e["error"] for e in outcome.events if e["event"] == "cell_done" and e["error"]]
    assert not run.tampered
    assert (status, reason) == ("graded", ""), errors
    assert not errors or name == "a debugger", errors
    assert points["attacked"] == (not errors)


def test_a_change_is_told_with_every_status_but_a_run_that_failed_for_our_reasons():
    run = Run((), {}, {}, tampered=("q: torch.equal.",))
    assert status_of([], run)[0] == "flagged"
    assert "torch.equal" in status_of([], run)[1]
    many = Run((), {}, {}, tampered=tuple(f"q{n}: json.dumps." for n in range(9)))
    assert status_of([], many)[1].endswith("and 5 more")
    failed = Run((), {}, {}, "no memory", True, tampered=("q: torch.equal.",))
    assert status_of([], failed)[0] == "infrastructure"


def test_events_become_words():
    event = {"event": "tampered", "question": None, "what": ["json.dumps", ["x"], 10**9]}
    assert run_of(Outcome("finished", "", (event, event), 0, 0.0, 0.0, 0.0)).tampered == (
        "a cell of no question: json.dumps, ['x'], 1000000000.",
    )


def test_the_gradebook_keeps_what_was_told(tmp_path):
    run = Run((), {}, {}, tampered=("q: torch.equal.",))
    given = Attempt("a", "v", "ada", "1", "x.ipynb", "flagged", "why", (), (), run)
    with closing(Gradebook(tmp_path / "gradebook.sqlite")) as book:
        assert book.attempt(book.add(given)).run == run
