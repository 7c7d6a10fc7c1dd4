"""What is another run, and what only judges."""

import copy

import pytest

from autograder import identity
from autograder.config import Assignment
from autograder.identity import LABELS, asked, judging_identity, measured, run_identity
from tests import tiny

FILES = [
    ("tests/size.py", tiny.TEST.encode()),
    ("kit/code.py", b"x = 1"),
    ("hidden_x.npz", b"inputs"),
    (f"hidden_x{LABELS}", b"labels"),
]


def changed(name, old, new):
    assert any(n == name and old in content for n, content in FILES)
    return [(n, content.replace(old, new) if n == name else content) for n, content in FILES]


def same(files, notebook=None):
    return run_identity(notebook or tiny.notebook(), files) == run_identity(tiny.notebook(), FILES)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tests/size.py", b"points=1, hidden=False", b"points=3, hidden=True"),
        (f"hidden_x{LABELS}", b"labels", b"better"),
    ],
)
def test_what_only_judges_is_the_same_run(name, old, new):
    assert same(changed(name, old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tests/size.py", b"'cases': 1", b"'cases': 2"),
        ("tests/size.py", b"function=f", b"function=g"),
        ("tests/size.py", b"'output_size'", b"'global_pool'"),
        ("kit/code.py", b"1", b"2"),
        ("hidden_x.npz", b"inputs", b"others"),
    ],
)
def test_what_is_measured_is_another_run(name, old, new):
    assert not same(changed(name, old, new))


def test_prose_is_the_same_run_and_code_is_another():
    assert same(FILES, tiny.notebook(text="At least 0.9 is needed."))
    assert not same(FILES, tiny.notebook(answer="def f(): ..."))


def test_the_order_of_files_plays_no_part():
    assert same(FILES[::-1])


def test_thresholds_are_left_out_of_a_test_and_measuring_settings_are_not():
    source = "checks.run('a.b', 'parameter_budget', {'seed': 7, 'smallest': 10, 'name': 'N'}, m=N)"
    assert measured(source) == measured(source.replace("10", "99"))
    assert measured(source) != measured(source.replace("7", "8"))


def test_options_of_a_masters_test_cell_are_left_out():
    cell = '""" # BEGIN TEST CONFIG\npoints: {}\n""" # END TEST CONFIG\ndef case(f):\n    pass\n'
    assert measured(cell.format(1)) == measured(cell.format(2)) == "def case(f):\n    pass"


def assignment(**case):
    raw = copy.deepcopy(tiny.ASSIGNMENT)
    raw["questions"]["size"]["checks"]["examples"].update(case)
    return Assignment.model_validate(raw)


def test_points_change_the_judging_and_not_what_is_asked():
    assert asked(assignment(points=5)) == asked(assignment())
    assert judging_identity(assignment(points=5)) != judging_identity(assignment())


def test_what_is_asked_changes_case_by_case():
    before, after = asked(assignment()), asked(assignment(cases=9))
    assert {place for place in before if before[place] != after[place]} == {"size.examples"}


def test_another_data_set_is_another_question(tmp_path, monkeypatch):
    """A course's own hidden digits: old predictions don't fit the new labels."""
    check = {"check": "accuracy", "points": 1, "model_name": "m", "dataset": "digits",
             "split": "hidden", "smallest": 0.9}  # fmt: skip
    raw = {"title": "t", "seed": 1, "values": {}, "questions": {"q": {"checks": {"c": check}}}}
    real = asked(Assignment.model_validate(raw))
    (tmp_path / "hidden").mkdir()
    for name in ("digits.npz", "hidden/digits.npz"):
        (tmp_path / name).write_bytes(b"mine")
    monkeypatch.setattr(identity.data, "__file__", str(tmp_path / "__init__.py"))
    identity.data_digest.cache_clear()
    mine = asked(Assignment.model_validate(raw))
    (tmp_path / "hidden" / f"digits{LABELS}").write_bytes(b"labels")
    identity.data_digest.cache_clear()
    assert mine == asked(Assignment.model_validate(raw)) != real
    monkeypatch.undo()
    identity.data_digest.cache_clear()
