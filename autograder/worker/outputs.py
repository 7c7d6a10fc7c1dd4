"""What a cell leaves behind: its outputs in notebook format, bounded while they come in."""

import base64
import contextlib
import io
import json
from collections.abc import Callable
from typing import Any


class Outputs:
    """Outputs of one cell in notebook format, cut off at `limit` characters while they come in.

    Threads that a cell has left may write at any time, also while `done` collects.
    """

    def __init__(self, limit: int) -> None:
        """Start empty; a limit of 0 keeps nothing."""
        self._limit = limit
        self.clear()

    def write(self, name: str, text: str) -> None:
        """Add text of a stream ("stdout" or "stderr")."""
        if self._left <= 0:
            return
        last = self._items[-1] if self._items else {}
        if last.get("name") != name:
            last = {"output_type": "stream", "name": name, "text": []}
            self._items.append(last)
        last["text"].append(text[: self._left])
        self._spend(len(text))

    def add(self, kind: str, **fields: Any) -> None:
        """Add a display, a result or an error; one that doesn't fit is left out as a whole."""
        if self._left <= 0:
            return
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # not JSON: not shown
            text = json.dumps({"output_type": kind, **fields}, default=_encode)
            if len(text) <= self._left:
                self._items.append(json.loads(text))
            self._spend(len(text))

    def clear(self) -> None:
        """Forget what came so far, as `clear_output` asks."""
        self._items: list[dict[str, Any]] = []
        self._left = self._limit

    def done(self) -> list[dict[str, Any]]:
        """The outputs, each stream's text joined, with no character that UTF-8 can't hold."""
        return [_joined(item) for item in tuple(self._items)]

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left <= 0 < self._limit:
            note = f"\n[output cut off after {self._limit // 1024} KiB]\n"
            self._items.append({"output_type": "stream", "name": "stderr", "text": [note]})


def _joined(item: dict[str, Any]) -> dict[str, Any]:
    if item["output_type"] != "stream":
        return item
    return item | {"text": "".join(item["text"]).encode("utf-8", "replace").decode()}


def _encode(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError


class Stream(io.TextIOBase):
    """sys.stdout or sys.stderr of the cells: writes into the outputs of the cell that runs."""

    encoding = "utf-8"

    def __init__(self, outputs: Callable[[], Outputs], name: str, descriptor: int) -> None:
        """Descriptor is what subprocesses write to instead: the log."""
        self._outputs, self._name, self._descriptor = outputs, name, descriptor

    def write(self, text: str) -> int:
        """Keep as much of `text` as the cell may still write."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._outputs().write(self._name, text)
        return len(text)

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """Descriptor of the log."""
        return self._descriptor
