"""Broken notebooks in confined processes: what is said about them, and that nothing is left."""

import dataclasses
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from autograder.sandbox import Bounds, Outcome, Pool, in_words, start
from autograder.sandbox.bounds import Stop
from autograder.sandbox.client import Client
from autograder.sandbox.progress import Progress
from autograder.sandbox.protocol import parse
from autograder.sandbox.start import WORKER
from tests.test_worker import (
    BOUNDS,
    check,
    code,
    executed,
    kinds,
    make_job,
    pool_of,
    run_job,
    values,
)

QUICK = dataclasses.replace(BOUNDS, cell_s=1.0, grace_s=0.5)
TIGHT = dataclasses.replace(BOUNDS, memory_mib=1200, file_mib=3)
GOOD = [code("good = 1", question="good"), check("good")]
LAST = [code("last = 1", question="last"), check("last")]
WANTED = {"good": "env['good']", "last": "env.get('last', 0)"}


def run_bad(folder: Path, source: str, bounds: Bounds = BOUNDS) -> Outcome:
    """A good question, the cell under test as cell 2 of question "bad", and a good question."""
    cells = [*GOOD, code(source, question="bad"), *LAST]
    outcome = run_job(make_job(folder, cells, WANTED, bounds), bounds)
    assert values(outcome)["good.value"] == 1
    assert nothing_left()
    return outcome


def nothing_left() -> bool:
    """Whether servers are all that descends from us; what a job starts can't leave its server."""
    us = psutil.Process()
    return us.children(recursive=True) == us.children()


def error_in(outcome: Outcome, index: int = 2) -> str:
    return str(next(e["error"] for e in kinds(outcome, "cell_done") if e["index"] == index))


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
        "import threading\n"
        "def spin():\n    while True: print('x')\n"
        "for daemon in (True, False): threading.Thread(target=spin, daemon=daemon).start()"
    )
    outcome = run_bad(tmp_path, source)
    assert (outcome.ended, outcome.reason) == ("finished", "")
    assert values(outcome)["last.value"] == 1


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
            "import os, time\nos.kill(os.getppid(), 15)\ntime.sleep(60)",
            "killed by signal 9 (out of memory?)",
        ),
    ],
    ids=["exit", "segfault", "kill", "end_supervisor"],
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
    source = "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return repr(D(n))\n"
    source += (
        "class D:\n    def __init__(s, n): s.n = n\n    def __repr__(s): return f(s.n + 1)\nf(0)"
    )
    outcome = run_bad(tmp_path, source, TIGHT)
    assert outcome.ended == "died"
    assert outcome.reason.endswith("in cell 2 (question bad)")


def test_a_memory_hog_gets_no_more_and_the_run_goes_on(tmp_path):
    outcome = run_bad(tmp_path, "held = []\nwhile True: held.append(bytearray(50 << 20))", TIGHT)
    assert (outcome.ended, error_in(outcome)) == ("finished", "MemoryError")


@pytest.mark.parametrize(
    "source",
    [
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n        held = b'x' * (500 << 20)\n        time.sleep(60)\n",
        "import mmap\nheld = mmap.mmap(-1, 1500 << 20)\n"
        "for page in range(0, len(held), 4096): held[page] = 1\n",
    ],
    ids=["several processes", "shared pages"],
)
def test_memory_of_all_processes_together_is_bounded(tmp_path, source):
    outcome = run_bad(tmp_path, f"import os, time\n{source}time.sleep(60)", TIGHT)
    assert (outcome.ended, outcome.reason) == (
        "died",
        "used more than 1200 MiB of memory in cell 2 (question bad)",
    )
    assert outcome.peak_mib > 1200


def test_memory_that_a_process_hides_counts_as_well(tmp_path):
    """Its page table can't be read by a user without rights."""
    source = "import ctypes\nctypes.CDLL(None).prctl(4, 0)\n"
    source += "import mmap, time\nheld = mmap.mmap(-1, 1500 << 20)\n"
    source += "for page in range(0, len(held), 4096): held[page] = 1\ntime.sleep(60)"
    outcome = run_bad(tmp_path, source, TIGHT)
    assert outcome.reason.startswith("used more than 1200 MiB")


