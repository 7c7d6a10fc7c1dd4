"""The master notebook, and the messages that an author gets."""

import ast
import shutil

import pytest

from autograder import config
from autograder.master import Author
from autograder.text import AuthoringError
from tests.conftest import NAME, REPOSITORY


@pytest.fixture
def root(tmp_path):
    for part in ("assignments", "reference"):
        shutil.copytree(REPOSITORY / part, tmp_path / part)
    shutil.copy(REPOSITORY / "grading.yml", tmp_path)
    return tmp_path


def author(root):
    return Author(NAME, config.load(root / "grading.yml"), root).notebook()


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_case_of_grading_yml_is_a_test_with_its_points(root):
    notebook = author(root)
    assignment = config.load(root / "grading.yml").assignment(NAME)
    sources = [c.source for c in notebook.cells if c.cell_type == "code"]
    for name, question in assignment.questions.items():
        for case, entry in question.checks.items():
            (test,) = [s for s in sources if f"checks.run('{name}.{case}'" in s]
            assert f"hidden: {str(entry.hidden).lower()}" in test
            assert f"points: {entry.points:g}" in test


def test_the_overview_names_every_question_in_order_and_no_points(root):
    """Points in a cell would make a change of points a change of what runs."""
    (cell,) = [c for c in author(root).cells if "overview import" in c.source]
    (call,) = [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call)]
    questions = config.load(root / "grading.yml").assignment(NAME).questions
    assert [ast.literal_eval(a) for a in call.args] == list(questions)
    (by_hand,) = [ast.literal_eval(k.value) for k in call.keywords]
    assert by_hand == [name for name, question in questions.items() if question.manual]
    assert cell.metadata.autograder.role == "given"
    assert max(map(len, cell.source.splitlines())) <= 100


def test_all_numbers_in_the_prose_come_from_grading_yml(root):
    edit(root / "grading.yml", "smallest: 10000, largest: 25000", "smallest: 1234, largest: 56789")
    prose = "\n".join(c.source for c in author(root).cells if c.cell_type == "markdown")
    assert "between 1,234 and" in prose
    assert "56,789 trainable parameters" in prose
    assert "[=" not in prose


def test_the_same_input_gives_the_same_notebook(root):
    assert author(root) == author(root)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[=cnn.outputs]", "[=cnn.output]", ["cnn_vs_fnn.md:", "[=cnn.output]"]),
        ("[=seed]", "[=seed:,x]", ["cnn_vs_fnn.md:", "[=seed:,x]"]),
        ("question: pool_size", "question: pools", ["no question 'pools'", "pool_size"]),
        ("check=logits", "check=logit", ["no check cnn.logit", "logits"]),
        ("logits(model=CNN)", "softmax(model=CNN)", ["no check softmax", "logits"]),
        ("logits(model=CNN)", "logits(network=CNN)", ["logits takes model, not network"]),
        ("logits(model=CNN)", "logits(CNN)", ["expected one call such as"]),
        ("logits(model=CNN)", "logits(model=", ["expected one call such as"]),
        ("logits(model=CNN)", "pixel_order(model=CNN)", ["grading.yml says check: logits"]),
        ("solution=CNN", "solution=ConvNet", ["reference/cnn_vs_fnn.py has no ConvNet"]),
        (
            "```python check=logits\nlogits(model=CNN)\n```",
            "",
            ["no test for cnn.logits of grading.yml"],
        ),
        ("<!-- question: cnn -->", "<!-- end question -->", ["outside of a question"]),
    ],
)
def test_an_authors_mistake_names_file_and_line(root, old, new, expected):
    path = root / "assignments" / f"{NAME}.md"
    edit(path, old, new)
    with pytest.raises(AuthoringError) as raised:
        author(root)
    for text in expected:
        assert text in str(raised.value)


def test_the_line_of_an_undefined_name_is_right(root):
    path = root / "assignments" / f"{NAME}.md"
    edit(path, "[=cnn.outputs] classes:", "[=cnn.absent] classes:")
    number = path.read_text(encoding="utf-8").split("[=cnn.absent]")[0].count("\n") + 1
    with pytest.raises(AuthoringError, match=rf"{NAME}\.md:{number}: "):
        author(root)


def test_missing_settings_name_the_key(root):
    edit(root / "grading.yml", "smallest: 10000, largest: 25000", "smallest: 10000")
    edit(root / "assignments" / f"{NAME}.md", "[=cnn.parameter_budget.largest:,]", "many")
    with pytest.raises(config.ConfigError, match=r"parameter_budget: missing: largest"):
        author(root)


def test_a_slip_in_the_reference_names_file_and_line(root):
    edit(root / "reference" / f"{NAME}.py", "return maps.mean(dim=(2, 3))", "return maps.mean(")
    with pytest.raises(AuthoringError, match=rf"{NAME}\.py:\d+: '\(' was never closed"):
        author(root)


def test_missing_files(root):
    (root / "reference" / f"{NAME}.py").unlink()
    with pytest.raises(AuthoringError, match="no such file"):
        author(root)
