"""Where a job is, as its events tell; whether it is late, and how it ended."""

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from autograder.sandbox.bounds import Bounds, Ended, Stop
from autograder.sandbox.protocol import Event, parse

EVENTS = 20_000  # more than that is a flood


@dataclass
class Progress:
    """Takes the worker's lines; knows what it is doing, and whether it is late."""

    bounds: Bounds
    on_event: Callable[[Event], None]
    started: float
    events: list[Event] = field(default_factory=list)
    refused: int = 0
    where: str = ""  # what it is doing, as the end of a sentence
    _open: Event | None = None  # the cell or question that runs
    _since: float = math.inf
    _interrupted: float = math.inf

    def take(self, line: bytes) -> None:
        """Accept or refuse one line. Raises Stop when there are too many."""
        if len(self.events) + self.refused >= EVENTS:
            raise Stop("died", f"sent more than {EVENTS} events{self.where}")
        event = parse(line)
        if event is None or not self._in_order(event):
            self.refused += 1
            return
        self.events.append(event)
        self._note(event)
        self.on_event(event)

    def interrupt_due(self, now: float) -> bool:
        """Whether to interrupt now, once for each cell. Raises Stop when it is too late for it."""
        if now - self.started > self.bounds.notebook_s:
            ended: Ended = "notebook_limit" if self.events else "infrastructure"
            limit = f"{self.bounds.notebook_s:g} s, the time limit of a notebook"
            raise Stop(ended, f"stopped after {limit}{self.where}")
        if now - self._interrupted > self.bounds.grace_s:
            limit = f"{self.bounds.cell_s:g} s, the time limit of a cell"
            raise Stop("cell_limit", f"stopped after {limit}; did not react{self.where}")
        if now - self._since < self.bounds.cell_s or self._interrupted < math.inf:
            return False
        self._interrupted = now
        return True

    def verdict(self, code: int) -> tuple[Ended, str]:
        """How the job ended, from the exit status of a worker that ended by itself."""
        if code == 0 and self.events and self.events[-1]["event"] == "finished":
            return "finished", ""
        ended: Ended = "died" if self.events else "infrastructure"
        return ended, in_words(code) + self.where

    def _in_order(self, event: Event) -> bool:
        """Whether an honest worker sends this now: evidence of the question that is tested, ..."""
        kind, runs = event["event"], self._open or {"event": None}
        if kind == "tampered":
            return True
        if kind == "cell_done":
            return ("cell", event["index"]) == (runs["event"], runs.get("index"))
        if kind in ("evidence", "question_done"):
            return ("question", event["question"]) == (runs["event"], runs.get("question"))
        return self._open is None

    def _note(self, event: Event) -> None:
        kind, question = event["event"], event.get("question")
        if kind in ("evidence", "tampered"):
            return
        started = kind in ("cell", "question")
        self._open = event if started else None
        self._since, self._interrupted = time.monotonic() if started else math.inf, math.inf
        self.where = ""
        if kind == "cell":
            of_question = f" (question {question})" if question else ""
            self.where = f" in cell {event['index']}{of_question}"
        elif kind == "question":
            self.where = f" in the tests of question {question}"


def in_words(code: int) -> str:
    """An exit status in words; 128 + n and -n both mean that signal n ended the process."""
    number = -code if code < 0 else code - 128
    if number not in set(signal.Signals):
        return f"the process ended itself with exit status {code} (os._exit or the like)"
    cause = "out of memory?" if number == signal.SIGKILL else signal.strsignal(number)
    return f"killed by signal {number} ({(cause or '').lower()})"
