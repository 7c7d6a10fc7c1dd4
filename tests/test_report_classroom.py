"""The class report: right numbers, nothing unknown counted, text stays text, a bounded page."""

import html.parser
import re
import statistics
from dataclasses import replace
from datetime import datetime

import pytest

from autograder import policy
from autograder.checks.core import Verdict
from autograder.config import Policy
from autograder.gradebook import Attempt
from autograder.judge import Run, judge
from autograder.ledger import Mark
from autograder.measured import Accuracy, Size
from autograder.report.classroom import Student, write_class_report
from autograder.report.similarity import Place
from tests.conftest import NAME

EVIL = '</td><script>alert(1)</script><img src=x onerror="alert(1)">\ud800\u202e'


@pytest.fixture
def assignment(grading):
    return grading.assignment(NAME)


def results(assignment, failed=(), told="measured"):
    """Verdicts of a submission that passes all but the cases `failed` ("question.case")."""
    for row in judge(assignment, Run([], {}, {})):
        good = f"{row.question}.{row.case}" not in failed
        verdict = Verdict("passed" if good else "failed", told)
        yield replace(row, points=row.possible if good else 0.0, verdict=verdict)


def student(assignment, who="ada", rows=None, marks=None, **changed):
    rows = tuple(results(assignment) if rows is None else rows)
    sizes, accuracies = changed.pop("sizes", []), changed.pop("accuracies", [])
    fields = {"wall_s": 5.0, "cpu_s": 4.0, "status": "graded", "reason": ""} | changed
    attempt = Attempt(NAME, "v", who, "sha", "in/a.ipynb", notes=(), results=rows, **fields)
    return Student(policy.grade(assignment, [attempt], marks or {}), sizes, accuracies)


def invalid(assignment, who="gustav", reason="The file is empty."):
    return student(assignment, who, (), status="invalid", reason=reason, wall_s=0.0)


class Page(html.parser.HTMLParser):
    """Tags, text, and the rows of all tables, their cells without needless white space."""

    def __init__(self, text):
        super().__init__()
        self.source, self.tags, self.text, self.rows, self.inside = text, [], "", [], False
        self.feed(text)
        self.text = " ".join(self.text.split())
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        self.inside &= tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self.inside:
            self.rows[-1][-1] += data

    def row(self, first):
        """The row that begins so."""
        (found,) = [row for row in self.rows if row[0] == first]
        return found

    def chart(self, begin):
        """What the chart tells whose words begin so."""
        (found,) = [
            a["aria-label"]
            for t, a in self.tags
            if t == "svg" and a["aria-label"].startswith(begin)
        ]
        return found


def page(tmp_path, assignment, students, places=()):
    path = tmp_path / "class.html"
    write_class_report(path, assignment, students, places)
    return Page(path.read_text(encoding="utf-8"))


def test_nobody_yet(tmp_path, assignment):
    seen = page(tmp_path, assignment, [])
    assert "Nobody has handed in anything yet." in seen.text
    assert "svg" not in [tag for tag, _ in seen.tags]


def test_totals_leave_out_those_without_one(tmp_path, assignment):
    bad = student(assignment, "b", results(assignment, ["cnn.logits"]))
    none = student(assignment, "z", (), status="infrastructure", reason="no memory")
    seen = page(tmp_path, assignment, [student(assignment), bad, invalid(assignment), none])
    assert "37.5 points in the middle (median), of 38; mean 37.5" in seen.text
    assert (
        "2 of 4 have no total, and are not in these numbers: 1 invalid, 1 infrastructure."
        in seen.text
    )
    counts = [int(n) for n in re.findall(r": (\d+)", seen.chart("Number of students by total"))]
    assert counts == [2]  # one bar


def test_histogram_counts_everybody_once(tmp_path, assignment):
    cases = [f"{q}.{c}" for q, e in assignment.questions.items() for c in e.checks]
    class_ = [
        student(assignment, f"s{n}", results(assignment, cases[:n])) for n in range(len(cases) + 1)
    ]
    told = page(tmp_path, assignment, class_).chart("Number of students by total")
    assert sum(int(n) for n in re.findall(r": (\d+)", told)) == len(class_)


