"""Sheets of manual questions: out, through a spreadsheet, and back; untrusted answers."""

import csv
import hashlib
import html.parser
import io

import pytest

from autograder.config import Question
from autograder.ledger import Mark
from autograder.report.manual import CELL, Answer, SheetError, read_sheet, write_sheets
from tests.conftest import NAME

HOSTILE = [
    "00417", "=cmd()|'/c calc'!A1", "Žofie, Ann", "a;b", 'q"q', "two\nlines", "🦊", "\u202eאבג",
    "'=x", "-1+2", "1e5",
]  # fmt: skip
HEADER = "student,question,points,possible,comment,file,answer"


@pytest.fixture
def assignment(grading):
    """Its manual questions: reflection (4 points) and essay (2.5)."""
    found = grading.assignment(NAME)
    essay = Question(manual=True, points=2.5)
    return found.model_copy(update={"questions": {**found.questions, "essay": essay}})


def sha(student, question="reflection"):
    """64 digits, of which a spreadsheet would make a number."""
    return str(int(hashlib.sha256(f"{student}/{question}".encode()).hexdigest(), 16))[:64]


def answer(student="ada", text="The CNN is ahead.", mark=None, question="reflection"):
    return Answer(student, sha(student, question), question, text, mark)


def known(*students):
    return {(s, q): sha(s, q) for s in students for q in ("reflection", "essay")}


def sheet(folder):
    with (folder / "manual.csv").open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def filled(folder, fill, delimiter=",", encoding="utf-8-sig"):
    """The sheet with changed rows, written as a spreadsheet does."""
    rows = sheet(folder)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(fill(number, row) for number, row in enumerate(rows))
    path = folder / "filled.csv"
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def typed(folder, *lines, header=HEADER):
    path = folder / "typed.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return path


def faults(path, assignment, given):
    with pytest.raises(SheetError) as caught:
        read_sheet(path, assignment, given)
    return str(caught.value).splitlines()[1:]


# The sheet.


def test_one_row_an_answer_with_the_marks_that_exist(tmp_path, assignment):
    write_sheets(
        tmp_path, assignment,
        [
            answer("ada", mark=Mark(2.5, 4, "- short")),
            answer("ben", question="essay"),
            answer("ben"),
        ],
    )  # fmt: skip
    rows = sheet(tmp_path)
    assert list(rows[0]) == HEADER.split(",")
    assert [(r["student"], r["question"], r["points"], r["possible"]) for r in rows] == [
        ("ada", "reflection", "2.5", "4"), ("ben", "reflection", "", "4"),
        ("ben", "essay", "", "2.5"),
    ]  # fmt: skip
    assert rows[0]["comment"] == "'- short"
    assert rows[0]["file"] == f"sha256:{sha('ada')[:12]}"


def test_no_cell_is_a_formula_and_long_answers_are_cut(tmp_path, assignment):
    write_sheets(tmp_path, assignment, [answer("=1+1", "=HYPERLINK(1)" + "x" * 9_999)])
    (row,) = sheet(tmp_path)
    assert not [cell for cell in row.values() if cell[:1] in tuple("=+-@\t\r")]
    assert len(row["answer"]) < CELL + 60
    assert row["answer"].endswith("(cut: manual.html has more)")


def test_text_that_no_encoding_can_write_is_written(tmp_path, assignment):
    write_sheets(tmp_path, assignment, [answer("ada", "a\ud800b\0c")])
    assert "a\ufffdb" in sheet(tmp_path)[0]["answer"]
    assert "a\ufffdb" in (tmp_path / "manual.html").read_text(encoding="utf-8")


def test_what_was_typed_and_not_read_is_kept_when_the_sheet_is_written_again(tmp_path, assignment):
    answers = [answer(s) for s in HOSTILE]
    assert [p.name for p in write_sheets(tmp_path, assignment, answers)] == [
        "manual.csv", "manual.html",
    ]  # fmt: skip
    assert len(write_sheets(tmp_path, assignment, answers)) == 2  # nothing was typed
    path = filled(tmp_path, lambda _, row: row | {"points": "1,50", "comment": "=a\r\nb"}, ";")
    path.rename(tmp_path / "manual.csv")
    typed_text = (tmp_path / "manual.csv").read_bytes()
    *_, kept = write_sheets(tmp_path, assignment, answers)
    assert kept.read_bytes() == typed_text
    assert {row["points"] for row in sheet(tmp_path)} == {""}
    kept.rename(tmp_path / "manual.csv")  # and now it is read
    marks = read_sheet(tmp_path / "manual.csv", assignment, known(*HOSTILE))
    marked = [answer(s, mark=marks[s, sha(s), "reflection"]) for s in HOSTILE]
    assert len(write_sheets(tmp_path, assignment, marked)) == 2
    (tmp_path / "manual.csv").write_bytes(b"notes of mine")
    assert len(write_sheets(tmp_path, assignment, marked)) == 3


