"""The hostile inputs through the command, as root and as a user without rights."""

import csv
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import REPOSITORY
from tests.hostile import assignment
from tests.hostile.inputs import INPUTS
from tests.hostile.unprivileged import NOBODY

COMMAND = "import sys\nfrom autograder.cli import main\nsys.exit(main())"
USERS = ("root", "nobody") if os.getuid() == 0 else ("myself",)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """The release of the assignment, where other users may read it."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    folder.chmod(0o755)
    assignment.build(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=USERS)
def graded(request: pytest.FixtureRequest, place: Path) -> dict[str, dict[str, str]]:
    """Rows of grades.csv by input, from one batch."""
    folder = Path(tempfile.mkdtemp(dir=place))
    (folder / "tmp").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assignment.fill(place, folder / "inbox", listening.getsockname()[1])
        if request.param == "nobody":
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        done = run(request.param, place, folder)
    assert "Submissions are confined" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1  # some need a person
    assert not list((folder / "tmp").iterdir())
    with (folder / "out" / assignment.NAME / "grades.csv").open(encoding="utf-8-sig") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    return {name: rows[f"s{number}"] for number, name in enumerate(INPUTS)}


def run(user: str, root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    before = ["-m", "tests.hostile.unprivileged"] if user == "nobody" else []
    arguments = ["--root", str(root), "grade", assignment.NAME, str(folder / "inbox")]
    arguments += ["--out", str(folder / "out"), "--workers", "2", "--require-sandbox"]
    environment = {**os.environ, "HOSTILE_SECRET": "1", "HOME": str(folder)}
    environment |= {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(folder / "tmp")}
    return subprocess.run(
        [sys.executable, *before, "-c", COMMAND, *arguments],
        cwd=REPOSITORY, env=environment, text=True, capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_status_and_points(graded, name):
    wanted, row = INPUTS[name], graded[name]
    got = tuple(int(row[q]) if row[q] else None for q in assignment.QUESTIONS)
    assert (row["status"], got) == (wanted.status, wanted.points), row["note"]
    assert wanted.says in row["note"]


def test_nothing_is_left_behind(graded):
    """Neither a process of the graders nor one that a submission started."""
    assert not [p for p in psutil.process_iter(["cmdline"]) if "worker/__main__.py" in
                " ".join(p.info["cmdline"] or []) and p.ppid() == 1]  # fmt: skip
    assert not Path("/tmp/owned").exists()