def test_quartiles_of_a_question(tmp_path, assignment):
    """Against Python's own statistics."""
    missed = [[], ["cnn.logits"], ["cnn.logits", "cnn.convolution"], [], ["cnn.pixel_order"]]
    class_ = [student(assignment, f"s{n}", results(assignment, m)) for n, m in enumerate(missed)]
    shares = [one.grade.points["cnn"] / assignment.questions["cnn"].possible for one in class_]
    low, middle, high = statistics.quantiles(shares, n=4, method="inclusive")
    row = page(tmp_path, assignment, [*class_, invalid(assignment)]).row("cnn")
    wanted = [f"{x:.0%}" for x in (statistics.mean(shares), low, middle, high)]
    assert row == ["cnn", "9", *wanted, "5", "1"]


def test_messages_that_differ_in_numbers_count_together(tmp_path, assignment):
    told = ["Loss 2.31e-05, at most 30%.", "Loss nan, at most 30%.", "Loss 7, at most 30%.", "Odd."]
    class_ = [
        student(assignment, f"s{n}", results(assignment, ["cnn.logits"], text))
        for n, text in enumerate(told)
    ]
    seen = page(tmp_path, assignment, [*class_, student(assignment)])
    row = seen.row("cnn: logits")
    assert row == ["cnn: logits", "4 of 5", "3 ×Loss 2.31e-05, at most 30%. 1 ×Odd."]


def test_checks_that_failed_most_come_first(tmp_path, assignment):
    class_ = [
        student(assignment, "a", results(assignment, ["fnn.logits"])),
        student(assignment, "b", results(assignment, ["fnn.logits", "cnn.logits"])),
    ]
    seen = page(tmp_path, assignment, class_)
    assert [r[:2] for r in seen.rows if r[0].endswith("logits")] == [
        ["fnn: logits", "2 of 2"],
        ["cnn: logits", "1 of 2"],
    ]


def test_what_could_not_be_judged_is_no_failure(tmp_path, assignment):
    rows = [replace(r, points=0.0, verdict=Verdict("not_run", "no data")) for r in
            results(assignment)]  # fmt: skip
    seen = page(tmp_path, assignment, [student(assignment, rows=rows, status="infrastructure")])
    assert "No check failed." in seen.text


def test_accuracy_against_parameters(tmp_path, assignment):
    sizes = [Size("cnn", 20_000, None, None), Size("fnn", 30_000, 1, 2)]
    both = [Accuracy("cnn", 0.9), Accuracy("fnn", 0.5)]
    class_ = [
        student(assignment, "a", sizes=sizes, accuracies=both),
        student(assignment, "b", sizes=[Size("cnn", 10_000, None, None)], accuracies=both),
    ]
    seen = page(tmp_path, assignment, class_)
    told = seen.chart("Parameters and accuracy by network")
    assert "cnn, 2 students: medians 15,000 and 0.9; fnn, 1 students: medians 30,000" in told
    assert "1 accuracy is not shown, since the number of parameters is not known." in seen.text


def test_who_needs_a_person_and_why(tmp_path, assignment):
    class_ = [
        invalid(assignment, "gustav", "A web page."),
        student(assignment, "emil", status="partial", reason="died in cell 29"),
        student(assignment, "fay", status="flagged", reason="changed torch"),
        student(assignment, "ida", status="infrastructure", reason="no memory"),
        student(assignment, "ada", marks={("sha", "reflection"): Mark(3, 4)}),
    ]
    seen = page(tmp_path, assignment, class_)
    for who, why in (("gustav", "A web page."), ("fay", "changed torch"), ("ida", "no memory")):
        assert [who, why] in seen.rows
    assert ["emil", "died in cell 29"] in seen.rows
    ask = "up to 4 points each: a person reads and marks them."
    assert ["reflection", f"3 answers, {ask}"] in seen.rows


def test_totals_in_per_cent_where_some_answers_are_marked(tmp_path, assignment):
    marked = student(assignment, "a", marks={("sha", "reflection"): Mark(4, 4)})
    seen = page(tmp_path, assignment, [marked, student(assignment, "b")])
    assert "100 % of what could be given so far in the middle (median), of 100" in seen.text


