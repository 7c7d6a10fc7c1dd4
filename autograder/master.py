"""Assignment text and reference source -> the master notebook that `otter assign` takes.

The text is plain Markdown. HTML comments `<!-- question: NAME -->` and `<!-- end question -->`
bound the questions; fenced blocks with a word after the language are special:

    python setup            imports of the first code cell
    python solution=NAME    the function or class NAME of reference/<assignment>.py
    python solution=NAME body   its statements, without signature, docstring and return
    python check=CASE       one call of a check, the test case CASE of grading.yml
    markdown rubric         the rubric of a manual question, cut from the student notebook

Other Python fences are given code. `[=path]` and `[=path:format]` stand for a value of grading.yml.
"""

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from autograder.checks import CHECKS
from autograder.config import Assignment, Config, ConfigError, Question, settings_of
from autograder.judge import validate
from autograder.submit import PROGRESS_TEXT, SUBMIT, progress_code
from autograder.text import PLACEHOLDER, AuthoringError, Block, Reference, blocks, lookup, plain


class Author:
    """Turns one assignment's text into cells."""

    def __init__(self, name: str, config: Config, root: Path) -> None:
        """Read assignments/<name>.md and reference/<name>.py below `root`."""
        self.name, self.config = name, config
        self.assignment = config.assignment(name)
        validate(self.assignment)
        self.path = root / "assignments" / f"{name}.md"
        self.text = self._read(self.path)
        self.reference = self._reference(root / "reference" / f"{name}.py")
        self.question: str | None = None
        self.used: list[tuple[str, str]] = []

    @staticmethod
    def _read(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise AuthoringError(f"{path}: no such file.") from None

    def _reference(self, path: Path) -> Reference:
        try:
            return Reference(self._read(path))
        except SyntaxError as error:
            raise AuthoringError(f"{path}:{error.lineno}: {error.msg}.") from None

    def notebook(self) -> NotebookNode:
        """The master notebook."""
        cells = [
            new_raw_cell(_otter("ASSIGNMENT CONFIG", assignment_options(self.name, self.config)))
        ]
        for block in blocks(self.text):
            cells += self._cells(block)
        cells += [*self._close(), *self._last()]
        self._all_used()
        for number, cell in enumerate(cells):
            cell.id = f"master-{number}"
            cell.metadata.setdefault("autograder", {"role": "text"})
        return new_notebook(cells=cells, metadata=KERNEL)

    def _last(self) -> list[NotebookNode]:
        """The cells that every notebook ends with: progress and export."""
        text, code = SUBMIT[self.assignment.training]
        questions = {name: entry.manual for name, entry in self.assignment.questions.items()}
        return [
            new_markdown_cell(PROGRESS_TEXT), _code("given", progress_code(questions)),
            new_markdown_cell(text), _code("export", code.format(name=self.name)),
        ]  # fmt: skip

    def _cells(self, block: Block) -> list[NotebookNode]:
        handler = getattr(self, f"_{block.kind}")
        cells: list[NotebookNode] = handler(block)
        if self.question and block.kind != "question":
            for cell in cells:
                if "autograder" in cell.metadata or cell.cell_type != "raw":
                    cell.metadata.setdefault("autograder", {"role": "text"})["question"] = (
                        self.question
                    )
        return cells

    def _text(self, block: Block) -> list[NotebookNode]:
        return [new_markdown_cell(self._fill(block))]

    def _code(self, block: Block) -> list[NotebookNode]:
        return [_code("given", self._fill(block))]

    def _setup(self, block: Block) -> list[NotebookNode]:
        course = self.config.course
        before = SETUP_BEFORE.format(
            repository=course.repository, branch=course.branch, name=self.name,
            packages="torchsummary" + " safetensors" * (self.assignment.training == "checkpoint"),
        )  # fmt: skip
        cell = _code("setup", f"{before}\n{self._fill(block)}\n{SETUP_AFTER}")
        return [new_markdown_cell(self._badge()), cell]

    def _badge(self) -> str:
        course, name = self.config.course, self.name
        place = f"https://colab.research.google.com/github/{course.repository}/blob/{course.branch}"
        picture = "https://colab.research.google.com/assets/colab-badge.svg"
        return f"[![Open in Colab]({picture})]({place}/{name}/{name}.ipynb)"

    def _question(self, block: Block) -> list[NotebookNode]:
        closing = self._close()
        question = block.words["question"]
        entry = self._entry(question, block)
        self.question = question
        options = {"name": question, "manual": entry.manual}
        if entry.manual:
            options["points"] = plain(entry.possible)
        return [*closing, new_raw_cell(_otter("BEGIN QUESTION", options))]

    def _end(self, _: Block) -> list[NotebookNode]:
        return self._close()

    def _close(self) -> list[NotebookNode]:
        open_question, self.question = self.question, None
        return [new_raw_cell("# END QUESTION")] if open_question else []

    def _entry(self, question: str, block: Block) -> Question:
        if question not in self.assignment.questions:
            known = ", ".join(self.assignment.questions)
            raise self._error(block, f"grading.yml has no question {question!r} (it has: {known})")
        return self.assignment.questions[question]

    def _solution(self, block: Block) -> list[NotebookNode]:
        name = block.words["solution"]
        try:
            take = self.reference.body if "body" in block.words else self.reference.definition
            source = take(name)
        except KeyError:
            raise self._error(block, f"reference/{self.name}.py has no {name}") from None
        return _fenced("SOLUTION", [_code("answer", source)])

    def _rubric(self, block: Block) -> list[NotebookNode]:
        return _fenced("SOLUTION", [new_markdown_cell(self._fill(block))])

    def _check(self, block: Block) -> list[NotebookNode]:
        question, case = self.question, block.words["check"]
        if question is None:
            raise self._error(block, "a check stands outside of a question")
        entry = self._entry(question, block).checks.get(case)
        if entry is None:
            known = ", ".join(self.assignment.questions[question].checks)
            raise self._error(
                block, f"grading.yml has no check {question}.{case} (it has: {known})"
            )
        check, objects = self._call(block)
        if check != entry.check:
            raise self._error(block, f"{check} is called, grading.yml says check: {entry.check}")
        try:
            settings = settings_of(
                self.assignment.questions[question], entry, CHECKS[check].settings
            )
        except ConfigError as error:
            place = f"grading.yml: assignments.{self.name}.questions.{question}.checks.{case}"
            raise AuthoringError(f"{place}: {error}") from None
        self.used.append((question, case))
        options = yaml.safe_dump({"points": plain(entry.points), "hidden": entry.hidden})
        arguments = ", ".join(f"{key}={value}" for key, value in objects.items())
        source = TEST.format(
            options=options, case=case, names=", ".join(dict.fromkeys(objects.values())),
            where=f"{question}.{case}", check=check, settings=settings, arguments=arguments,
        )  # fmt: skip
        return _fenced("TESTS", [_code("test", source)])

    def _call(self, block: Block) -> tuple[str, dict[str, str]]:
        """Name and arguments of the one call in a check fence."""
        try:
            call = ast.parse(block.content.strip(), mode="eval").body
            assert isinstance(call, ast.Call)
            assert isinstance(call.func, ast.Name)
            objects = {
                k.arg or "": k.value.id for k in call.keywords if isinstance(k.value, ast.Name)
            }
            assert not call.args
            assert len(objects) == len(call.keywords)
        except (SyntaxError, AssertionError):
            raise self._error(block, "expected one call such as output_shape(model=CNN)") from None
        check = call.func.id
        if check not in CHECKS:
            raise self._error(block, f"there is no check {check} (there are: {', '.join(CHECKS)})")
        if set(objects) != set(CHECKS[check].objects):
            wanted = ", ".join(CHECKS[check].objects)
            raise self._error(block, f"{check} takes {wanted}, not {', '.join(objects)}")
        return check, objects

    def _fill(self, block: Block) -> str:
        def value(match: re.Match[str]) -> str:
            path, style = match.groups()
            try:
                return format(lookup(self.config, self.assignment, path), style or "")
            except (KeyError, ValueError, TypeError):
                line = block.line + block.content[: match.start()].count("\n")
                raise AuthoringError(
                    f"{self.path}:{line}: {match[0]} names no such value of grading.yml."
                ) from None

        return PLACEHOLDER.sub(value, block.content).strip("\n")

    def _error(self, block: Block, message: str) -> AuthoringError:
        return AuthoringError(f"{self.path}:{block.line}: {message}.")

    def _all_used(self) -> None:
        wanted = [(q, c) for q, e in self.assignment.questions.items() for c in e.checks]
        if absent := [f"{q}.{c}" for q, c in wanted if (q, c) not in self.used]:
            raise AuthoringError(f"{self.path}: no test for {', '.join(absent)} of grading.yml.")
        twice = {f"{q}.{c}" for q, c in self.used if self.used.count((q, c)) > 1}
        if twice:
            raise AuthoringError(f"{self.path}: {', '.join(sorted(twice))}: more than one test.")


def hidden_files(assignment: Assignment) -> list[str]:
    """Names, in the release, of the hidden data that an assignment's checks use."""
    return [f"hidden_{d}{part}.npz" for d in assignment.datasets for part in ("", "_labels")]


def assignment_options(name: str, config: Config) -> dict[str, Any]:
    """What `otter assign` has to know."""
    return {
        "name": name,
        "files": ["autograder.py", "kit"],
        "autograder_files": hidden_files(config.assignment(name)),
        "environment": "environment.yml",
        "python_version": config.course.python,
        "init_cell": False,
        "check_all_cell": False,
        "export_cell": False,
        "show_question_points": True,
        "tests": {"files": True, "ok_format": False},
        "generate": {"pdf": False, "show_all_public": True, "force_public_test_summary": True},
    }


def _otter(title: str, options: dict[str, Any]) -> str:
    return f"# {title}\n{yaml.safe_dump(options, sort_keys=False)}".strip()


def _fenced(word: str, cells: list[NotebookNode]) -> list[NotebookNode]:
    return [new_raw_cell(f"# BEGIN {word}"), *cells, new_raw_cell(f"# END {word}")]


def _code(role: str, source: str) -> NotebookNode:
    return new_code_cell(source, metadata={"autograder": {"role": role}})


KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

TEST = '''""" # BEGIN TEST CONFIG
{options}""" # END TEST CONFIG
def {case}({names}):
    from autograder import checks
    checks.run({where!r}, {check!r}, {settings!r}, {arguments})
'''

SETUP_BEFORE = """\
# Setup: run this cell first, each time that you open the notebook.
import os

if "COLAB_RELEASE_TAG" in os.environ:  # on Colab, fetch the files that belong to this notebook
    !pip install -q "otter-grader>=7,<8" {packages}
    !git clone -q --depth 1 --branch {branch} https://github.com/{repository} /content/course
    !cp -r /content/course/{name}/. .
"""

SETUP_AFTER = """
import otter
from autograder.checks.display import show_checks_as_table

grader = otter.Notebook()
show_checks_as_table()"""


def write(name: str, config: Config, root: Path, folder: Path) -> Path:
    """Write the master notebook of an assignment into `folder`, and return its path.

    Raises:
        AuthoringError: the text, the reference or grading.yml don't fit together.
    """
    path = folder / f"{name}.ipynb"
    nbformat.write(Author(name, config, root).notebook(), path)
    return path
