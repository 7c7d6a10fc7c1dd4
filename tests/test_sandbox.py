"""Hostile and broken notebooks: what `run` says about them, and that nothing is left behind."""

import dataclasses
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from autograder import sandbox
from autograder.sandbox import Bounds, Outcome, in_words
from autograder.sandbox.bounds import Stop
from autograder.sandbox.progress import Progress
from autograder.sandbox.start import WORKER
from tests.test_worker import BOUNDS, check, code, executed, kinds, make_job, run_job, values

QUICK = dataclasses.replace(BOUNDS, cell_s=1.0, grace_s=0.5)
GOOD = [code("good = 1", question="good"), check("good")]
LAST = [code("last = 1", question="last"), check("last")]
WANTED = {"good": "env['good']", "last": "env.get('last', 0)"}


def run_bad(folder: Path, source: str, bounds: Bounds = BOUNDS) -> Outcome:
    """A good question, the cell under test as cell 2 of question "bad", and a good question."""
    cells = [*GOOD, code(source, question="bad"), *LAST]
    outcome = run_job(make_job(folder, cells, WANTED, bounds), bounds)
    assert values(outcome)["good.value"] == 1
    return outcome


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_endless_cells_are_interrupted_and_the_next_question_tested(tmp_path):
    cells = [code("while True:\n    pass"), code("import re\nre.match('(a+)+$', 'a' * 60 + 'b')")]
    cells += [check("never"), *LAST]
    tests = {"never": "any(n for n in iter(int, 1))", "last": "env['last']"}
    job = make_job(tmp_path, cells, tests, QUICK)
    outcome = run_job(job, QUICK)
    assert outcome.ended == "finished"
    loop, regex = kinds(outcome, "cell_done")[:2]
    limit = "stopped after 1 s, the time limit of a cell"
    assert loop["error"] == regex["error"] == limit
    assert loop["line"] in ("while True:", "pass")
    assert kinds(outcome, "question_done")[0]["error"] == limit
    assert values(outcome) == {"last.value": 1, "last.total": 1}
    shown = executed(job)[0]["outputs"][0]
    assert (shown["ename"], shown["evalue"]) == ("TimeLimitReached", limit)
    assert shown["traceback"][-1] == f"TimeLimitReached: {limit}"


def test_an_interrupt_of_the_students_own_is_told_as_such(tmp_path):
    outcome = run_bad(tmp_path, "raise KeyboardInterrupt('mine')")
    done = next(e for e in kinds(outcome, "cell_done") if e["index"] == 2)
    assert done["error"] == "KeyboardInterrupt: mine"


def test_threads_that_go_on_for_ever_do_not_keep_the_run_from_finishing(tmp_path):
    source = (
        "import os, threading\nopen('pid', 'w').write(str(os.getpid()))\n"
        "def spin():\n    while True: print('x')\n"
        "for daemon in (True, False): threading.Thread(target=spin, daemon=daemon).start()"
    )
    outcome = run_bad(tmp_path, source)
    assert (outcome.ended, outcome.reason) == ("finished", "")
    assert values(outcome)["last.value"] == 1
    assert gone(int((tmp_path / "work" / "pid").read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "any(iter(int, 1))",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
    ],
    ids=["in C", "ignored", "swallowed"],
)
def test_a_cell_that_does_not_react_is_killed_and_named(tmp_path, source):
    outcome = run_bad(tmp_path, source, QUICK)
    assert outcome.ended == "cell_limit"
    assert outcome.reason == (
        "stopped after 1 s, the time limit of a cell; did not react in cell 2 (question bad)"
    )


def test_the_notebook_limit_holds_when_every_cell_is_quick():
    progress = Progress(BOUNDS, lambda event: None, started=0.0)
    with pytest.raises(Stop) as never_ready:
        progress.interrupt_due(BOUNDS.notebook_s + 0.1)
    assert never_ready.value.ended == "infrastructure"
    progress.take(b'{"event": "ready"}')
    progress.take(b'{"event": "cell", "index": 3, "id": null, "question": null}')
    assert not progress.interrupt_due(BOUNDS.notebook_s)
    with pytest.raises(Stop) as late:
        progress.interrupt_due(BOUNDS.notebook_s + 0.1)
    assert (late.value.ended, late.value.reason) == (
        "notebook_limit",
        "stopped after 90 s, the time limit of a notebook in cell 3",
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "import os\nos._exit(1)",
            "the process ended itself with exit status 1 (os._exit or the like)",
        ),
        ("import ctypes\nctypes.string_at(0)", "killed by signal 11 (segmentation fault)"),
        ("import os\nos.kill(os.getpid(), 9)", "killed by signal 9 (out of memory?)"),
        (
            "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(60)",
            "killed by signal 9 (out of memory?)",
        ),
        (
            "import os, time\nos.kill(os.getppid(), 15)\ntime.sleep(60)",
            "killed by signal 9 (out of memory?)",
        ),
    ],
    ids=["exit", "segfault", "kill", "kill_supervisor", "end_supervisor"],
)
def test_a_death_is_told_in_words_and_keeps_what_was_earned(tmp_path, source, reason):
    outcome = run_bad(tmp_path, f"print('before')\n{source}")
    assert outcome.ended == "died"
    assert outcome.reason == f"{reason} in cell 2 (question bad)"
    assert outcome.events[-1]["event"] == "cell"


