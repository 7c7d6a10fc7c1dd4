"""`otter run` on many notebooks, with all that they import paid for once. A script.

    python -P tests/warm_otter.py AT_ONCE < JOBS

JOBS is a JSON list of [archive, notebook, folder]; each folder gets what `otter run -o` writes, and
`log.txt`. Otter's own command line runs, unchanged, in a fork of this process for each notebook,
and so does Jupyter's kernel: only the start of a new Python is replaced by a fork.

Nothing of ours is imported, as a notebook brings its own package `autograder`.
"""

import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

# As in a kernel, which sets it before its notebook imports matplotlib.
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"

import numpy
import torch
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.provisioning import local_provisioner
from otter.cli import cli

OTTERS = ("nbconvert.preprocessors", "otter.execute.preprocessor")
NOTEBOOKS = ("matplotlib.backends.backend_agg", "matplotlib.font_manager", "torch.utils.data",
             "torchsummary", "tqdm.auto")  # fmt: skip
LONGEST_S = 600  # a run of otter has no limit of its own


class Kernel:
    """A fork that waits to become the kernel of a notebook; for jupyter_client a Popen.

    It is made before Otter starts its threads, as a fork copies only one.
    """

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        """Fork."""
        self._code: int | None = None
        self._orders, orders = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._orders.close()
            _fork_ends_with(_become_kernel, orders)
        orders.close()
        self._orders.recv(1)

    def launch(self, command: Sequence[str], *, env: dict[str, str], **_: Any) -> "Kernel":
        """Stand in for jupyter_client's launch_kernel."""
        with self._orders as orders:
            orders.sendall(json.dumps([command, os.getcwd(), env]).encode())
        return self

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        """Exit status, when it has ended."""
        return self._waited(0)

    def send_signal(self, number: int) -> None:
        """Send a signal to it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _waited(self, options: int) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, options)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code


def _become_kernel(orders: socket.socket) -> None:
    """What `python -m ipykernel_launcher` does, when the command for it comes."""
    os.setsid()
    orders.send(b"1")
    with orders.makefile() as file:
        command, folder, environment = json.load(file)
    assert command[1:3] == ["-m", "ipykernel_launcher"], command
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name in [name for name in sys.modules if name.split(".")[0] == "otter"]:
        del sys.modules[name]  # it keeps the stderr that it was imported with
    numpy.random.seed()  # a new process draws others than the last
    IPKernelApp.launch_instance(command[3:], parent_handle=os.getppid())


def _otter_run(archive: str, notebook: str, folder: str) -> None:
    os.makedirs(folder)
    log = os.open(f"{folder}/log.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.alarm(LONGEST_S)
    kernel = Kernel()
    local_provisioner.launch_kernel = kernel.launch
    try:
        cli(["run", "-a", archive, "-o", folder, "--no-logo", notebook], standalone_mode=False)
    finally:
        kernel.send_signal(signal.SIGKILL)


def _fork_ends_with(function: Any, *arguments: Any) -> None:
    """Call a function in a fork, and end the fork there."""
    try:
        function(*arguments)
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # neither waits for Otter's thread, nor does what is the parent's to do


def main(at_once: int, jobs: Sequence[Sequence[str]]) -> None:
    """Run all jobs, so many side by side."""
    for name in OTTERS + NOTEBOOKS:
        importlib.import_module(name)
    # The first step of an optimizer imports more.
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    torch.optim.Adam([parameter]).step()
    running = 0
    for job in jobs:
        if running == at_once:
            os.wait()
            running -= 1
        if os.fork() == 0:
            _fork_ends_with(_otter_run, *job)
        running += 1
    for _ in range(running):
        os.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.load(sys.stdin))
