"""How a notebook shows checks: a small table in place of Otter's text, and torchsummary's table."""

import contextlib
import html
import io
from typing import Any

import torch

from autograder.checks import core
from autograder.checks.models import build
from autograder.checks.parameters import trainable

MARKS = {"passed": "✓", "failed": "✗", "not_answered": "○", "not_run": "!"}


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


def _verdicts(test: Any) -> list[tuple[str, core.Verdict]]:
    """Each case's title and verdict; a case that never got to its check shows Otter's message."""
    rows = []
    for result in test.test_case_results:
        case = result.test_case.body.test_func.__name__
        fallback = core.Verdict("passed" if result.passed else "not_run", result.message or "")
        rows.append((case.replace("_", " "), core.latest.get((test.name, case), fallback)))
    return rows


def _headline(name: str, rows: list[tuple[str, core.Verdict]]) -> str:
    statuses = [v.status for _, v in rows]
    if all(s == "passed" for s in statuses):
        all_of_them = f"all {len(rows)} visible checks" if len(rows) > 1 else "the visible check"
        return f"✓ {name}: {all_of_them} passed."
    if all(s == "not_answered" for s in statuses):
        return f"○ {name}: {rows[0][1]}"
    return f"{name}: {statuses.count('passed')} of {len(rows)} visible checks passed."


def _as_text(test: Any) -> str:
    rows = _verdicts(test)
    lines = [_headline(test.name, rows)]
    if not _one_line(rows):
        lines += [f"  {MARKS[v.status]} {case}: {v}" for case, v in rows]
    return "\n".join(lines)


def _one_line(rows: list[tuple[str, core.Verdict]]) -> bool:
    return len({v.status for _, v in rows}) == 1 and rows[0][1].status in ("passed", "not_answered")


def _as_html(test: Any) -> str:
    rows = _verdicts(test)
    head = f"<p><strong>{html.escape(_headline(test.name, rows))}</strong></p>"
    if _one_line(rows):
        return head
    left = "text-align:left;vertical-align:top"
    body = "".join(
        f"<tr><td style='{left}'>{MARKS[v.status]}&nbsp;{html.escape(case)}</td>"
        f"<td style='{left}'>{html.escape(v.rationale)}</td>"
        f"<td style='{left}'>{html.escape(v.hint)}</td></tr>"
        for case, v in rows
    )
    titles = "".join(f"<th style='{left}'>{t}</th>" for t in ("check", "what was seen", "hint"))
    return f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


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
