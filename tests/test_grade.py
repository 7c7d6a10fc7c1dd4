"""The batch, end to end, with a real release and real processes."""

import csv
import shutil
import zipfile
from contextlib import closing

import nbformat
import pytest

from autograder import cli, config, release
from autograder.grade import Batch, Crew, Release, ReleaseMissing, file_stem, rejudge, run_of
from autograder.intake import find
from autograder.judge import judge, status_of
from autograder.sandbox import Outcome
from tests.conftest import NAME

CELL_S = 25.0  # the longest honest cell, a training, takes a few seconds


def solved(root):
    path = root / "dist" / NAME / "autograder" / f"{NAME}.ipynb"
    return nbformat.read(path, as_version=4)


def answer(notebook, cell_id, source):
    (cell,) = [c for c in notebook.cells if c.id == cell_id]
    cell.source = source


def changed(root, **sources):
    """The solved notebook with answer cells replaced; `conv_size` stands for its first answer."""
    notebook = solved(root)
    for question, source in sources.items():
        answer(notebook, f"{NAME}-{question}-answer-1", source)
    return notebook


def then(root, question, code):
    """The solved notebook with `code` after a question's own answer."""
    notebook = solved(root)
    (cell,) = [c for c in notebook.cells if c.id == f"{NAME}-{question}-answer-1"]
    cell.source += f"\n{code}"
    return notebook


def without_ids(notebook):
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {"id": f"colab{number}"}
        cell.id = f"c{number}"
    del notebook.metadata["otter"]
    return notebook


def shuffled_and_cut(notebook):
    """Check cells deleted, an answer moved to the end, a given cell edited."""
    cells = [c for c in notebook.cells if not c.id.endswith("-check-1")]
    moved = [c for c in cells if c.id == f"{NAME}-conv_size-answer-1"]
    notebook.cells = [c for c in cells if c not in moved] + moved
    for cell in notebook.cells:
        if cell.id == f"{NAME}-training-given-1":
            cell.source = cell.source.replace("epochs=8", "epochs=1")
    return notebook


SUBMISSIONS = {
    "dies": lambda r: then(r, "global_pool", "import os; os._exit(3)"),
    "hangs": lambda r: then(r, "pool_size", "while True: pass"),
    "hostile names": lambda r: then(
        r, "conv_size", "list = [1]; print = 3; max = any = all = isinstance = None"
    ),
    "leaves the folder": lambda r: then(r, "conv_size", "import os, shutil; os.chdir('/')"),
    "wrong cell": lambda r: changed(r, count="def count_parameters(model):\n    retrun 1"),
    "exits": lambda r: then(r, "conv_size", "import sys; sys.exit()"),
    "colab": lambda r: without_ids(solved(r)),
    "shuffled": lambda r: shuffled_and_cut(solved(r)),
    "equals all": lambda r: changed(
        r,
        conv_size="class Any:\n    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n"
        "def conv_output_size(*a): return Any()",
        pool_size=(
            "def pool_output_size(size, kernel, stride=None, padding=0):\n"
            "    return (size + 2 * padding - kernel) // (stride or kernel) + 1"
        ),
    ),
    "looks for labels": lambda r: then(
        r, "conv_size", 'from autograder.data import hidden_labels\nhidden_labels("digits")'
    ),
    "downloads": lambda r: changed(
        r,
        training="from autograder.data.mnist import DownloadFailed\n"
        "raise DownloadFailed('Full MNIST could not be loaded.')",
    ),
    "twice": lambda r: then(
        r,
        "cnn",
        "from autograder.checks import core\n"
        "class CNN(CNN):\n"
        "    def forward(self, images):\n"
        "        if core._sink is not None:\n"
        "            core._sink({'question': 'fnn', 'case': 'logits', 'check': 'logits', "
        "'evidence': {'smallest': -9.0, 'largest': 9.0, 'row_sum_error': 3.0}})\n"
        "        return super().forward(images)",
    ),
}


