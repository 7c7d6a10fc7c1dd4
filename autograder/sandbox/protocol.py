"""Bytes from the worker -> events of a known form. Nothing in them is believed, only stored."""

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

from autograder.sandbox.bounds import Stop

Event = dict[str, Any]

LINE_BYTES, ALL_BYTES = 4 << 20, 256 << 20
DEPTH = 32  # of nested lists in an event: deeper ones break whoever walks them

_TEXT, _OPTIONAL = (str,), (str, type(None))
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "ready": {},
    "cell": {"index": (int,), "id": _OPTIONAL, "question": _OPTIONAL},
    "cell_done": {"index": (int,), "error": _OPTIONAL, "line": _OPTIONAL},
    "question": {"question": _TEXT},
    "evidence": {"question": _TEXT, "case": _TEXT, "check": _TEXT, "evidence": (dict,)},
    "question_done": {"question": _TEXT, "error": _OPTIONAL},
    "tampered": {"question": _OPTIONAL, "what": (list,)},
    "finished": {},
}


def lines(take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A reader that passes on whole lines; of one that is too long, only the beginning.

    The reader raises Stop when there is too much altogether.
    """
    rest = bytearray()
    total = 0

    def read(data: bytes) -> None:
        nonlocal total
        total += len(data)
        if total > ALL_BYTES:
            raise Stop("died", f"sent more than {ALL_BYTES >> 20} MiB of events")
        *whole, last = data.split(b"\n")
        for part in whole:
            take(bytes(rest) + part)
            rest.clear()
        rest.extend(last[: LINE_BYTES + 1 - len(rest)])

    return read


def parse(line: bytes) -> Event | None:
    """The event in a line, or None: not JSON, not finite, unknown, or not of its form."""
    if len(line) > LINE_BYTES:
        return None
    try:
        event = json.loads(line.decode("ascii"), parse_float=_finite, parse_constant=_refuse)
        if b"\\ud" in line.lower():  # half of a character pair can't be stored as UTF-8
            event = json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if _well_formed(event) else None


def _well_formed(event: Any) -> bool:
    form = FIELDS.get(str(event.get("event"))) if isinstance(event, dict) else None
    if form is None or event.keys() != {"event", *form} or _depth(event) > DEPTH:
        return False
    return all(type(event[name]) in kinds for name, kinds in form.items())


def _depth(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, inner), default=0)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")
