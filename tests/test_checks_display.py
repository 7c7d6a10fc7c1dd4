import random

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from otter.test_files import ExceptionTestFile
from torch import nn

from autograder.checks import core, display

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


def test_marks_differ_by_status(shell):
    _, first, second = shown(shell, conv)[0].splitlines()
    assert first.strip()[0] != second.strip()[0]
    assert len(set(display.MARKS.values())) == len(display.MARKS)


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
    assert "no checks here" in text
    assert "no checks here" in html


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
