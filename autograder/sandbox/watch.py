"""One job from its start to its end."""

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autograder.sandbox.bounds import Bounds, Ended, Stop
from autograder.sandbox.progress import Progress
from autograder.sandbox.protocol import Event, lines
from autograder.sandbox.start import start
from autograder.sandbox.tree import Tree

LOG = "worker.log"
LOOK_S = 0.2  # between two looks at memory and processes


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


def run(
    job: Path, bounds: Bounds, on_event: Callable[[Event], None], env: Mapping[str, str]
) -> Outcome:
    """Run the worker on a job folder (see worker/__main__.py) until it ends or has to.

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
    progress = Progress(bounds, on_event, started)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((job / LOG).open("wb"))
        selector = stack.enter_context(selectors.DefaultSelector())
        process, (events, output) = start(job, bounds, env)
        tree = Tree(process, bounds)
        stack.callback(tree.end)
        _read_with(selector, stack.enter_context(events), lines(progress.take))
        _read_with(selector, stack.enter_context(output), _capped(log, bounds.output_kib))
        try:
            ended, reason = _follow(selector, tree, progress)
        except Stop as stop:
            ended, reason = stop.ended, stop.reason
            tree.end()
            with contextlib.suppress(Stop):
                while _read_ready(selector, 0):  # what it wrote last
                    pass
    if ended == "infrastructure":
        reason = f"{reason}\n{_tail(job / LOG)}".strip()
    used = time.monotonic() - started, tree.cpu_s, tree.peak_mib
    return Outcome(ended, reason, progress.events, *used, progress.refused)


def _follow(selector: selectors.BaseSelector, tree: Tree, progress: Progress) -> tuple[Ended, str]:
    """Read until the worker has ended by itself. Raises Stop when it has to be ended."""
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
