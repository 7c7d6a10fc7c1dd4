import hashlib
import io
import json
import os
import stat
import subprocess
import zipfile

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder.intake import EmptyInbox, InboxError, collect
from autograder.notebook import InvalidNotebook, read_notebook
from tests.inboxes import ANSWER, GOOD, encode, make_pristine, make_raw, put, zipped


def gather(inbox, max_mib=1):
    return list(collect(inbox, make_pristine(), max_mib))


def only(inbox, max_mib=1):
    (submission,) = gather(inbox, max_mib)
    return submission


def answer_of(submission):
    assert submission.problem is None
    nbformat.validate(submission.notebook)
    return next(cell.source for cell in submission.notebook.cells if cell.id == "q1")


def read(data):
    notebook, notes = read_notebook(data)
    nbformat.validate(notebook)
    return notebook, notes


# The inbox.


def test_flat_folder_is_sorted_and_names_stay_as_they_are(tmp_path):
    names = ["0042", "Zoë Ünal", "hw (1)", "a+b [2]", "007", "李雷"]
    for name in names:
        put(tmp_path / f"{name}.ipynb")
    submissions = gather(tmp_path)
    assert [one.student for one in submissions] == sorted(names)
    assert {answer_of(one) for one in submissions} == {ANSWER}
    assert all(one.notes == () for one in submissions)
    assert submissions[0].source == tmp_path / "0042.ipynb"
    assert submissions[0].sha256 == hashlib.sha256(GOOD).hexdigest()


def test_endings_in_capitals_and_zips_count(tmp_path):
    put(tmp_path / "ada.IPYNB")
    archive = zipped({"work/Anything.ipynb": GOOD})
    put(tmp_path / "bob.ZIP", archive)
    ada, bob = gather(tmp_path)
    assert answer_of(ada) == answer_of(bob) == ANSWER
    assert bob.sha256 == hashlib.sha256(archive).hexdigest()


def test_one_folder_a_student_at_any_depth(tmp_path):
    put(tmp_path / "ada" / "x" / "y" / "my work.ipynb")
    put(tmp_path / "bob" / "hand in.zip", zipped({"hw1.ipynb": GOOD}))
    ada, bob = gather(tmp_path)
    assert (ada.student, bob.student) == ("ada", "bob")
    assert answer_of(ada) == answer_of(bob) == ANSWER
    assert ada.source == tmp_path / "ada" / "x" / "y" / "my work.ipynb"


def test_leftovers_of_systems_are_ignored(tmp_path):
    for name in ("._ada.ipynb", ".hidden.ipynb", "__MACOSX/x.ipynb", ".git/x.ipynb", "grades.csv"):
        put(tmp_path / name, b"junk")
    put(tmp_path / "ada" / "work.ipynb")
    for name in ("._work.ipynb", "__MACOSX/work.ipynb", ".ipynb_checkpoints/work.ipynb"):
        put(tmp_path / "ada" / name, b"junk")
    submission = only(tmp_path)
    assert answer_of(submission) == ANSWER
    assert submission.notes == ()


def test_expected_name_wins_and_the_rest_is_named(tmp_path):
    put(tmp_path / "ada" / "hw1.ipynb")
    put(tmp_path / "ada" / "scratch.ipynb", encode(make_raw("net = 0")))
    put(tmp_path / "ada" / "torch.py", b"x = 1")
    submission = only(tmp_path)
    assert answer_of(submission) == ANSWER
    assert submission.notes == ("Only the notebook is graded, left out: scratch.ipynb, torch.py.",)


@pytest.mark.parametrize("names", [("a.ipynb", "b.ipynb"), ("x/hw1.ipynb", "y/hw1.ipynb")])
def test_two_notebooks_that_cannot_be_told_apart(tmp_path, names):
    for name in names:
        put(tmp_path / "ada" / name)
    put(tmp_path / "bob.zip", zipped(dict.fromkeys(names, GOOD)))
    for submission in gather(tmp_path):
        assert submission.notebook is None
        assert "holds 2 notebooks" in submission.problem
        assert names[0] in submission.problem


def test_folder_without_a_notebook(tmp_path):
    (tmp_path / "ada").mkdir()
    submission = only(tmp_path)
    assert "no notebook" in submission.problem
    assert submission.source == tmp_path / "ada"


