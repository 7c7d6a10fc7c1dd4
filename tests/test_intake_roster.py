"""The roster: what is read from it, and what is wrong with it in words."""

import pytest

from autograder.intake import Roster, RosterError


def load(tmp_path, data):
    path = tmp_path / "roster.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return Roster.load(path)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_ids_stay_text(tmp_path, mark):
    rows = [("Student ", "NAME"), ("007", '"O\'Neil, ""Z"" ;\t"'), ("7", ""), ("=cmd()", "李雷")]
    roster = load(tmp_path, "\ufeff" + "\r\n".join(mark.join(row) for row in rows) + "\r\n\r\n")
    assert roster.names == {"007": 'O\'Neil, "Z" ;', "7": "", "=cmd()": "李雷"}


def test_match(tmp_path):
    roster = load(tmp_path, "student,email,name\nann,A@x.org,Zoë U\nbob,b@x.org,Zoe\u0308 U\n")
    assert roster.match([("student", "ANN ")]).student == "ann"
    assert roster.match([("student", "nobody"), ("email", "a@X.org")]).student == "ann"
    assert roster.match([("canvas_id", "ann")]).student is None
    assert roster.match([("student", "")]).student is None
    assert "Several students" in roster.match([("name", "zoë  u")]).problem
    assert roster.match([("name", "zoë u"), ("email", "b@x.org")]).student == "bob"
    assert "two students for it: ann, bob" in (
        roster.match([("student", "ann"), ("email", "b@x.org")]).problem
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "line 1: expected a header with one column student"),
        ("name\nAnn\n", "line 1: expected a header"),
        ("student,student\na,b\n", "line 1: expected a header"),
        ("student,email,email\na,b,c\n", "line 1: expected a header"),
        ("student,name\na,Ann,x\n", "line 2: 3 columns, not 2"),
        ("student,name\na,Ann\nb\n", "line 3: 1 columns, not 2"),
        ("student,name\n,Ann\n", "line 2: column student is empty"),
        ("student\na\nb\na\n", "line 4: student 'a' is there twice"),
        ("student\nann\nANN\n", "line 3: student 'ANN' is there twice"),
        ("student,canvas_id\na,1\nb,1\n", "line 3: canvas_id '1' is there twice"),
        ('student,name\na,"Ann\nb,Bob\n', "line 3: "),
        ("student\n\n", "lists no students"),
        (b"student\n\xe9\n", "not in UTF-8"),
        (b"PK\x03\x04\xff", "not in UTF-8"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, data, words):
    with pytest.raises(RosterError, match=words) as caught:
        load(tmp_path, data)
    assert "roster.csv" in str(caught.value)


def test_no_such_file(tmp_path):
    with pytest.raises(RosterError, match="can't be read: No such file"):
        Roster.load(tmp_path / "roster.csv")