def test_the_executed_notebook_of_a_run_that_died_shows_earlier_outputs(tmp_path):
    cells = [code("print('early')"), code("import os\nos._exit(1)")]
    job = make_job(tmp_path, cells, {})
    run_job(job)
    assert executed(job)[0]["outputs"][0]["text"] == "early\n"


def test_endless_recursion_with_a_raised_limit_ends_only_the_run(tmp_path):
    bounds = dataclasses.replace(BOUNDS, memory_mib=1500)
    source = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return repr(D(n))\n"
    source += (
        "class D:\n    def __init__(s, n): s.n = n\n    def __repr__(s): return f(s.n + 1)\nf(0)"
    )
    outcome = run_bad(tmp_path, source, bounds)
    assert outcome.ended == "died"
    assert outcome.reason.endswith("in cell 2 (question bad)")


def test_a_memory_hog_is_ended(tmp_path):
    bounds = dataclasses.replace(BOUNDS, memory_mib=1200)
    source = (
        "import time\nheld = []\nfor _ in range(60):\n"
        "    held.append(bytearray(b'x') * (50 << 20))\n    time.sleep(.05)"
    )
    outcome = run_bad(tmp_path, source, bounds)
    assert (outcome.ended, outcome.reason) == (
        "died",
        "used more than 1200 MiB of memory in cell 2 (question bad)",
    )
    assert outcome.peak_mib > 1200


def test_pages_that_forked_processes_share_count_once(tmp_path):
    bounds = dataclasses.replace(BOUNDS, memory_mib=1800)
    source = (
        "import os, time\nheld = bytearray(b'x') * (400 << 20)\n"
        "children = []\n"
        "for _ in range(5):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n        time.sleep(1)\n        os._exit(0)\n"
        "    children.append(child)\n"
        "for child in children: os.waitpid(child, 0)\n"
    )
    assert run_bad(tmp_path, source, bounds).ended == "finished"


def test_too_many_processes_are_ended(tmp_path):
    source = (
        "import os, time\n"
        "for _ in range(60):\n    if os.fork() == 0: time.sleep(60)\n"
        "time.sleep(60)"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.reason == "ran more than 20 processes in cell 2 (question bad)"


def test_a_data_loader_with_workers_works(tmp_path):
    source = (
        "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
        "class Squares(Dataset):\n    def __len__(s): return 8\n"
        "    def __getitem__(s, i): return torch.tensor(i * i)\n"
        "loaded = sum(int(b.sum()) for b in DataLoader(Squares(), batch_size=2, num_workers=2))"
    )
    job = make_job(tmp_path, [code(source)], {"q": "env['loaded']"})
    assert values(run_job(job))["q.value"] == 140


@pytest.mark.parametrize("end", ["", "import os; os._exit(3)"], ids=["finished", "died"])
def test_a_daemon_does_not_outlive_the_run(tmp_path, end):
    source = (
        "import os, signal, time\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        "        for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "        os.write(write, str(os.getpid()).encode())\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "pid = os.read(read, 20).decode()\n"
        f"open('pid', 'w').write(pid)\n{end}"
    )
    run_bad(tmp_path, source)
    assert gone(int((tmp_path / "work" / "pid").read_text()))


def test_a_subprocess_in_its_own_session_is_gone_though_the_supervisor_was_stopped(tmp_path):
    source = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "time.sleep(0.6)\n"
        "os.kill(os.getppid(), 19)\n"
        "time.sleep(60)"
    )
    assert run_bad(tmp_path, source, QUICK).ended == "cell_limit"
    assert gone(int((tmp_path / "work" / "pid").read_text()))


FORGERY = """
import fcntl, os, stat
def ours(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and fd > 2
    except OSError:
        return False
fd = next(fd for fd in range(1023, 2, -1) if ours(fd))
"""


def forged(value: str) -> str:
    head = '{"event": "evidence", "question": "q", "case": "c", "check": "k", "evidence": '
    return f"{head}{value}}}"


NO_EVENTS = [
    "garbage", "[]", "3", "null", '{"event": "unknown"}', '{"event": ["ready"]}',
    '{"event": "ready", "more": 1}', '{"event": "question", "question": 3}',
    '{"event": "question"}', '{"event": "cell", "index": true, "id": "a", "question": null}',
    "[" * 100_000, "\xff", forged("[]"), forged('{"a": NaN}'), forged('{"a": 1e999}'),
    forged('{"a": ' + "[" * 50 + "]" * 50 + "}"), forged('{"a": ' + "9" * 5000 + "}"),
]  # fmt: skip