def test_one_student_twice(tmp_path):
    put(tmp_path / "ada.ipynb")
    put(tmp_path / "ada.zip", zipped({"hw1.ipynb": GOOD}))
    put(tmp_path / "bob.ipynb")
    first, second, bob = gather(tmp_path)
    assert first.problem == second.problem
    assert "ada.ipynb, ada.zip" in first.problem
    assert [first.source.name, second.source.name] == ["ada.ipynb", "ada.zip"]
    assert bob.problem is None


@pytest.mark.parametrize("make", [lambda inbox: None, lambda inbox: put(inbox / "notes.txt")])
def test_empty_inbox(tmp_path, make):
    make(tmp_path)
    with pytest.raises(EmptyInbox, match="holds no notebook"):
        collect(tmp_path, make_pristine(), 1)


def test_missing_inbox(tmp_path):
    with pytest.raises(EmptyInbox, match="not a folder"):
        collect(tmp_path / "nowhere", make_pristine(), 1)


def test_links_are_not_followed(tmp_path):
    target = put(tmp_path / "secret" / "hw1.ipynb")
    inbox = tmp_path / "inbox"
    (inbox / "cleo").mkdir(parents=True)
    (inbox / "ada.ipynb").symlink_to(target)
    (inbox / "bob").symlink_to(target.parent)
    (inbox / "cleo" / "hw1.ipynb").symlink_to(target)
    (inbox / "dan.ipynb").symlink_to(tmp_path / "nowhere")
    problems = [one.problem for one in gather(inbox)]
    assert len(problems) == 4
    assert all("is a link" in problem for problem in problems)


def test_link_to_a_folder_inside_is_not_entered(tmp_path):
    target = put(tmp_path / "secret" / "hw1.ipynb")
    (tmp_path / "inbox" / "ada").mkdir(parents=True)
    (tmp_path / "inbox" / "ada" / "sub").symlink_to(target.parent)
    assert "no notebook" in only(tmp_path / "inbox").problem


def test_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "ada.ipynb")
    assert "not a regular file" in only(tmp_path).problem


@pytest.mark.parametrize("link", ["ada", "ada/x"])
def test_a_folder_that_became_a_link_after_it_was_found(tmp_path, link):
    put(tmp_path / "secret" / "x" / "hw1.ipynb")
    put(tmp_path / "inbox" / "ada" / "x" / "hw1.ipynb")
    submissions = collect(tmp_path / "inbox", make_pristine(), 1)
    (tmp_path / "inbox" / link).rename(tmp_path / "moved")
    target = tmp_path / "secret" / link.removeprefix("ada").strip("/")
    (tmp_path / "inbox" / link).symlink_to(target)
    assert (tmp_path / "inbox" / "ada" / "x" / "hw1.ipynb").is_file()
    assert "can't be opened" in next(submissions).problem


def test_deeply_nested_folders(tmp_path):
    """Deeper than Python's stack, and deeper than a path can be long."""
    put(tmp_path / "bob" / "hw1.ipynb")
    (tmp_path / "ada").mkdir()
    at = os.open(tmp_path / "ada", os.O_RDONLY)
    for _ in range(2100):
        os.mkdir("d", dir_fd=at)
        before, at = at, os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(before)
    os.close(at)
    try:
        ada, bob = gather(tmp_path)
    finally:  # Python's own ways to remove a tree use recursion
        subprocess.run(["rm", "-rf", tmp_path / "ada"], check=True)
    assert "no notebook" in ada.problem
    assert bob.problem is None


def test_thousands_of_files(tmp_path):
    put(tmp_path / "ada" / "hw1.ipynb")
    for number in range(3000):
        (tmp_path / "ada" / f"{number}.ipynb").touch()
    submission = only(tmp_path)
    assert answer_of(submission) == ANSWER
    assert "and 2995 more" in submission.notes[0]


