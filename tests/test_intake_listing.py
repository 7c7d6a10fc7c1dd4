"""The dry run: what a person reads before grading."""

import nbformat
import pytest

from autograder import cli
from autograder.intake import Roster, find, listing, read
from tests.conftest import NAME
from tests.inboxes import GOOD, encode, make_pristine, make_raw, put, zipped


def told(inbox, roster=None):
    held = find(inbox, "hw1", roster)
    lines = [x for one in held.found for x in listing.about(read(one, make_pristine(), 1))]
    return lines, listing.rest(held)


def test_every_case_is_listed(tmp_path):
    inbox = tmp_path / "inbox"
    put(inbox / "ann_1_10_hw1.ipynb", encode(make_raw("net = 0")))
    put(inbox / "ann_1_12_hw1-1.ipynb")
    put(inbox / "bob_LATE_2_11_hw1.zip", zipped({"x/hw1.ipynb": GOOD, "torch.py": b""}))
    put(inbox / "cy_3_13_hw1.ipynb", b"<html>")
    put(inbox / "grades\x1b[2J.csv")
    put(inbox / "._ann_1_10_hw1.ipynb")
    put(tmp_path / "roster.csv", b"student,name,canvas_id\na1,Ann,1\nb2,,2\nd4,Dee,\n")
    submissions, rest = told(inbox, Roster.load(tmp_path / "roster.csv"))
    assert submissions == [
        "3 (cy): not graded: The file is a web page (perhaps a sign-in page), not a notebook. "
        f"Export it again.  [{inbox}/cy_3_13_hw1.ipynb]",
        f"a1 (Ann): would be graded  [{inbox}/ann_1_10_hw1.ipynb]",
        f"a1 (Ann), attempt 2: would be graded  [{inbox}/ann_1_12_hw1-1.ipynb]",
        f"b2 (bob): would be graded  [{inbox}/bob_LATE_2_11_hw1.zip]",
        "    Only the notebook is graded, left out: torch.py.",
    ]
    assert rest == [
        "Left out, hidden, made by a system (1):",
        f"    {inbox}/._ann_1_10_hw1.ipynb",
        "Left out, neither notebook nor zip (1):",
        f"    {inbox}/grades\ufffd[2J.csv",
        "Handed in nothing (1): d4",
        "Not in the roster (1): 3",
    ]


def test_times_are_shown(tmp_path):
    put(tmp_path / "ann+hw1+2024-05-02 15:58:23 UTC+x" / "hw1.ipynb")
    assert told(tmp_path)[0][0].startswith("ann, 2024-05-02 15:58 UTC: would be graded  [")


@pytest.fixture
def inbox(tmp_path, release_root):
    folder = tmp_path / "inbox"
    folder.mkdir()
    notebook = nbformat.read(release_root / "student" / NAME / f"{NAME}.ipynb", as_version=4)
    nbformat.write(notebook, folder / "ada.ipynb")
    return folder


def dry(release_root, inbox, *more):
    return cli.main(["--root", str(release_root), "grade", NAME, str(inbox), "--dry-run", *more])


def test_dry_run_needs_no_folder_and_writes_none(tmp_path, release_root, inbox, capsys):
    assert dry(release_root, inbox) == 0
    out = capsys.readouterr().out
    assert "ada: would be graded" in out
    assert "1 would be graded, 0 not. Nothing was run." in out
    put(inbox / "bob.ipynb", b"")
    assert dry(release_root, inbox) == 1
    assert "bob: not graded: The file is empty." in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inbox"]


def test_wrong_use_is_a_message(tmp_path, release_root, inbox, capsys):
    assert dry(release_root, tmp_path / "nowhere") == 2
    assert dry(release_root, inbox, "--roster", str(tmp_path / "no.csv")) == 2
    put(tmp_path / "roster.csv", b"student\nzoe\n")
    assert dry(release_root, inbox, "--roster", str(tmp_path / "roster.csv")) == 2
    assert cli.main(["--root", str(release_root), "grade", NAME, str(inbox)]) == 2
    messages = capsys.readouterr().err
    for words in ("not a folder", "no.csv can't be read", "knows nobody", "--out"):
        assert words in messages
    assert "Traceback" not in messages
