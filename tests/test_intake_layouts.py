"""Who handed in what: a small inbox of each layout, with odd names, and what has to come of it."""

import io
import os
import random
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook

from autograder.intake import EmptyInbox, InboxError, Roster, RosterError, collect, find
from autograder.intake.platforms import to_utc
from tests.inboxes import GOOD, encode, make_pristine, make_raw, put, zipped

OLD = encode(make_raw("net = 'old'"))
OTHER = encode(new_notebook(cells=[new_code_cell("1")]))
ARCHIVE = zipped({"work/hw1.ipynb": GOOD})


def roster_of(tmp_path, text):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return Roster.load(path)


def lay_out(inbox, files):
    for name, data in files.items():
        put(inbox / name, data)
    return inbox


def outcome(inbox, roster=None):
    """(student, attempt, file, problem) of each submission; answers are read back."""
    rows = []
    for one in collect(inbox, make_pristine(), 1, roster):
        source = one.source.relative_to(inbox).as_posix()
        rows.append((one.student, one.attempt, source, one.problem or "graded"))
    return rows


def graded(inbox, roster=None):
    rows = outcome(inbox, roster)
    assert [row[3] for row in rows] == ["graded"] * len(rows)
    return [row[:3] for row in rows]


def times(inbox):
    return [(one.student, one.submitted) for one in find(inbox, "hw1").found]


# Canvas.

CANVAS = {
    "smithann_340934_2084_hw1.ipynb": OLD,
    "smithann_LATE_340934_2191_hw1-1.ipynb": GOOD,
    "smithann_340934_2190_notes.ipynb": OTHER,
    "ünallejosé_334244_2100_01_mein heft (2).ipynb": GOOD,
    "o_neil_12_2101_hw1-3.zip": ARCHIVE,
    "anon_Ab3xZ_2102_hw1.ipynb": GOOD,
    "LATE_anon_Q9rTt_2103_hw1.ipynb": GOOD,
    "leekim_77_2105_hw1.pdf": b"%PDF",
    "mute_78_text.html": b"<p>",
    "grades.csv": b"",
}
CANVAS_ROWS = [
    ("12", 1, "o_neil_12_2101_hw1-3.zip", "graded"),
    ("334244", 1, "ünallejosé_334244_2100_01_mein heft (2).ipynb", "graded"),
    ("340934", 1, "smithann_340934_2084_hw1.ipynb", "graded"),
    ("340934", 2, "smithann_LATE_340934_2191_hw1-1.ipynb", "graded"),
    ("77", 1, "leekim_77_2105_hw1.pdf", "There is no notebook (.ipynb) in it."),
    ("78", 1, "mute_78_text.html", "There is no notebook (.ipynb) in it."),
    ("anon_Ab3xZ", 1, "anon_Ab3xZ_2102_hw1.ipynb", "graded"),
    ("anon_Q9rTt", 1, "LATE_anon_Q9rTt_2103_hw1.ipynb", "graded"),
]


def test_canvas(tmp_path):
    assert outcome(lay_out(tmp_path, CANVAS)) == CANVAS_ROWS
    found = find(tmp_path, "hw1")
    assert found.layout == "a Canvas download"
    assert {p.name: reason for p, reason in found.left_out} == {
        "smithann_340934_2190_notes.ipynb": "another file counts, or none, for 340934",
        "grades.csv": "neither notebook nor zip",
    }
    ann = [one for one in found.found if one.student == "340934"]
    assert [one.name for one in ann] == ["smithann", "smithann"]
    assert all("notes.ipynb" in one.notes[0] for one in ann)


@pytest.mark.parametrize("wrapper", ["", "submissions/", "download (1)/submissions/"])
def test_the_zip_of_a_whole_class(tmp_path, wrapper):
    members = {wrapper + name: data for name, data in CANVAS.items()}
    put(tmp_path / "submissions.zip", zipped(members))
    rows = [(s, a, f.removeprefix(f"submissions.zip/{wrapper}"), p)
            for s, a, f, p in outcome(tmp_path)]  # fmt: skip
    assert rows == CANVAS_ROWS