def test_inbox_that_cannot_be_opened(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    put(tmp_path / "ada.ipynb")
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(InboxError, match="Permission denied"):
        collect(tmp_path, make_pristine(), 1)


def test_name_that_is_not_unicode(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/ad\xe9.ipynb")
    with open(path, "wb") as file:
        file.write(b"")
    submission = only(tmp_path)
    assert submission.student == "ad\ufffd"
    submission.problem.encode()


def test_one_broken_file_never_stops_the_batch(tmp_path):
    put(tmp_path / "a.ipynb", b"")
    put(tmp_path / "b.ipynb", b'{"cells": [')
    put(tmp_path / "c.zip", b"PK\x03\x04 broken")
    put(tmp_path / "d.ipynb", b"[" * 200_000)
    put(tmp_path / "e.ipynb")
    *broken, good = gather(tmp_path)
    assert all(one.problem and one.notebook is None and one.notes == () for one in broken)
    assert answer_of(good) == ANSWER


def test_an_unforeseen_error_becomes_a_problem(tmp_path, monkeypatch):
    put(tmp_path / "ada.ipynb")
    monkeypatch.setattr("autograder.intake.reading.restore", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in only(tmp_path).problem


def test_files_are_read_when_asked_for(tmp_path):
    put(tmp_path / "ada.ipynb")
    late = put(tmp_path / "bob.ipynb", b"")
    submissions = collect(tmp_path, make_pristine(), 1)
    assert next(submissions).problem is None
    late.write_bytes(GOOD)
    assert next(submissions).problem is None


def test_size_limit(tmp_path):
    limit = len(GOOD) / 2**20
    put(tmp_path / "ada.ipynb")
    put(tmp_path / "bob.ipynb", GOOD + b" ")
    ada, bob = gather(tmp_path, limit)
    assert ada.problem is None
    assert "larger than" in bob.problem


def test_wrong_assignment(tmp_path):
    notebook = make_raw()
    notebook.metadata.otter.assignment_name = "hw2"
    put(tmp_path / "ada.ipynb", encode(notebook))
    put(tmp_path / "bob.ipynb", encode(new_notebook(cells=[new_code_cell("1")])))
    ada, bob = gather(tmp_path)
    assert "'hw2'" in ada.problem
    assert "'hw1'" in ada.problem
    assert "does not look like assignment 'hw1'" in bob.problem


def test_notes_of_all_steps_are_kept(tmp_path):
    notebook = make_raw()
    del notebook.cells[2]
    data = zipped({"hw1.ipynb": encode(notebook, "cp1252"), "torch.py": b""})
    put(tmp_path / "ada.zip", data)
    left_out, encoding, missing = only(tmp_path).notes
    assert "torch.py" in left_out
    assert "Windows-1252" in encoding
    assert "the check of question q1" in missing


# Zips.


def zip_problem(tmp_path, data, max_mib=1):
    put(tmp_path / "ada.zip", data)
    submission = only(tmp_path, max_mib)
    assert submission.notebook is None
    return submission.problem


@pytest.mark.parametrize("name", ["../hw1.ipynb", "a/../../x", "/etc/x", "..\\x", "C:\\x", "C:x"])
def test_zip_with_a_path_that_leads_out(tmp_path, name):
    assert "leads out" in zip_problem(tmp_path, zipped({"hw1.ipynb": GOOD, name: b""}))


def test_zip_with_a_link(tmp_path):
    link = zipfile.ZipInfo("data")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    assert "link" in zip_problem(tmp_path, zipped({"hw1.ipynb": GOOD, link: b"/etc/passwd"}))


def test_zip_bomb_is_cut_off(tmp_path):
    data = zipped({"hw1.ipynb": b" " * 3 * 2**20})
    assert len(data) < 2**14
    assert "larger than 1 MiB" in zip_problem(tmp_path, data)


def test_zip_that_lies_about_its_size(tmp_path):
    data = zipped({"hw1.ipynb": b" " * 3 * 2**20})
    size = (3 * 2**20).to_bytes(4, "little")
    assert data.count(size) == 2
    lying = data.replace(size, (10).to_bytes(4, "little"))
    assert zip_problem(tmp_path, lying)


def test_large_zip(tmp_path):
    data = zipped({"hw1.ipynb": GOOD, "noise": os.urandom(2**20)}, zipfile.ZIP_STORED)
    assert "larger than" in zip_problem(tmp_path, data)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_methods_without_a_bound_are_refused(tmp_path, compression):
    data = zipped({"hw1.ipynb": GOOD}, compression)
    assert "unusual" in zip_problem(tmp_path, data)


def test_encrypted_zip(tmp_path):
    data = bytearray(zipped({"hw1.ipynb": GOOD}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in zip_problem(tmp_path, bytes(data))


@pytest.mark.parametrize("cut", [0, 10, 60, -30])
def test_broken_zip(tmp_path, cut):
    data = zipped({"hw1.ipynb": GOOD})[:cut]
    assert "broken" in zip_problem(tmp_path, data)


def test_zip_with_a_damaged_member(tmp_path):
    data = zipped({"hw1.ipynb": GOOD}, zipfile.ZIP_STORED).replace(b"net =", b"nut =")
    assert "broken" in zip_problem(tmp_path, data)


def test_zip_with_two_files_of_one_name(tmp_path):
    buffer = io.BytesIO(zipped({"hw1.ipynb": GOOD}))
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(match="Duplicate"):
        archive.writestr("hw1.ipynb", encode(make_raw("net = 0")))
    assert "two files of one name" in zip_problem(tmp_path, buffer.getvalue())


def test_zip_with_very_many_files(tmp_path):
    members = {f"{number}.txt": b"" for number in range(1025)}
    assert "too many files" in zip_problem(tmp_path, zipped({"hw1.ipynb": GOOD, **members}))


def test_zip_without_a_notebook(tmp_path):
    assert "no notebook" in zip_problem(tmp_path, zipped({"hw1.pdf": b"", "x.zip": b""}))


def test_zip_made_on_a_mac_or_on_windows(tmp_path):
    members = {"hw\\hw1.ipynb": GOOD, "__MACOSX/hw/._hw1.ipynb": b"x", "hw\\.DS_Store": b"x"}
    put(tmp_path / "ada.zip", zipped(members))
    submission = only(tmp_path)
    assert answer_of(submission) == ANSWER
    assert submission.notes == ()


def test_zip_with_a_dot_before_each_name(tmp_path):
    put(tmp_path / "ada.zip", zipped({"./hw1.ipynb": GOOD, "./.hidden/x.ipynb": b""}))
    assert answer_of(only(tmp_path)) == ANSWER


def test_nothing_is_written(tmp_path):
    put(tmp_path / "ada.zip", zipped({"work/hw1.ipynb": GOOD}))
    only(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["ada.zip"]


# The bytes of a notebook.


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode_encodings(encoding):
    notebook, notes = read(encode(make_raw(), encoding))
    assert notebook.cells[1].source == ANSWER
    assert notes == []


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_western_encodings_get_a_note(encoding):
    notebook, notes = read(encode(make_raw(), encoding))
    assert notebook.cells[1].source == ANSWER
    assert len(notes) == 1


def test_bytes_that_windows_1252_does_not_know():
    data = GOOD.replace("ö".encode(), b"\x81")
    notebook, notes = read(data)
    assert "Latin-1" in notes[0]
    assert notebook.cells[1].source.startswith("net = 'gr\x81")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (GOOD[:-40], "breaks off"),
        (b'{"cells": [{"source": "x', "breaks off"),
        (b"<!DOCTYPE html><html><title>Sign in</title></html>", "web page"),
        (b"\xef\xbb\xbf\n  <html>", "web page"),
        (b"import torch", "no valid JSON"),
        (b"\x89PNG\r\n\x1a\n\0\0", "no valid JSON"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"[1, 2]", "not a notebook"),
        (b'"text"', "not a notebook"),
        (b"null", "not a notebook"),
        (b'{"name": "x"}', "no list of cells"),
        (b'{"cells": {"a": 1}}', "no list of cells"),
        (b'{"cells": [], "nbformat": 4}', "no cells"),
        (b'{"cells": ["x", 1, null]}', "no cells"),
        (b'{"cells": [1' + b"0" * 5000 + b"]}", "no valid JSON"),
    ],
)
def test_what_is_no_notebook_is_named(data, reason):
    with pytest.raises(InvalidNotebook, match=reason):
        read_notebook(data)


def test_lone_surrogates_are_replaced():
    data = json.dumps(make_raw("x = '\ud83d'; y = '\U0001f600'")).encode()
    notebook, _ = read(data)
    assert notebook.cells[1].source == "x = '\ufffd'; y = '\U0001f600'"
    raw = encode(make_raw("x = '\ud83d'"))
    assert read(raw)[0].cells[1].source == "x = '\ufffd'"


def test_old_format_agrees_with_nbformat():
    notebook = make_raw()
    notebook.cells.append(new_code_cell("1", outputs=[new_output("stream", text="x")]))
    old = nbformat.convert(notebook, 3)
    assert any(cell.cell_type == "heading" for cell in old.worksheets[0].cells)
    data = nbformat.v3.writes_json(old).encode()
    expected = nbformat.convert(nbformat.reader.reads(data.decode()), 4)
    found, notes = read(data)
    assert [(c.cell_type, c.source) for c in found.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ]
    assert "old format" in notes[0]


def test_old_format_with_missing_and_wrong_parts():
    cells = [{"cell_type": "heading", "source": "A\nB", "level": "x"}, {"cell_type": "code"}, 3]
    data = json.dumps({"worksheets": [{"cells": cells}, {}, 7], "metadata": 1}).encode()
    found, _ = read(data)
    assert [(c.cell_type, c.source) for c in found.cells] == [("markdown", "# A B"), ("code", "")]


def test_ids_are_made_unique_with_one_note():
    notebook = make_raw()
    notebook.cells += [new_code_cell("2", id="q1"), new_code_cell("3", id="q1")]
    for bad in ("no spaces", "x" * 65, "", 7, None):
        cell = new_code_cell("4")
        cell["id"] = bad
        notebook.cells.append(cell)
    del notebook.cells[0]["id"]
    found, notes = read(encode(notebook))
    assert len({cell.id for cell in found.cells}) == len(notebook.cells)
    assert found.cells[1].id == "q1"
    assert found.cells[3].metadata.id == "q1"
    assert len(notes) == 1


def test_missing_ids_are_repaired_quietly_and_the_same_every_time():
    notebook = make_raw()
    notebook.nbformat_minor = 0
    for cell in notebook.cells:
        del cell["id"]
    first, notes = read(encode(notebook))
    assert notes == []
    assert first == read(encode(notebook))[0]


def test_id_of_colab_is_taken_from_the_metadata():
    notebook = make_raw()
    for cell in notebook.cells:
        cell.metadata = {"id": cell.pop("id"), "outputId": "x"}
    found, _ = read(encode(notebook))
    assert [cell.id for cell in found.cells] == ["text", "q1", "q1-check"]


def test_id_of_colab_survives_a_new_id_beside_it():
    notebook = make_raw()
    notebook.cells[1].id = "random"
    notebook.cells[1].metadata = {"id": "q1"}
    found, _ = read(encode(notebook))
    assert (found.cells[1].id, found.cells[1].metadata.id) == ("random", "q1")


def test_bare_line_breaks_inside_json_strings_are_accepted():
    found, _ = read(encode(make_raw("a = 1\nb = 2")).replace(b"a = 1\\n", b"a = 1\n"))
    assert found.cells[1].source == "a = 1\nb = 2"


@pytest.mark.parametrize("broken", [None, 3, "x", [1], {"tags": 7, "collapsed": "no", "name": 1}])
def test_metadata_of_a_wrong_type_is_repaired(broken):
    notebook = json.loads(GOOD)
    notebook["metadata"] = broken
    for cell in notebook["cells"]:
        cell["metadata"] = broken
        cell["outputs"] = broken
        cell["execution_count"] = "x"
        cell["attachments"] = broken
    found, _ = read(json.dumps(notebook).encode())
    assert found.cells[1].source == ANSWER
    assert found.metadata == {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
    }


def test_notebook_metadata_is_reduced_to_kernel_and_assignment():
    notebook = make_raw()
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"x": {}}}
    notebook.metadata["kernelspec"] = {"name": "dl-course", "display_name": "DL"}
    found, _ = read(encode(notebook))
    assert sorted(found.metadata) == ["kernelspec", "otter"]
    assert found.metadata.kernelspec.name == "python3"
    assert found.metadata.otter.assignment_name == "hw1"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (["a = 1\n", "b = 2"], "a = 1\nb = 2"),
        ("a", "a"),
        (None, ""),
        (5, ""),
        (["a", 1, "b"], "ab"),
    ],
)
def test_source_in_any_shape(source, text):
    notebook = json.loads(GOOD)
    notebook["cells"][1]["source"] = source
    found, _ = read(json.dumps(notebook).encode())
    assert found.cells[1].source == text


def test_outputs_are_dropped_and_unknown_cell_types_are_text():
    notebook = make_raw()
    notebook.cells[1].outputs = [new_output("stream", text="x")]
    notebook.cells[2].cell_type = "widget"
    found, _ = read(encode(notebook))
    assert found.cells[1].outputs == []
    assert found.cells[2].cell_type == "markdown"
