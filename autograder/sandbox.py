"""The one place that starts an untrusted process, watches it, and ends it.

What holds today, on Linux: the environment is built from nothing; time, memory, processes, file
size and output are bounded; what the process sends is parsed as JSON and checked for its form,
never executed; when `run` returns, no descendant is left, daemons included.

What does not hold yet: the process runs as the user who grades. It can read what that user can
read, use the network, write outside its folder, and send signals to the grader. Memory and
processes are looked at several times a second, so a fast process is over its bound for that long;
memory that nobody maps isn't seen. A process that ends the supervisor and leaves its session
between two looks escapes; off Linux, so may a daemon that leaves its process group. Namespaces
(bubblewrap) will close these: they belong in front of the command that `_start` builds.

Events, in the order in which they come:
    ready; cell {index, id, question}; cell_done {index, error, line}; question {question};
    evidence {question, case, check, evidence}; question_done {question, error}; finished
"""

import contextlib
import json
import math
import os
import selectors
import signal
import site
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import psutil

Event = dict[str, Any]
Ended = Literal["finished", "died", "cell_limit", "notebook_limit", "infrastructure"]

WORKER = Path(__file__).with_name("worker.py")
LOG = "worker.log"
LINE_BYTES, ALL_BYTES, EVENTS = 4 << 20, 256 << 20, 20_000  # bounds of the protocol
DEPTH = 32  # of nested lists in an event: deeper ones break whoever walks them
LOOK_S = 0.2  # between two looks at memory and processes

_TEXT, _OPTIONAL = (str,), (str, type(None))
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "ready": {},
    "cell": {"index": (int,), "id": _OPTIONAL, "question": _OPTIONAL},
    "cell_done": {"index": (int,), "error": _OPTIONAL, "line": _OPTIONAL},
    "question": {"question": _TEXT},
    "evidence": {"question": _TEXT, "case": _TEXT, "check": _TEXT, "evidence": (dict,)},
    "question_done": {"question": _TEXT, "error": _OPTIONAL},
    "finished": {},
}


@dataclass(frozen=True)
class Bounds:
    """What one job may use: seconds, MiB, KiB of log, number of processes."""

    cell_s: float
    notebook_s: float
    memory_mib: int
    file_mib: int
    processes: int
    output_kib: int
    grace_s: float


@dataclass(frozen=True)
class Outcome:
    """How a job ended, why in words, its events in order, and what it used.

    `refused` counts lines that were no proper events; an honest worker sends none.
    """

    ended: Ended
    reason: str
    events: list[Event]
    wall_s: float
    cpu_s: float
    peak_mib: float
    refused: int


class _Stop(Exception):
    """The job has to be ended: how it counts, and why."""

    def __init__(self, ended: Ended, reason: str) -> None:
        super().__init__(reason)
        self.ended: Ended = ended
        self.reason = reason


def run(
    job: Path, bounds: Bounds, on_event: Callable[[Event], None], env: Mapping[str, str]
) -> Outcome:
    """Run the worker on a job folder (see worker.py for what it holds) until it ends or has to.

    Safe from several threads. What `on_event` raises, and KeyboardInterrupt, end the job first and
    are raised then. Keep the job's path below some 60 characters: sockets that PyTorch's data
    loaders open in its tmp folder can't have a long name.

    Args:
        job: the job folder. Files that cells may read by a relative path go to its work folder
            beforehand. home, tmp, work, worker.log and executed.ipynb appear in it; all that is
            in it afterwards may be the student's doing, links and pipes included.
        bounds: the limits; `cell_s` and `output_kib` have to be those in job.json.
        on_event: called with each event as it comes, in this thread.
        env: variables that the worker gets beside the built ones.
    """
    started = time.monotonic()
    job = job.resolve()
    for name in ("home", "tmp", "work"):
        (job / name).mkdir(exist_ok=True)
    progress = _Progress(bounds, on_event, started)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((job / LOG).open("wb"))
        selector = stack.enter_context(selectors.DefaultSelector())
        process, (events, output) = _start(job, bounds, _environment(job, env))
        tree = _Tree(process, bounds)
        stack.callback(tree.end)
        _read_with(selector, stack.enter_context(events), _lines(progress.take))
        _read_with(selector, stack.enter_context(output), _capped(log, bounds.output_kib))
        try:
            ended, reason = _follow(selector, tree, progress)
        except _Stop as stop:
            ended, reason = stop.ended, stop.reason
            tree.end()
            with contextlib.suppress(_Stop):
                while _read_ready(selector, 0):  # what it wrote last
                    pass
    if ended == "infrastructure":
        reason = f"{reason}\n{_tail(job / LOG)}".strip()
    used = time.monotonic() - started, tree.cpu_s, tree.peak_mib
    return Outcome(ended, reason, progress.events, *used, progress.refused)


