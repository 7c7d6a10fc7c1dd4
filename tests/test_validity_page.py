"""The pages of the records: nothing that is off is missing, and no text becomes markup."""

import html.parser
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from autograder.config import ConfigError
from autograder.validity import record
from autograder.validity.markdown import code, text, validity
from autograder.validity.page import write_matrix, write_validity
from autograder.validity.record import Case, Unsteady
from tests.records import GENERATED, GOOD, OFF, RIGHT, SHIFTED, also, calibration, checked, mutant

EVIL = (
    "</code><script>alert(1)</script> | `x` \"' <img src=x onerror=alert(1)> [a](http://b) *c* _d_"
)


class Page(html.parser.HTMLParser):
    """A page's tags, texts, and the rows of its tables as lists of (tag, class, text)."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.text, self.rows, self.cell = [], "", [], None
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.cell = [tag, dict(attrs).get("class", ""), ""]
            self.rows[-1].append(self.cell)

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        self.text += data
        if self.cell:
            self.cell[2] += data

    def row(self, start):
        (found,) = [row for row in self.rows if row and row[0][2].strip().startswith(start)]
        return found


def matrix(tmp_path, audit):
    path = tmp_path / "page.html"
    write_matrix(audit, path)
    return Page(path.read_text(encoding="utf-8"))


def section(source, start, end="\n## "):
    return source.split(f"\n## {start}\n")[1].split(end)[0]


def rendered(markdown):
    return Page(MarkdownIt("commonmark").enable("table").render(markdown))


# The matrix.


def test_cells_tell_by_sign_and_class_what_was_expected_and_what_failed(tmp_path):
    page = matrix(tmp_path, OFF["other check"])
    signs = [(kind, words.strip()) for _, kind, words in page.row("rounded")[1:]]
    assert signs == [("hit", "✓"), ("", "")]
    signs = [(kind, words.strip()) for _, kind, words in page.row("Other checks: astray")[1:]]
    assert signs == [("missed", "✗"), ("extra", "+")]
    signs = [(kind, words.strip()) for _, kind, words in page.row(GENERATED)[1:]]
    assert signs == [("", ""), ("killed", "●")]


def test_what_is_off_stands_above_the_matrix_with_what_to_do(tmp_path):
    for kind, audit in OFF.items():
        page = matrix(tmp_path, audit)
        top = page.text.split("What is off")[1].split("Written mutants (")[0]
        assert "To do:" in top, kind
    assert "Nothing is off" in matrix(tmp_path, GOOD).text


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("survivor", "missed: no check notices it"),
        ("other check", "astray: should fail size.shape; failed net.reach"),
        ("stale", f"{GENERATED}: noticed by size.shape"),
        ("false fail", "loop: right, but fails net.reach"),
        ("unsteady", "loop: right, but size.shape changes: 3 passed, 1 failed"),
        ("unexercised", "net.reach: no mutant fails it"),
    ],
)
def test_each_kind_of_trouble_is_on_both_pages(tmp_path, kind, words):
    assert words in matrix(tmp_path, OFF[kind]).text
    off = section(validity([OFF[kind]], []), "What is off")
    assert off.count("\n- ") == 1
    assert words in rendered(off).text
    assert words not in matrix(tmp_path, GOOD).text


def test_the_numbers_at_the_top(tmp_path):
    matrix(tmp_path, OFF["survivor"])
    source = (tmp_path / "page.html").read_text(encoding="utf-8")
    words = " ".join(re.sub("<[^>]+>", " ", source).split())
    assert "caught as expected 1 of 2 0 by other checks, 1 survived" in words
    assert "Generated mutants killed 1 of 2 1 equivalent, 0 survived, 0 stale entries" in words
    assert "Right solutions that fail 0 of 2" in words
    assert "Verdicts that changed 0 in 8 further runs" in words
    assert "Cases that no mutant fails 0 of 2" in words
    assert "Time 1 min 1 s 2 min 5 s of CPU" in words


def test_equivalent_mutants_are_listed_with_their_reason_and_not_in_the_matrix(tmp_path):
    page = matrix(tmp_path, GOOD)
    assert re.search(r"Same\. \(1\)\s+net-answer-1 sign: a \| b", page.text)
    assert page.text.count("a | b") == 1


def test_right_solutions_and_how_they_did(tmp_path):
    worse = replace(RIGHT, failed=["net.reach"], unsteady=[SHIFTED])
    page = matrix(tmp_path, replace(GOOD, variants=[replace(RIGHT, name="reference"), worse]))
    assert [words for _, _, words in page.row("reference")[1:]] == [
        "Steps in a loop.", "4", "passes all",
    ]  # fmt: skip
    assert page.row("loop")[3][2] == "fails net.reach; size.shape: not the same in all runs"


def test_every_row_has_a_cell_for_every_case_and_heads_have_scopes(tmp_path):
    cases = [Case(f"q{i // 5}", f"c{i}", "reach", 1, False) for i in range(60)]
    wide = replace(GOOD, cases=cases, mutants=[mutant(f"m{i}") for i in range(150)])
    page = matrix(tmp_path, wide)
    assert len([row for row in page.rows if len(row) == 61]) == 150
    heads = [attributes for tag, attributes in page.tags if tag == "th"]
    assert all("scope" in attributes for attributes in heads)
    assert sum(int(a["colspan"]) for a in heads if a["scope"] == "colgroup") == 60


def test_the_page_needs_nothing_else(tmp_path):
    page = matrix(tmp_path, GOOD)
    assert ("html", {"lang": "en"}) in page.tags
    assert not [
        t for t, a in page.tags if t in ("script", "link", "img") or "href" in a or "src" in a
    ]
    source = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "url(" not in source
    assert "http" not in source


def hostile():
    case = replace(GOOD.cases[0], question=EVIL, case=EVIL, check=EVIL)
    mutants = [
        mutant(EVIL, "survived", idea=EVIL), mutant(EVIL, "other", failed=[EVIL]),
        mutant(EVIL, "survived", written=False, idea=EVIL),
        mutant(EVIL, "equivalent", written=False, idea=EVIL, reason=EVIL),
    ]  # fmt: skip
    variant = replace(
        RIGHT, name=EVIL, idea=EVIL, failed=[EVIL], unsteady=[Unsteady(EVIL, EVIL, {EVIL: 1})]
    )
    made = replace(GOOD.made, version=EVIL, processor=EVIL)
    return replace(
        GOOD, made=made, cases=[case], mutants=mutants, variants=[variant], unexercised=[EVIL]
    )


def test_no_text_becomes_markup(tmp_path):
    page = matrix(tmp_path, hostile())
    assert not [t for t, _ in page.tags if t in ("script", "img", "a")]
    assert not [a for _, attributes in page.tags for a in attributes if a.startswith("on")]
    assert page.text.count("<script>alert(1)</script>") > 10


# The Markdown.


@pytest.mark.parametrize(
    "words",
    [
        EVIL,
        "a | b",
        "a \\| b",
        "\\",
        "x\ny",
        "`",
        "``a`b``",
        "a_b _c_ __d__",
        "<b>",
        "&lt;",
        "1. x",
    ],
)
def test_text_and_code_come_out_as_they_were(words):
    line = " ".join(words.split())
    assert rendered(f"- x: {text(words)}").text.strip() == f"x: {line}"
    page = rendered(f"- {code(words)}")
    assert page.text.strip() == line
    assert ("code", {}) in page.tags


def test_hostile_text_stays_text_and_in_its_cell():
    check = replace(
        checked(0.86), question=EVIL, samples=[replace(s, name=EVIL) for s in checked(0.8).samples]
    )
    found = replace(calibration(check), assignment=EVIL)
    source = validity([replace(hostile(), assignment=EVIL)], [found])
    page = rendered(source)
    assert not [t for t, _ in page.tags if t in ("script", "img", "em")]
    assert not [a for _, a in page.tags if a.get("href", "").startswith("http")]
    tables = [line for line in source.splitlines() if line.startswith("|")]
    rows = [row for row in page.rows if row]
    assert len(rows) == sum(not line.startswith("| ---") for line in tables)
    assert [len(row) for row in rows] == [8, 8, 9, 9, 3, 3, 9, 9, 9]
    assert EVIL in [words for _, _, words in rows[5]]  # the reason of an equivalent mutant


def test_bars_in_cells_are_escaped():
    listed = also(mutant("m3", "equivalent", written=False, reason="a | b \\| c"))
    source = section(validity([listed], []), "Equivalent mutants")
    assert "| a \\| b \\\\\\| c | 1 | tiny 1 |" in source


def test_the_table_by_assignment():
    worse = replace(OFF["other check"], assignment="worse", variants=OFF["unsteady"].variants)
    source = section(validity([worse, GOOD], []), "Wrong and right solutions")
    rows = rendered(source).rows
    cells = [[words for _, _, words in row] for row in rows[1:] if row]
    assert cells == [
        ["tiny", "1 of 1", "1 of 2", "1", "0", "0 of 2", "0 in 8", "2 of 2"],
        ["worse", "1 of 2", "1 of 2", "1", "0", "0 of 1", "1 in 4", "2 of 2"],
    ]


def test_the_table_of_thresholds():
    found = calibration(checked(0.84), checked(0.86, mutant=False))
    source = section(validity([], [found]), "Checks that depend on training")
    assert "(validity/plots/tiny-net-accuracy-cpu.svg)" in source
    good, bad = [[words for _, _, words in row] for row in rendered(source).rows[1:] if row]
    # By hand: 1 - 0.05^(1/8) = 31.23 %; the bounds as in the tests of the summary.
    assert good == [
        "net: accuracy", "2", "0.915 ± 0.013", "0.9", "0.8495 reference", "≥ 0.84",
        "0.5805 rounded", "yes", "0 of 8, so < 31.23%",
    ]  # fmt: skip
    assert bad[5:8] == ["≥ 0.86", "none tried", "no"]
    assert "net.accuracy: smallest is 0.86" in rendered(validity([], [found])).text


def test_numbers_that_contradict_the_normal_model_are_named():
    values = [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.2]
    assert "contradict" in validity([], [calibration(checked(0.1, right=values))])
    assert "contradict the normal" not in validity([], [calibration(checked(0.1))])


def test_where_the_records_come_from():
    source = section(validity([GOOD], [calibration(checked(0.84))]), "Where the records come from")
    _, audit, found = [[words for _, _, words in row] for row in rendered(source).rows if row]
    made = ["2026-11-30", "v1", "cpu", "A processor", "3.11.2, 2.14.1", "1"]
    assert audit == ["tiny audit", *made, "–", "–"]
    assert found == ["tiny calibration", *made, "5 to 8", "2"]


def test_the_page_is_the_same_for_the_same_records_in_any_order():
    audits = [GOOD, replace(OFF["stale"], assignment="other")]
    found = [calibration(checked(0.84)), replace(calibration(checked(0.5)), assignment="other")]
    assert validity(audits, found) == validity(audits[::-1], found[::-1])


def test_without_records_and_with_all_well():
    empty = validity([], [])
    assert "no record of an audit" in empty
    assert "no record of a calibration" in empty
    assert "- " not in section(validity([GOOD], [calibration(checked(0.84))]), "What is off")


def test_all_records_of_a_folder_are_read(tmp_path):
    folder = tmp_path / "records"
    record.write(GOOD, folder / "tiny-audit.json")
    gpu = replace(calibration(checked(0.84)), made=replace(GOOD.made, device="A GPU"))
    record.write(calibration(checked(0.84)), folder / "tiny-calibration-cpu.json")
    record.write(gpu, folder / "tiny-calibration-cuda.json")
    path = write_validity(folder)
    assert path == tmp_path / "records.md"
    source = path.read_text(encoding="utf-8")
    assert source == validity([GOOD], [gpu, calibration(checked(0.84))], "records")
    assert "(records/plots/tiny-net-accuracy-cuda.svg)" in source
    assert "(records/tiny-audit.html)" in source


def test_a_record_of_another_form_is_refused(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "tiny-audit.json").write_text('{"assignment": "tiny"}')
    with pytest.raises(ConfigError, match="not a record"):
        write_validity(folder)
