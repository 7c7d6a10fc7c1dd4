"""One job from its start to its end."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autograder.sandbox.bounds import Bounds, Ended, Stop
from autograder.sandbox.client import Client
from autograder.sandbox.progress import Progress, in_words
from autograder.sandbox.protocol import Event, lines
from autograder.sandbox.readers import Readers
from autograder.sandbox.tree import Tree

LOG = "worker.log"
LOOK_S = 0.2  # between two looks at memory and processes


@dataclass(frozen=True)
class Outcome:
    """How a job ended, why in words, its events in order, and what it used.

    `refused` counts lines that were no proper events, or came out of turn; an honest worker sends
    none.
    """

    ended: Ended
    reason: str
    events: list[Event]
    wall_s: float
    cpu_s: float
    peak_mib: float
    refused: int


def run(client: Client, job: Path, bounds: Bounds, on_event: Callable[[Event], None]) -> Outcome:
    """Let a server run the job until it ends or has to; see `Pool.run`."""
    started = time.monotonic()
    for name in ("home", "tmp", "work"):
        (job / name).mkdir(exist_ok=True)
    progress, tree = Progress(bounds, on_event, started), Tree(client, bounds)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((job / LOG).open("wb"))
        readers = Readers(client.control.fileno())
        stack.callback(readers.close)
        stack.callback(tree.end)
        with readers.pipe(lines(progress.take)) as events, \
             readers.pipe(_capped(log, bounds.output_kib)) as output:  # fmt: skip
            client.run(job, events, output)
        try:
            ended, reason = _follow(readers, tree, progress)
        except Stop as stop:
            ended, reason = stop.ended, stop.reason
            tree.end()
            with contextlib.suppress(Stop):
                while readers.read(0):  # what it wrote last
                    pass
    if ended == "infrastructure":
        reason = f"{reason}\n{_tail(job / LOG)}".strip()
    used = time.monotonic() - started, tree.cpu_s, tree.peak_mib
    return Outcome(ended, reason, progress.events, *used, progress.refused)


def _follow(readers: Readers, tree: Tree, progress: Progress) -> tuple[Ended, str]:
    """Read until the worker has ended by itself. Raises Stop when it has to be ended."""
    next_look = 0.0
    while True:
        tree.receive()
        code = tree.code  # before reading, so that what it wrote last is read
        read = readers.read(LOOK_S / 4 if code is None else 0)
        if code is not None:
            if not read:
                return _lost(code) if tree.lost else progress.verdict(code)
            continue
        now = time.monotonic()
        if progress.interrupt_due(now):
            tree.interrupt()
        if now >= next_look:
            tree.look(progress.where)
            next_look = now + LOOK_S


def _lost(code: int) -> tuple[Ended, str]:
    return "infrastructure", f"what runs submissions here was ended from outside: {in_words(code)}"


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
