"""A student's own cells, out of an executed notebook, which is untrusted."""

import json
from collections.abc import Iterator


def answers(notebook: bytes) -> dict[str, list[tuple[str, str]]]:
    """By question the student's cells, in order, as (cell type, source).

    Those are the answer cells, and cells that a student added to a question. Nothing of what can't
    be read.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        for question, kind, source in _cells(json.loads(notebook)["cells"]):
            found.setdefault(question, []).append((kind, source))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return found


def code(notebook: bytes) -> str:
    """The code among a student's own cells."""
    cells = [cell for own in answers(notebook).values() for cell in own]
    return "\n\n".join(source for kind, source in cells if kind == "code")


def rubrics(notebook: bytes) -> dict[str, str]:
    """By question what the solved notebook tells in place of a manual answer."""
    found: dict[str, list[str]] = {}
    for cell in json.loads(notebook)["cells"]:
        solved = "otter_assign_solution_cell" in cell["metadata"].get("tags", ())
        if solved and cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            found.setdefault(cell["metadata"]["autograder"].get("question", ""), []).append(text)
    return {question: "\n\n".join(texts) for question, texts in found.items()}


def _cells(cells: list[dict[str, object]]) -> Iterator[tuple[str, str, str]]:
    for cell in cells:
        metadata = cell["metadata"]
        mark = metadata.get("autograder", {}) if isinstance(metadata, dict) else {}
        source = cell["source"]
        text = "".join(source) if isinstance(source, list) else source
        if mark.get("role") in ("answer", "extra") and isinstance(text, str):
            yield str(mark.get("question", "")), str(cell["cell_type"]), text