@pytest.fixture(scope="module")
def graded(release_root, tmp_path_factory, grading):
    """All submissions graded in one batch; attempts by student."""
    inbox, out = tmp_path_factory.mktemp("inbox"), tmp_path_factory.mktemp("out")
    for student, make in SUBMISSIONS.items():
        nbformat.write(make(release_root), inbox / f"{student}.ipynb")
    nbformat.write(solved(release_root), inbox / "hw (1) [ü]+.ipynb")
    with zipfile.ZipFile(inbox / "zipped.zip", "w") as archive:
        archive.writestr(f"{NAME}.ipynb", nbformat.writes(solved(release_root)))
        archive.writestr("torch.py", "raise RuntimeError")
    (inbox / "empty.ipynb").write_text("")
    (inbox / "page.ipynb").write_text("<!doctype html><html>Sign in</html>")
    limits = grading.limits.model_copy(update={"cell_s": CELL_S, "notebook_s": 120.0})
    settings = grading.model_copy(update={"limits": limits})
    batch = Batch(Release.load(NAME, release_root), settings, out)
    new, done = batch.pending(find(inbox, NAME))
    assert done == 0
    with closing(Crew(settings, 2)) as crew:
        attempts = {a.student: a for a in batch.run(new, crew)}
    yield batch, inbox, attempts
    batch.close()


def points(attempt, assignment):
    return {n: attempt.points(n) for n, q in assignment.questions.items() if not q.manual}


def full(assignment, **less):
    best = {n: q.possible for n, q in assignment.questions.items() if not q.manual}
    return {**best, **less}


@pytest.mark.parametrize(
    "student",
    ["hw (1) [ü]+", "zipped", "colab", "shuffled", "hostile names", "leaves the folder", "exits"],
)
def test_right_answers_get_full_marks_whatever_the_file_looks_like(graded, grading, student):
    attempt = graded[2][student]
    assert (attempt.status, attempt.reason) == ("graded", "")
    assert points(attempt, grading.assignment(NAME)) == full(grading.assignment(NAME))


def test_corrections_are_told(graded):
    assert any("put back" in note for note in graded[2]["shuffled"].notes)
    assert any("torch.py" in note for note in graded[2]["zipped"].notes)


def test_a_dead_kernel_costs_only_what_comes_after_it(graded, grading):
    attempt = graded[2]["dies"]
    got = points(attempt, grading.assignment(NAME))
    assert attempt.status == "partial"
    assert "exit status 3" in attempt.reason
    assert (got["conv_size"], got["pool_size"], got["global_pool"], got["cnn"]) == (3, 2, 0, 0)


def test_an_endless_loop_costs_its_question_only(graded, grading):
    attempt = graded[2]["hangs"]
    got = points(attempt, grading.assignment(NAME))
    # The function was defined before the loop began, so even that question is answered.
    assert got == full(grading.assignment(NAME))


def test_a_cell_that_fails_is_quoted(graded, grading):
    attempt = graded[2]["wrong cell"]
    assert points(attempt, grading.assignment(NAME)) == full(grading.assignment(NAME), count=0)
    told = [r.verdict for r in attempt.results if r.question == "count"]
    assert {v.status for v in told} == {"not_answered"}
    assert "SyntaxError" in told[0].rationale


def test_an_object_that_equals_everything_gains_nothing(graded, grading):
    got = points(graded[2]["equals all"], grading.assignment(NAME))
    assert got == full(grading.assignment(NAME), conv_size=0)


def test_hidden_labels_are_not_beside_the_student(graded, grading):
    """The cell fails for want of the file; its question was answered before."""
    attempt = graded[2]["looks for labels"]
    assert points(attempt, grading.assignment(NAME)) == full(grading.assignment(NAME))
    graded[0].executed.publish(attempt)
    executed = (graded[0].folder / "executed" / f"{file_stem(attempt.student)}.ipynb").read_text()
    assert "DataUnavailable" in executed
    (predicted,) = [r["evidence"] for r in attempt.records if r["case"] == "cnn_accuracy"]
    assert predicted.keys() == {"classes", "dataset", "split"}
    assert len(predicted["classes"][0]) == 1000