def test_lines_that_are_no_events_are_refused_and_counted(tmp_path):
    half = forged('{"value": "\\ud83d"}')
    source = (
        f"{FORGERY}for line in {NO_EVENTS!r}:\n    os.write(fd, line.encode('latin-1') + b'\\n')\n"
        f"os.write(fd, b'x' * (5 << 20) + b'\\n')\nos.write(fd, {half!r}.encode() + b'\\n')"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "finished"
    assert outcome.refused == len(NO_EVENTS) + 1
    assert values(outcome)["q.c"] == "?"  # half a character could not be stored as UTF-8
    assert values(outcome)["last.value"] == 1


@pytest.mark.parametrize("line", ["'x\\n'", "'x' * 65536"], ids=["lines", "bytes"])
def test_a_flood_on_the_pipe_ends_the_run(tmp_path, line):
    source = f"{FORGERY}data = ({line}).encode()\nwhile True: os.write(fd, data)"
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "died"
    assert outcome.reason.startswith("sent more than ")
    assert outcome.refused <= 20_000


def test_files_and_the_log_cannot_grow_over_their_bounds(tmp_path):
    bounds = dataclasses.replace(BOUNDS, file_mib=3)
    flood = "import os\nfor _ in range(2000): os.write(1, b'x' * 10000)\n"
    outcome = run_bad(tmp_path, flood + "open('big', 'wb').write(bytes(5 << 20))", bounds)
    done = next(e for e in kinds(outcome, "cell_done") if e["index"] == 2)
    assert done["error"].startswith("OSError: [Errno 27]")
    assert (tmp_path / "work" / "big").stat().st_size == 3 << 20
    assert (tmp_path / "worker.log").stat().st_size == BOUNDS.output_kib * 1024


def test_the_environment_is_built_from_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    source = "import os, sys\nenviron = dict(os.environ)\npath = sys.path"
    tests = {"e": "env['environ']", "p": "env['path']"}
    job = make_job(tmp_path, [code(source)], tests)
    found = values(sandbox.run(job, BOUNDS, lambda event: None, {"GIVEN": "1"}))
    names, path = found["e.value"], found["p.value"]
    assert "SECRET_TOKEN" not in names
    assert names["OPENBLAS_CORETYPE"] == "Haswell"
    assert (names["GIVEN"], names["HOME"]) == ("1", str(job / "home"))
    assert path[0] == str(job)
    assert not {"/nowhere", str(WORKER.parent)} & set(path)


def test_several_threads_at_once(tmp_path):
    outcomes: dict[int, Outcome] = {}

    def grade(number: int) -> None:
        cells = [code(f"x = {number}")] + [code("import os; os._exit(9)")] * (number % 2)
        job = make_job(
            tmp_path / str(number), [cells[0], check("q"), *cells[1:]], {"q": "env['x']"}
        )
        outcomes[number] = run_job(job)

    threads = [threading.Thread(target=grade, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: values(o)["q.value"] for n, o in outcomes.items()} == {n: n for n in range(4)}
    assert [outcomes[n].ended for n in range(4)] == ["finished", "died"] * 2


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_error_while_taking_an_event_ends_the_tree_and_closes_the_pipes(tmp_path):
    source = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nprint('x')\ntime.sleep(60)"
    job = make_job(tmp_path, [code("pass"), code(source)], {})
    before = open_descriptors()

    def take(event: dict) -> None:
        if event["event"] == "cell" and event["index"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sandbox.run(job, BOUNDS, take, {})
    assert open_descriptors() == before
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if str(job) in (p.info["cmdline"] or [])
    ]


def test_the_tree_ends_when_the_grader_is_killed(tmp_path):
    source = "import os, time\nprint('x', os.getppid())\ntime.sleep(0.1)"
    job = make_job(tmp_path, [code(source), code("import time\ntime.sleep(60)")], {})
    program = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom autograder import sandbox\n"
        f"bounds = sandbox.Bounds(**{dataclasses.asdict(BOUNDS)!r})\n"
        "def take(event):\n"
        "    if event.get('index') == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"sandbox.run(Path({str(job)!r}), bounds, take, {{}})"
    )
    root = WORKER.parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert done.returncode == -9
    supervisor = int(executed(job)[0]["outputs"][0]["text"].split()[1])
    psutil.wait_procs([psutil.Process(supervisor)] if psutil.pid_exists(supervisor) else [], 10)
    assert gone(supervisor)
    assert not [
        p for p in psutil.process_iter(["cmdline"]) if str(job) in (p.info["cmdline"] or [])
    ]


def test_a_worker_that_never_gets_ready_is_nobodys_fault(tmp_path):
    job = make_job(tmp_path, [code("pass")], {})
    (job / "autograder" / "checks" / "core.py").write_text("import not_there_at_all")
    outcome = run_job(job)
    assert (outcome.ended, outcome.events) == ("infrastructure", [])
    assert "No module named 'not_there_at_all'" in outcome.reason


def test_exit_status_in_words():
    assert in_words(139) == in_words(-11) == "killed by signal 11 (segmentation fault)"
    assert in_words(2) == "the process ended itself with exit status 2 (os._exit or the like)"
    assert in_words(0).startswith("the process ended itself with exit status 0")
    assert in_words(255).startswith("the process ended itself with exit status 255")
