"""Our HTML pages in a real browser: quiet, self-contained, readable in any theme and on a phone.

A further page is one line of PAGES: a function that writes it below a folder and gives its path.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from autograder import config
from autograder.policy import grade
from autograder.report.feedback import write_feedback
from autograder.validity import record
from autograder.validity.page import write_matrix
from tests.conftest import NAME, REPOSITORY
from tests.test_report import attempt, passed

pytest_plugins = ["tests.browser"]

LONG = "a_very_long_word_without_any_space_" * 8
ASSIGNMENT = config.load(REPOSITORY / "grading.yml").assignment(NAME)


def audit(folder: Path) -> Path:
    """The matrix of an audit that is on record."""
    recorded = record.read(record.Audit, REPOSITORY / "docs" / "validity" / f"{NAME}-audit.json")
    write_matrix(recorded, folder / "audit.html")
    return folder / "audit.html"


def feedback(folder: Path) -> Path:
    """A page with every status of a check, and a student's text that is long and hostile."""
    rows = passed(
        ASSIGNMENT, cnn__logits="failed", fnn__outputs="not_answered", conv_size__examples="not_run"
    )
    given = attempt(rows, f"<img src=x>{LONG}", "partial", LONG, [LONG])
    write_feedback(folder / "feedback.html", ASSIGNMENT, grade(ASSIGNMENT, [given], {}), [], [])
    return folder / "feedback.html"


def unreadable(folder: Path) -> Path:
    """Feedback for a file that could not be used."""
    given = attempt(student="bo", status="invalid", reason="The file is empty.")
    write_feedback(folder / "invalid.html", ASSIGNMENT, grade(ASSIGNMENT, [given], {}), [], [])
    return folder / "invalid.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    "audit": audit,
    "feedback": feedback,
    "unreadable": unreadable,
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_quiet_self_contained_and_readable(page, variant, visit, tmp_path):
    seen = visit(PAGES[page](tmp_path), variant)
    assert seen.page.title()
    assert seen.problems == []
    assert seen.foreign == []
    assert seen.violations() == []
    assert seen.too_wide() <= 0
    assert seen.shot(f"{page}-{variant}").stat().st_size


@pytest.mark.parametrize("page", PAGES)
def test_a_page_prints_and_works_without_scripts(page, visit, tmp_path):
    seen = visit(PAGES[page](tmp_path))
    seen.page.emulate_media(media="print")
    assert seen.page.locator("h1").first.is_visible()
    assert seen.page.locator("script[src], link[rel=stylesheet], iframe").count() == 0


# That the harness notices what it is there for.

GOOD = "<!doctype html><html lang=en><title>t</title><main><h1>t</h1>{}</main></html>"
THEMED = "<style>:root { color-scheme: light dark }</style><p>fine</p>"


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        ("<script>console.error('oh')</script>", lambda v: v.problems),
        ("<script>throw new Error('oh')</script>", lambda v: v.problems),
        ("<script>fetch('http://192.0.2.1/x').catch(() => 0)</script>", lambda v: v.foreign),
        ("<img alt='' src='http://192.0.2.1/x.png'>", lambda v: v.foreign),
        ("<p style='color:#ccc;background:#fff'>pale</p>", lambda v: v.violations()),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", lambda v: v.violations()),
        ("<p style='color:CanvasText;background:#222'>dim</p>", lambda v: v.violations()),
        ("<p style='width:3000px'>wide</p>", lambda v: v.too_wide() > 0),
    ],
)
def test_the_harness_notices(bad, found, visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(GOOD.format(bad), encoding="utf-8")
    assert found(visit(path))


def test_the_harness_accepts_a_good_page_and_knows_its_theme(variant, visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(GOOD.format(THEMED), encoding="utf-8")
    seen = visit(path, variant)
    assert (seen.problems, seen.foreign, seen.violations(), seen.too_wide()) == ([], [], [], 0)
    dark = seen.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert dark == (variant == "dark")
