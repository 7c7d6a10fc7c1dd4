"""Runs one notebook and its Otter tests, and streams what happens. A script, never imported.

    python worker.py JOB EVENT_FD FILE_MIB TASKS

JOB holds notebook.ipynb (restored), tests/<question>.py, autograder/ (the package as the student
had it), hidden data sets and job.json: {"seed": int, "output_kib": int, "cell_s": float}. FILE_MIB
bounds each file that is written, TASKS the threads and processes of this user (0: no bound). Cells
run in JOB/work. The notebook as executed is JOB/executed.ipynb. Exit status: the worker's own, or
128 + n when signal n ended it.

Two processes: a supervisor that runs nothing of the student's and outlives it, and its child, which
runs everything. The supervisor passes SIGINT on, and ends all descendants when its child ends or
SIGTERM comes. Events are lines of ASCII JSON on EVENT_FD, as listed in sandbox.py.
"""

import base64
import builtins
import contextlib
import ctypes
import fcntl
import getpass
import importlib.abc
import io
import json
import linecache
import os
import random
import resource
import signal
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
PDEATHSIG, CHILD_SUBREAPER = 1, 36  # linux/prctl.h
SHELLS = ("bash", "cmd", "perl", "pypy", "python", "python2", "python3", "ruby", "script", "sh")
NOT_RUN = ("conda", "load_ext", "mamba", "micromamba", "pip", "uv")


# --- the supervisor ------------------------------------------------------------------------------


def supervise(child: int) -> int:
    """Wait for the worker; return its exit status once nothing of its tree is left."""
    code = None
    while code is None:
        number = signal.sigwait(WATCHED)
        if number == signal.SIGCHLD:
            code = _reap().get(child)
        else:
            os.kill(child, signal.SIGINT if number == signal.SIGINT else signal.SIGKILL)
    _end_descendants(child)
    return code if code >= 0 else 128 - code


def _reap() -> dict[int, int]:
    """Exit status of each child that has ended since the last call."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = os.waitstatus_to_exitcode(found[1])
    return ended


def _end_descendants(child: int) -> None:
    """Kill until the system says that no child is left; orphans come to us as the subreaper."""
    while True:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.001)


def _descendants() -> set[int]:
    """All processes below this one; none where there is no /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text("latin-1").rpartition(")")[2].split()
            parents[int(entry.parent.name)] = int(fields[1])
    found: set[int] = set()
    while new := {p for p, up in parents.items() if up in found | {os.getpid()}} - found:
        found |= new
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- what a cell leaves behind -------------------------------------------------------------------


class Outputs:
    """Outputs of one cell in notebook format, cut off at `limit` characters while they come in."""

    def __init__(self, limit: int) -> None:
        """Start empty; a limit of 0 keeps nothing."""
        self._limit = limit
        self.clear()

    def write(self, name: str, text: str) -> None:
        """Add text of a stream ("stdout" or "stderr")."""
        if self._left <= 0:
            return
        if not (self._items and self._items[-1].get("name") == name):
            self._items.append({"output_type": "stream", "name": name, "text": []})
        self._items[-1]["text"].append(text[: self._left])
        self._spend(len(text))

    def add(self, kind: str, **fields: Any) -> None:
        """Add a display, a result or an error; one that doesn't fit is left out as a whole."""
        if self._left <= 0:
            return
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # not JSON: not shown
            text = json.dumps({"output_type": kind, **fields}, default=_encode)
            if len(text) <= self._left:
                self._items.append(json.loads(text))
            self._spend(len(text))

    def clear(self) -> None:
        """Forget what came so far, as `clear_output` asks."""
        self._items: list[dict[str, Any]] = []
        self._left = self._limit

    def done(self) -> list[dict[str, Any]]:
        """The outputs, each stream's text joined, with no character that UTF-8 can't hold."""
        for item in self._items:
            if item["output_type"] == "stream":
                item["text"] = "".join(item["text"]).encode("utf-8", "replace").decode()
        return self._items

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left <= 0 < self._limit:
            note = f"\n[output cut off after {self._limit // 1024} KiB]\n"
            self._items.append({"output_type": "stream", "name": "stderr", "text": [note]})


