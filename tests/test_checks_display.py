import random
from typing import get_args

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from otter.test_files import ExceptionTestFile
from torch import nn

from autograder.checks import core, display
from autograder.checks.overview import progress

TEST = """
from otter.test_files import test_case

OK_FORMAT = False
name = "sizes"
points = None

@test_case(points=1, hidden=False)
def few_cases(size):
    from autograder import checks
    checks.run("sizes.few_cases", "output_size", {"name": "size", "rule": "convolution",
               "cases": 8, "seed": 1}, function=size)

@test_case(points=1, hidden=False)
def all_pools(size):
    from autograder import checks
    checks.run("sizes.all_pools", "output_size", {"name": "size", "rule": "pooling",
               "cases": 8, "seed": 1}, function=size)
"""


def conv(size, kernel, stride=1, padding=0):
    return (size + 2 * padding - kernel) // stride + 1


def both(size, kernel, stride=None, padding=0):
    """Right for pooling; for convolutions only where a stride is given."""
    return conv(size, kernel, kernel if stride is None else stride, padding)


@pytest.fixture(autouse=True)
def _forget():
    core.latest.clear()
    yield
    core.latest.clear()


@pytest.fixture
def shell():
    made = InteractiveShell.instance()
    display.show_checks_as_table()
    yield made
    InteractiveShell.clear_instance()


def shown(shell, size, test=None):
    """What a notebook shows for the check: (text, HTML)."""
    test = test or ExceptionTestFile.from_string(TEST)
    test.run({"size": size})
    data, _ = shell.display_formatter.format(test)
    return data["text/plain"], data["text/html"]


def test_one_line_when_everything_passed(shell):
    class Right:
        calls = 0

    def size(*arguments):
        Right.calls += 1
        return (conv if Right.calls <= 8 else both)(*arguments)

    text, html = shown(shell, size)
    assert "all 2 visible checks passed" in text
    assert "\n" not in text
    assert "<table" not in html


def test_a_row_for_each_case_when_something_failed(shell):
    text, html = shown(shell, conv)
    head, first, second = text.splitlines()
    assert "1 of 2 visible checks passed" in head
    assert "few cases" in first
    assert "Agrees with nn.Conv2d in all 8 cases." in first
    assert "all pools" in second
    assert "nn.MaxPool2d gives" in second
    assert html.count("<tr>") == 3
    assert "Traceback" not in text + html


def test_each_status_has_a_mark_and_words_of_its_own(shell):
    text, html = shown(shell, conv)
    _, first, second = text.splitlines()
    assert first.strip().startswith("✓ passed: few cases: ")
    assert second.strip().startswith("✗ not passed: all pools: ")
    assert "<td" in html.split("✗\u00a0not passed")[0]
    assert set(display.MARKS) == set(get_args(core.Status))
    for column in zip(*display.MARKS.values(), strict=True):
        assert len(set(column)) == len(display.MARKS)


@pytest.mark.parametrize("status", get_args(core.Status))
def test_every_status_can_be_shown(status, shell):
    test = ExceptionTestFile.from_string(TEST)
    test.run({"size": both if status == "passed" else ...})
    core.latest["sizes", "few_cases"] = core.Verdict("failed", "seen here")
    core.latest["sizes", "all_pools"] = core.Verdict(status, "seen there", "look there")
    data, _ = shell.display_formatter.format(test)
    for shape in (data["text/plain"], data["text/html"]):
        assert display.MARKS[status][1].replace(" ", "") in shape.replace(" ", "")
        assert "seen there" in shape


def test_the_table_can_be_read_by_headers_and_in_any_theme(shell):
    html = shown(shell, conv)[1]
    assert html.count("<th scope='col'") == 4
    assert html.count("<th scope='row'") == 2
    assert "color" not in html
    assert "overflow-wrap" in html


def test_a_question_without_a_visible_check_is_not_called_passed(shell):
    source = TEST.partition("@test_case")[0]
    text, html = shown(shell, conv, ExceptionTestFile.from_string(source))
    assert "no visible check" in text
    assert "passed" not in text + html
    assert "<table" not in html