def _environment(job: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The worker's whole environment: nothing of ours but what is named here."""
    built = {
        "PATH": os.defpath,
        "HOME": str(job / "home"),
        "TMPDIR": str(job / "tmp"),
        "IPYTHONDIR": str(job / "home" / "ipython"),
        "MPLCONFIGDIR": str(job / "home" / "matplotlib"),
        "PYTHONUSERBASE": site.getuserbase(),  # packages may be installed for this user only
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # deterministic matrix products on CUDA
    }
    built |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    passed = {name: os.environ[name] for name in ("OPENBLAS_CORETYPE",) if name in os.environ}
    return built | passed | dict(env)


def _start(
    job: Path, bounds: Bounds, environment: Mapping[str, str]
) -> tuple["subprocess.Popen[bytes]", list[IO[bytes]]]:
    """The supervisor process, and our ends of its pipes: events, and stdout with stderr.

    The worker sets its own rlimits: a function between fork and exec isn't safe among threads.
    -P, and not -I: no script folder on the path, but PYTHONHASHSEED and PYTHONUSERBASE count.
    """
    ends = [os.pipe(), os.pipe()]
    (_, events), (_, log) = ends
    command = [sys.executable, "-P", "-X", "faulthandler", str(WORKER)]
    command += [str(job), str(events), str(bounds.file_mib), str(_task_limit(bounds.processes))]
    try:
        process = subprocess.Popen(
            command, env=dict(environment), cwd=job, pass_fds=(events,), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    except BaseException:
        for end in ends:
            os.close(end[0])
        raise
    finally:
        for end in ends:
            os.close(end[1])
    return process, [os.fdopen(end[0], "rb", buffering=0) for end in ends]


def _task_limit(processes: int) -> int:
    """RLIMIT_NPROC for the worker, 0 for none.

    It counts all threads of the user on the whole machine, so those that are there are added; root
    it doesn't bind at all.
    """
    if os.getuid() == 0:
        return 0
    fields = (p.info for p in psutil.process_iter(["uids", "num_threads"]))
    mine = (f["num_threads"] or 1 for f in fields if f["uids"] and f["uids"].real == os.getuid())
    return processes + sum(mine)


def _follow(
    selector: selectors.BaseSelector, tree: "_Tree", progress: "_Progress"
) -> tuple[Ended, str]:
    """Read until the worker has ended by itself. Raises _Stop when it has to be ended."""
    next_look = 0.0
    while True:
        code = tree.poll()  # before reading, so that what it wrote last is read
        read = _read_ready(selector, LOOK_S / 4 if code is None else 0)
        if code is not None:
            if not read:
                return progress.verdict(code)
            continue
        now = time.monotonic()
        if progress.interrupt_due(now):
            tree.send(signal.SIGINT)
        if now >= next_look:
            tree.look(progress.where)
            next_look = now + LOOK_S


def _read_with(
    selector: selectors.BaseSelector, pipe: IO[bytes], reader: Callable[[bytes], None]
) -> None:
    os.set_blocking(pipe.fileno(), False)
    selector.register(pipe, selectors.EVENT_READ, reader)


def _read_ready(selector: selectors.BaseSelector, timeout_s: float) -> bool:
    """Read once from each pipe that has something; False if none had."""
    if not selector.get_map():
        time.sleep(min(timeout_s, 0.01))
        return False
    ready = selector.select(timeout_s)
    for key, _ in ready:
        data = os.read(key.fd, 1 << 16)
        if data:
            key.data(data)
        else:
            selector.unregister(key.fileobj)
    return bool(ready)


# --- what the worker says ------------------------------------------------------------------------


@dataclass
class _Progress:
    """Takes the worker's lines; knows what it is doing, and whether it is late."""

    bounds: Bounds
    on_event: Callable[[Event], None]
    started: float
    events: list[Event] = field(default_factory=list)
    refused: int = 0
    where: str = ""  # what it is doing, as the end of a sentence
    _since: float = math.inf
    _interrupted: float = math.inf

    def take(self, line: bytes) -> None:
        """Accept or refuse one line. Raises _Stop when there are too many."""
        if len(self.events) + self.refused >= EVENTS:
            raise _Stop("died", f"sent more than {EVENTS} events{self.where}")
        event = _parse(line)
        if event is None:
            self.refused += 1
            return
        self.events.append(event)
        self._note(event)
        self.on_event(event)

    def interrupt_due(self, now: float) -> bool:
        """Whether to interrupt now, once for each cell. Raises _Stop when it is too late for it."""
        if now - self.started > self.bounds.notebook_s:
            ended: Ended = "notebook_limit" if self.events else "infrastructure"
            limit = f"{self.bounds.notebook_s:g} s, the time limit of a notebook"
            raise _Stop(ended, f"stopped after {limit}{self.where}")
        if now - self._interrupted > self.bounds.grace_s:
            limit = f"{self.bounds.cell_s:g} s, the time limit of a cell"
            raise _Stop("cell_limit", f"stopped after {limit}; did not react{self.where}")
        if now - self._since < self.bounds.cell_s or self._interrupted < math.inf:
            return False
        self._interrupted = now
        return True

    def verdict(self, code: int) -> tuple[Ended, str]:
        """How the job ended, from the exit status of a worker that ended by itself."""
        if code == 0 and self.events and self.events[-1]["event"] == "finished":
            return "finished", ""
        ended: Ended = "died" if self.events else "infrastructure"
        return ended, in_words(code) + self.where

    def _note(self, event: Event) -> None:
        kind, question = event["event"], event.get("question")
        if kind == "evidence":
            return
        started = kind in ("cell", "question")
        self._since, self._interrupted = time.monotonic() if started else math.inf, math.inf
        self.where = ""
        if kind == "cell":
            of_question = f" (question {question})" if question else ""
            self.where = f" in cell {event['index']}{of_question}"
        elif kind == "question":
            self.where = f" in the tests of question {question}"


def in_words(code: int) -> str:
    """An exit status in words; 128 + n and -n both mean that signal n ended the process."""
    number = -code if code < 0 else code - 128
    if number not in set(signal.Signals):
        return f"the process ended itself with exit status {code} (os._exit or the like)"
    cause = "out of memory?" if number == signal.SIGKILL else signal.strsignal(number)
    return f"killed by signal {number} ({(cause or '').lower()})"


def _lines(take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A reader that passes on whole lines; of one that is too long, only the beginning."""
    rest = bytearray()
    total = 0

    def read(data: bytes) -> None:
        nonlocal total
        total += len(data)
        if total > ALL_BYTES:
            raise _Stop("died", f"sent more than {ALL_BYTES >> 20} MiB of events")
        *whole, last = data.split(b"\n")
        for part in whole:
            take(bytes(rest) + part)
            rest.clear()
        rest.extend(last[: LINE_BYTES + 1 - len(rest)])

    return read


def _parse(line: bytes) -> Event | None:
    """The event in a line, or None: not JSON, not finite, unknown, or not of its form."""
    if len(line) > LINE_BYTES:
        return None
    try:
        event = json.loads(line.decode("ascii"), parse_float=_finite, parse_constant=_refuse)
        if b"\\ud" in line.lower():  # half of a character pair can't be stored as UTF-8
            event = json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if _well_formed(event) else None


def _well_formed(event: Any) -> bool:
    form = FIELDS.get(str(event.get("event"))) if isinstance(event, dict) else None
    if form is None or event.keys() != {"event", *form} or _depth(event) > DEPTH:
        return False
    return all(type(event[name]) in kinds for name, kinds in form.items())


def _depth(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


def _capped(output: IO[bytes], limit_kib: int) -> Callable[[bytes], None]:
    """A reader that writes the first `limit_kib` and drops the rest."""
    left = limit_kib * 1024

    def read(data: bytes) -> None:
        nonlocal left
        output.write(data[:left])
        left -= min(left, len(data))

    return read


def _tail(log: Path) -> str:
    return log.read_bytes()[-2000:].decode("utf-8", "replace")


# --- the process tree ----------------------------------------------------------------------------


class _Tree:
    """The supervisor process and all that descends from it: measured, signalled, ended."""

    def __init__(self, process: "subprocess.Popen[bytes]", bounds: Bounds) -> None:
        self._process, self._bounds = process, bounds
        self._seen: set[psutil.Process] = set()
        self._code: int | None = None
        self.cpu_s = self.peak_mib = 0.0

    def poll(self) -> int | None:
        """Exit status, or None while it runs; `cpu_s` then counts all descendants."""
        if self._code is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._code = self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self._code

    def send(self, number: signal.Signals) -> None:
        """Signal the supervisor, which is still ours to name until `poll` has reaped it."""
        if self._code is None:
            os.kill(self._process.pid, number)

    def look(self, where: str) -> None:
        """Measure memory and count processes. Raises _Stop over the bounds."""
        members = self._members()
        mib = _mib(members, lambda p: p.memory_info().rss)
        most = self._bounds.memory_mib
        if mib > most:  # forks count shared pages again and again: look closely
            mib = _mib(members, _own_memory)
        self.peak_mib = max(self.peak_mib, mib)
        if mib > most:
            raise _Stop("died", f"used more than {most} MiB of memory{where}")
        if len(members) > self._bounds.processes + 1:  # the supervisor is ours
            raise _Stop("died", f"ran more than {self._bounds.processes} processes{where}")

    def end(self) -> None:
        """End everything and wait for it.

        The supervisor does it properly, as orphans come to it. If it is dead or stopped, all that
        was seen below it and all of its session are killed from here.
        """
        self.send(signal.SIGTERM)
        patience = time.monotonic() + 2
        while self.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)
        while (rest := self._rest()) or self.poll() is None:
            for process in rest:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.005)

    def _members(self) -> list[psutil.Process]:
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(self._process.pid)
            members = [top, *top.children(recursive=True)]
        self._seen = {p for p in self._seen if p.is_running()} | set(members)
        return members

    def _rest(self) -> list[psutil.Process]:
        """What still lives of the tree and of the supervisor's session."""
        if self._code is None:
            self._members()
        session = _session(self._process.pid)
        return [p for p in self._seen | session if _alive(p)]


def _session(leader: int) -> set[psutil.Process]:
    found = set()
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(pid) == leader:
                found.add(psutil.Process(pid))
    return found


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _mib(processes: list[psutil.Process], measure: Callable[[psutil.Process], int]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += measure(process)
    return total / 2**20


def _own_memory(process: psutil.Process) -> int:
    full = process.memory_full_info()
    return int(getattr(full, "pss", full.uss))
