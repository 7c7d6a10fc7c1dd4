"""The commands `audit` and `calibrate` on a small assignment, from the bank to files."""

import json
import shutil

import pytest
import yaml

from autograder import config
from autograder.cli import main
from autograder.validity import record
from autograder.validity.record import Audit, Calibration
from tests import mini


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    mini.make(root)
    return root


@pytest.fixture(scope="module")
def audited(root):
    """Exit status and record of an audit with two further runs."""
    status = main(["--root", str(root), "audit", "--runs", "2"])
    return status, record.read(Audit, root / "docs" / "validity" / "mini-audit.json")


@pytest.fixture(scope="module")
def calibrated(root):
    status = main(["--root", str(root), "calibrate", mini.NAME])
    return status, record.read(
        Calibration, root / "docs" / "validity" / "mini-calibration-cpu.json"
    )


def by_name(found):
    return {one.name: one for one in found}


@pytest.mark.parametrize(
    ("name", "outcome", "failed"),
    [
        ("without_plus_one", "expected", ["size.examples", "size.more"]),
        ("untrained", "expected", ["training.score"]),
        ("named_wrongly", "other", ["size.more"]),
        ("none_at_all", "survived", []),
    ],
)
def test_a_written_mutant_is_told_by_what_failed(name, outcome, failed, audited):
    mutant = by_name(audited[1].mutants)[name]
    assert (mutant.outcome, mutant.failed) == (outcome, failed)


def test_operators_make_mutants_of_both_questions_and_a_survivor_is_named(audited):
    made = [m for m in audited[1].mutants if not m.written]
    assert {m.idea.split("-")[0] for m in made} == {"size", "training"}
    assert [m.idea for m in made if m.outcome == "survived"] == [
        "training-answer-1 constant: nn.Linear(784, 10) -> nn.Linear(784, 11)"
    ]
    assert all(m.failed for m in made if m.outcome == "killed")


def test_a_false_fail_is_found_and_right_solutions_have_none(audited):
    variants = by_name(audited[1].variants)
    assert {name for name, v in variants.items() if v.failed} == {"wrong_after_all"}
    assert all(v.runs == 2 and not v.unsteady for v in variants.values())


def test_what_is_off_gives_exit_status_1_and_stands_in_page_and_table(audited, root):
    folder = root / "docs" / "validity"
    assert audited[0] == 1
    for text in ((folder / "mini-audit.html").read_text(), folder.with_suffix(".md").read_text()):
        assert "none_at_all" in text
        assert "wrong_after_all" in text


def test_a_second_audit_runs_nothing_again_and_a_case_that_nothing_fails_is_off(
    audited, root, tmp_path, capsys
):
    """As after a threshold was changed: evidence is judged again, nothing is run."""
    raw = yaml.safe_load((root / "grading.yml").read_text())
    checks = raw["assignments"]["mini"]["questions"]["training"]["checks"]
    checks["score"]["smallest"] = 0.0
    again = tmp_path / "again"
    shutil.copytree(root, again)
    (again / "grading.yml").write_text(yaml.safe_dump(raw, sort_keys=False))
    assert main(["--root", str(again), "audit"]) == 1
    assert "graded (" not in capsys.readouterr().out
    found = record.read(Audit, again / "docs" / "validity" / "mini-audit.json")
    assert by_name(found.mutants)["untrained"].outcome == "survived"
    assert by_name(found.mutants)["without_plus_one"].outcome == "expected"


def test_a_listed_survivor_is_equivalent_and_what_is_noticed_is_stale(
    audited, root, tmp_path, capsys
):
    again = tmp_path / "again"
    shutil.copytree(root, again)
    names = [
        "training-answer-1 constant: nn.Linear(784, 10) -> nn.Linear(784, 11)",
        "training-answer-1 drop_layer: nn.Flatten() -> (gone)",
        "training-answer-1 constant: no such thing",
    ]
    (again / "tests" / "equivalent").mkdir()
    listed = yaml.safe_dump([{"reason": "an eleventh class never wins", "mutants": names}])
    (again / "tests" / "equivalent" / "mini.yml").write_text(listed)
    main(["--root", str(again), "audit"])
    found = record.read(Audit, again / "docs" / "validity" / "mini-audit.json")
    outcomes = {m.idea: m.outcome for m in found.mutants if m.reason}
    assert outcomes == dict(zip(names, ["equivalent", "stale", "stale"], strict=True))


def test_a_calibration_trains_each_network_with_its_seeds(calibrated):
    (check,) = calibrated[1].checks
    assert (check.case, check.setting, check.threshold) == ("score", "smallest", 0.5)
    assert {s.name: (s.kind, len(s.values)) for s in check.samples} == {
        "reference": ("reference", 6), "deeper": ("variant", 6), "untrained": ("mutant", 5),
    }  # fmt: skip
    assert all(len(set(s.values)) == len(s.values) for s in check.samples), "a seed had no effect"
    values = {s.name: s.values for s in check.samples}
    assert min(values["reference"] + values["deeper"]) > 0.6
    assert max(values["untrained"]) < 0.3


def test_a_misplaced_threshold_is_proposed_anew_and_written_on_demand(
    calibrated, root, tmp_path, capsys
):
    assert calibrated[0] == 0
    again = tmp_path / "again"
    shutil.copytree(root, again)
    text = (again / "grading.yml").read_text().replace("smallest: 0.5", "smallest: 0.95  # by hand")
    (again / "grading.yml").write_text(text)
    assert main(["--root", str(again), "calibrate"]) == 1
    capsys.readouterr()
    assert main(["--root", str(again), "calibrate", "--apply"]) == 0
    assert "graded (" not in capsys.readouterr().out
    new = (again / "grading.yml").read_text()
    assert "# by hand" in new
    checks = config.load(again / "grading.yml").assignment("mini").questions["training"].checks
    (check,) = calibrated[1].checks
    right = [v for s in check.samples if s.kind != "mutant" for v in s.values]
    assert max(v for s in check.samples if s.kind == "mutant" for v in s.values) < (
        checks["score"].settings["smallest"]
    ) < min(right)  # fmt: skip
    assert main(["--root", str(again), "calibrate"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "nothing"], "There is no assignment 'nothing'"),
        (["audit", "--runs", "-1"], "--runs: 0 or more"),
        (["calibrate", "--seeds", "1"], "--seeds: at least 5"),
        (["calibrate", "--workers", "0"], "--workers: at least 1"),
    ],
)
def test_wrong_use_is_told(arguments, message, root, capsys):
    assert main(["--root", str(root), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_record_of_another_form_is_refused_in_words(calibrated, root, tmp_path, capsys):
    again = tmp_path / "again"
    shutil.copytree(root, again)
    path = again / "docs" / "validity" / "mini-calibration-cpu.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps({**raw, "more": 1}))
    (again / "dist" / "mini" / "mini.ipynb").unlink()
    with pytest.raises(config.ConfigError, match=r"mini-calibration-cpu\.json: not a record"):
        record.read(Calibration, path)
