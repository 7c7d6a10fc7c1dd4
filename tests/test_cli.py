"""The command: what it prints, its exit status, and one line for each wrong use."""

import pytest

from autograder import cli
from autograder.grade import devices
from tests import tiny


@pytest.fixture
def course(tmp_path, monkeypatch):
    tiny.use_fakes(monkeypatch)
    tiny.make_root(tmp_path)
    tiny.hand_in(tmp_path / "inbox", "ada")
    return tmp_path, tmp_path / "inbox", tmp_path / "out"


def run(course, capsys, *more):
    """Exit status and the lines of the output."""
    root, inbox, out = course
    capsys.readouterr()
    status = cli.main(tiny.command(root, inbox, out, *more))
    return status, capsys.readouterr().out.splitlines()


def group(lines, title):
    """The lines below a line of the summary that contains the title."""
    (start,) = [i for i, line in enumerate(lines) if title in line]
    depth = len(lines[start]) - len(lines[start].lstrip())
    found = []
    for line in lines[start + 1 :]:
        if len(line) - len(line.lstrip()) <= depth:
            break
        found.append(line.strip())
    return found


def test_a_class_without_trouble_is_status_zero(course, capsys):
    status, lines = run(course, capsys)
    assert status == 0
    assert "1/1 ada: graded" in "\n".join(lines)
    assert "1 students: 1 graded." in lines
    assert lines[-1] == "Exit status 0: all are graded, as far as checks can do that."
    assert {p.name for p in course[2].iterdir()} >= {tiny.NAME, "gradebook.sqlite"}
    files = {p.relative_to(course[2] / tiny.NAME).as_posix() for p in course[2].rglob("*.*")
             if tiny.NAME in p.parts}  # fmt: skip
    assert files >= {"grades.csv", "feedback/ada.html", "executed/ada.ipynb"}


@pytest.mark.parametrize(
    ("end", "expected"),
    [({"ended": "died"}, 0), ({"refused": 1}, 1), ({"ended": "infrastructure"}, 1)],
)
def test_the_status_says_whether_somebody_has_no_grade(course, capsys, end, expected):
    tiny.hand_in(course[1], "bob", [14], **end)
    assert run(course, capsys)[0] == expected


def test_everything_that_a_person_must_look_at_is_listed(course, capsys):
    inbox = course[1]
    tiny.hand_in(inbox, "bob", refused=2)
    tiny.hand_in(inbox, "cara", [14], ended="died")
    tiny.hand_in(inbox, "dan", [14], ended="infrastructure")
    (inbox / "eve.ipynb").write_text("<html>")
    (inbox / "adas twin.ipynb").write_bytes((inbox / "ada.ipynb").read_bytes())
    status, lines = run(course, capsys)
    assert status == 1
    (flagged,) = group(lines, "flagged (1): evidence that can't be right, or code ")
    assert flagged.startswith("bob: 2 lines of evidence")
    (partial,) = group(lines, "partial (1)")
    assert partial == "cara: size: killed by died"
    (ours,) = group(lines, "infrastructure (1): not the student's fault")
    assert ours.startswith("dan: killed by infrastructure")
    (invalid,) = group(lines, "invalid (1): the file can't be used")
    assert invalid.startswith("eve: The file is a web page")
    assert group(lines, "identical code (1)") == ["ada = adas twin"]
    assert group(lines, "questions that a person grades") == ["why: 5 answers, up to 5 points each"]
    assert "6 students: 2 graded, 1 invalid, 1 flagged, 1 infrastructure, 1 partial." in lines


@pytest.mark.parametrize(("columns", "questions"), [("80", True), ("40", False)])
def test_the_table_fits_the_terminal(course, capsys, monkeypatch, columns, questions):
    monkeypatch.setenv("COLUMNS", columns)
    _, lines = run(course, capsys)
    table = [line for line in lines if line[:1] in "┏┃┡│└"]
    assert max(map(len, table)) <= int(columns)
    assert any("size" in line for line in table) == questions
    assert any("ada" in line and "7" in line and "graded" in line for line in table)


def test_names_can_not_rewrite_the_terminal(course, capsys):
    tiny.hand_in(course[1], "x", [14], ended="died \x1b[2J\x07")
    _, lines = run(course, capsys)
    assert "\x1b" not in "\n".join(lines)
    assert "\x07" not in "\n".join(lines)


def test_two_assignments_share_a_gradebook_and_nothing_else(course, capsys):
    root, inbox, out = course
    run(course, capsys)
    raw = tiny.settings()
    raw["assignments"]["other"] = raw["assignments"][tiny.NAME]
    tiny.write_settings(root, raw)
    (root / "dist" / tiny.NAME).rename(root / "dist" / "other")
    for side, name in (("autograder", "{}-autograder.zip"), ("student", "{}.ipynb")):
        folder = root / "dist" / "other" / side
        (folder / name.format(tiny.NAME)).rename(folder / name.format("other"))
    tiny.hand_in(inbox, "bob")
    assert cli.main(["--root", str(root), "grade", "other", str(inbox), "--out", str(out)]) == 0
    assert "ada" in tiny.table(out)
    assert "bob" not in tiny.table(out)
    assert "bob" in (out / "other" / "grades.csv").read_text()
    capsys.readouterr()
    assert cli.main(["--root", str(root), "rejudge", str(out)]) == 0
    seen = capsys.readouterr().out
    assert "other: 2 attempts judged again" in seen
    assert "tiny: 1 attempts judged again" in seen


def test_options_choose_students_device_and_workers(course, capsys):
    tiny.hand_in(course[1], "bob")
    _, lines = run(course, capsys, "--only", "bob", "--workers", "3", "--device", "cpu")
    assert "Device: CPU (asked for: cpu), 3 side by side." in lines
    assert "1/1 bob: graded" in "\n".join(lines)
    status, lines = run(course, capsys, "--regrade")
    assert status == 0
    assert "2/2 " in "\n".join(lines)


def refused(course, capsys, *more):
    """The one line of the message."""
    root, inbox, out = course
    capsys.readouterr()
    assert cli.main(tiny.command(root, inbox, out, *more)) == 2
    seen = capsys.readouterr()
    (line,) = seen.err.strip().splitlines()
    return line


def test_unknown_students_are_listed(course, capsys):
    assert "no submission of bob, cara" in refused(course, capsys, "--only", "cara", "ada", "bob")


def test_cuda_without_a_gpu_is_refused_before_anything_runs(course, capsys, monkeypatch):
    monkeypatch.setattr(devices, "count_gpus", lambda: 0)
    assert "PyTorch sees no GPU here" in refused(course, capsys, "--device", "cuda")
    assert not course[2].exists()


def test_a_folder_that_can_not_be_used_is_told(course, capsys):
    out = course[2]
    out.write_text("a file")
    assert "give another folder" in refused(course, capsys)
    out.unlink()
    out.mkdir()
    (out / "gradebook.sqlite").write_text("not ours, and long enough to be looked at")
    assert "file is not a database" in refused(course, capsys)