def test_a_failed_download_is_not_the_students_fault(graded):
    attempt = graded[2]["downloads"]
    assert attempt.status == "infrastructure"
    assert "could not be loaded" in attempt.reason
    assert attempt.points("training") is None
    assert attempt.points("cnn") == 9


def test_evidence_that_comes_twice_is_flagged_and_not_scored(graded):
    attempt = graded[2]["twice"]
    assert attempt.status == "flagged"
    assert "evidence that no check has sent" in attempt.reason
    assert attempt.points("fnn") is None
    assert attempt.points("cnn") == 9


def test_unusable_files_are_invalid_and_the_batch_goes_on(graded):
    empty, page = graded[2]["empty"], graded[2]["page"]
    assert empty.status == page.status == "invalid"
    assert "empty" in empty.reason
    assert "web page" in page.reason
    assert empty.points("cnn") is None


def test_a_second_run_repeats_only_what_needs_it(graded):
    batch, inbox, attempts = graded
    new, done = batch.pending(find(inbox, NAME))
    assert {s.student for s in new} == {"twice", "downloads"}
    assert done == len(attempts) - 2


def test_the_gradebook_holds_what_was_graded(graded):
    batch, _, attempts = graded
    assert {a.student: a for a in batch.gradebook.attempts(NAME)} == attempts


def test_judging_again_without_a_change_reproduces_every_real_attempt(graded):
    batch, _, attempts = graded
    done = rejudge(batch.gradebook, batch.terms, batch.assignment)
    assert (done.changes, done.unknown) == ([], [])
    assert done.count == sum(a.run is not None for a in attempts.values()) > 10
    assert {a.student: a for a in batch.gradebook.attempts(NAME)} == attempts


def test_identical_notebooks_run_once(graded):
    """Among others one in a zip and one from Colab: the code is the same."""
    attempts = graded[2]
    same = [a for a in attempts.values() if a.content == attempts["zipped"].content]
    assert {a.student for a in same} >= {"zipped", "hw (1) [ü]+", "colab"}
    assert [a.wall_s > 0 for a in same].count(True) == 1
    assert len({a.results for a in same}) == 1
    assert len({a.notes for a in same}) > 1


def inbox_of(tmp_path, notebook):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    nbformat.write(notebook, inbox / "ada.ipynb")
    return inbox


def test_no_release_says_what_to_do(tmp_path):
    with pytest.raises(ReleaseMissing, match="autograder build cnn_vs_fnn"):
        Release.load(NAME, tmp_path)


def test_missing_hidden_images_are_infrastructure(release_root, tmp_path, grading):
    built = Release.load(NAME, release_root)
    del built.files["hidden_digits.npz"]
    inbox = find(inbox_of(tmp_path, solved(release_root)), NAME)
    out = tmp_path / "out"
    with closing(Batch(built, grading, out)) as batch, closing(Crew(grading, 1)) as crew:
        (attempt,) = batch.run(batch.pending(inbox)[0], crew)
    assert attempt.status == "infrastructure"
    assert attempt.points("training") is None
    assert attempt.points("cnn") == 9


def test_names_become_safe_and_different_file_names():
    names = ["ada", "../x", "..x", "a/b", "a b", "a_b", "ü", "=1", ""]
    stems = [file_stem(n) for n in names]
    assert len(set(stems)) == len(names)
    assert stems[0] == "ada"
    for stem in stems:
        assert "/" not in stem
        assert not stem.startswith(".")