@pytest.mark.parametrize("wrapper", ["submissions", "download/submissions"])
def test_export_in_folders_around_it(tmp_path, wrapper):
    lay_out(tmp_path / wrapper, CANVAS)
    rows = [(s, a, f.removeprefix(f"{wrapper}/"), p) for s, a, f, p in outcome(tmp_path)]
    assert rows == CANVAS_ROWS


@pytest.mark.parametrize(
    "files",
    [
        ["ann_2024_1_hw.ipynb", "bob_2024_2_hw.ipynb", "cy_2024_3_hw.ipynb"],  # one user, 3 names
        ["ann_301_5_hw.ipynb", "bob_302_5_hw.ipynb", "cy_303_5_hw.ipynb"],  # one file three times
        ["sheet_1_ann_22_3_hw.ipynb", "sheet_1_bob_23_4_hw.ipynb"],  # Canvas drops such numbers
    ],
)
def test_flat_files_that_look_like_canvas(tmp_path, files):
    lay_out(tmp_path, dict.fromkeys(files, GOOD))
    assert [row[0] for row in graded(tmp_path)] == [name[:-6] for name in files]


def test_some_files_that_look_like_canvas_do_not_make_it_canvas(tmp_path):
    files = ["smith_12_34_hw.ipynb", "ada.ipynb", "bob.ipynb"]
    lay_out(tmp_path, dict.fromkeys(files, GOOD))
    assert [row[0] for row in graded(tmp_path)] == ["ada", "bob", "smith_12_34_hw"]


def test_one_odd_file_among_many_of_canvas_is_nobodys(tmp_path):
    files = {f"s{n}x_{n + 50}_{n + 900}_hw1.ipynb": GOOD for n in range(9)}
    lay_out(tmp_path, {**files, "51.ipynb": GOOD})
    rows = outcome(tmp_path)
    assert len(rows) == 10
    assert [r[0] for r in rows if r[3] != "graded"] == ["51.ipynb"]
    assert "Can't tell whose it is" in rows[2][3]


def test_a_name_with_a_number_does_not_take_over_another_user(tmp_path):
    """Somebody calls herself mal_51; Canvas puts her own number behind the name."""
    files = {f"s{n}x_{n + 50}_{n + 900}_hw1.ipynb": GOOD for n in range(30)}
    lay_out(tmp_path, {**files, "mal_51_99_950_hw1.ipynb": OLD})
    bad = [r for r in outcome(tmp_path) if r[3] != "graded"]
    assert {r[0] for r in bad} == {"mal_51_99_950_hw1.ipynb", "s1x_51_901_hw1.ipynb"}
    assert all("not one that Canvas gives" in r[3] for r in bad)


def test_canvas_files_of_one_student_that_cannot_be_ordered(tmp_path):
    lay_out(tmp_path, {
        "ann_1_20_hw1.ipynb": GOOD, "ann_1_10_hw1-1.ipynb": OLD,
        "bob_2_30_a.ipynb": GOOD, "bob_2_31_b.ipynb": OLD,
        "cyd_3_40_hw1.ipynb": GOOD, "cyd_3_41_hw1.zip": ARCHIVE,
        "dan_4_50_hw1.ipynb": GOOD,
    })  # fmt: skip
    ann, bob, cyd, dan = outcome(tmp_path)
    assert "contradict each other" in ann[3]
    assert "holds 2 notebooks" in bob[3]
    assert "holds 2 notebooks" in cyd[3]
    assert dan[3] == "graded"


# Moodle.


def test_moodle_folders(tmp_path):
    lay_out(tmp_path, {
        "Ann Smith_1201_assignsubmission_file_/hw1.ipynb": GOOD,
        "Ann Smith_1201_assignsubmission_onlinetext_/onlinetext.html": b"<p>",
        "Ann Smith_1202_assignsubmission_file_/sub/mine.ipynb": GOOD,
        "José O'Neil-李_0077_assignsubmission_file/work.zip": ARCHIVE,
        "Participant_9_assignsubmission_file_/notes.txt": b"",
        "Group A_55_assignsubmission_file_/hw1.ipynb": GOOD,
        "Default group_assignsubmission_file_/hw1.ipynb": GOOD,
    })  # fmt: skip
    assert [(row[0], row[3]) for row in outcome(tmp_path)] == [
        ("0077", "graded"),
        ("1201", "graded"),
        ("1202", "graded"),
        ("55", "graded"),
        ("9", "There is no notebook (.ipynb) in it."),
        ("Default group", "graded"),
    ]
    ann = find(tmp_path, "hw1").found[1]
    assert (ann.name, ann.notes) == (
        "Ann Smith",
        ("Only the notebook is graded, left out: onlinetext.html.",),
    )