# The way back.


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_marks_come_back_for_every_student(tmp_path, assignment, delimiter, encoding):
    write_sheets(tmp_path, assignment, [answer(s) for s in HOSTILE])

    def fill(number, row):
        points = "3,25" if number % 2 else " 1.5 "
        return row | {"points": points, "comment": f"line 1; {number}\r\nline, 2 ž"}

    marks = read_sheet(filled(tmp_path, fill, delimiter, encoding), assignment, known(*HOSTILE))
    assert marks == {
        (s, sha(s), "reflection"): Mark(3.25 if n % 2 else 1.5, 4, f"line 1; {n}\nline, 2 ž")
        for n, s in enumerate(HOSTILE)
    }


def test_a_sheet_that_nobody_touched_gives_the_marks_that_it_was_made_with(tmp_path, assignment):
    given = [answer(s, mark=Mark(0.1 + 0.2, 4, "=good; 'yes'")) for s in HOSTILE]
    write_sheets(tmp_path, assignment, [*given, answer("new")])
    marks = read_sheet(tmp_path / "manual.csv", assignment, known(*HOSTILE, "new"))
    assert marks == {(s, sha(s), "reflection"): Mark(0.3, 4, "=good; 'yes'") for s in HOSTILE}


def test_names_may_be_written_in_another_unicode_form(tmp_path, assignment):
    write_sheets(tmp_path, assignment, [answer("Z\u030cofie")])  # Z and a combining caron
    path = filled(tmp_path, lambda _, row: row | {"student": "\u017dofie", "points": "4"})
    ((student, *_),) = read_sheet(path, assignment, known("Z\u030cofie"))
    assert student == "Z\u030cofie"


def test_columns_and_rows_may_move_and_answers_may_be_dropped(tmp_path, assignment):
    path = typed(
        tmp_path, "x,0,,reflection,ada," + sha("ada")[:12], "", ",,,,,",
        header="Mine,Points,Comment,Question,Student,File",
    )  # fmt: skip
    assert read_sheet(path, assignment, known("ada")) == {
        ("ada", sha("ada"), "reflection"): Mark(0.0, 4, "")
    }


def test_ends_of_rows_that_a_spreadsheet_leaves_out(tmp_path, assignment):
    path = typed(tmp_path, "ada,reflection", f"ben,reflection,1,4,,{sha('ben')[:12]}")
    assert [*read_sheet(path, assignment, known("ada", "ben"))] == [
        ("ben", sha("ben"), "reflection")
    ]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("two", "'two' is no number; allowed: 0 to 4, or empty"),
        ("nan", "no number"),
        ("inf", "no number"),
        ("1e0", "no number"),
        ("1.000,5", "no number"),
        ("٣", "no number"),
        ("4,01", "4,01 is out of range; allowed: 0 to 4"),
        ("-0.5", "-0.5 is out of range"),
        ("9" * 400, "out of range"),
    ],
)
def test_points_that_can_not_be(tmp_path, assignment, cell, words):
    path = typed(tmp_path, f'ada,reflection,"{cell}",4,,{sha("ada")[:12]},x')
    (fault,) = faults(path, assignment, known("ada"))
    assert fault.startswith("  row 2, points: ")
    assert words in fault


def test_all_faulty_rows_are_told_at_once_by_their_row_in_the_spreadsheet(tmp_path, assignment):
    def row(student, question, points, file=None):
        return f"{student},{question},{points},4,,{file or sha(student, question)[:12]},"

    path = typed(
        tmp_path,
        row("ada", "reflection", 3),
        '"zoe",reflection,1,4,"two\nlines",x,',
        row("ben", "reflexion", 1),
        "",
        row("ben", "cnn", 1),
        row("ada", "reflection", 2),
        row("ben", "reflection", 1, "sha256:0123456789ab"),
        row("ben", "essay", 3),
    )
    found = faults(path, assignment, known("ada", "ben"))
    assert [line.split(":")[0].strip() for line in found] == [
        "row 3, student", "row 4, question", "row 6, question", "row 7, student", "row 8, file",
        "row 9, points",
    ]  # fmt: skip
    assert "allowed: reflection, essay" in found[1]
    assert "in row 2 already" in found[3]
    assert "handed in again" in found[4]
    assert "0 to 2.5" in found[5]


