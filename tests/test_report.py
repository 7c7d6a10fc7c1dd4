"""grades.csv and feedback pages: nothing silently 0, text stays text, hidden stays hidden."""

import csv
import html.parser
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

import pytest

from autograder.checks.core import Verdict
from autograder.config import Policy
from autograder.data import hidden_labels
from autograder.gradebook import Attempt
from autograder.judge import CaseResult, Run, judge
from autograder.ledger import Mark
from autograder.policy import grade
from autograder.report.feedback import MARKS, write_feedback
from autograder.report.grades import as_text, from_text, shown, write_grades
from tests.conftest import NAME


@pytest.fixture
def assignment(grading):
    return grading.assignment(NAME).model_copy(update={"released": []})


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


def table(tmp_path, assignment, attempts, marks=()):
    """grades.csv of students who have one attempt each; `marks` by file and question."""
    path = tmp_path / "grades.csv"
    write_grades(path, assignment, [grade(assignment, [a], dict(marks)) for a in attempts])
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def late(assignment):
    """Two percent of the possible points for each day after noon of 1 December."""
    due = datetime.fromisoformat("2026-12-01T12:00:00+00:00")
    policy = Policy(due=due, late_percent_per_day=2)
    return assignment.model_copy(update={"policy": policy})


def test_columns_are_the_assignments_questions_in_order(tmp_path, assignment):
    (row,) = table(tmp_path, assignment, [attempt(passed(assignment))])
    told = ["late_days", "deduction", "total", "possible", "waiting", "status", "note", "file"]
    assert list(row) == ["student", *assignment.questions, *told]
    assert (row["cnn"], row["reflection"], row["waiting"]) == ("9", "", "reflection")
    assert row["total"] == row["possible"] == "38"
    assert (row["late_days"], row["deduction"], row["file"]) == ("0", "0", "ada.ipynb")


def test_a_persons_mark_counts_for_its_file(tmp_path, assignment):
    attempts = [attempt(passed(assignment), student) for student in ("ada", "ben")]
    mine, other = table(
        tmp_path, assignment, [attempts[0], replace(attempts[1], sha256="newer")],
        {("sha", "reflection"): Mark(2.5, 4)},
    )  # fmt: skip
    assert (mine["reflection"], mine["total"], mine["possible"]) == ("2.5", "40.5", "42")
    assert (mine["waiting"], other["waiting"]) == ("", "reflection")
    assert (other["reflection"], other["total"], other["possible"]) == ("", "38", "38")


def test_lateness_is_told_and_deducted(tmp_path, assignment):
    given = replace(attempt(passed(assignment)), submitted="2026-12-03T13:00:00+00:00")
    (row,) = table(tmp_path, late(assignment), [given])
    assert (row["late_days"], row["deduction"], row["total"]) == ("3", "2.28", "35.72")
    assert "3 days begun" in row["note"]


def test_what_could_not_be_graded_is_empty_and_never_zero(tmp_path, assignment):
    invalid = attempt(student="a", status="invalid", reason="The file is empty.")
    ours = attempt(passed(assignment, training__cnn_accuracy="not_run"), "b", "infrastructure")
    theirs = attempt(passed(assignment, cnn__logits="not_reached"), "c", "partial", "died", ["x"])
    rows = table(tmp_path, assignment, [invalid, ours, theirs])
    assert [r["total"] for r in rows] == ["", "", "37"]
    assert rows[0]["conv_size"] == ""
    assert rows[0]["note"] == "The file is empty."
    assert (rows[1]["training"], rows[1]["cnn"]) == ("", "9")
    assert (rows[2]["cnn"], rows[2]["note"]) == ("8", "died x")


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


@pytest.mark.parametrize("text", ["", "plain", "=1", "-1", "@x", "\t=1", "'quoted'", "'", "''=1"])
def test_the_formula_escape_can_be_undone(text):
    assert from_text(as_text(text)) == text


@pytest.mark.parametrize(
    ("points", "cell"), [(None, ""), (0, "0"), (0.1 + 0.2, "0.3"), (2 / 3, "0.6667"),
                         (1234.5678, "1234.5678")]
)  # fmt: skip
def test_points_are_shown_with_four_decimals_at_most(points, cell):
    assert shown(points) == cell


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def page(tmp_path, assignment, given, marks=(), records=()):
    """The page of an attempt; `marks` by file and question."""
    path = tmp_path / "page.html"
    write_feedback(path, assignment, grade(assignment, [given], dict(marks)), records, [])
    return Tags(path.read_text(encoding="utf-8"))


def words(seen):
    return " ".join(seen.text.split())


def test_a_page_shows_score_checks_and_hints(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(passed(assignment, cnn__logits="failed")))
    assert "37 of 38 points" in words(seen)
    assert "measured for logits" in seen.text
    assert "hint for logits" in seen.text


@pytest.mark.parametrize("status", list(MARKS))
def test_hidden_checks_show_their_name_and_outcome_only(tmp_path, assignment, status):
    seen = page(tmp_path, assignment, attempt(passed(assignment, cnn__pixel_order=status)))
    assert "pixel order" in seen.text
    assert "measured for pixel_order" not in seen.text
    assert "hint for pixel_order" not in seen.text


