"""How long judging again takes: `python -m tests.bench_rejudge DIR [COUNT]`.

DIR holds a gradebook of real attempts. COUNT (1,000) copies of them, each under a name of its own,
are judged by the command as a teacher gives it: reading, judging, writing verdicts, grades and
pages. Once with grading.yml as it is, once with all points doubled.
"""

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import yaml

from autograder import cli
from autograder.gradebook import Gradebook
from tests.conftest import REPOSITORY


def copies(source: Path, target: Path, count: int) -> None:
    """Fill a new gradebook with copies of the attempts of another one."""
    with (
        contextlib.closing(Gradebook(source)) as real,
        contextlib.closing(Gradebook(target)) as new,
    ):
        (terms, *_) = real.terms()
        attempts = [a for a in real.attempts(terms.assignment) if a.run]
        new.begin(terms, {})
        for number in range(count):
            one = attempts[number % len(attempts)]
            new.add(replace(one, student=f"s{number:05}", content=str(number)))


def measured(root: Path, out: Path) -> str:
    """One run of the command, in words."""
    started, used = time.perf_counter(), time.process_time()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        cli.main(["--root", str(root), "rejudge", str(out)])
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    return f"{wall:.1f} s, {cpu:.1f} CPU s"


def doubled(root: Path) -> None:
    """Write grading.yml with all points of checks doubled."""
    raw = yaml.safe_load((REPOSITORY / "grading.yml").read_text(encoding="utf-8"))
    for assignment in raw["assignments"].values():
        for question in assignment["questions"].values():
            for check in question.get("checks", {}).values():
                check["points"] *= 2
    (root / "grading.yml").write_text(yaml.safe_dump(raw), encoding="utf-8")


if __name__ == "__main__":
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copies(Path(sys.argv[1]) / "gradebook.sqlite", folder / "gradebook.sqlite", number)
        print(f"{number} attempts, without a change:    {measured(REPOSITORY, folder)}")
        doubled(folder)
        print(f"{number} attempts, all points doubled:  {measured(folder, folder)}")