def test_moodle_files(tmp_path):
    """The name that a student gave the file can't make it another one's."""
    mallory = "Mallory_3_assignsubmission_file_x_1_assignsubmission_file_hw1.ipynb"
    lay_out(tmp_path, {
        "Ann Smith_1_assignsubmission_file_hw1.ipynb": GOOD,
        "Bob_2_assignsubmission_file_hw1.ipynb": GOOD,
        "Bob_2_assignsubmission_file_draft_3_4.ipynb": OLD,
        "Bob_2_assignsubmission_onlinetext_onlinetext.html": b"",
        mallory: GOOD,
    })  # fmt: skip
    assert graded(tmp_path) == [
        ("1", 1, "Ann Smith_1_assignsubmission_file_hw1.ipynb"),
        ("2", 1, "Bob_2_assignsubmission_file_hw1.ipynb"),
        ("3", 1, mallory),
    ]


def test_moodle_zip_with_times_of_the_download(tmp_path):
    """Two files handed in together are no attempts, whatever the zip says of their age."""
    put(tmp_path / "Course-hw1-12.zip", zipped({
        "Ann_1_assignsubmission_file_/a.ipynb": GOOD,
        "Ann_1_assignsubmission_file_/b.ipynb": OLD,
        "Bob_2_assignsubmission_file_/b.ipynb": GOOD,
    }))  # fmt: skip
    ann, bob = outcome(tmp_path)
    assert "holds 2 notebooks" in ann[3]
    assert bob[3] == "graded"


def test_moodle_one_number_of_two_names(tmp_path):
    lay_out(tmp_path, {
        "Ann_1_assignsubmission_file_/hw1.ipynb": GOOD,
        "Bob_1_assignsubmission_file_/hw1.ipynb": OLD,
        "Cy_2_assignsubmission_file_/hw1.ipynb": OLD,
    })  # fmt: skip
    first, second, cy = outcome(tmp_path)
    assert first[0] == second[0] == "1"
    assert first[3] == second[3] != "graded"
    assert cy[3] == "graded"


# Gradescope.

METADATA = """---
submission_101:
  :submitters:
  - :name: Ann Smith
    :sid: 00123
    :email: ann@x.org
  :created_at: 2024-05-02 13:55:00.123456000 -07:00
  :score: 7.0
  :history: []
  :results: !ruby/object:Hash {tests: [{output: "submission_102: bob"}]}
submission_102:
  :submitters:
  - :name: Bob, "B"
    :sid: ''
    :email: bob@x.org
  - :name: Cy
    :sid: '0900'
    :email: cy@x.org
  :created_at: 2024-05-02 20:54:00 Z
submission_103:
  :submitters:
  - :name: ann smith
    :sid: 00123
    :email: ann@x.org
  :created_at: 2024-05-02 20:56:00.000000000 Z
submission_104:
  :submitters:
  - :name: Nameless
submission_105:
  :submitters:
  - :name: Dee
    :sid: dee
"""


def gradescope(inbox, metadata=METADATA):
    return lay_out(inbox, {
        "submission_metadata.yml": metadata.encode(),
        "submission_101/hw1.ipynb": OLD,
        "submission_102/work/mine.ipynb": GOOD,
        "submission_102/helper.py": b"",
        "submission_103/hw1.zip": ARCHIVE,
        "submission_104/hw1.ipynb": GOOD,
        "submission_999/hw1.ipynb": GOOD,
    })  # fmt: skip


