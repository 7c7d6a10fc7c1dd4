"""Our HTML pages in a real browser: quiet, self-contained, readable in any theme and on a phone.

A further page is one line of PAGES: a function that writes it below a folder and gives its path.
"""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder import config, data
from autograder.ledger import Mark
from autograder.policy import grade
from autograder.report.classroom import write_class_report
from autograder.report.feedback import write_feedback
from autograder.report.manual import Answer, write_sheets
from autograder.report.notebook_page import write_notebook_page
from autograder.report.similarity import Place
from autograder.validity import record
from autograder.validity.page import write_matrix
from tests.conftest import NAME, REPOSITORY
from tests.test_measured import budget, learned, match, predictions
from tests.test_report import attempt, passed
from tests.test_report_charts import BAND
from tests.test_report_classroom import invalid, results, student

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


def measured(folder: Path) -> Path:
    """A page with curves beside their bands, sizes, a confusion matrix and a person's comment."""
    labels = data.hidden_labels("digits").tolist()
    wrong = [9 - label if place % 7 == 0 else label for place, label in enumerate(labels)]
    records = [
        learned("cnn"), learned("fnn", (2.0, 1.5)), budget(), match(),
        predictions("gap", labels, wrong),
    ]  # fmt: skip
    given = attempt(passed(ASSIGNMENT, training__gap="failed"))
    mark = {(given.sha256, "reflection"): Mark(2.5, 4, "Why?\nSee the second plot.")}
    path = folder / "measured.html"
    write_feedback(path, ASSIGNMENT, grade(ASSIGNMENT, [given], mark), records, [BAND])
    return path


def notebook(folder: Path) -> Path:
    """The released notebook with a long output and a picture."""
    released = REPOSITORY / "student" / NAME / f"{NAME}.ipynb"
    cells = nbformat.read(released, 4)
    code = next(cell for cell in cells.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text=f"{LONG}\n<script>alert(1)</script>\n")]
    write_notebook_page(folder / "notebook.html", "ada", nbformat.writes(cells).encode())
    return folder / "notebook.html"


def classroom(folder: Path) -> Path:
    """A class with everything that its report can tell of."""
    students = [
        student(ASSIGNMENT, f"{LONG}{n}", results(ASSIGNMENT, ["cnn.logits"])) for n in range(8)
    ]
    alike = [Place("a", LONG, 0.75, ((f"{LONG} = 1",), ("x = 1",)))]
    students.append(invalid(ASSIGNMENT))
    write_class_report(folder / "class.html", ASSIGNMENT, students, alike)
    return folder / "class.html"


def sheet(folder: Path) -> Path:
    """Answers to a manual question."""
    answers = [Answer(f"s{n}", "sha", "reflection", f"# My answer\n{LONG}", None) for n in range(5)]
    write_sheets(folder, ASSIGNMENT, answers, {"reflection": "1 point for each reason."})
    return folder / "manual.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    "audit": audit,
    "feedback": feedback,
    "unreadable": unreadable,
    "measured": measured,
    "notebook": notebook,
    "class": classroom,
    "sheet": sheet,
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