def test_hidden_checks_of_released_questions_are_told_in_full(tmp_path, assignment):
    released = assignment.model_copy(update={"released": ["cnn"]})
    rows = passed(assignment, cnn__pixel_order="failed", training__gap="failed")
    seen = page(tmp_path, released, attempt(rows))
    assert "measured for pixel_order" in seen.text
    assert "hint for pixel_order" in seen.text
    assert "measured for gap" not in seen.text


def hidden_predictions():
    """Evidence of a network that is right for all of the hidden set."""
    evidence = {"classes": [hidden_labels("digits").tolist()], "dataset": "digits",
                "split": "hidden"}  # fmt: skip
    return {"question": "training", "case": "cnn_accuracy", "evidence": evidence}


def test_what_a_network_does_on_hidden_data_shows_when_released(tmp_path, assignment):
    given, records = attempt(passed(assignment)), [hidden_predictions()]
    before = page(tmp_path, assignment, given, records=records)
    released = assignment.model_copy(update={"released": ["training"]})
    after = page(tmp_path, released, given, records=records)
    assert not [a for _, a in before.tags if a.get("class") == "confusion"]
    assert "hidden test set" not in before.text
    assert "of 1000 samples of the hidden test set. Accuracy 1.000" in words(after)
    assert [a for t, a in after.tags if t == "td" and a.get("class") == "right"]


def test_a_budget_of_a_hidden_check_is_not_shown(tmp_path, assignment):
    evidence = {"tensors": {"a": 20_160}, "unowned": 0}
    record = {"question": "cnn", "case": "parameter_budget", "evidence": evidence}
    given = attempt(passed(assignment))
    assert "cnn: 20,160" in page(tmp_path, assignment, given, records=[record]).text
    cnn = assignment.questions["cnn"]
    entry = cnn.checks["parameter_budget"].model_copy(update={"hidden": True})
    cnn = cnn.model_copy(update={"checks": cnn.checks | {"parameter_budget": entry}})
    hidden = assignment.model_copy(update={"questions": assignment.questions | {"cnn": cnn}})
    assert "20,160" not in page(tmp_path, hidden, given, records=[record]).text


def test_a_persons_points_and_what_waits_for_one(tmp_path, assignment):
    given = attempt(passed(assignment))
    waiting = page(tmp_path, assignment, given)
    marked = page(tmp_path, assignment, given, {("sha", "reflection"): Mark(2.5, 4)})
    assert "reflection – of 4" in words(waiting)
    assert "a person reads and marks it: reflection" in words(waiting)
    assert "40.5 of 42 points" in words(marked)
    assert "reflection 2.5 of 4" in words(marked)
    assert "a person reads" not in words(marked)


def test_lateness_and_corrections_are_told(tmp_path, assignment):
    given = replace(
        attempt(passed(assignment), notes=["A check cell was put back."]),
        submitted="2026-12-03T13:00:00+00:00", number=2, name="Ada L.",
    )  # fmt: skip
    seen = words(page(tmp_path, late(assignment), given))
    assert "35.72 of 38 points" in seen
    assert "3 days begun" in seen
    assert "2.28 points are deducted" in seen
    assert "About this submission: A check cell was put back." in seen
    assert "Ada L. (ada) · attempt 2 · handed in 2026-12-03 13:00 UTC" in seen


def test_what_could_not_be_graded_leaves_no_score(tmp_path, assignment):
    rows = passed(assignment, training__cnn_accuracy="not_run")
    seen = words(page(tmp_path, assignment, attempt(rows, status="infrastructure")))
    assert "of 38 points" not in seen
    assert "no total yet" in seen
    assert "training – of" in seen


def test_a_students_text_can_not_become_markup(tmp_path, assignment):
    evil = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\ud800"
    rows = passed(assignment)
    first = rows[0]
    rows[0] = CaseResult(first.question, first.case, False, 0, 1, Verdict("failed", evil, evil))
    given = replace(attempt(rows, evil, "partial", evil, [evil], evil), name=evil)
    record = {"question": evil, "case": evil, "evidence": {evil: evil}}
    seen = page(tmp_path, assignment, given, records=[record])
    assert not [t for t, attributes in seen.tags if t in ("script", "img")]
    assert not [a for _, attributes in seen.tags for a in attributes if a.startswith("on")]
    assert seen.text.count("alert(1)") >= 4


def test_the_page_asks_for_nothing_from_outside(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(passed(assignment)))
    assert not [a for _, attributes in seen.tags for a in attributes if a in ("src", "href")]
    (policy,) = [a["content"] for _, a in seen.tags if "http-equiv" in a]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")


def test_the_page_links_to_the_notebook_that_lies_beside_it(tmp_path, assignment):
    (tmp_path / "a #1?.notebook.html").touch()
    path = tmp_path / "a #1?.html"
    write_feedback(path, assignment, grade(assignment, [attempt(passed(assignment))], {}), [], [])
    links = [a["href"] for _, a in Tags(path.read_text(encoding="utf-8")).tags if "href" in a]
    assert [unquote(link) for link in links] == ["a #1?.notebook.html"]
    assert not {"#", "?", " "} & set(links[0])


def test_an_ungraded_page_says_why_and_has_no_score(tmp_path, assignment):
    seen = page(tmp_path, assignment, attempt(status="invalid", reason="The file is empty."))
    assert "The file is empty." in seen.text
    assert "of 38 points" not in seen.text
    assert "Questions" not in seen.text