@pytest.mark.parametrize("wrapper", ["", "assignment_1_export"])
def test_gradescope(tmp_path, wrapper):
    gradescope(tmp_path / wrapper)
    rows = [(s, a, f.removeprefix(wrapper).strip("/"), p) for s, a, f, p in outcome(tmp_path)]
    nobody = "Can't tell whose it is: submission_metadata.yml "
    assert rows == [
        ("00123", 1, "submission_101/hw1.ipynb", "graded"),
        ("00123", 2, "submission_103/hw1.zip", "graded"),
        ("0900", 1, "submission_102/work/mine.ipynb", "graded"),
        ("bob@x.org", 1, "submission_102/work/mine.ipynb", "graded"),
        ("dee", 1, "submission_105", "There is no notebook (.ipynb) in it."),
        ("submission_104/", 1, "submission_104",
         nobody + "has neither number nor address of its student."),
        ("submission_999/", 1, "submission_999", nobody + "does not name it."),
    ]  # fmt: skip
    assert times(tmp_path)[:3] == [
        ("00123", datetime(2024, 5, 2, 20, 55, 0, 123456, tzinfo=UTC)),
        ("00123", datetime(2024, 5, 2, 20, 56, tzinfo=UTC)),
        ("0900", datetime(2024, 5, 2, 20, 54, tzinfo=UTC)),
    ]


def test_gradescope_without_times_cannot_order(tmp_path):
    lines = METADATA.splitlines(keepends=True)
    gradescope(tmp_path, "".join(line for line in lines if "20:56" not in line))
    first, second, *_ = outcome(tmp_path)
    assert "Several files belong to one student" in first[3]
    assert first[3] == second[3]


def test_gradescope_one_number_of_two_names(tmp_path):
    gradescope(tmp_path, METADATA.replace("ann smith", "Eve"))
    first, second, *_ = outcome(tmp_path)
    assert first[3] == second[3] == "Its id belongs to two names: Ann Smith, Eve. Keep one."


@pytest.mark.parametrize("metadata", ["a: [", "- 1", "", "x: \x00", "\udc80"])
def test_gradescope_with_broken_metadata(tmp_path, metadata):
    lay_out(tmp_path, {"submission_1/hw1.ipynb": GOOD})
    put(tmp_path / "submission_metadata.yml", metadata.encode("utf-8", "surrogateescape"))
    with pytest.raises(InboxError, match="submission_metadata"):
        find(tmp_path, "hw1")


def test_gradescope_with_odd_metadata(tmp_path):
    metadata = "submission_1: 7\nsubmission_2: {':submitters': x}\nsubmission_3:\n"
    lay_out(
        tmp_path, {"submission_1/hw1.ipynb": GOOD, "submission_metadata.yml": metadata.encode()}
    )
    assert len(outcome(tmp_path)) == 3


# nbgrader and GitHub Classroom.

SUBMITTED = {
    "ann/hw1/hw1.ipynb": GOOD,
    "ann/hw1/timestamp.txt": b"2024-05-02 15:58:23.948203 America/Los_Angeles",
    "ann/hw2/hw2.ipynb": OTHER,
    "ann/hw2/timestamp.txt": b"2024-01-01 00:00:00 UTC",
    "bob b/hw1/sub/mine.ipynb": GOOD,
    "bob b/hw1/timestamp.txt": b"2024-05-02 15:58:23 UTC",
    "bob b/hw1/data.csv": b"",
    "cy/ps/hw1.ipynb": GOOD,
    "cy/ps/timestamp.txt": b"../../etc/passwd 1 2",
    "dee/hw1/timestamp.txt": b"x" * 200,
}


@pytest.mark.parametrize("wrapper", ["", "submitted"])
def test_nbgrader(tmp_path, wrapper):
    lay_out(tmp_path / wrapper, SUBMITTED)
    rows = [(s, a, f.removeprefix(wrapper).strip("/"), p) for s, a, f, p in outcome(tmp_path)]
    assert rows == [
        ("ann", 1, "ann/hw1/hw1.ipynb", "graded"),
        ("bob b", 1, "bob b/hw1/sub/mine.ipynb", "graded"),
        ("cy", 1, "cy/ps/hw1.ipynb", "graded"),
        ("dee", 1, "dee", "There is no notebook (.ipynb) in it."),
    ]
    assert times(tmp_path) == [
        ("ann", datetime(2024, 5, 2, 22, 58, 23, 948203, tzinfo=UTC)),
        ("bob b", datetime(2024, 5, 2, 15, 58, 23, tzinfo=UTC)),
        ("cy", None),
        ("dee", None),
    ]


