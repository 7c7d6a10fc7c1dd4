"""Bytes of a notebook file, in whatever state, to a clean notebook of nbformat 4.5."""

import json
import re
from collections.abc import Sequence
from itertools import count
from typing import Any

from nbformat.notebooknode import NotebookNode

KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}

_CELL_ID = re.compile("[A-Za-z0-9_-]{1,64}")


class InvalidNotebook(Exception):
    """A file that can't be graded; the text says why and what to do."""


def read_notebook(data: bytes) -> tuple[NotebookNode, list[str]]:
    """Decode, parse, clean and upgrade the bytes of a notebook file.

    Of each cell the type, the source and the id are kept; outputs, attachments and other metadata
    have no part in a grade. A cell with the id of an earlier one gets a new id and keeps the old
    one as `metadata.id`, which is also where Colab puts it.

    Returns:
        A valid notebook of nbformat 4.5, and notes for the student on what was repaired.

    Raises:
        InvalidNotebook: the bytes are no notebook; the text says what they are.
    """
    if not data.strip():
        raise InvalidNotebook("The file is empty.")
    content, notes = _decode(data)
    raw = _parse(content)
    raw_cells = [cell for cell in _raw_cells(raw) if isinstance(cell, dict)]
    if not raw_cells:
        raise InvalidNotebook("The notebook has no cells.")
    if not isinstance(raw.get("cells"), list):
        notes.append("The notebook was in an old format (nbformat 3) and was converted.")
    cells = [_clean_cell(cell) for cell in raw_cells]
    if _give_ids(cells, raw_cells):
        notes.append("Several cells had the same id, so they were given new ones.")
    metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC))
    if name := assignment_name(raw):
        metadata["otter"] = {"assignment_name": printable(name)}
    return NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells), notes


def _decode(data: bytes) -> tuple[str, list[str]]:
    try:
        return data.decode(json.detect_encoding(data), "surrogatepass"), []
    except UnicodeDecodeError:
        pass
    try:
        content, name = data.decode("cp1252"), "Windows-1252"
    except UnicodeDecodeError:
        content, name = data.decode("latin-1"), "Latin-1"
    return content, [f"The file is not in UTF-8 and was read as {name}: check the accents in it."]


def _parse(content: str) -> dict[str, Any]:
    content = content.strip("\ufeff \t\r\n\0")
    if content.startswith("<"):
        raise InvalidNotebook(
            "The file is a web page (perhaps a sign-in page), not a notebook. Export it again."
        )
    try:
        raw = json.loads(content, strict=False)
    except RecursionError:
        raise InvalidNotebook("The file is not a notebook: it is nested too deeply.") from None
    except ValueError as error:
        if content.startswith("{") and not content.endswith("}"):
            reason = "The file breaks off in the middle. Save the notebook and hand it in again."
            raise InvalidNotebook(reason) from None
        raise InvalidNotebook(f"The file is not a notebook: no valid JSON ({error}).") from None
    if not isinstance(raw, dict):
        raise InvalidNotebook("The file is JSON, but not a notebook.")
    return raw


def _raw_cells(raw: dict[str, Any]) -> list[Any]:
    """The cells as they stand; before nbformat 4 they were divided into worksheets."""
    if isinstance(raw.get("cells"), list):
        return list(raw["cells"])
    sheets = raw.get("worksheets")
    if not isinstance(sheets, list):
        raise InvalidNotebook("The file is JSON, but not a notebook: it has no list of cells.")
    lists = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    return [cell for cells in lists if isinstance(cells, list) for cell in cells]


def _clean_cell(raw: dict[str, Any]) -> NotebookNode:
    source = _joined(raw.get("source", raw.get("input")))
    kind = raw.get("cell_type")
    if kind == "heading":  # nbformat 3
        level = raw.get("level")
        marker = "#" * level if isinstance(level, int) and 1 <= level <= 6 else "#"
        source = f"{marker} {' '.join(source.splitlines())}"
    if kind not in ("code", "raw"):
        kind = "markdown"
    cell = NotebookNode(cell_type=kind, source=source, metadata=NotebookNode())
    if kind == "code":
        cell.update(outputs=[], execution_count=None)
    return cell


def _joined(source: Any) -> str:
    lines = source if isinstance(source, list) else [source]
    return printable("".join(line for line in lines if isinstance(line, str)))


def printable(text: str) -> str:
    """The text without lone surrogates, which no encoding can write."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _give_ids(cells: Sequence[NotebookNode], raw: Sequence[dict[str, Any]]) -> int:
    """Give every cell an id of its own; returns how many had that of an earlier cell."""
    taken: set[str] = set()
    fresh = (name for number in count(1) if (name := f"repaired-{number}") not in taken)
    doubles = 0
    for cell, original in zip(cells, raw, strict=True):
        ids = _found_ids(original)
        is_double = bool(ids) and ids[0] in taken
        doubles += is_double
        cell["id"] = ids[0] if ids and not is_double else next(fresh)
        taken.add(cell.id)
        if ids:
            cell.metadata["id"] = ids[-1]
    return doubles


def _found_ids(raw: dict[str, Any]) -> list[str]:
    metadata = raw.get("metadata")
    found = (raw.get("id"), metadata.get("id") if isinstance(metadata, dict) else None)
    return [name for name in found if isinstance(name, str) and _CELL_ID.fullmatch(name)]


def assignment_name(notebook: dict[str, Any]) -> str | None:
    """The assignment that a notebook, of whatever shape, says it belongs to."""
    metadata = notebook.get("metadata")
    otter = metadata.get("otter") if isinstance(metadata, dict) else None
    name = otter.get("assignment_name") if isinstance(otter, dict) else None
    return name if isinstance(name, str) and name else None