def test_one_line_when_nothing_is_answered(shell):
    text, html = shown(shell, ...)
    assert "size is not defined yet" in text
    assert "\n" not in text
    assert "<table" not in html


def test_a_students_text_is_escaped(shell):
    def size(*arguments):
        raise ValueError("<script>alert(1)</script>")

    _, html = shown(shell, size)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_case_that_never_got_to_its_check_shows_why(shell):
    source = TEST.replace("from autograder import checks", "raise ImportError('no checks here')")
    text, html = shown(shell, conv, ExceptionTestFile.from_string(source))
    assert "0 of 2 visible checks passed" in text
    for shape in (text, html):
        assert "The check did not start: ImportError: no checks here" in shape
        assert "Error at line" not in shape
        assert "raise" not in shape


def test_a_verdict_of_an_earlier_run_is_not_shown_for_a_case_that_did_not_start(shell):
    core.latest["sizes", "few_cases"] = core.Verdict("passed", "All was well.")
    source = TEST.replace("from autograder import checks", "raise ImportError('no checks here')")
    assert "All was well." not in shown(shell, conv, ExceptionTestFile.from_string(source))[0]


def test_a_deleted_function_is_not_defined_any_more(shell):
    shown(shell, conv)
    test = ExceptionTestFile.from_string(TEST)
    test.run({})
    text = shell.display_formatter.format(test)[0]["text/plain"]
    assert "size is not defined yet" in text
    assert "Agrees" not in text


def test_showing_a_result_draws_no_random_number(shell):
    random.seed(3)
    shown(shell, conv)
    after = random.random()
    random.seed(3)
    assert after == random.random()


def test_without_ipython_nothing_happens():
    InteractiveShell.clear_instance()
    display.show_checks_as_table()


# The overview of all questions

HIDDEN = """
@test_case(points=5, hidden=True)
def secret(size):
    raise SystemExit("hidden cases are not run")
"""


@pytest.fixture
def tests(tmp_path):
    """A folder of test files: two visible cases of 1 and 2.5 points, and a hidden one."""
    text = TEST.replace("points=1", "points=2.5", 2).replace("points=2.5", "points=1", 1) + HIDDEN
    (tmp_path / "sizes.py").write_text(text, encoding="utf-8")
    (tmp_path / "only_hidden.py").write_text(
        TEST.partition("@test_case")[0].replace('"sizes"', '"only_hidden"') + HIDDEN,
        encoding="utf-8",
    )
    return tmp_path


def rows(*questions, tests, by_hand=()):
    """The overview's texts by the name of the question."""
    overview = progress(*questions, by_hand=by_hand, tests=tests)
    return {row.name: row.texts[1:] for row in (*overview.rows, overview.total)}


def run(tests, size):
    file = ExceptionTestFile.from_file(str(tests / "sizes.py"))
    file.test_cases = [case for case in file.test_cases if not case.hidden]
    file.run({"size": size})


@pytest.mark.parametrize(
    ("size", "points", "state"),
    [
        (None, "0 of 3.5", "not run yet"),
        (..., "0 of 3.5", "○ no answer yet"),
        (conv, "1 of 3.5", "1 of 2 visible checks passed"),
    ],
)
def test_points_and_state_of_a_question(size, points, state, tests):
    if size:
        run(tests, size)
    shown = rows("sizes", tests=tests)
    assert shown["sizes"] == (points, state)
    assert shown["all questions"][0] == points


def test_all_points_of_a_question(tests):
    core.latest.update(
        {("sizes", c): core.Verdict("passed", "") for c in ("few_cases", "all_pools")}
    )
    shown = rows("sizes", tests=tests)
    assert shown["sizes"] == ("3.5 of 3.5", "✓ all 2 visible checks passed")
    assert shown["all questions"][1] == "1 of 1 questions have all their visible points"