def test_pages_that_forked_processes_share_count_once(tmp_path):
    source = (
        "import os, time\nheld = bytearray(b'x') * (400 << 20)\n"
        "children = []\n"
        "for _ in range(5):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n        time.sleep(1)\n        os._exit(0)\n"
        "    children.append(child)\n"
        "for child in children: os.waitpid(child, 0)\n"
    )
    assert run_bad(tmp_path, source, TIGHT).ended == "finished"


def test_more_processes_than_allowed_cannot_be_started(tmp_path):
    source = (
        "import os, time\nprocesses = 1\n"
        "while True:\n    if os.fork() == 0: time.sleep(60)\n"
        f"    processes += 1\n    assert processes <= {BOUNDS.processes}"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "finished"
    assert error_in(outcome) == "BlockingIOError: [Errno 11] Resource temporarily unavailable"


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
        "        os.write(write, b'here')\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        f"assert os.read(read, 20) == b'here'\n{end}"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == ("died" if end else "finished")
    assert not end or "exit status 3" in outcome.reason


@pytest.mark.parametrize("number", [9, 19], ids=["kill", "stop"])
def test_the_first_process_inside_takes_no_deadly_signals_from_there(tmp_path, number):
    source = f"import os\nos.kill(os.getppid(), {number})\nsurvived = os.getppid()"
    outcome = run_bad(tmp_path, source)
    assert (outcome.ended, error_in(outcome)) == ("finished", "None")
    assert values(outcome)["last.value"] == 1


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
    source = (
        f"{FORGERY}for line in {NO_EVENTS!r}:\n    os.write(fd, line.encode('latin-1') + b'\\n')\n"
        "os.write(fd, b'x' * (5 << 20) + b'\\n')"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "finished"
    assert outcome.refused == len(NO_EVENTS) + 1
    assert values(outcome)["last.value"] == 1


def test_half_a_character_can_be_stored_as_utf8():
    event = parse(forged('{"value": "\\ud83d"}').encode())
    assert event
    assert event["evidence"] == {"value": "?"}


READY, DONE = '{"event": "ready"}', '{"event": "finished"}'
CELL = '{"event": "cell", "index": 3, "id": null, "question": null}'
CELL_DONE = '{"event": "cell_done", "index": 3, "error": null, "line": null}'
QUESTION = '{"event": "question", "question": "q"}'
QUESTION_DONE = '{"event": "question_done", "question": "q", "error": null}'
TAMPERED = '{"event": "tampered", "question": "q", "what": []}'
HONEST = [READY, CELL, CELL_DONE, TAMPERED, QUESTION, forged("{}"), TAMPERED, forged("{}"),
          QUESTION_DONE, DONE]  # fmt: skip


@pytest.mark.parametrize(
    ("refused", "sent"),
    [
        (0, HONEST),
        (1, [READY, CELL, forged("{}"), CELL_DONE]),
        (1, [READY, forged("{}")]),
        (1, [READY, QUESTION, forged("{}").replace('"q"', '"other"'), QUESTION_DONE]),
        (1, [READY, CELL, CELL_DONE, CELL_DONE]),
        (1, [READY, CELL, CELL_DONE.replace("3", "4")]),
        (1, [READY, QUESTION, CELL, QUESTION_DONE]),
        (1, [READY, QUESTION, QUESTION_DONE.replace('"q"', '"other"')]),
        (1, [READY, CELL, DONE]),
    ],
)
def test_events_out_of_turn_are_refused(refused, sent):
    progress = Progress(BOUNDS, lambda event: None, started=0.0)
    for line in sent:
        progress.take(line.encode())
    assert (progress.refused, len(progress.events)) == (refused, len(sent) - refused)


def test_a_word_about_tampering_does_not_stop_the_clock():
    progress = Progress(BOUNDS, lambda event: None, started=math.inf)
    for line in (READY, QUESTION, TAMPERED):
        progress.take(line.encode())
    assert progress.interrupt_due(time.monotonic() + BOUNDS.cell_s)


@pytest.mark.parametrize("line", ["'x\\n'", "'x' * 65536"], ids=["lines", "bytes"])
def test_a_flood_on_the_pipe_ends_the_run(tmp_path, line):
    source = f"{FORGERY}data = ({line}).encode()\nwhile True: os.write(fd, data)"
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "died"
    assert outcome.reason.startswith("sent more than ")
    assert outcome.refused <= 20_000


def test_files_and_the_log_cannot_grow_over_their_bounds(tmp_path):
    flood = "import os\nfor _ in range(2000): os.write(1, b'x' * 10000)\n"
    outcome = run_bad(tmp_path, flood + "open('big', 'wb').write(bytes(5 << 20))", TIGHT)
    assert error_in(outcome).startswith("OSError: [Errno 27]")
    assert (tmp_path / "worker.log").stat().st_size == BOUNDS.output_kib * 1024


def test_the_environment_is_built_from_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    source = "import os, sys\nenviron = dict(os.environ)\npath = sys.path"
    tests = {"e": "env['environ']", "p": "env['path']"}
    job = make_job(tmp_path, [code(source)], tests)
    with Pool(BOUNDS, 1, {"GIVEN": "1"}) as pool:
        found = values(pool.run(job, lambda event: None))
    names, path = found["e.value"], found["p.value"]
    assert "SECRET_TOKEN" not in names
    assert names["OPENBLAS_CORETYPE"] == "Haswell"
    assert (names["GIVEN"], names["HOME"]) == ("1", "/job/home")
    assert path[0] == "/job"
    assert not {"/nowhere", str(WORKER.parent)} & set(path)


def test_several_threads_at_once(tmp_path):
    outcomes: dict[int, Outcome] = {}

    def grade(number: int, pool: Pool) -> None:
        last = [code("import os; os._exit(9)")] * (number % 2)
        cells = [code(f"x = {number}"), check("q"), *last]
        job = make_job(tmp_path / str(number), cells, {"q": "env['x']"})
        outcomes[number] = pool.run(job, lambda event: None)

    with Pool(BOUNDS, 2, {}) as pool:
        threads = [threading.Thread(target=grade, args=(n, pool)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {n: values(o)["q.value"] for n, o in outcomes.items()} == {n: n for n in range(6)}
    assert [outcomes[n].ended for n in range(6)] == ["finished", "died"] * 3


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_error_while_taking_an_event_ends_the_job_and_closes_the_pipes(tmp_path):
    job = make_job(tmp_path, [code("pass"), code("import time\ntime.sleep(60)")], {})
    pool = pool_of(BOUNDS)
    before = open_descriptors()

    def take(event: dict) -> None:
        if event["event"] == "cell" and event["index"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.run(job, take)
    assert open_descriptors() == before
    assert nothing_left()


def test_the_job_ends_when_the_grader_is_killed(tmp_path):
    job = make_job(tmp_path, [code("import time\ntime.sleep(60)")], {})
    assert len(killed_in_last_cell(tmp_path, job)) == 4  # server, two supervisors, worker


def killed_in_last_cell(tmp_path, job, before=""):
    """Processes below a grader that is killed when the job's last cell begins. None is left."""
    last = len(json.loads((job / "notebook.ipynb").read_text())["cells"]) - 1
    program = (
        "import sys, os, psutil, signal\nfrom pathlib import Path\n"
        f"from autograder import sandbox\n{before}\n"
        f"bounds = sandbox.Bounds(**{dataclasses.asdict(BOUNDS)!r})\n"
        "def take(event):\n"
        f"    if event['event'] == 'cell' and event['index'] == {last}:\n"
        "        below = psutil.Process().children(recursive=True)\n"
        "        print(*[p.pid for p in below], flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"with sandbox.Pool(bounds, 1, {{}}) as pool: pool.run(Path({str(job)!r}), take)"
    )
    (tmp_path / "t").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=WORKER.parents[2], check=False,
        stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path / "t")},
    )  # fmt: skip
    assert done.returncode == -9
    pids = [int(pid) for pid in done.stdout.split()]
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], 10)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert not list((tmp_path / "t").iterdir())
    return pids


