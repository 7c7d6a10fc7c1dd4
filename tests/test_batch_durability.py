"""A batch that is killed, interrupted, or meets a full disk: nothing lost, nothing twice.

Each batch runs in a process of its own, forked from here, with a pool that answers after a moment
of work. Moments of killing are random, but counted from the batch's own progress.
"""

import hashlib
import multiprocessing
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import psutil
import pytest

from autograder import cli
from autograder.gradebook import Gradebook
from tests import tiny

FORK = multiprocessing.get_context("fork")
STUDENTS = 30
PATIENCE_S = 60  # for what must happen; a test that waits so long has failed


class BusyPool(tiny.FakePool):
    """Works for some hundredths of a second first."""

    def run(self, job, on_event):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 60_000)
        return super().run(job, on_event)


class BlockedPool(tiny.FakePool):
    """Each job is a process that ends when it is told to by a byte in the pipe `go`."""

    go, running = os.pipe(), set()

    def end_jobs(self):
        for process in self.running.copy():
            process.terminate()

    def run(self, job, on_event):
        code = f"import os; os.read({self.go[0]}, 1)"
        command = [sys.executable, "-S", "-c", code]
        with subprocess.Popen(command, pass_fds=self.go[:1]) as process:
            self.running.add(process)
            os.write(1, f"runs {process.pid}\n".encode())
        return super().run(job, on_event)


class Running:
    """A command in a forked process, and its output."""

    def __init__(self, arguments):
        self._rest, (self._output, write) = b"", os.pipe()
        self.lines = []
        self.process = FORK.Process(target=self._work, args=(arguments, write))
        self.process.start()
        os.close(write)

    @staticmethod
    def _work(arguments, write):
        os.dup2(write, 1)
        os.dup2(write, 2)
        with os.fdopen(write, "w", buffering=1) as output:
            sys.stdout = sys.stderr = output
            status = cli.main(arguments)
        os._exit(status)

    def next_line(self):
        """The next line of the output, or None at its end."""
        while b"\n" not in self._rest:
            assert select.select([self._output], [], [], PATIENCE_S)[0], "the batch hangs"
            data = os.read(self._output, 1 << 16)
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(line.decode())
        return self.lines[-1]

    def until(self, word, times=1):
        """Read until `times` lines had the word, or to the end; those lines."""
        found = []
        while len(found) < times and (line := self.next_line()) is not None:
            found += [line] if word in line else []
        return found

    def kill(self, number=signal.SIGKILL):
        os.kill(self.process.pid, number)

    def end(self):
        """Read the rest, wait for the end, give the exit status."""
        self.until("no line has this")
        self.process.join(PATIENCE_S)
        os.close(self._output)
        return self.process.exitcode


def make(root):
    """A class of 30: right, wrong, stopped, unusable and identical ones."""
    tiny.make_root(root)
    inbox = root / "inbox"
    for number in range(STUDENTS - 3):
        more = {"ended": "died"} if number % 7 == 3 else {}
        sizes = [14] if more else [14, 7 if number % 2 else 8]
        tiny.hand_in(inbox, f"s{number:02}", sizes, **more)
    (inbox / "s90.ipynb").write_text("no notebook")
    for twin in ("s91", "s92"):
        (inbox / f"{twin}.ipynb").write_bytes((inbox / "s00.ipynb").read_bytes())
    return inbox


@pytest.fixture
def course(tmp_path, monkeypatch):
    tiny.use_fakes(monkeypatch, BusyPool)
    return tmp_path, make(tmp_path)


def recorded(out):
    """All attempts, those that don't stand any more included."""
    if not (out / "gradebook.sqlite").exists():
        return []
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        return list(gradebook.attempts(tiny.NAME))


def outcomes(out):
    made = recorded(out)
    assert len(made) == STUDENTS
    return {a.student: (a.status, a.reason, a.results, a.run) for a in made}


def test_fifty_kills_lose_nothing_and_repeat_nothing(course):
    root, inbox = course
    calm, stormy = root / "calm", root / "stormy"
    Running(tiny.command(root, inbox, calm, "--workers", "2")).end()
    choose, done = random.Random(4), set()
    for _ in range(50):
        batch = Running(tiny.command(root, inbox, stormy, "--workers", "2"))
        batch.until(f"/{STUDENTS - len(done)} ", choose.choice([0, 0, 1]))
        select.select([], [], [], choose.uniform(0, 0.06))
        batch.kill()
        batch.end()
        shown = {line.split()[1].rstrip(":") for line in batch.lines if "a minute" in line}
        now = {a.student for a in recorded(stormy)}
        assert done | shown <= now
        done = now
    last = Running(tiny.command(root, inbox, stormy, "--workers", "2"))
    assert last.end() == 1
    assert tiny.table(stormy) == tiny.table(calm)
    assert outcomes(stormy) == outcomes(calm)
    assert not list(stormy.rglob("*.part"))