def _encode(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of the cells: writes into the outputs of the cell that runs."""

    encoding = "utf-8"

    def __init__(self, shell: "Shell", name: str, descriptor: int) -> None:
        """Descriptor is what subprocesses write to instead: the log."""
        self._shell, self._name, self._descriptor = shell, name, descriptor

    def write(self, text: str) -> int:
        """Keep as much of `text` as the cell may still write."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._shell.outputs.write(self._name, text)
        return len(text)

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """Descriptor of the log."""
        return self._descriptor


# --- a shell without a kernel --------------------------------------------------------------------


class _Results(DisplayHook):  # type: ignore[misc]
    """The value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        """Notebooks number results themselves."""

    def write_format_data(self, data: Mapping[str, Any], metadata: Any = None) -> None:
        fields = {"data": data, "metadata": metadata or {}, "execution_count": self.prompt_count}
        self.shell.outputs.add("execute_result", **fields)

    def log_output(self, data: Mapping[str, Any]) -> None:
        """Not logged: the history would hold every picture until the end."""

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Displays(DisplayPublisher):  # type: ignore[misc]
    """What display() and plt.show() produce; later updates of a display are left out."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
        if not options.get("update"):
            self.shell.outputs.add("display_data", data=data, metadata=metadata or {})

    def clear_output(self, wait: bool = False) -> None:
        self.shell.outputs.clear()


class _Compiler(CachingCompiler):  # type: ignore[misc]
    """Names code after its cell, so that tracebacks say "<cell 3>"."""

    cell = 0

    def get_code_name(self, *_: Any) -> str:
        return f"<cell {self.cell}>"


class Shell(InteractiveShell):  # type: ignore[misc]
    """IPython whose output goes to `outputs`, and which runs no command of the system."""

    displayhook_class = _Results
    display_pub_class = _Displays
    compiler_class = _Compiler
    outputs = Outputs(0)

    def showtraceback(self, *args: Any, **options: Any) -> None:
        """Put the current exception into the outputs as plain text."""
        error = sys.exc_info()[1]
        if error is not None:
            name, _, value = str(describe(error)).partition(": ")
            text = "".join(traceback.format_exception(type(error), error, _trace(error)))
            lines = text.encode("utf-8", "replace").decode().splitlines()
            self.outputs.add("error", ename=name, evalue=value, traceback=lines)

    showsyntaxerror = showtraceback
    show_usage_error = showtraceback

    def system(self, cmd: str) -> None:
        """Note that `!cmd` is not run."""
        _not_run(f"!{cmd}")

    def getoutput(self, cmd: str, *_: Any, **__: Any) -> list[str]:
        """Note that `x = !cmd` is not run; no lines."""
        _not_run(f"!{cmd}")
        return []

    def enable_gui(self, gui: str | None = None) -> None:
        """There is none."""

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """Run a line magic; one that only some notebook service knows is noted."""
        if self.find_line_magic(magic_name) is None:
            return _not_run(f"%{magic_name} {line}".strip())
        return super().run_line_magic(magic_name, line, _stack_depth=_stack_depth + 1)

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {}  # IPython 9 calls str() of the exception here, which may be a student's

    @contextlib.contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        yield  # IPython 9 keeps a second, unbounded copy of all output here


def make_shell() -> Shell:
    """The one shell of this process; its namespace is the module `__main__`."""
    config = Config()
    config.HistoryManager.enabled = False
    shell: Shell = Shell.instance(config=config)
    shell.user_ns.update(exit=sys.exit, quit=sys.exit)
    for name in NOT_RUN:
        shell.register_magic_function(_stub(f"%{name}"), "line", name)
    for name in SHELLS:
        shell.register_magic_function(_stub(f"%%{name}"), "cell", name)
    shell.register_magic_function(lambda line: None, "line", "matplotlib")  # figures work without
    return shell


def _stub(name: str) -> Callable[..., None]:
    return lambda line, cell="": _not_run(f"{name} {line}".strip())


def _not_run(what: str) -> None:
    print(f"not run while grading: {what}")


def no_input(*_: object, **__: object) -> NoReturn:
    """Stand in for input(), which nobody would answer."""
    frame = sys._getframe(1)
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    raise RuntimeError(f"input() can't be answered while grading (line {frame.f_lineno}: {line})")


class Colab(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for google.colab where it isn't installed: mounting a drive does nothing.

    A finder and not an entry of sys.modules, because notebooks look there to see where they run.
    """

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """A spec for google, google.colab and what is below it."""
        if name in ("google", "google.colab") or name.startswith("google.colab."):
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """A module whose every attribute can be called."""
        return _Harmless(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class _Harmless(types.ModuleType):
    def __getattr__(self, name: str) -> "_Harmless":
        if name.startswith("__"):
            raise AttributeError(name)
        return _Harmless(f"{self.__name__}.{name}")

    def __call__(self, *_: object, **__: object) -> None:
        _not_run(f"{self.__name__}()")


# --- errors in words -----------------------------------------------------------------------------


def describe(error: BaseException | None) -> str | None:
    """An exception as "NameError: name 'x' is not defined"; None for none."""
    if error is None:
        return None
    try:
        text = str(error)
    except Exception:  # the exception may be of the student's own class
        text = "(its message can't be shown)"
    return f"{type(error).__name__}: {text}"[:2000].removesuffix(": ")


def failing_line(error: BaseException | None) -> str | None:
    """The innermost line of a notebook cell that the exception went through."""
    if isinstance(error, SyntaxError):
        return (error.text or "").strip() or None
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    lines = [frame.line for frame in frames if _in_cell(frame.filename)]
    return lines[-1] or None if lines else None


def _in_cell(filename: str) -> bool:
    return filename.startswith(("<cell ", "<timed "))


def _trace(error: BaseException) -> types.TracebackType | None:
    """The traceback from the first line of the notebook on."""
    trace = error.__traceback__
    while trace is not None and not _in_cell(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


# --- events and the time limit -------------------------------------------------------------------


class TimeLimit:
    """SIGINT ends student code that is over its time, and nothing else.

    The grader's SIGINT may come when the cell that it is meant for has just ended; so it counts
    only if what runs now has run for `cell_s` seconds.
    """

    def __init__(self, cell_s: float) -> None:
        """Nothing runs yet."""
        self._cell_s, self._since = cell_s, float("inf")
        self._held = self._late = False

    def install(self) -> None:
        """Handle SIGINT, also after a cell has changed that."""
        signal.signal(signal.SIGINT, self._interrupt)

    def run(self, action: Callable[[], BaseException | None]) -> BaseException | None:
        """Run student code; returns the exception that it returned or raised."""
        try:
            self._since = time.monotonic()
            return action()
        except BaseException as error:
            return error
        finally:
            self._since = float("inf")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let an interrupt wait until the block is done."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            late, self._late = self._late, False
        if late:
            self._interrupt()

    def _interrupt(self, *_: object) -> None:
        if time.monotonic() - self._since < self._cell_s:
            return
        if self._held:
            self._late = True
            return
        raise KeyboardInterrupt(f"stopped after {self._cell_s:g} s, the time limit of a cell")


class Events:
    """Writes events to the grader; silent in processes that student code forks."""

    def __init__(self, descriptor: int, limit: TimeLimit) -> None:
        """Move the descriptor out of the way of code that closes or inherits low numbers."""
        top = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1024) - 8
        self._descriptor = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, top)
        os.close(descriptor)
        self._limit, self._owner = limit, os.getpid()
        os.register_at_fork(after_in_child=self._close)

    def send(self, event: str, **fields: object) -> None:
        """Write one event. Raises ValueError or TypeError for what JSON can't hold."""
        if os.getpid() != self._owner:
            return
        text = json.dumps({"event": event, **fields}, allow_nan=False)
        line = memoryview(text.encode("ascii") + b"\n")
        with self._limit.held():
            while line:
                line = line[os.write(self._descriptor, line) :]

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


# --- the run -------------------------------------------------------------------------------------


class Run:
    """One pass through a notebook: cells in order, a question's tests at its check cell."""

    def __init__(self, job: Path, events: Events, limit: TimeLimit, output_kib: int) -> None:
        """Load all that the tests need, before any student code runs.

        Raises:
            ValueError: a check cell's question has no test file.
        """
        self._executed, self._work = job / "executed.ipynb", job / "work"
        self._output_limit = output_kib * 1024
        self._events, self._limit = events, limit
        self._notebook = json.loads((job / "notebook.ipynb").read_text("utf-8"))
        self._shell = make_shell()
        self._namespace = self._shell.user_ns
        self._streams = Stream(self._shell, "stdout", 1), Stream(self._shell, "stderr", 2)
        self._recursion_limit = sys.getrecursionlimit()
        self._tests, self._set_sink = load_tests(job)
        self._received = 0
        asked = {_mark(c)[1] for c in self._notebook["cells"] if _mark(c)[0] == "check"}
        if missing := asked - self._tests.keys():
            raise ValueError(f"no test file for {', '.join(sorted(map(str, missing)))}")

    def everything(self) -> None:
        """All cells and all tests; tests of questions without a check cell come last."""
        self._events.send("ready")
        for index, cell in enumerate(self._notebook["cells"]):
            role, question = _mark(cell)
            if role == "check" and question in self._tests:
                self._test(question)
            elif cell["cell_type"] == "code" and role not in ("check", "export"):
                self._execute(index, cell, question)
        for question in list(self._tests):
            self._test(question)
        self._save()
        self._events.send("finished")

    def _execute(self, index: int, cell: dict[str, Any], question: str | None) -> None:
        source = "".join(cell["source"])
        self._restore(Outputs(self._output_limit))
        self._name_code(index, source)

        def action() -> BaseException | None:
            self._events.send("cell", index=index, id=cell.get("id"), question=question)
            result = self._shell.run_cell(source, store_history=True)
            error: BaseException | None = result.error_before_exec or result.error_in_exec
            return error

        error = self._limit.run(action)
        self._end_if_forked()
        cell["outputs"] = self._shell.outputs.done()
        cell["execution_count"] = self._shell.execution_count - 1
        if cell["outputs"]:
            self._save()  # now, because a later cell may end the process
        line = failing_line(error)
        self._events.send("cell_done", index=index, error=describe(error), line=line)

    def _test(self, question: str) -> None:
        file = self._tests.pop(question)
        self._restore(Outputs(0))  # what student code prints now may show hidden data
        self._received = 0
        self._set_sink(self._evidence)

        def action() -> None:
            self._events.send("question", question=question)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                file.run(self._namespace)

        error = describe(self._limit.run(action))
        self._end_if_forked()
        self._set_sink(None)
        if error is None and self._received < len(file.test_case_results):
            error = _without_evidence(file, self._received)
        self._events.send("question_done", question=question, error=error)

    def _evidence(self, record: dict[str, Any]) -> None:
        self._events.send("evidence", **record)
        self._received += 1

    def _restore(self, outputs: Outputs) -> None:
        """Undo what an earlier cell may have changed in the process."""
        self._work.mkdir(exist_ok=True)
        os.chdir(self._work)
        sys.setrecursionlimit(self._recursion_limit)
        self._limit.install()
        self._shell.outputs = outputs
        sys.stdout, sys.stderr = self._streams

    def _name_code(self, index: int, source: str) -> None:
        self._shell.compile.cell = index
        body = source.lstrip().splitlines(keepends=True)[1:]
        for name in ("<timed exec>", "<timed eval>"):  # %%time compiles without a source
            linecache.cache[name] = (len(source), None, body, name)

    def _save(self) -> None:
        part = self._executed.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk costs the copy, not the grade
            part.write_text(json.dumps(self._notebook), "ascii")
            part.replace(self._executed)

    def _end_if_forked(self) -> None:
        if os.getpid() != self._events._owner:
            os._exit(0)  # a cell called os.fork(): only the first process goes on


def _mark(cell: Mapping[str, Any]) -> tuple[str | None, str | None]:
    mark = cell["metadata"].get("autograder", {})
    return mark.get("role"), mark.get("question")


def _without_evidence(file: Any, received: int) -> str:
    """Say why a question's tests gave less evidence than there are cases."""
    results = file.test_case_results
    last = [r.message.rstrip().rpartition("\n")[2] for r in results if not r.passed]
    missing = f"{len(results) - received} of {len(results)} tests sent no evidence"
    return f"{missing}: {'; '.join(last)}"[:2000]


def load_tests(job: Path) -> tuple[dict[str, Any], Callable[[Any], None]]:
    """Otter's test files by question, and the function that installs a sink for their evidence."""
    import otter
    from otter.nbmeta_config import NBMetadataConfig
    from otter.test_files import create_test_file

    from autograder.checks.core import set_sink

    folder = job / "tests"
    otter.Notebook.init_grading_mode(str(folder))  # a cell's own grader.check() finds its tests
    paths = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
    return {p.stem: create_test_file(str(p), NBMetadataConfig()) for p in paths}, set_sink


def prepare_process(job: Path) -> None:
    """Everything that is set once, before anything of the student's is read."""
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # Agg, shown as outputs
    os.environ["PYTHONBREAKPOINT"] = "0"  # breakpoint() does nothing
    sys.argv = [""]
    builtins.input = no_input
    getpass.getpass = no_input
    sys.meta_path.append(Colab())
    here = Path(__file__).resolve().parent
    others = [p for p in sys.path if p and Path(p).resolve() != here]
    sys.path[:] = [str(job), *others, str(job / "work")]  # a student's torch.py hides nothing


def seed_everything(seed: int) -> None:
    """Seed random, numpy and torch; one thread, as several are slower when several jobs run."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(1)


def work(job: Path, descriptor: int) -> NoReturn:
    """The worker process; ends without waiting for threads or hooks that student code left."""
    settings = json.loads((job / "job.json").read_text("utf-8"))
    limit = TimeLimit(settings["cell_s"])
    limit.install()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
    events = Events(descriptor, limit)
    try:
        prepare_process(job)
        seed_everything(settings["seed"])
        Run(job, events, limit, settings["output_kib"]).everything()
    except BaseException:
        sys.stderr = sys.__stderr__
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the supervisor, fork the worker, end as it ended."""
    job, descriptor = Path(arguments[0]).resolve(), int(arguments[1])
    file_mib, tasks = int(arguments[2]), int(arguments[3])
    with contextlib.suppress(PermissionError):  # the grader has done it already
        os.setsid()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # or some systems drop it instead of waiting
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    _prctl(CHILD_SUBREAPER, 1)
    _prctl(PDEATHSIG, signal.SIGTERM)
    _bound(resource.RLIMIT_CORE, 0)
    _bound(resource.RLIMIT_FSIZE, file_mib << 20)
    if tasks:
        _bound(resource.RLIMIT_NPROC, tasks)
    child = os.fork()
    if child == 0:
        _prctl(PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)  # so that os.killpg(0, ...) in a cell spares the supervisor
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work(job, descriptor)
    os.close(descriptor)
    os._exit(supervise(child))


def _bound(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main(sys.argv[1:])