def test_a_server_that_was_killed_costs_one_job_and_is_replaced(tmp_path):
    job = make_job(tmp_path / "a", [code("import time\ntime.sleep(60)")], {})
    again = make_job(tmp_path / "b", [code("x = 1"), check("q")], {"q": "env['x']"})

    def kill(event: dict) -> None:
        if event["event"] == "cell":
            psutil.Process().children()[-1].kill()

    with Pool(BOUNDS, 1, {}) as pool:
        outcome = pool.run(job, kill)
        assert outcome.ended == "infrastructure"  # what is confined can't have done that
        assert "ended from outside: killed by signal 9" in outcome.reason
        assert values(pool.run(again, lambda event: None))["q.value"] == 1
    assert nothing_left()


def test_a_pool_ends_its_own_jobs_alone(tmp_path):
    """Two pools of one process, such as those of two batches on one worker of a cluster."""
    jobs = [
        make_job(tmp_path / name, [code("x = 1"), check("q")], {"q": "env['x']"}) for name in "ab"
    ]
    with Pool(BOUNDS, 1, {}) as pool, Pool(BOUNDS, 1, {}) as other:
        ended = pool.run(jobs[0], lambda event: pool.end_jobs())
        kept = other.run(jobs[1], lambda event: pool.end_jobs())
    assert ended.ended == "infrastructure"
    assert values(kept)["q.value"] == 1
    assert nothing_left()