def test_late_ones_and_their_deductions(tmp_path, assignment):
    due = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
    rules = Policy(due=due, late_percent_per_day=10)
    assignment = assignment.model_copy(update={"policy": rules})
    class_ = [
        student(assignment, "late", submitted="2026-11-21T13:00:00+00:00"),
        student(assignment, "early", submitted="2026-11-19T13:00:00+00:00"),
        student(assignment, "when"),
    ]
    seen = page(tmp_path, assignment, class_)
    assert ["late", "2026-11-21 13:00 UTC", "2", "7.6"] in seen.rows
    assert "early" not in seen.text[seen.text.index("Late") :]
    assert "Of 1 it is not known when they were handed in" in seen.text


def test_slowest_first(tmp_path, assignment):
    class_ = [student(assignment, f"s{n}", wall_s=float(n)) for n in range(1, 9)]
    seen = page(tmp_path, assignment, class_)
    assert [r[0] for r in seen.rows if re.fullmatch(r"s\d", r[0])] == [
        "s8", "s7", "s6", "s5", "s4",
    ]  # fmt: skip


def hostile(assignment):
    rows = results(assignment, ["cnn.logits"], EVIL)
    name = "<img src=x>&"  # grading.yml's
    seen = {"sizes": [Size(name, 5, None, None)], "accuracies": [Accuracy(name, 0.5)]}
    odd = student(assignment, EVIL, rows, status="flagged", reason=EVIL, name=EVIL, **seen)
    return [odd], [Place(EVIL, EVIL, 1.0, ((EVIL,), (EVIL,)))]


def test_untrusted_text_stays_text(tmp_path, assignment):
    seen = page(tmp_path, assignment, *hostile(assignment))
    assert not {tag for tag, _ in seen.tags} & {"script", "img", "a", "iframe", "object"}
    assert not [a for _, attributes in seen.tags for a in attributes if a.startswith("on")]
    assert seen.text.count("alert(1)") >= 12


def test_the_page_asks_for_nothing_from_outside(tmp_path, assignment):
    seen = page(tmp_path, assignment, *hostile(assignment))
    policies = [
        a["content"] for t, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    links = [v for _, a in seen.tags for k, v in a.items() if k in ("src", "href", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)  # parts of its own charts
    assert "url(http" not in seen.source


def crowd(assignment, count):
    """A class in which every list of the page is as long as it can be."""
    failed = [f"{q}.{c}" for q, e in assignment.questions.items() for c in e.checks]
    for n in range(count):
        words = f"Message {'x' * (n % 40)} {'long ' * 200}"
        rows = tuple(results(assignment, failed[n % 9 :: 3], words))
        yield student(
            assignment, f"student{n:04} {'n' * 500}", rows, reason="why " * 300,
            status=("partial", "flagged", "graded")[n % 3], wall_s=1.0 + n % 37,
            sizes=[Size("cnn", 1000 + 7 * n, None, None)],
            accuracies=[Accuracy("cnn", (n * 37 % 1000) / 1000)],
        )  # fmt: skip


@pytest.mark.parametrize("count", [1, 8, 2000])
def test_the_page_of_any_class_is_small(tmp_path, assignment, count):
    code = tuple("x = 1\n" * 50 for _ in range(20))
    places = [Place(f"a{n}", f"b{n}", 0.9, (code, code)) for n in range(count)]
    seen = page(tmp_path, assignment, list(crowd(assignment, count)), places)
    assert len(seen.source) < 700_000
    assert f"{count} student" in seen.text
    assert f"and {count - 20} more such pairs." in seen.text or count <= 20


def test_the_same_class_gives_the_same_page(tmp_path, assignment):
    class_ = list(crowd(assignment, 8))
    first = page(tmp_path, assignment, class_).source
    assert page(tmp_path, assignment, class_).source == first


def test_all_letters_take_the_pages_colour(tmp_path, assignment):
    """So that they can be read on a dark page, too."""
    seen = page(tmp_path, assignment, list(crowd(assignment, 8)))
    styles = [a.get("style", "") for t, a in seen.tags if t == "text"]
    assert len(styles) > 30
    assert not [s for s in styles if "fill" in s and "currentColor" not in s]
    assert "#010203" not in seen.source