def test_nbgrader_assignments_that_cannot_be_told_apart(tmp_path):
    files = {f"ann/ps{n}/{name}": b"" for n in (1, 2) for name in ("x.ipynb", "timestamp.txt")}
    lay_out(tmp_path, files)
    assert "holds 2 notebooks" in outcome(tmp_path)[0][3]


def test_a_time_in_one_folder_does_not_make_it_nbgraders(tmp_path):
    """Else a student could date the own work."""
    lay_out(tmp_path, {
        "ann/x/hw1.ipynb": GOOD, "ann/x/timestamp.txt": b"2000-01-01 00:00:00 UTC",
        "bob/hw1.ipynb": GOOD,
    })  # fmt: skip
    assert times(tmp_path) == [("ann", None), ("bob", None)]


def test_exchange_of_nbgrader(tmp_path):
    lay_out(tmp_path, {
        "ann+x+hw1+2024-05-02 15:58:23.948203 UTC+aB_-1/hw1.ipynb": GOOD,
        "ann+x+hw1+2024-05-01 15:58:23.948203 UTC+zz/hw1.ipynb": OLD,
        "ann+x+hw1+2024-05-01 15:58:23.948203 UTC+zz/submission_secret.txt": b"",
        "bob+hw1+2024-05-02 15:58:23 UTC/hw1.ipynb": GOOD,
        "bob+hw2+2024-05-03 15:58:23 UTC/hw2.ipynb": OTHER,
    })  # fmt: skip
    assert graded(tmp_path) == [
        ("ann+x", 1, "ann+x+hw1+2024-05-01 15:58:23.948203 UTC+zz/hw1.ipynb"),
        ("ann+x", 2, "ann+x+hw1+2024-05-02 15:58:23.948203 UTC+aB_-1/hw1.ipynb"),
        ("bob", 1, "bob+hw1+2024-05-02 15:58:23 UTC/hw1.ipynb"),
    ]


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2024-07-01 12:00:00 UTC", 12),
        ("2024-07-01 12:00:00", 12),
        ("2024-07-01 12:00:00.123456000 Z", 12),
        ("2024-07-01 12:00:00 +02:00", 10),
        ("2024-07-01T12:00:00-0700", 19),
        ("2024-07-01 12:00:00 Europe/Berlin", 10),
        ("2024-07-01 12:00:00 America", None),
        ("2024-07-01 12:00:00 ../../etc/passwd", None),
        ("0001-01-01 00:00:00 +23:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times(text, hour):
    time = to_utc(text)
    assert (time and time.hour) == hour
    assert time is None or time.utcoffset().total_seconds() == 0


@pytest.mark.parametrize("wrapper", ["", "hw1-submissions"])
def test_github_classroom(tmp_path, wrapper):
    lay_out(tmp_path / wrapper, {
        "hw1-ada-l/hw1.ipynb": GOOD, "hw1-ada-l/README.md": b"", "hw1-ada-l/.git/x.ipynb": b"",
        "hw1-ada-k/hw1.ipynb": GOOD,
    })  # fmt: skip
    assert [row[0] for row in graded(tmp_path)] == ["ada-k", "ada-l"]


# Groups and the roster.


def test_a_folder_a_group(tmp_path):
    lay_out(tmp_path, {
        "group 1/ada/hw1.ipynb": GOOD, "group 1/bob/x/y.ipynb": GOOD,
        "group 2/cy/hw1.ipynb": GOOD, "group 2/李雷/hw1.zip": ARCHIVE,
    })  # fmt: skip
    assert [row[0] for row in graded(tmp_path)] == ["ada", "bob", "cy", "李雷"]


@pytest.mark.parametrize(
    "files",
    [
        {"g1/ada/hw1.ipynb", "g1/bob/hw1.ipynb", "g2/ada/hw1.ipynb", "g2/cy/hw1.ipynb"},
        {"g1/ada/hw1.ipynb", "g1/bob/hw1.ipynb", "g2/hw1.ipynb"},
        {"g1/ada/hw1.ipynb", "g1/bob/hw1.ipynb", "g2/cy/hw1.ipynb"},
    ],
)
def test_what_may_be_groups_or_students_is_no_guess(tmp_path, files):
    lay_out(tmp_path, dict.fromkeys(files, GOOD))
    rows = outcome(tmp_path)
    assert [row[0] for row in rows] == ["g1", "g2"]
    assert "holds 2 notebooks" in rows[0][3]


def test_a_roster_tells_groups(tmp_path):
    inbox = lay_out(tmp_path / "inbox", {"g1/ada.ipynb": GOOD, "g1/bob.ipynb": GOOD,
                                         "g2/cy.ipynb": GOOD})  # fmt: skip
    assert [row[0] for row in outcome(inbox)] == ["g1", "g2"]
    roster = roster_of(tmp_path, "student\nada\nbob\ncy\n")
    assert [row[0] for row in graded(inbox, roster)] == ["ada", "bob", "cy"]


def test_folders_of_known_students_are_no_groups(tmp_path):
    roster = roster_of(tmp_path, "student\nada\n")
    inbox = lay_out(tmp_path / "inbox", {"ada/v1/hw1.ipynb": OLD, "ada/v2/hw1.ipynb": GOOD})
    (row,) = outcome(inbox, roster)
    assert row[0] == "ada"
    assert "holds 2 notebooks" in row[3]


def test_a_file_named_after_another_student_changes_nothing(tmp_path):
    roster = roster_of(tmp_path, "student\nada\nbob\n")
    inbox = lay_out(tmp_path / "inbox", {"ada/hw1.ipynb": GOOD, "mal/bob.ipynb": GOOD})
    assert [row[0] for row in outcome(inbox, roster)] == ["ada", "mal"]


def test_canvas_with_a_roster(tmp_path):
    """A number that is another one's id elsewhere is not taken for it."""
    text = "\ufeffStudent;Name;canvas_id;group\r\n00334244;Ünal;334244;1\r\n"
    text += '12;"Semi;colon";99;2\r\nx y;Ann;340934;1\r\n\r\n77;Absent;;\r\n'
    roster = roster_of(tmp_path, text)
    inbox = lay_out(tmp_path / "inbox", CANVAS)
    rows = outcome(inbox, roster)
    assert [row[:2] for row in rows if row[3] == "graded"] == [
        ("00334244", 1), ("anon_Ab3xZ", 1), ("anon_Q9rTt", 1), ("x y", 1), ("x y", 2)
    ]  # fmt: skip
    bad = {row[0]: row[3] for row in rows if row[3] != "graded"}
    assert "has another student '12'" in bad["o_neil_12_2101_hw1-3.zip"]
    held = find(inbox, "hw1", roster)
    assert held.missing == ("12", "77")
    assert "anon_Ab3xZ" in held.unknown
    assert [one.name for one in held.found if one.student == "x y"] == ["Ann", "Ann"]
    notes = [one.notes for one in held.found if one.student == "anon_Ab3xZ"]
    assert notes == [("The student is not in the roster.",)]


def test_moodle_with_a_roster(tmp_path):
    text = "student,name,moodle_id\na1,Ann  Smith,\nb1,Bob,\nb2,Bob,5\nc1,Cy,\n"
    inbox = lay_out(tmp_path / "inbox", {
        f"{name}_assignsubmission_file_/hw1.ipynb": GOOD
        for name in ("ANN SMITH_1", "Bob_2", "Bob_5", "Dee_3")
    })  # fmt: skip
    rows = outcome(inbox, roster_of(tmp_path, text))
    assert [(row[0], row[3][:16]) for row in rows] == [
        ("3", "graded"),
        ("Bob_2_assignsubmission_file_/", "Several students"),
        ("a1", "graded"),
        ("b2", "graded"),
    ]


def test_two_of_one_name_of_whom_the_roster_knows_one(tmp_path):
    inbox = lay_out(tmp_path / "inbox", {
        f"Bob_{n}_assignsubmission_file_/hw1.ipynb": GOOD for n in (2, 5)
    })  # fmt: skip
    first, second = outcome(inbox, roster_of(tmp_path, "student,name\nb1,Bob\n"))
    assert "Several files belong to one student" in first[3]
    assert first[3] == second[3]


def test_gradescope_with_a_roster(tmp_path):
    """Number and address have to be of the same student."""
    text = "student,email\n00123,ann@x.org\nbob,BOB@x.org\n0900,cy@y.org\nz,cy@x.org\n"
    rows = outcome(gradescope(tmp_path / "inbox"), roster_of(tmp_path, text))
    assert [(r[0], r[1]) for r in rows if r[3] == "graded"] == [
        ("00123", 1), ("00123", 2), ("bob", 1)
    ]  # fmt: skip
    assert any("two students for it: 0900, z" in row[3] for row in rows)


def test_plain_names_with_a_roster(tmp_path):
    """Accents are written in two ways, and capitals differ from disk to disk."""
    text = "student,name,email\nzoë,Zoë Ünal,\n0042,,Q@x.org\n7,,\n"
    inbox = lay_out(tmp_path / "inbox", {
        "zoe\u0308.ipynb": GOOD, "q@x.org/hw1.ipynb": GOOD, "42.ipynb": GOOD, "7.zip": ARCHIVE
    })  # fmt: skip
    roster = roster_of(tmp_path, text)
    assert [row[0] for row in graded(inbox, roster)] == ["0042", "42", "7", "zoë"]
    held = find(inbox, "hw1", roster)
    assert (held.unknown, held.missing) == (("42",), ())


def test_one_name_written_in_two_ways_is_one_student(tmp_path):
    lay_out(tmp_path, {"zoe\u0308.ipynb": GOOD, "zo\u00eb.ipynb": OLD})
    first, second = outcome(tmp_path)
    assert first[0] == second[0] == "zo\u00eb"
    assert first[3] == second[3] != "graded"


def test_two_entries_of_one_student_by_the_roster(tmp_path):
    inbox = lay_out(tmp_path / "inbox", {"ada.ipynb": GOOD, "Ada Lovelace/hw1.ipynb": OLD})
    rows = outcome(inbox, roster_of(tmp_path, "student,name\nada,Ada Lovelace\n"))
    assert [row[0] for row in rows] == ["ada", "ada"]
    assert all("Several files belong to one student" in row[3] for row in rows)


def test_a_roster_that_knows_nobody(tmp_path):
    inbox = lay_out(tmp_path / "inbox", CANVAS)
    with pytest.raises(RosterError, match="by column canvas_id"):
        find(inbox, "hw1", roster_of(tmp_path, "student\nada\n"))


# Students' zips that pose as exports.


def test_a_zip_of_a_student_is_not_taken_for_a_class(tmp_path):
    forged = zipped({"bob_2_20_hw1.ipynb": GOOD, "cy_3_30_hw1.ipynb": GOOD})
    lay_out(tmp_path, {"mallory.zip": forged, "bob.ipynb": GOOD})
    bob, mallory = outcome(tmp_path)
    assert bob == ("bob", 1, "bob.ipynb", "graded")
    assert mallory[0] == "mallory"
    assert "holds 2 notebooks" in mallory[3]


@pytest.mark.parametrize("data", [ARCHIVE, zipped({"bob_2_20_hw1.ipynb": GOOD})])
def test_the_only_zip_may_be_a_students(tmp_path, data):
    put(tmp_path / "ada.zip", data)
    assert graded(tmp_path) == [("ada", 1, "ada.zip")]


def test_the_only_zip_is_broken(tmp_path):
    put(tmp_path / "ada.zip", b"PK\x03\x04 broken")
    assert "broken" in outcome(tmp_path)[0][3]


def test_class_zip_with_bad_members(tmp_path):
    """Each spoils only its own submission."""
    link = zipfile.ZipInfo("dan_4_40_hw1.ipynb")
    link.external_attr = 0o120777 << 16
    members = {
        "ann_1_10_hw1.ipynb": GOOD,
        "bob_2_20_hw1.zip": b"junk",
        "cy_3_30_hw1.ipynb": b" " * 3 * 2**20,
        link: b"/etc/passwd",
        "../eve_5_50_hw1.ipynb": GOOD,
        "/fay_6_60_hw1.ipynb": GOOD,
        **{f"s{n}_{n + 100}_{n + 900}_hw1.ipynb": GOOD for n in range(9)},
    }
    put(tmp_path / "all.zip", zipped(members))
    found = {row[0]: row[3] for row in outcome(tmp_path)}
    assert found["1"] == "graded"
    assert "broken" in found["2"]
    assert "larger than 1 MiB" in found["3"]
    assert "link" in found["4"]
    assert [found[str(n + 100)] for n in range(9)] == ["graded"] * 9
    left_out = dict(find(tmp_path, "hw1").left_out)
    assert "leads out" in left_out[tmp_path / "all.zip" / "../eve_5_50_hw1.ipynb"]


# Nothing is dropped silently.

WORDS = (
    "ada", "bob", "hw1", "x", "submitted", "a_1_2_hw1", "b_3_4_hw1", "hw1-ada", "0042", "李 (1)",
    "Cy_5_assignsubmission_file_", "d+hw1+2024-01-01 00:00:00 UTC", ".hidden", "__MACOSX",
)  # fmt: skip


def random_inbox(inbox, rng):
    for _ in range(rng.randint(1, 8)):
        parts = rng.choices(WORDS, k=rng.randint(1, 4))
        ending = rng.choice([".ipynb", ".ipynb", ".zip", ".IPYNB", ".txt", "/timestamp.txt"])
        path = inbox.joinpath(*parts[:-1], parts[-1] + ending)
        if not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rng.choice([GOOD, OTHER, ARCHIVE, b""]))
    return inbox


