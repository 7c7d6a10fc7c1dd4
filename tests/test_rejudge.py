"""Judging stored evidence again: exact without a change, right after one, and never a guess."""

import csv
import io
from contextlib import closing

import pytest
import yaml

from autograder import cli, sandbox
from autograder.gradebook import Gradebook
from tests import tiny


@pytest.fixture
def graded(tmp_path, monkeypatch):
    """Root, inbox and results of a small class, with every kind of end."""
    tiny.use_fakes(monkeypatch)
    tiny.make_root(tmp_path)
    inbox, out = tmp_path / "inbox", tmp_path / "out"
    tiny.hand_in(inbox, "ada")
    tiny.hand_in(inbox, "bob", [14, 9], off=0.2)
    tiny.hand_in(inbox, "cara", [14], ended="died")
    tiny.hand_in(inbox, "dan", refused=2)
    tiny.hand_in(inbox, "eve", [14], ended="infrastructure")
    tiny.hand_in(inbox, "finn", [14], error="DownloadFailed: no network")
    tiny.hand_in(inbox, "gus", error="stopped after 3 s, the time limit of a cell")
    (inbox / "hal.ipynb").write_text("")
    assert cli.main(tiny.command(tmp_path, inbox, out)) == 1
    return tmp_path, inbox, out


def stored(out):
    with closing(Gradebook(out / "gradebook.sqlite")) as gradebook:
        return list(gradebook.attempts(tiny.NAME))


def totals(out):
    rows = csv.DictReader(io.StringIO(tiny.table(out)))
    return {row["student"]: (row["total"], row["status"]) for row in rows}


def change(root, **case):
    """Replace settings of cases in grading.yml, given as question__case={...}."""
    raw = tiny.settings()
    for place, new in case.items():
        question, _, name = place.partition("__")
        raw["assignments"][tiny.NAME]["questions"][question]["checks"][name].update(new)
    tiny.write_settings(root, raw)


def rejudge(root, out):
    return cli.main(["--root", str(root), "rejudge", str(out)])


def test_all_kinds_of_attempts_are_there(graded):
    statuses = {a.student: a.status for a in stored(graded[2])}
    assert statuses == {
        "ada": "graded", "bob": "graded", "cara": "partial", "dan": "flagged",
        "eve": "infrastructure", "finn": "partial", "gus": "partial", "hal": "invalid",
    }  # fmt: skip


def test_without_a_change_everything_is_reproduced(graded, capsys):
    root, _, out = graded
    before, table = stored(out), tiny.table(out)
    pages = {p.name: p.read_text() for p in (out / tiny.NAME / "feedback").iterdir()}
    capsys.readouterr()
    assert rejudge(root, out) == 1
    assert stored(out) == before
    assert tiny.table(out) == table
    assert {p.name: p.read_text() for p in (out / tiny.NAME / "feedback").iterdir()} == pages
    assert "Nobody's points or status changed." in capsys.readouterr().out


def test_new_points_and_thresholds_count_and_are_listed(graded, capsys):
    root, _, out = graded
    assert totals(out)["bob"] == ("1", "graded")
    change(root, size__examples={"points": 3}, shape__mean={"tolerance": 0.5})
    capsys.readouterr()
    rejudge(root, out)
    assert totals(out)["ada"] == ("9", "graded")
    assert totals(out)["bob"] == ("7", "graded")
    seen = capsys.readouterr().out
    assert "bob: 1 points -> 7 points" in seen
    assert "shape.mean: failed 0 of 4 -> passed 4 of 4" in seen
    assert "nothing was run" in seen
    page = (out / tiny.NAME / "feedback" / "bob.html").read_text()
    assert "7 <span" in page


def test_back_to_the_old_settings_is_back_to_the_old_verdicts(graded):
    root, _, out = graded
    before = stored(out)
    change(root, shape__mean={"tolerance": 0.01, "points": 2})
    rejudge(root, out)
    assert stored(out) != before
    change(root)
    rejudge(root, out)
    assert stored(out) == before


def test_evidence_of_another_measurement_is_not_judged(graded, capsys):
    """Other cases were asked than grading.yml now says: no points, and not zero either."""
    root, _, out = graded
    change(root, size__more={"cases": 50})
    rejudge(root, out)
    assert totals(out)["ada"] == ("", "infrastructure")
    assert "size.more: passed 2 of 2 -> not_run 0 of 2" in capsys.readouterr().out
    change(root)
    rejudge(root, out)
    assert totals(out)["ada"] == ("7", "graded")


def test_a_case_that_is_new_or_gone_is_told_and_not_guessed(graded, capsys):
    root, _, out = graded
    raw = tiny.settings()
    cases = raw["assignments"][tiny.NAME]["questions"]["size"]["checks"]
    cases["other"] = cases.pop("more")
    tiny.write_settings(root, raw)
    rejudge(root, out)
    assert totals(out)["ada"] == ("", "infrastructure")
    assert "Not in grading.yml any more, so not counted: size.more." in capsys.readouterr().out


def test_a_batch_after_new_points_judges_again_and_runs_nothing(graded, monkeypatch, capsys):
    root, inbox, out = graded
    change(root, size__examples={"points": 3})

    def forbidden(*_):
        raise AssertionError("it runs")

    for student in ("dan", "eve"):  # these are run again each time
        (inbox / f"{student}.ipynb").unlink()
    monkeypatch.setattr(sandbox, "Pool", forbidden)
    cli.main(tiny.command(root, inbox, out))
    assert totals(out)["ada"] == ("9", "graded")
    assert "judged again, nothing was run" in capsys.readouterr().out


def test_a_failed_rejudge_changes_nothing(graded, monkeypatch):
    root, _, out = graded
    before = stored(out)
    change(root, size__examples={"points": 3})
    real, calls = Gradebook._add_verdicts, []

    def breaks(self, key, attempt):
        calls.append(key)
        if len(calls) == 3:
            raise OSError("the disk is full")
        real(self, key, attempt)

    monkeypatch.setattr(Gradebook, "_add_verdicts", breaks)
    assert rejudge(root, out) == 1
    assert stored(out) == before


def test_an_assignment_that_grading_yml_lost_is_left_alone(graded, capsys):
    root, _, out = graded
    before = stored(out)
    raw = tiny.settings()
    raw["assignments"]["another"] = raw["assignments"].pop(tiny.NAME)
    (root / "grading.yml").write_text(yaml.safe_dump(raw))
    rejudge(root, out)
    assert stored(out) == before
    assert "tiny: left as it is" in capsys.readouterr().out


def test_a_folder_without_gradebook_is_refused(tmp_path, capsys):
    tiny.make_root(tmp_path)
    assert rejudge(tmp_path, tmp_path) == 2
    assert "holds no gradebook.sqlite" in capsys.readouterr().err
    assert not (tmp_path / "gradebook.sqlite").exists()
