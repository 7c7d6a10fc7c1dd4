"""Our end of the server of jobs: start it, give it a job, interrupt that, end it."""

import contextlib
import json
import select
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Literal

from autograder.sandbox.start import Plan, start

READY_S = 120.0  # importing everything from a cold disk takes long
PATIENCE_S = 2.0  # for a server to end by itself
MESSAGE_BYTES = 1 << 16


class ServerFailed(RuntimeError):
    """The server process didn't start; the message has its last words."""


class Client:
    """A server process, which runs one job at a time. Not for several threads at once."""

    _process: "subprocess.Popen[bytes] | None" = None

    def __init__(self, plan: Plan, *, confined: bool) -> None:
        """Start the server and wait until it is ready.

        Raises:
            ServerFailed: it isn't.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="server-"))
        self.control, theirs = socket.socketpair()
        self._rest = b""
        self.confined = confined
        self.supervisors = 2 if confined else 1
        self.single_use = not confined  # student code could have changed it
        try:
            with theirs:
                self._process = start(plan, self._folder, theirs.fileno(), confined=confined)
            self.refusal = self._ready()  # why jobs can't be confined
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the server process, which all jobs descend from."""
        assert self._process
        return self._process.pid

    def run(self, job: Path, events: int, log: int) -> None:
        """Start a job that writes to these two descriptors."""
        message = json.dumps({"job": str(job)}).encode() + b"\n"
        socket.send_fds(self.control, [message], [events, log])

    def command(self, name: Literal["interrupt", "end"]) -> None:
        """Interrupt or end the job."""
        with contextlib.suppress(OSError):  # the server is gone: nothing is left to be told
            self.control.sendall(json.dumps(name).encode() + b"\n")

    def receive(self, wait_s: float) -> dict[str, Any] | None:
        """The server's next message, if it comes in time; if it is `gone`, how it ended."""
        if not select.select([self.control], [], [], wait_s)[0]:
            return None
        try:
            data = self.control.recv(MESSAGE_BYTES)
        except OSError:
            data = b""
        if not data:
            return {"code": self._gone(), "cpu_s": 0.0, "peak_mib": 0.0, "gone": True}
        self._rest += data
        line, end, rest = self._rest.partition(b"\n")
        if not end:
            return None
        self._rest = rest
        message: dict[str, Any] = json.loads(line)
        return message

    def end(self) -> None:
        """End the server now, and with it the job; whoever waits for that closes it."""
        if self._process:
            self._process.terminate()

    def close(self) -> None:
        """End the server, and what it has left."""
        self.control.close()
        if self._process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
            self._gone()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ready(self) -> str | None:
        message = self.receive(READY_S) or {}
        if "ready" in message:
            reason: str | None = message["ready"]
            return reason
        words = (self._folder / "log").read_bytes()[-2000:].decode("utf-8", "replace")
        raise ServerFailed(f"The process that runs submissions didn't start:\n{words}".strip())

    def _gone(self) -> int:
        assert self._process
        self.single_use = True
        self._process.kill()
        return self._process.wait()