@pytest.mark.parametrize("seed", range(150))
@pytest.mark.parametrize("with_roster", [False, True])
def test_every_notebook_and_zip_is_graded_or_named_with_a_reason(tmp_path, seed, with_roster):
    inbox = random_inbox(tmp_path / "inbox", random.Random(seed))
    roster = roster_of(tmp_path, "student,canvas_id\nada,1\nbob,3\n") if with_roster else None
    try:
        held = find(inbox, "hw1", roster)
    except (EmptyInbox, RosterError):
        return
    named = {one.source for one in held.found if one.file} | {path for path, _ in held.left_out}
    refused = {one.source for one in held.found if one.problem}
    for path in inbox.rglob("*"):
        if path.is_file() and path.suffix.lower() in (".ipynb", ".zip"):
            assert {path, *path.parents} & (named | refused), path
    assert all(reason for _, reason in held.left_out)
    keys = [(one.student, one.attempt) for one in held.found]
    assert keys == sorted(set(keys))


def test_hidden_folders_are_named_but_not_entered(tmp_path):
    lay_out(tmp_path, {"ada/hw1.ipynb": GOOD, "ada/.git/a/x.ipynb": OLD, "ada/._hw1.ipynb": b""})
    assert [path.name for path, _ in find(tmp_path, "hw1").left_out] == ["._hw1.ipynb", ".git"]
    assert graded(tmp_path) == [("ada", 1, "ada/hw1.ipynb")]


def test_names_of_any_bytes(tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in (b"ad\xe9_1_10_hw1.ipynb", b"b_2_20_\n\x1b[31m.ipynb", b"\xff_3_30_\xfe.ipynb"):
        Path(os.fsdecode(os.fsencode(inbox) + b"/" + name)).write_bytes(GOOD)
    rows = outcome(inbox)
    assert [(row[0], row[3]) for row in rows] == [(n, "graded") for n in "123"]


def test_twice_the_same_member_in_a_class_zip(tmp_path):
    data = io.BytesIO(zipped({"ann_1_10_hw1.ipynb": GOOD, "bob_2_20_hw1.ipynb": GOOD}))
    with zipfile.ZipFile(data, "a") as archive, pytest.warns(match="Duplicate"):
        archive.writestr("ann_1_10_hw1.ipynb", OLD)
    put(tmp_path / "all.zip", data.getvalue())
    ann, bob = outcome(tmp_path)
    assert "two files of one name" in ann[3]
    assert bob[3] == "graded"
