"""One pass through a notebook: cells in order, a question's tests at its check cell."""

import contextlib
import json
import linecache
import os
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from sys import _getframe
from typing import Any

from .errors import describe, failing_line
from .events import Events
from .integrity import Integrity
from .limit import TimeLimit
from .outputs import Outputs, Stream
from .shell import make_shell
from .tests import load_tests, without_evidence


class Run:
    """Runs cells and tests, sends their events, keeps the notebook as executed."""

    def __init__(self, job: Path, events: Events, limit: TimeLimit, output_kib: int) -> None:
        """Load all that the tests need, before any student code runs.

        Raises:
            ValueError: a check cell's question has no test file.
        """
        self._executed, self._work = job / "executed.ipynb", job / "work"
        self._output_limit = output_kib * 1024
        self._events, self._limit = events, limit
        self._notebook = json.loads((job / "notebook.ipynb").read_text("utf-8"))
        self._shell = shell = make_shell()
        self._namespace = shell.user_ns
        self._streams = tuple(
            Stream(lambda: shell.outputs, name, descriptor)
            for name, descriptor in (("stdout", 1), ("stderr", 2))
        )
        self._recursion_limit = sys.getrecursionlimit()
        self._tests, self._set_sink, self._measuring = load_tests(job)
        self._received = 0
        asked = {_mark(c)[1] for c in self._notebook["cells"] if _mark(c)[0] == "check"}
        if missing := asked - self._tests.keys():
            raise ValueError(f"no test file for {', '.join(sorted(map(str, missing)))}")
        integrity = Integrity(self._tests)
        self._changes, self._changes_after_tests = integrity.changes, integrity.changes_after_tests

    def everything(self) -> None:
        """All cells and all tests; tests of questions without a check cell come last."""
        self._events.send("ready")
        for index, cell in enumerate(self._notebook["cells"]):
            role, question = _mark(cell)
            if role == "check" and question in self._tests:
                self._test(question)
            elif cell["cell_type"] == "code" and role not in ("check", "export"):
                self._execute(index, cell, question)
        for question in list(self._tests):
            self._test(question)
        self._save()
        self._events.send("finished")

    def _execute(self, index: int, cell: dict[str, Any], question: str | None) -> None:
        source = "".join(cell["source"])
        self._restore(Outputs(self._output_limit))
        self._name_code(index, source)

        def action() -> BaseException | None:
            self._events.send("cell", index=index, id=cell.get("id"), question=question)
            result = self._shell.run_cell(source, store_history=True)
            error: BaseException | None = result.error_before_exec or result.error_in_exec
            return error

        error = self._limit.run(action)
        self._end_if_forked()
        cell["outputs"] = self._shell.outputs.done()
        cell["execution_count"] = self._shell.execution_count - 1
        if cell["outputs"]:
            self._save()  # now, because a later cell may end the process
        changes = self._changes()  # before an event is sent: it puts back what that needs
        line = failing_line(error)
        self._events.send("cell_done", index=index, error=describe(error), line=line)
        self._tell(question, changes)

    def _test(self, question: str) -> None:
        file = self._tests.pop(question)
        self._restore(Outputs(0))  # what student code prints now may show hidden data
        self._received = 0
        self._set_sink(sink := partial(self._evidence, question))

        def action() -> None:
            self._events.send("question", question=question)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                file.run(self._namespace)

        error = describe(self._limit.run(action))
        self._end_if_forked()
        replaced = [] if self._set_sink.__globals__["_sink"] is sink else ["the sink of evidence"]
        self._set_sink(None)
        if error is None:
            error = without_evidence(file, self._received)
        changes = [*replaced, *self._changes_after_tests()]
        self._events.send("question_done", question=question, error=error)
        self._tell(question, changes)

    def _tell(self, question: str | None, changes: list[str]) -> None:
        if changes:
            self._events.send("tampered", question=question, what=changes)

    def _evidence(self, question: str, record: dict[str, Any]) -> None:
        if _getframe(1).f_code is not self._measuring:
            self._tell(question, ["evidence that no check has sent"])
        self._events.send("evidence", **record)
        self._received += 1

    def _restore(self, outputs: Outputs) -> None:
        """Undo what an earlier cell may have changed in the process."""
        self._work.mkdir(exist_ok=True)
        os.chdir(self._work)
        sys.setrecursionlimit(self._recursion_limit)
        self._limit.install()
        self._shell.outputs = outputs
        sys.stdout, sys.stderr = self._streams

    def _name_code(self, index: int, source: str) -> None:
        self._shell.compile.cell = index
        body = source.lstrip().splitlines(keepends=True)[1:]
        for name in ("<timed exec>", "<timed eval>"):  # %%time compiles without a source
            linecache.cache[name] = (len(source), None, body, name)

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # a full disk costs the copy, not the grade
            self._executed.write_text(json.dumps(self._notebook), "ascii")  # it can't be replaced

    def _end_if_forked(self) -> None:
        if self._events.forked():
            os._exit(0)  # a cell called os.fork(): only the first process goes on


def _mark(cell: Mapping[str, Any]) -> tuple[str | None, str | None]:
    mark = cell["metadata"].get("autograder", {})
    return mark.get("role"), mark.get("question")
