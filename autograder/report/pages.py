"""Pages from templates, written when what they show has changed."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograder.notebook import printable

SPOILED = {code: "\ufffd" for code in range(32) if chr(code) not in "\t\n\r"}  # a NUL, say

PAGES = Environment(
    loader=PackageLoader("autograder", "report"), autoescape=True, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def headline(name: str) -> str:
    """A question's or case's name as words."""
    return name.replace("_", " ")


def _moment(when: datetime | str) -> str:
    """Date, time and zone; a text is one of the gradebook, ISO 8601."""
    given = when if isinstance(when, datetime) else datetime.fromisoformat(when)
    return f"{given:%Y-%m-%d %H:%M %Z}"


PAGES.filters |= {"headline": headline, "moment": _moment}


def write_page(path: Path, shown: Any, make: Callable[[], str]) -> None:
    """Write a page, unless the file was made of the same before: most of a class's pages stay.

    Args:
        path: the file.
        shown: all that the page depends on, with a `repr` that tells it.
        make: makes the page.
    """
    told = f"{version('inductive-bias-autograder')} {shown!r}".encode(errors="replace")
    mark = f"<!-- {hashlib.sha256(told).hexdigest()} -->"
    if path.is_file() and _last_line(path) == mark:
        return
    save(path, f"{make()}\n{mark}")


def save(path: Path, text: str) -> None:
    """Write a page whole, without characters that no browser or encoding takes."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(printable(text).translate(SPOILED), encoding="utf-8")
    part.replace(path)


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 100))
        return file.read().decode("utf-8", "replace").rpartition("\n")[2]
