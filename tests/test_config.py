"""grading.yml: what is accepted, and that each fault is one clear message."""

import copy

import pytest
import yaml

from autograder import config, judge
from autograder.config import ConfigError
from tests.conftest import REPOSITORY

VALID = yaml.safe_load((REPOSITORY / "grading.yml").read_text(encoding="utf-8"))


def load(tmp_path, change):
    raw = copy.deepcopy(VALID)
    change(raw)
    path = tmp_path / "grading.yml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return config.load(path)


def question(raw, name="cnn"):
    return raw["assignments"]["cnn_vs_fnn"]["questions"][name]


def test_the_repositorys_own_file_is_valid_and_sums_its_points(grading):
    by_hand = 0
    for entry in VALID["assignments"]["cnn_vs_fnn"]["questions"].values():
        by_hand += entry.get("points", 0)
        by_hand += sum(check["points"] for check in entry.get("checks", {}).values())
    assert grading.assignment("cnn_vs_fnn").possible == by_hand
    judge.validate(grading.assignment("cnn_vs_fnn"))


def test_structure_carries_the_grade(grading):
    """Accuracy and its gap are a small share of the points (they don't tell right from wrong)."""
    assignment = grading.assignment("cnn_vs_fnn")
    accuracy = sum(
        entry.points
        for q in assignment.questions.values()
        for entry in q.checks.values()
        if entry.check in ("accuracy", "accuracy_gap")
    )
    assert 0 < accuracy <= 0.1 * assignment.possible


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r.update(colour=1), ["colour: unknown key", "course", "assignments"]),
        (lambda r: r["limits"].update(cel_s=3), ["limits.cel_s: unknown key", "cell_s"]),
        (lambda r: r["limits"].pop("cell_s"), ["limits.cell_s: missing"]),
        (lambda r: r["limits"].update(cell_s=-1), ["limits.cell_s", "greater than 0", "-1"]),
        (lambda r: r["limits"].update(memory_mib="big"), ["limits.memory_mib", "integer", "big"]),
        (lambda r: r.update(device="gpu"), ["device", "'auto', 'cpu' or 'cuda'", "gpu"]),
        (lambda r: question(r).update(point=1), ["questions.cnn.point: unknown key", "points"]),
        (
            lambda r: question(r)["checks"]["logits"].update(points="one"),
            ["questions.cnn.checks.logits.points", "valid number", "one"],
        ),
        (lambda r: question(r, "reflection").pop("points"), ["a manual question has points"]),
        (lambda r: question(r).pop("checks"), ["is not manual has checks"]),
        (lambda r: question(r)["checks"]["logits"].pop("points"), ["logits.points: missing"]),
        (lambda r: question(r)["checks"].update(logits=3), ["questions.cnn.checks.logits"]),
    ],
)
def test_a_fault_names_file_key_and_what_is_allowed(tmp_path, change, expected):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, change)
    message = str(raised.value)
    assert "grading.yml: " in message
    for text in expected:
        assert text in message
    assert "Traceback" not in message
    assert "pydantic" not in message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda r: question(r)["checks"]["parameter_budget"].update(maximum=3),
            ["parameter_budget", "unknown key maximum", "largest"],
        ),
        (
            lambda r: question(r)["checks"]["parameter_budget"].pop("largest"),
            ["parameter_budget", "missing: largest"],
        ),
        (
            lambda r: question(r)["checks"]["logits"].update(check="logitz"),
            ["no check 'logitz'", "logits"],
        ),
    ],
)
def test_settings_are_held_against_the_check(tmp_path, change, expected):
    changed = load(tmp_path, change)
    with pytest.raises(ConfigError) as raised:
        judge.validate(changed.assignment("cnn_vs_fnn"))
    for text in expected:
        assert text in str(raised.value)


SECTIONS = [
    n for n, f in config.Config.model_fields.items() if hasattr(f.annotation, "model_fields")
]


@pytest.mark.parametrize("name", SECTIONS)
def test_an_unknown_key_of_any_section_is_one_message(tmp_path, name):
    with pytest.raises(ConfigError, match=rf"{name}\.colour: unknown key; allowed here: "):
        load(tmp_path, lambda raw: raw[name].update(colour=1))


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        config.load(tmp_path / "grading.yml")
    (tmp_path / "grading.yml").write_text("a: [1,\n b", encoding="utf-8")
    with pytest.raises(ConfigError, match="not readable as YAML"):
        config.load(tmp_path / "grading.yml")
    (tmp_path / "grading.yml").write_text("- 1", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected keys"):
        config.load(tmp_path / "grading.yml")


def test_an_unknown_assignment_names_those_that_exist(grading):
    with pytest.raises(ConfigError, match="cnn_vs_fnn"):
        grading.assignment("cnn")


def test_nothing_can_be_changed_after_loading(grading):
    with pytest.raises(ValueError, match="frozen"):
        grading.device = "cuda"