def test_ids_of_which_a_spreadsheet_made_numbers(tmp_path, assignment):
    path = typed(tmp_path, "417,reflection,1,4,,x,", "1.00E+05,reflection,1,4,,x,", "5,essay,,,,,")
    first, second, third = faults(path, assignment, known("00417", "1e5"))
    assert "make a number of '00417'" in first
    assert "as text" in first
    assert "'1e5'" in second
    assert "spreadsheet" not in third


def test_a_comment_without_points_is_not_lost_silently(tmp_path, assignment):
    path = typed(tmp_path, f"ada,reflection,,4,nice,{sha('ada')[:12]},")
    (fault,) = faults(path, assignment, known("ada"))
    assert fault.startswith("  row 2, points: empty beside a comment")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "row 1: each of the columns"),
        (b"student,question,points,comment\n", "look at file"),
        (b"student,student,question,points,comment,file\n", "look at student"),
        (HEADER.encode() + b"\nada,reflection,1,4,a,b,c,d\n", "row 2: 8 cells"),
        (HEADER.encode() + b'\nada,reflection,1,4,"a"b,c,d\n', "row 2: not readable as CSV"),
        (HEADER.encode() + b"\nJos\xe9,reflection,1,4,a,b,c\n", "Save it as CSV UTF-8"),
    ],
)
def test_what_is_no_sheet_says_why(tmp_path, assignment, content, words):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(SheetError, match=r"bad\.csv") as caught:
        read_sheet(path, assignment, known("ada"))
    assert words in str(caught.value)


def test_a_missing_sheet_says_so(tmp_path, assignment):
    with pytest.raises(SheetError, match="can't be read"):
        read_sheet(tmp_path / "no.csv", assignment, {})


# The page.


class Page(html.parser.HTMLParser):
    def __init__(self, folder):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed((folder / "manual.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def test_the_page_has_a_section_a_question_with_rubric_and_answers(tmp_path, assignment):
    answers = [
        answer("ada", "The **CNN** wins.", Mark(2.5, 4, "fine & good")),
        answer("ben", "A list:\n\n- one\n- two"), answer("ben", "  ", question="essay"),
    ]  # fmt: skip
    write_sheets(tmp_path, assignment, answers, {"reflection": "**Rubric, 4 points.** One each:"})
    page = Page(tmp_path)
    assert (page.count("section"), page.count("article"), page.count("li")) == (2, 3, 2)
    assert page.count("strong") == 2  # of the rubric and of ada
    words = " ".join(page.text.split())
    for expected in ("2 answers", "2.5 of 4 points", "fine & good", "Rubric, 4 points.", "No text.",
                     "The **CNN** wins."):  # fmt: skip
        assert expected in words


EVIL = """<script>alert(1)</script><img src=https://e.example/x onerror=alert(2)>
[click](javascript:alert(3)) ![pixel](https://e.example/p.png) <https://e.example> [a][b]

[b]: https://e.example/ref
</article></pre><style>body{display:none}</style> <!-- ` -->
{{ 7 * 7 }} &#60;script&#62;

```</pre><script>
x
```
"""


def test_an_answer_can_not_become_markup_or_ask_for_anything(tmp_path, assignment):
    mark = Mark(1, 4, EVIL)
    write_sheets(tmp_path, assignment, [answer(EVIL, EVIL, mark)], {"reflection": "<b>x</b>"})
    page = Page(tmp_path)
    assert {"script", "img", "a", "b", "iframe", "link"}.isdisjoint(tag for tag, _ in page.tags)
    assert (page.count("style"), page.count("article"), page.count("meta")) == (1, 1, 3)
    names = {name for _, attributes in page.tags for name in attributes}
    assert names <= {"lang", "charset", "name", "content", "http-equiv", "class", "dir"}
    assert page.text.count("alert(3)") >= 3
    assert page.text.count("https://e.example/ref") == 4  # name, comment, rendered, as typed
    assert "{{ 7 * 7 }}" in page.text


def test_the_page_forbids_scripts_and_other_hosts(tmp_path, assignment):
    write_sheets(tmp_path, assignment, [answer()])
    (policy,) = [a["content"] for _, a in Page(tmp_path).tags if "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@pytest.mark.parametrize(
    "text", ["> " * 20_000, "[" * 50_000, "*a_" * 15_000, "|a\n|-\n" + "|a|b\n" * 9_000]
)
def test_text_made_to_hang_a_parser_is_shown(tmp_path, assignment, text):
    write_sheets(tmp_path, assignment, [answer("ada", text)])
    assert Page(tmp_path).count("article") == 1
