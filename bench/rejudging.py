"""How long judging again takes, by the command as a teacher gives it.

That is reading, judging, writing verdicts, grades and pages.
"""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import yaml

from autograder import cli
from autograder.gradebook import Gradebook
from bench.graders import Clock
from tests.conftest import REPOSITORY


def rejudged(graded: Path, folder: Path, count: int) -> tuple[Clock, Clock]:
    """The time of judging `count` copies of real attempts: without a change, with points doubled.

    Args:
        graded: a folder of results, with attempts of one assignment.
        folder: an empty one.
        count: of submissions, each by a student of its own.
    """
    copies(graded / "gradebook.sqlite", folder / "gradebook.sqlite", count)
    unchanged = _timed(REPOSITORY, folder)
    doubled(folder)
    return unchanged, _timed(folder, folder)


def copies(source: Path, target: Path, count: int) -> None:
    """Fill a new gradebook with copies of the attempts of another one."""
    with (
        contextlib.closing(Gradebook(source)) as real,
        contextlib.closing(Gradebook(target)) as new,
    ):
        (terms,) = real.terms()
        attempts = list(real.attempts(terms.assignment))
        new.begin(terms, {})
        for number in range(count):
            one = attempts[number % len(attempts)]
            new.add(replace(one, student=f"s{number:05}", content=str(number)))


def doubled(root: Path) -> None:
    """Write grading.yml with all points of checks doubled."""
    raw = yaml.safe_load((REPOSITORY / "grading.yml").read_text(encoding="utf-8"))
    for assignment in raw["assignments"].values():
        for question in assignment["questions"].values():
            for check in question.get("checks", {}).values():
                check["points"] *= 2
    (root / "grading.yml").write_text(yaml.safe_dump(raw), encoding="utf-8")


def _timed(root: Path, out: Path) -> Clock:
    clock = Clock()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), clock.running():
        status = cli.main(["--root", str(root), "rejudge", str(out)])
    if status != 0:
        raise RuntimeError("autograder rejudge refused; its message stands above.")
    return clock
