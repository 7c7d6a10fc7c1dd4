"""grades.csv and feedback pages: nothing silently 0, text stays text, hidden stays hidden."""

import csv
import html.parser

import pytest

from autograder.checks.core import Verdict
from autograder.gradebook import Attempt
from autograder.judge import CaseResult, Run, judge
from autograder.report.feedback import write_feedback
from autograder.report.grades import as_text, write_grades
from tests.conftest import NAME


@pytest.fixture
def assignment(grading):
    return grading.assignment(NAME)


def attempt(results=(), student="ada", status="graded", reason="", notes=(), source="in/ada.ipynb"):
    return Attempt(NAME, "v", student, "sha", source, status, reason, tuple(notes), tuple(results))


def passed(assignment, **changed):
    """Results of a perfect submission; `changed` maps question__case to another verdict status."""
    rows = []
    for row in judge(assignment, Run([], {}, {})):
        status = changed.get(f"{row.question}__{row.case}", "passed")
        points = row.possible if status == "passed" else 0.0
        told = Verdict(status, f"measured for {row.case}", f"hint for {row.case}")
        rows.append(CaseResult(row.question, row.case, row.hidden, points, row.possible, told))
    return rows


def table(tmp_path, assignment, attempts):
    path = tmp_path / "grades.csv"
    write_grades(path, assignment, attempts)
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def test_columns_are_the_assignments_questions_in_order(tmp_path, assignment):
    (row,) = table(tmp_path, assignment, [attempt(passed(assignment))])
    questions = list(assignment.questions)
    assert list(row) == ["student", *questions, "total", "possible", "status", "note", "file"]
    assert row["cnn"] == "9"
    assert row["reflection"] == ""
    assert row["total"] == row["possible"] == "38"


def test_what_could_not_be_graded_is_empty_and_never_zero(tmp_path, assignment):
    invalid = attempt(student="a", status="invalid", reason="The file is empty.")
    ours = attempt(passed(assignment, training__cnn_accuracy="not_run"), "b", "infrastructure")
    theirs = attempt(passed(assignment, cnn__logits="not_reached"), "c", "partial", "died")
    rows = table(tmp_path, assignment, [invalid, ours, theirs])
    assert [r["total"] for r in rows] == ["", "", "37"]
    assert rows[0]["conv_size"] == ""
    assert rows[0]["note"] == "The file is empty."
    assert (rows[1]["training"], rows[1]["cnn"]) == ("", "9")
    assert rows[2]["cnn"] == "8"


@pytest.mark.parametrize(
    "name", ["00123", "Žofie Nováková", "=cmd()|'/c calc'!A1", "-1+2", "@x", "a,b", 'q"q', "1e5"]
)
def test_student_names_stay_text(tmp_path, assignment, name):
    (row,) = table(tmp_path, assignment, [attempt(passed(assignment), name)])
    assert row["student"].lstrip("'") == name
    assert row["student"][0] not in "=+-@"


def test_formula_escape_touches_nothing_else():
    assert as_text("plain") == "plain"
    assert as_text("") == ""
    assert as_text("\t=1") == "'\t=1"


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def page(tmp_path, assignment, given):
    path = tmp_path / "page.html"
    write_feedback(path, assignment, given)
    return Tags(path.read_text(encoding="utf-8"))


def test_a_page_shows_score_checks_and_hints(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(passed(assignment, cnn__logits="failed")))
    assert "37 of 38 points" in " ".join(seen.text.split())
    assert "measured for logits" in seen.text
    assert "hint for logits" in seen.text


def test_hidden_checks_show_their_name_and_outcome_only(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(passed(assignment, cnn__pixel_order="failed")))
    assert "pixel order" in seen.text
    assert "measured for pixel_order" not in seen.text
    assert "hint for pixel_order" not in seen.text


def test_a_students_text_can_not_become_markup(tmp_path, assignment):
    evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
    rows = passed(assignment)
    first = rows[0]
    rows[0] = CaseResult(first.question, first.case, False, 0, 1, Verdict("failed", evil, evil))
    seen = page(tmp_path, assignment, attempt(rows, evil, "partial", evil, [evil], evil))
    assert not [t for t, attributes in seen.tags if t in ("script", "img")]
    assert not [a for _, attributes in seen.tags for a in attributes if a.startswith("on")]
    assert seen.text.count("alert(1)") >= 4


def test_the_page_asks_for_nothing_from_outside(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(passed(assignment)))
    assert not [a for _, attributes in seen.tags for a in attributes if a in ("src", "href")]


def test_an_ungraded_page_says_why_and_has_no_score(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(status="invalid", reason="The file is empty."))
    assert "The file is empty." in seen.text
    assert "of 38 points" not in seen.text
