"""submission_metadata.yml: who handed in which folder of a Gradescope export."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from autograder.intake.errors import InboxError
from autograder.intake.trees import Tree
from autograder.notebook import InvalidNotebook, printable

METADATA = "submission_metadata.yml"


@dataclass(frozen=True)
class Submitted:
    """One student of one submission; a group's submission has one for each of its students."""

    entry: str
    student: str
    name: str
    email: str
    created: str


def submissions(tree: Tree, path: str) -> Iterator[Submitted]:
    """What the file says.

    Raises:
        InboxError: it is not readable.
    """
    for entry, value in _load(tree, path).items():
        info = value if isinstance(value, dict) else {}
        people = info.get(":submitters")
        people = [p for p in people if isinstance(p, dict)] if isinstance(people, list) else []
        for person in people or [{}]:
            name, number, email = (_text(person, key) for key in (":name", ":sid", ":email"))
            created = _text(info, ":created_at")
            yield Submitted(str(entry), number or email, name, email, created)


def _load(tree: Tree, path: str) -> dict[Any, Any]:
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # keeps all as text: ids have zeros
    try:
        # It holds the output of all tests, and is Gradescope's own: no limit.
        content = yaml.load(tree.read(path, sys.maxsize - 1), Loader=loader)
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError, InvalidNotebook) as error:
        raise InboxError(f"{tree.path(path)} is not readable: {error}") from None
    if not isinstance(content, dict):
        raise InboxError(f"{tree.path(path)} names no submissions. Export them again.")
    return content


def _text(mapping: dict[Any, Any], key: str) -> str:
    value = mapping.get(key)
    return printable(value).strip() if isinstance(value, str) else ""
