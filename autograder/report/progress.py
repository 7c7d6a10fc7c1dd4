"""How far a batch is, while it runs: a bar on a terminal, else a line for each submission."""

import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.gradebook import Attempt
from autograder.report.summary import plain


def watched(attempts: Iterator[Attempt], count: int) -> Iterator[Attempt]:
    """The attempts as they come; shows the rate and the time left of `count`."""
    console = Console()
    yield from (_bar if console.is_terminal else _lines)(attempts, count, console)


def _bar(attempts: Iterator[Attempt], count: int, console: Console) -> Iterator[Attempt]:
    rate = TextColumn("{task.fields[rate]}")
    columns = TextColumn("grading"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn()
    started = time.monotonic()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=count, rate="")
        for number, attempt in enumerate(attempts, 1):
            progress.update(task, advance=1, rate=_rate(number, time.monotonic() - started))
            yield attempt


def _lines(attempts: Iterator[Attempt], count: int, console: Console) -> Iterator[Attempt]:
    started = time.monotonic()
    for number, attempt in enumerate(attempts, 1):
        took = time.monotonic() - started
        left = took / number * (count - number)
        told = f"{number}/{count} {plain(attempt.student)}: {attempt.status}"
        console.out(f"{told} ({_rate(number, took)}, {_duration(left)} left)", highlight=False)
        yield attempt


def _rate(number: int, seconds: float) -> str:
    return f"{60 * number / max(seconds, 1e-3):.3g} a minute"


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 1.5:
        return f"{hours:.1f} h"
    return f"{minutes:.0f} min" if minutes >= 1.5 else f"{seconds:.0f} s"