def test_hidden_verdicts_and_those_of_other_questions_do_not_count(tests):
    core.latest["sizes", "secret"] = core.latest["other", "few_cases"] = core.Verdict("passed", "")
    assert rows("sizes", tests=tests)["sizes"] == ("0 of 3.5", "not run yet")


def test_a_check_that_could_not_be_done_is_told(tests):
    core.latest["sizes", "few_cases"] = core.Verdict("not_run", "")
    told = rows("sizes", tests=tests)["sizes"][1]
    assert told == "0 of 2 visible checks passed, 1 could not be done"


def test_questions_that_have_no_visible_points(tests):
    shown = rows("only_hidden", "essay", "gone", tests=tests, by_hand=["essay"])
    assert list(shown) == ["only_hidden", "essay", "gone", "all questions"]
    assert shown["only_hidden"] == ("–", "no visible check; it is checked after you have handed in")
    assert shown["essay"] == ("–", "graded by a person")
    assert "can't be read (FileNotFoundError)" in shown["gone"][1]
    assert shown["all questions"][0] == "0 of 0"


@pytest.mark.parametrize("content", ["", "name = 'x'\n1 / 0", "def", "\udcff", "name = 5"])
def test_a_broken_test_file_does_not_stop_the_cell(content, tests):
    (tests / "sizes.py").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert progress("sizes", tests=tests).rows


def test_the_overview_says_what_it_leaves_out_and_that_it_can_be_stale(tests, shell):
    overview = progress("sizes", tests=tests)
    data, _ = shell.display_formatter.format(overview)
    for shape in (data["text/plain"], data["text/html"]):
        for words in ("Hidden checks", "graded by a person", "since the kernel was started",
                      "after changing an answer"):  # fmt: skip
            assert words in shape
    assert data["text/html"].count("<th scope='row'") == 2
    assert len({line.find("of 3.5") for line in data["text/plain"].splitlines()[1:3]}) == 1


def test_the_overview_changes_no_verdict_and_draws_no_number(tests):
    run(tests, conv)
    before = dict(core.latest)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    progress("sizes", tests=tests)._repr_html_()
    assert core.latest == before
    assert states == (
        random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    )  # fmt: skip


# summary_table


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10)
        )

    def forward(self, x):
        return self.layers(x)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(12, 5, batch_first=True), nn.Linear(5, 10)

    def forward(self, x):
        return self.head(self.rnn(x[:, 0])[0][:, -1])


COUNT = (4 * 9 + 4) + 8 + (400 * 10 + 10)


def test_the_table_and_the_true_count(capsys):
    display.summary_table(CNN, (1, 12, 12))
    text = capsys.readouterr().out
    assert "Conv2d-1" in text
    assert text.count(f"{COUNT:,}") >= 2  # torchsummary's and ours


@pytest.mark.parametrize("model", [CNN, LSTM])
def test_the_model_and_the_random_states_are_left_alone(model, capsys):
    made = model().train()
    before = {name: value.clone() for name, value in made.state_dict().items()}
    torch.manual_seed(4), np.random.seed(5)
    display.summary_table(made, (1, 12, 12))
    drawn = torch.rand(1), np.random.rand()
    torch.manual_seed(4), np.random.seed(5)
    assert drawn == (torch.rand(1), np.random.rand())
    assert made.training
    assert all(torch.equal(before[n], v) for n, v in made.state_dict().items())
    assert not any(m._forward_hooks for m in made.modules())
    made(torch.rand(2, 1, 12, 12))


def test_a_model_that_torchsummary_cant_describe_says_so(capsys):
    display.summary_table(LSTM, (1, 12, 12))
    text = capsys.readouterr().out
    assert "torchsummary can't describe this model" in text


@pytest.mark.parametrize("model", [..., 5, lambda: 7, lambda: nn.Linear(3, 3)])
def test_no_model_yet_is_said_without_an_error(model, capsys):
    display.summary_table(model, (1, 12, 12))
    assert "No table yet" in capsys.readouterr().out
