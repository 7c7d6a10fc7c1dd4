"""The process that the grader starts: it forks a child for each job, and runs nothing itself.

What all jobs need is imported once, here. As a child can read all the memory of this process, it
holds nothing secret; as a fork copies one thread only, it never has a second one.

The grader writes lines of JSON to the control socket: {"job": folder}, with the descriptors of the
event pipe and of the log; "interrupt"; "end". It gets {"ready": why jobs aren't confined, or null}
and after each job {"code": exit status, "cpu_s": seconds, "peak_mib": of the largest process}.
When the socket is closed, all ends.
"""

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .confinement import World
from .preload import preload
from .supervisor import Settings, probe, supervise_job

# Where jobs aren't confined, a supervisor may have been stopped: it has to go on, to end.
COMMANDS = {"interrupt": (signal.SIGINT,), "end": (signal.SIGTERM, signal.SIGCONT)}
MESSAGE_BYTES = 1 << 16
MAXRSS_MIB = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere


def main(arguments: Sequence[str]) -> None:
    """Serve jobs until the grader closes the socket."""
    given = json.loads(arguments[1])
    world = World(**given["world"]) if given["world"] else None
    settings = Settings(**given | {"world": world})
    server = Server(socket.socket(fileno=int(arguments[0])), settings)
    reason = probe(settings) if world else None
    if reason is None:
        preload()  # of a job alone, too: what torch patches when first used must not look tampered
    gc.freeze()  # a collection in a child would copy all pages
    server.reply(ready=reason)
    with contextlib.suppress(ConnectionError):
        while server.serve():
            pass
    shutil.rmtree(Path(settings.base).parent, ignore_errors=True)  # the grader may be gone


class Server:
    """One job after the other."""

    def __init__(self, control: socket.socket, settings: Settings) -> None:
        """Children that end wake us up while we wait for the grader."""
        self._control, self._settings = control, settings
        self._wake, ours = socket.socketpair()
        for end in (self._wake, ours):
            end.setblocking(False)
        self._ours = ours
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)

    def reply(self, **fields: object) -> None:
        """Send one message to the grader."""
        self._control.sendall(json.dumps(fields).encode() + b"\n")

    def serve(self) -> bool:
        """Run the next job; False when there is none any more."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 2)
        jobs = [message for message in _messages(data) if isinstance(message, dict)]
        if not data:
            return False
        if jobs:  # a late "interrupt" of the job before isn't one
            child = os.fork()
            if child == 0:
                self._become(Path(jobs[0]["job"]), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            self._wait(child)
        return True

    def _become(self, job: Path, events: int, log: int) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            for end in (self._control, self._wake, self._ours):
                end.close()
            for stream in (1, 2):
                os.dup2(log, stream)
            os.close(log)
            supervise_job(job, events, self._settings)
        except BaseException:
            traceback.print_exc()
        os._exit(70)

    def _wait(self, child: int) -> None:
        """Pass the grader's commands on until the child has ended, and tell how it did."""
        while not (ended := os.wait4(child, os.WNOHANG))[0]:
            ready, _, _ = select.select([self._control, self._wake], [], [])
            if self._wake in ready:
                self._wake.recv(MESSAGE_BYTES)
            if self._control in ready:
                data = self._control.recv(MESSAGE_BYTES)
                for command in _messages(data) if data else ["end"]:
                    for number in COMMANDS[command]:
                        os.kill(child, number)
                if not data:
                    os.waitpid(child, 0)
                    return
        code, used = os.waitstatus_to_exitcode(ended[1]), ended[2]
        peak_mib = used.ru_maxrss / MAXRSS_MIB
        self.reply(code=code, cpu_s=used.ru_utime + used.ru_stime, peak_mib=peak_mib)


def _messages(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]
