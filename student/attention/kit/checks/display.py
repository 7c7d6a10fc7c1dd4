"""How a notebook shows checks: a small table in place of Otter's text, and torchsummary's table."""

import contextlib
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from autograder.checks import core
from autograder.checks.models import build
from autograder.checks.parameters import trainable

MARKS: dict[core.Status, tuple[str, str]] = {
    "passed": ("✓", "passed"),
    "failed": ("✗", "not passed"),
    "not_answered": ("○", "no answer yet"),
    "not_reached": ("–", "not reached"),
    "not_run": ("!", "could not be done"),
    "refused": ("?", "needs a person"),
}
"""A mark for each status, and the same in words: a mark alone says nothing to a screen reader."""

# Colours are the notebook's own, so a dark theme stays readable. Messages keep their lines, and a
# long word in one must not push the others out of sight.
_TITLE = "text-align:left;vertical-align:top"
_CELL = f"{_TITLE};white-space:pre-line;overflow-wrap:anywhere;min-width:6em"


def show_checks_as_table() -> None:
    """Make this notebook show the result of `grader.check` as a table; outside IPython do nothing.

    Uses IPython's own formatters, so Otter stays as it is.
    """
    from IPython import get_ipython
    from otter.test_files import TestFile

    if (shell := get_ipython()) is not None:
        formatters = shell.display_formatter.formatters
        formatters["text/html"].for_type(TestFile, _as_html)
        formatters["text/plain"].for_type(TestFile, lambda test, p, _: p.text(_as_text(test)))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table of escaped texts; the first of each row is the row's own title."""
    head = "".join(f"<th scope='col' style='{_TITLE}'>{html.escape(t)}</th>" for t in titles)
    body = ""
    for first, *others in rows:
        body += f"<tr><th scope='row' style='{_TITLE}'>{html.escape(first)}</th>"
        body += "".join(f"<td style='{_CELL}'>{html.escape(t)}</td>" for t in others) + "</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def outcome(passed: int, visible: int) -> str:
    """How many of a question's visible checks have passed, in words."""
    if not visible:
        return "no visible check; it is checked after you have handed in"
    if passed < visible:
        return f"{passed} of {visible} visible checks passed"
    return f"all {visible} visible checks passed" if visible > 1 else "the visible check passed"


def _verdicts(test: Any) -> list[tuple[str, core.Verdict]]:
    """Each case's title and verdict; for one that never got to its check, why.

    The newest verdict may then be of an earlier run, and contradict what Otter says.
    """
    rows = []
    for result in test.test_case_results:
        case = result.test_case.body.test_func.__name__
        verdict = core.latest.get((test.name, case))
        if verdict is None or (verdict.status == "passed") != result.passed:
            verdict = _without_check(result)
        rows.append((case.replace("_", " "), verdict))
    return rows


def _without_check(result: Any) -> core.Verdict:
    if result.passed:
        return core.Verdict("passed", "")
    reason = (result.message or "").rstrip().rpartition("\n")[2]
    return core.Verdict(
        "not_run",
        f"The check did not start: {reason}",
        "Your answer plays no part in that. Restart the kernel, run the setup cell and your "
        "answers, then this check again.",
    )


def _headline(name: str, rows: Sequence[tuple[str, core.Verdict]]) -> str:
    statuses = [v.status for _, v in rows]
    if set(statuses) == {"not_answered"}:
        return f"○ {name}: {rows[0][1]}"
    mark = "✓ " if set(statuses) == {"passed"} else ""
    return f"{mark}{name}: {outcome(statuses.count('passed'), len(statuses))}."


def _one_line(rows: Sequence[tuple[str, core.Verdict]]) -> bool:
    return {v.status for _, v in rows} in (set(), {"passed"}, {"not_answered"})


def _as_text(test: Any) -> str:
    rows = _verdicts(test)
    lines = [_headline(test.name, rows)]
    if not _one_line(rows):
        lines += [f"  {' '.join(MARKS[v.status])}: {case}: {v}".rstrip(": ") for case, v in rows]
    return "\n".join(lines)


def _as_html(test: Any) -> str:
    rows = _verdicts(test)
    head = f"<p><strong>{html.escape(_headline(test.name, rows))}</strong></p>"
    if _one_line(rows):
        return head
    cells = [(case, "\u00a0".join(MARKS[v.status]), v.rationale, v.hint) for case, v in rows]
    return head + table(("check", "result", "what was seen", "hint"), cells)


def summary_table(model: Any, input_shape: tuple[int, ...]) -> None:
    """Print torchsummary's table for a fresh model, and the true count beside it.

    It works on a copy, with the random state put back: torchsummary runs the model on random
    numbers, and leaves hooks behind when it fails.
    """
    from torchsummary import summary

    text = io.StringIO()
    with core.undisturbed():
        try:
            fresh = build(model, getattr(model, "__name__", "the model"), list(input_shape))
            with contextlib.redirect_stdout(text), torch.no_grad():
                summary(fresh, input_shape, device="cpu")
            print(text.getvalue())
            print(f"counted directly: {trainable(fresh):,} trainable parameters")
        except core.Stop as stop:
            print(f"No table yet. {stop.rationale} {stop.hint}")
        except Exception as error:
            print(f"torchsummary can't describe this model: {type(error).__name__}: {error}")
