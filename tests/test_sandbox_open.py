"""The same where jobs can't be confined: a clear word, and the limits that remain."""

import dataclasses
import os

import psutil
import pytest

from autograder.sandbox import Bounds, Outcome, Pool, SandboxMissing, start
from tests.test_sandbox import (
    GOOD,
    LAST,
    WANTED,
    error_in,
    killed_in_last_cell,
    nothing_left,
)
from tests.test_worker import BOUNDS, check, code, make_job, values


@pytest.fixture(autouse=True)
def no_world(monkeypatch):
    """A world without Python can't be entered."""
    monkeypatch.setattr(start, "_python_folders", lambda: [])


def run_bad(folder, source: str, bounds: Bounds = BOUNDS) -> Outcome:
    cells = [*GOOD, code(source, question="bad"), *LAST]
    job = make_job(folder, cells, WANTED, bounds)
    with Pool(bounds, 1, {}) as pool:
        assert not pool.confined
        outcome = pool.run(job, lambda event: None)
    assert values(outcome)["good.value"] == 1
    assert nothing_left()
    return outcome


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_the_pool_says_what_is_missing_and_may_be_told_to_refuse():
    with Pool(BOUNDS, 1, {}) as pool:
        assert "NOT confined" in pool.guarantee
        assert "No such file or directory" in pool.guarantee
    with pytest.raises(SandboxMissing, match="can't be confined on this machine"):
        Pool(BOUNDS, 1, {}, require=True)
    assert nothing_left()


def test_a_server_is_not_used_twice(tmp_path):
    cells = [code("import os\nserver = int(open(f'/proc/{os.getppid()}/stat').read().split()[3])")]
    jobs = [make_job(tmp_path / n, [*cells, check("q")], {"q": "env['server']"}) for n in "ab"]
    with Pool(BOUNDS, 1, {}) as pool:
        first, second = (values(pool.run(job, lambda event: None))["q.value"] for job in jobs)
    assert first != second


@pytest.mark.parametrize("number", [9, 15])
def test_ending_the_supervisor_ends_the_job(tmp_path, number):
    source = f"import os, time\nos.kill(os.getppid(), {number})\ntime.sleep(60)"
    outcome = run_bad(tmp_path, source)
    assert (outcome.ended, outcome.reason) == (
        "died",
        "killed by signal 9 (out of memory?) in cell 2 (question bad)",
    )


def test_a_memory_hog_is_ended(tmp_path):
    source = "held = []\nwhile True: held.append(bytearray(b'x') * (50 << 20))"
    outcome = run_bad(tmp_path, source, dataclasses.replace(BOUNDS, memory_mib=1200))
    assert outcome.reason == "used more than 1200 MiB of memory in cell 2 (question bad)"


def test_too_many_processes_are_ended(tmp_path):
    source = (
        "import os, time\n"
        "for _ in range(60):\n    if os.fork() == 0: time.sleep(60)\n"
        "time.sleep(60)"
    )
    outcome = run_bad(tmp_path, source)
    if os.getuid() == 0:  # whom RLIMIT_NPROC doesn't bind
        assert outcome.reason == "ran more than 20 processes in cell 2 (question bad)"
    else:
        assert "Resource temporarily unavailable" in error_in(outcome)


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
    assert (
        run_bad(tmp_path, source, dataclasses.replace(BOUNDS, cell_s=1.0, grace_s=0.5)).ended
        == "cell_limit"
    )
    assert gone(int((tmp_path / "work" / "pid").read_text()))


def test_a_job_with_a_stopped_supervisor_ends_when_the_grader_is_killed(tmp_path):
    cells = [code("import os\nos.kill(os.getppid(), 19)"), code("import time\ntime.sleep(60)")]
    job = make_job(tmp_path, cells, {})
    before = "from autograder.sandbox import start\nstart._python_folders = lambda: []"
    assert len(killed_in_last_cell(tmp_path, job, before)) == 3  # server, supervisor, worker


def test_what_torch_patches_when_it_is_first_used_is_no_tampering(tmp_path):
    source = (
        "import torch\nweight = torch.nn.Parameter(torch.ones(1))\n"
        "weight.sum().backward()\ntorch.optim.Adam([weight]).step()"
    )
    outcome = run_bad(tmp_path, source)
    assert outcome.ended == "finished"
    assert [event for event in outcome.events if event["event"] == "tampered"] == []
