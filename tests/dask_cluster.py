"""A real Dask cluster on loopback, and the command as a process, both bounded in time."""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import psutil
from distributed import Client

from tests.conftest import REPOSITORY

PATIENCE_S = 120
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}


class DaskCluster:
    """A scheduler, and workers that are added one by one; all in processes."""

    def __init__(self, folder, **scheduler_env):
        self._folder, self.processes = folder, []
        self._file = folder / "scheduler.json"
        self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", self._file,
            env=scheduler_env,
        )  # fmt: skip
        self.client = Client(scheduler_file=str(self._file), timeout=PATIENCE_S)
        self.address = self.client.scheduler.address

    def add(self, *options, count=1, preload=""):
        """Start workers with one thread each, and wait until they are there; their processes."""
        there = len(self.workers())
        path = self._folder / f"preload{len(self.processes)}.py"
        path.write_text(preload)
        nanny = () if "--nanny" in options else ("--no-nanny",)
        started = [
            self._start(
                "worker", self.address, "--nthreads", "1", "--local-directory", self._folder,
                "--preload", path, *nanny, *options, env={},
            )
            for _ in range(count)
        ]  # fmt: skip
        self.client.wait_for_workers(there + count, timeout=PATIENCE_S)
        return started

    def workers(self):
        return list(self.client.scheduler_info(n_workers=-1)["workers"])

    def _start(self, kind, *options, env):
        with (self._folder / f"{kind}{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, "--no-dashboard", *map(str, options)],
                env={**os.environ, **ENVIRONMENT, **env}, stdout=log, stderr=log,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def close(self):
        with contextlib.suppress(Exception):  # the scheduler may be dead by now
            self.client.close(timeout=1)
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()


class Command:
    """`autograder …` as a process, its lines as they come."""

    def __init__(self, *arguments):
        self.lines = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.cli", *map(str, arguments)], text=True, bufsize=1,
            env={**os.environ, **ENVIRONMENT, "COLUMNS": "200"}, cwd=REPOSITORY,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._coming = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def until(self, text):
        """Read until a line that holds the text."""
        for line in iter(self._line, ""):
            if text in line:
                return line
        raise AssertionError(f"{text!r} never came: {self.text}")

    def end(self):
        """Read the rest; the exit status."""
        while self._line():
            pass
        return self.process.wait(PATIENCE_S)

    def signal(self, number):
        os.killpg(self.process.pid, number)

    @property
    def text(self):
        return "".join(self.lines)

    def _read(self):
        for line in self.process.stdout:
            self._coming.put(line)
        self._coming.put("")

    def _line(self):
        try:
            line = self._coming.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError(f"nothing came for {PATIENCE_S} s: {self.text}") from None
        self.lines.append(line)
        return line


def servers(process):
    """Processes of ours below a worker: those that run submissions."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    found = []
    for one in below:
        with contextlib.suppress(psutil.Error):
            if any(Path(part).parent.name == "worker" for part in one.cmdline()):
                found.append(one)
    return found