def test_events_become_a_run():
    events = [
        {"event": "cell", "index": 3, "id": "x", "question": "q"},
        {"event": "cell_done", "index": 3, "error": "NameError: x", "line": "y = x"},
        {"event": "cell", "index": 4, "id": "y", "question": None},
        {"event": "cell_done", "index": 4, "error": "ValueError", "line": None},
        {"event": "evidence", "question": "q", "case": "c", "check": "k", "evidence": {"a": 1}},
        {"event": "question_done", "question": "q", "error": "stopped after 3 s"},
    ]
    run = run_of(Outcome("died", "killed by signal 9", events, 1.0, 1.0, 1.0, 0))
    assert list(run.records) == [{"question": "q", "case": "c", "check": "k", "evidence": {"a": 1}}]
    assert run.cell_errors == {"q": "NameError: x (line: y = x)"}
    assert "stopped after 3 s" in run.stops["q"]
    assert run.ended == "killed by signal 9"
    assert not run.infrastructure


def test_the_command_writes_table_pages_and_exit_status(release_root, tmp_path, capsys):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    nbformat.write(changed(release_root, cnn="CNN = None"), inbox / "ada.ipynb")
    command = ["--root", str(release_root), "grade", NAME, str(inbox), "--out", str(tmp_path / "o")]
    assert cli.main([*command, "--workers", "1"]) == 0
    assert "1/1 ada: graded" in capsys.readouterr().out
    (inbox / "bob.ipynb").write_text("{")
    assert cli.main(command) == 1
    seen = capsys.readouterr().out
    assert "1 submissions were graded before" in seen
    folder = tmp_path / "o" / NAME
    with (folder / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {r["student"]: r for r in csv.DictReader(file)}
    assert rows["ada"]["cnn"] == "0"
    assert rows["bob"]["total"] == ""
    pages = {"ada.html", "ada.notebook.html", "bob.html"}
    assert {p.name for p in (folder / "feedback").iterdir()} == pages


def test_lines_that_are_no_events_are_flagged(grading):
    assignment = grading.assignment(NAME)
    run = run_of(Outcome("finished", "", [], 1.0, 1.0, 1.0, refused=2))
    status, reason = status_of(judge(assignment, run), run)
    assert status == "flagged"
    assert "2 lines" in reason


def edited(release_root, tmp_path, old, new):
    root = tmp_path / "copy"
    shutil.copytree(release_root, root)
    path = root / "grading.yml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    return root


def test_an_outdated_release_is_not_graded_with(release_root, tmp_path, capsys):
    """Other images would be shown to the network than grading.yml says."""
    root = edited(release_root, tmp_path, "batches: [1, 2, 7]", "batches: [1, 2, 5]")
    assert cli.main(["--root", str(root), "grade", NAME, str(root), "--out", str(root / "o")]) == 2
    error = capsys.readouterr().err
    assert "outdated" in error
    assert "autograder build cnn_vs_fnn" in error


@pytest.mark.parametrize(
    ("old", "new"),
    [("logits: {points: 1", "logits: {points: 3"), ("largest: 25000", "largest: 30000")],
)
def test_points_and_thresholds_do_not_make_a_release_outdated(release_root, tmp_path, old, new):
    root = edited(release_root, tmp_path, old, new)
    assert release.changed_since_build(NAME, config.load(root / "grading.yml"), root) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["grade", "cnn", ".", "--out", "o"], "There is no assignment 'cnn'"),
        (["grade", NAME, "absent", "--out", "o"], "is not a folder"),
        (["grade", NAME, ".", "--out", "o", "--workers", "0"], "--workers: at least 1"),
        (["build", "cnn"], "There is no assignment 'cnn'"),
    ],
)
def test_wrong_use_is_one_line_and_status_two(
    release_root, tmp_path, monkeypatch, capsys, arguments, expected
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["--root", str(release_root), *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert len(error.strip().splitlines()) == 1


def test_the_wrong_folder_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["build"]) == 2
    assert "grading.yml: no such file" in capsys.readouterr().err
