"""The pages of a class, written by several processes: a student's take a good part of a second."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from autograder.config import Assignment
from autograder.measured import Band
from autograder.policy import Grade
from autograder.report.feedback import write_feedback
from autograder.report.notebook_page import write_notebook_page

FEW = 24  # students; for so few the start of processes takes longer than it saves
AHEAD = 2  # students a process whose pages wait, so that memory doesn't grow with the class


@dataclass(frozen=True)
class Pages:
    """What the pages of one student are made of.

    Attributes:
        path: of the feedback page; that of the notebook lies beside it.
        records: the evidence of the attempt that counts.
        bands: of the reference's trainings.
        notebook: as executed; empty where there is none.
    """

    path: Path
    assignment: Assignment
    grade: Grade
    records: Sequence[Mapping[str, Any]]
    bands: Sequence[Band]
    notebook: bytes

    def write(self) -> None:
        """Write both pages, if they have changed."""
        page = self.path.with_name(f"{self.path.stem}.notebook.html")
        if self.notebook:
            write_notebook_page(page, self.grade.attempt.student, self.notebook)
        else:
            page.unlink(missing_ok=True)  # one of an earlier attempt
        write_feedback(self.path, self.assignment, self.grade, self.records, self.bands)


class Writers:
    """Writes pages, several at once if there are many; all are there when it is left."""

    def __init__(self, processes: int, students: int) -> None:
        """Begin, with so many processes for the pages of so many students."""
        self._pool: ProcessPoolExecutor | None = None
        self._most, self._running = processes * AHEAD, deque[Future[None]]()
        if students > FEW and processes > 1:
            context = multiprocessing.get_context("forkserver")  # threads of ours aren't forked
            context.set_forkserver_preload([__name__])
            self._pool = ProcessPoolExecutor(processes, context, _leave_ctrl_c_to_us)

    def write(self, pages: Pages) -> None:
        """Write a student's pages, now or soon.

        Raises:
            OSError: those of a student could not be written.
        """
        if self._pool is None:
            pages.write()
            return
        self._running.append(self._pool.submit(Pages.write, pages))
        if len(self._running) > self._most:
            self._wait()

    def __enter__(self) -> "Writers":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Wait for all pages; after an error for those that are begun."""
        if self._pool:
            self._pool.shutdown(cancel_futures=kind is not None)
            while kind is None and self._running:
                self._wait()

    def _wait(self) -> None:
        try:
            self._running.popleft().result()
        except BrokenExecutor as error:
            raise OSError("a process that writes pages was killed (out of memory?)") from error


def _leave_ctrl_c_to_us() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