def test_the_server_has_one_thread_and_knows_no_gpu(tmp_path):
    """A fork copies one thread only, and nothing that a driver has set up."""
    run_job(make_job(tmp_path, [code("pass")], {}))
    assert {p.num_threads() for p in psutil.Process().children()} == {1}


def test_our_own_package_looks_empty_where_python_finds_it(tmp_path, monkeypatch):
    """Installed, it has the hidden labels in it."""
    folders = [*start._python_folders(), str(WORKER.parents[2])]
    monkeypatch.setattr(start, "_python_folders", lambda: folders)
    source = (
        f"import os\nseen = [os.listdir({str(WORKER.parents[1])!r}), "
        f"os.path.exists({str(WORKER.parents[2] / 'pyproject.toml')!r})]"
    )
    job = make_job(tmp_path, [code(source), check("q")], {"q": "env['seen']"})
    with Pool(BOUNDS, 1, {}) as pool:
        assert values(pool.run(job, lambda event: None))["q.value"] == [[], True]


def test_the_supervisor_has_an_alarm_clock_of_its_own(tmp_path, monkeypatch):
    """The grader's clock hangs on a thread that also reads and measures."""
    monkeypatch.setattr(start, "LATE_S", 0)
    bounds = dataclasses.replace(BOUNDS, notebook_s=0.5, grace_s=0.5)
    job = make_job(tmp_path, [code("while True: pass")], {})
    (job / "work").mkdir()
    client = Client(start.Plan(bounds, {}), confined=True)
    with (job / "out").open("wb") as file:
        client.run(job, file.fileno(), file.fileno())
        ended = client.receive(60)
    client.close()
    assert ended
    assert in_words(ended["code"]).startswith("killed by signal 9")
    assert nothing_left()


def test_files_for_the_cells_are_in_their_folder(tmp_path):
    cells = [code("text = open('given.txt').read()\nopen('given.txt', 'w').write('x')"), check("q")]
    job = make_job(tmp_path, cells, {"q": "env['text']"})
    (job / "work").mkdir()
    (job / "work" / "given.txt").write_text("given")
    assert values(run_job(job))["q.value"] == "given"
    assert (job / "work" / "given.txt").read_text() == "given"


def test_jobs_share_no_random_state_and_no_files(tmp_path):
    source = (
        "import os, random, tempfile, numpy, torch\n"
        "drawn = [random.random(), float(numpy.random.rand()), float(torch.rand(1))]\n"
        "seen = [len(os.listdir(f)) for f in ('/tmp', '/dev/shm', '.', os.environ['HOME'])]\n"
        "for f in ('/tmp', '/dev/shm', '.', os.environ['HOME']): open(f + '/left', 'w')\n"
        "os.environ['LEFT'] = '1'\nbuiltins = __import__('builtins')\n"
        "known = hasattr(builtins, 'left')\nbuiltins.left = 1\nfound = [drawn, seen, known]"
    )
    found = []
    for name in ("a", "b"):
        job = make_job(tmp_path / name, [code(source), check("q")], {"q": "env['found']"})
        found.append(values(run_job(job))["q.value"])
    assert found[0] == found[1]
    assert found[0][2] is False


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