def test_what_a_killed_batch_left_behind_is_removed(course):
    root, inbox = course
    batch = Running(tiny.command(root, inbox, root / "out"))
    batch.until("graded")
    batch.kill()
    batch.end()
    left = (root / "out" / "scratch.txt").read_text()
    assert os.path.isdir(left)
    Running(tiny.command(root, inbox, root / "out")).end()
    assert not os.path.exists(left)
    assert not (root / "out" / "scratch.txt").exists()


@pytest.fixture
def blocked(course, monkeypatch):
    """A batch with two submissions that run until they are told to end."""
    root, inbox = course
    monkeypatch.setattr(BlockedPool, "go", os.pipe())
    tiny.use_fakes(monkeypatch, BlockedPool)
    batch = Running(tiny.command(root, inbox, root / "out", "--workers", "2"))
    pids = [int(line.split()[1]) for line in batch.until("runs ", 2)]
    yield batch, pids, root / "out"
    for end in BlockedPool.go:
        os.close(end)


def test_ctrl_c_finishes_what_runs_and_says_how_to_go_on(blocked):
    batch, _, out = blocked
    batch.kill(signal.SIGINT)
    batch.until("Ctrl-C again")
    os.write(BlockedPool.go[1], b"12")
    assert batch.end() == 1
    assert sum("runs " in line for line in batch.lines) == 2
    assert {a.student for a in recorded(out)} == {"s00", "s01"}
    assert "To go on, give the same command" in batch.lines[-1]
    assert "not graded yet (28)" in "\n".join(batch.lines)
    assert tiny.table(out).count("\n") == 3


def test_a_second_ctrl_c_ends_what_runs_at_once(blocked):
    batch, pids, out = blocked
    batch.kill(signal.SIGINT)
    batch.until("Ctrl-C again")
    batch.kill(signal.SIGINT)
    assert batch.end() == 1
    assert not any(map(psutil.pid_exists, pids))
    assert recorded(out) == []
    assert "To go on, give the same command" in batch.lines[-1]


def test_a_request_to_end_ends_what_runs(blocked):
    batch, pids, out = blocked
    batch.kill(signal.SIGTERM)
    assert batch.end() == 1
    assert not any(map(psutil.pid_exists, pids))
    assert recorded(out) == []


def test_two_batches_in_one_folder_are_refused(blocked, capsys):
    batch, _, out = blocked
    root = out.parent
    assert cli.main(tiny.command(root, root / "inbox", out)) == 2
    seen = capsys.readouterr().err
    assert f"Another autograder (process {batch.process.pid}) is at work in {out}" in seen
    batch.kill(signal.SIGTERM)
    batch.end()
    with closing(Gradebook(out / "gradebook.sqlite")):
        pass


def test_a_full_disk_ends_the_batch_and_what_was_graded_is_kept(tmp_path, monkeypatch, capsys):
    tiny.use_fakes(monkeypatch)
    inbox, out = make(tmp_path), tmp_path / "out"
    real, written = Gradebook._add_verdicts, []

    def full(self, key, attempt):
        written.append(key)
        if len(written) > 5:
            raise sqlite3.OperationalError("database or disk is full")
        real(self, key, attempt)

    with monkeypatch.context() as patch:
        patch.setattr(Gradebook, "_add_verdicts", full)
        assert cli.main(tiny.command(tmp_path, inbox, out)) == 1
    seen = capsys.readouterr().err
    assert "disk is full" in seen
    assert "To go on, give the same command" in seen
    assert len(recorded(out)) == 5
    assert cli.main(tiny.command(tmp_path, inbox, out)) == 1  # s90 is invalid
    assert len(recorded(out)) == STUDENTS


def test_no_room_for_jobs_is_no_fault_of_the_students(tmp_path, monkeypatch, capsys):
    class FullPool(tiny.FakePool):
        def run(self, job, on_event):
            raise OSError(28, "No space left on device")

    tiny.use_fakes(monkeypatch, FullPool)
    inbox, out = make(tmp_path), tmp_path / "out"
    assert cli.main(tiny.command(tmp_path, inbox, out)) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert {a.status for a in recorded(out)} <= {"invalid"}
