"""Reading what a teacher writes: an assignment's text, its reference solution, and `[=values]`."""

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt

from autograder.config import Assignment, Config

PLACEHOLDER = re.compile(r"\[=([a-z_][\w.]*)(?::([^\]]*))?\]")
QUESTION = re.compile(r"<!--\s*question:\s*(\w+)\s*-->")
END_QUESTION = re.compile(r"<!--\s*end question\s*-->")
SPECIAL = ("setup", "solution", "check", "rubric")


class AuthoringError(ValueError):
    """The text of an assignment can't be used; the message begins with file and line."""


@dataclass(frozen=True)
class Block:
    """A piece of the text: its kind, the words after the language, its content, and its line."""

    kind: str
    words: dict[str, str]
    content: str
    line: int


def blocks(text: str) -> Iterator[Block]:
    """Pieces of an assignment's text in order; prose between special pieces stays as it is."""
    lines, done = text.split("\n"), 0
    for token in MarkdownIt().parse(text):
        special = _special(token.type, token.info, token.content) if token.level == 0 else None
        if special is None or token.map is None:
            continue
        yield from _prose(lines, done, token.map[0])
        kind, words = special
        yield Block(kind, words, token.content, token.map[0] + 1 + (token.type == "fence"))
        done = token.map[1]
    yield from _prose(lines, done, len(lines))


def _prose(lines: list[str], start: int, stop: int) -> Iterator[Block]:
    text = "\n".join(lines[start:stop])
    if text.strip():
        yield Block("text", {}, text, start + 1)


def _special(kind: str, info: str, content: str) -> tuple[str, dict[str, str]] | None:
    if kind == "html_block":
        if match := QUESTION.fullmatch(content.strip()):
            return "question", {"question": match[1]}
        return ("end", {}) if END_QUESTION.fullmatch(content.strip()) else None
    language, *rest = info.split() or [""]
    words = {word.partition("=")[0]: word.partition("=")[2] for word in rest}
    if (
        kind != "fence"
        or language not in ("python", "markdown")
        or (language == "markdown" and not rest)
    ):
        return None
    special = [w for w in SPECIAL if w in words]
    return (special[0] if special else "code"), words


class Reference:
    """Source text of the objects in a reference module."""

    def __init__(self, source: str) -> None:
        """Parse the module."""
        self.lines = source.splitlines()
        kinds = (ast.FunctionDef, ast.ClassDef)
        self.nodes = {n.name: n for n in ast.parse(source).body if isinstance(n, kinds)}

    def definition(self, name: str) -> str:
        """The whole definition, with the comments that end its body."""
        node = self.nodes[name]
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
        return "\n".join(self.lines[first : self._end(node)])

    def body(self, name: str) -> str:
        """The statements, without docstring and final return, as they stand in a cell."""
        node = self.nodes[name]
        last = node.body[-1]
        end = last.lineno - 1 if isinstance(last, ast.Return) else self._end(node)
        documented = ast.get_docstring(node) is not None
        first = (node.body[0].end_lineno or 0) if documented else node.body[0].lineno - 1
        return textwrap.dedent("\n".join(self.lines[first:end])).strip("\n")

    def _end(self, node: ast.FunctionDef | ast.ClassDef) -> int:
        end = node.end_lineno or node.lineno
        for number in range(end, len(self.lines)):
            line = self.lines[number]
            if line.strip() and not line.startswith(" "):
                break
            if line.strip():
                end = number + 1
        return end


def lookup(config: Config, assignment: Assignment, path: str) -> Any:
    """The value that `[=path]` stands for.

    A path begins with a question (then its points, a setting, or a check and its setting), with
    `values`, or with a key of the assignment, the course, or the file.
    """
    first, *rest = path.split(".")
    if first in assignment.questions:
        question = assignment.questions[first]
        checks = {n: {"points": c.points, **question.settings, **c.settings}
                  for n, c in question.checks.items()}  # fmt: skip
        value: Any = {"points": plain(question.possible), **question.settings, **checks}
    else:
        value = {**config.model_dump(exclude={"assignments"}), **assignment.model_dump()}
        value["points"], rest = plain(assignment.possible), [first, *rest]
    for key in rest:
        value = value[key]
    return value


def plain(points: float) -> int | float:
    """Points without a needless decimal."""
    return int(points) if points == int(points) else points
