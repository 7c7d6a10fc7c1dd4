"""Checkpoints on their way from the inbox to the gradebook: who has which, and what is compared."""

import json
import os
import shutil
from contextlib import closing
from dataclasses import replace

import nbformat
import pytest

from autograder import cli, config
from autograder.checks.core import Verdict
from autograder.config import ConfigError
from autograder.grade import Batch, Crew, Release
from autograder.grade.verify import chosen, compared, doubtful, secret_of
from autograder.gradebook import Gradebook
from autograder.identity import content_of
from autograder.intake import find, read
from autograder.judge import CaseResult, Run, judge, status_of
from tests import tiny
from tests.conftest import REPOSITORY
from tests.inboxes import GOOD, make_pristine, put, zipped

FILES = {"checkpoints/Net-1a2b.safetensors": b"weights", "checkpoints/Net-1a2b.json": b"{}"}
KEPT = {"Net-1a2b.safetensors": b"weights", "Net-1a2b.json": b"{}"}


# The inbox.


def only(inbox, max_mib=1.0, checkpoints=True):
    (found,) = find(inbox, "hw1").found
    return read(found, make_pristine(), max_mib, checkpoints=checkpoints)


def folder(tmp_path, files, student="ada"):
    for name, data in files.items():
        put(tmp_path / student / name, data)
    return tmp_path


def test_a_zip_brings_its_checkpoints(tmp_path):
    put(tmp_path / "ada.zip", zipped({"hw1.ipynb": GOOD, **FILES}))
    one = only(tmp_path)
    assert (one.problem, dict(one.checkpoints), one.notes) == (None, KEPT, ())


@pytest.mark.parametrize("top", ["", "inner/", "a/b/"])
def test_they_lie_beside_the_notebook(tmp_path, top):
    files = {f"{top}{name}": data for name, data in {"hw1.ipynb": GOOD, **FILES}.items()}
    put(tmp_path / "zip" / "ada.zip", zipped(files))
    folder(tmp_path / "folder", files)
    for layout in ("zip", "folder"):
        assert only(tmp_path / layout).checkpoints == KEPT


@pytest.mark.parametrize(
    ("top", "entry"),
    [("", "submission_1/"), ("", "Ada Lovelace_7_assignsubmission_file_/")],
    ids=["gradescope", "moodle"],
)
def test_exports_of_platforms_keep_them(tmp_path, top, entry):
    for name, data in {"hw1.ipynb": GOOD, **FILES}.items():
        put(tmp_path / top / entry / name, data)
    if entry.startswith("submission"):
        about = "submission_1:\n  :submitters:\n  - :sid: ada\n  :created_at: 2026-01-01\n"
        put(tmp_path / "submission_metadata.yml", about.encode())
    assert only(tmp_path).checkpoints == KEPT


def test_a_zip_in_a_folder_brings_its_own(tmp_path):
    files = {"hw1.zip": zipped({"hw1.ipynb": GOOD, **FILES}), "checkpoints/Old-1.json": b"{}"}
    assert only(folder(tmp_path, files)).checkpoints == KEPT


def test_a_notebook_alone_has_none(tmp_path):
    put(tmp_path / "ada.ipynb")
    assert only(tmp_path).checkpoints == {}


def test_all_else_is_left_out_and_told(tmp_path):
    others = {"checkpoints/x.pt": b"", "checkpoints/a b.json": b"", "checkpoints/in/x.json": b"",
              "other/checkpoints/x.json": b"", "torch.py": b"", "x.json": b""}  # fmt: skip
    one = only(folder(tmp_path, {"hw1.ipynb": GOOD, **FILES, **others}))
    assert one.checkpoints == KEPT
    (note,) = one.notes
    assert "torch.py" in note
    assert "and 1 more" in note
    assert "Net-1a2b" not in note


def test_where_networks_are_trained_again_they_are_left_out_and_told(tmp_path):
    files = {"hw1.ipynb": GOOD, **FILES, "checkpoints/Big-1.safetensors": b"0" * 2**21}
    folder(tmp_path / "folder", files)
    put(tmp_path / "zip" / "ada.zip", zipped(files))
    for layout in ("zip", "folder"):
        one = only(tmp_path / layout, checkpoints=False)
        assert (one.problem, one.checkpoints) == (None, {})
        assert one.notes == (
            "The folder checkpoints was left out: the networks are trained again.",
        )


@pytest.mark.parametrize("packed", [True, False])
def test_too_large_ones_are_refused(tmp_path, packed):
    files = {"hw1.ipynb": GOOD, "checkpoints/A-1.json": b"0" * 2**19,
             "checkpoints/A-1.safetensors": b"0" * (2**19 + 1)}  # fmt: skip
    if packed:
        put(tmp_path / "ada.zip", zipped(files))
    else:
        folder(tmp_path, files)
    problem = only(tmp_path).problem
    assert problem.startswith("The files of checkpoints are larger than 1 MiB together.")
    assert "run the training cells once more" in problem


def test_a_link_is_refused(tmp_path):
    secret = put(tmp_path / "secret.json", b"secret")
    inbox = folder(tmp_path / "inbox", {"hw1.ipynb": GOOD, **FILES})
    (inbox / "ada" / "checkpoints" / "Link-1.json").symlink_to(secret)
    one = only(inbox)
    assert one.problem == "Link-1.json is a link. Hand in the file itself."
    assert one.checkpoints == {}


def test_a_folder_that_is_a_link_is_not_followed_and_told(tmp_path):
    inbox = folder(tmp_path / "inbox", {"hw1.ipynb": GOOD})
    folder(tmp_path, FILES, "secret")
    (inbox / "ada" / "checkpoints").symlink_to(tmp_path / "secret" / "checkpoints")
    assert only(inbox).checkpoints == {}
    (left_out,) = find(inbox, "hw1").left_out
    assert "is a link" in left_out[1]


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    inbox = folder(tmp_path, {"hw1.ipynb": GOOD, **FILES})
    os.mkfifo(inbox / "ada" / "checkpoints" / "Pipe-1.json")
    assert "not a regular file" in only(inbox).problem


def test_a_zip_whose_names_lead_out_is_refused(tmp_path):
    put(tmp_path / "ada.zip", zipped({"hw1.ipynb": GOOD, "../checkpoints/Net-1.json": b""}))
    assert "leads out of it" in only(tmp_path).problem


def test_the_files_are_part_of_what_was_handed_in(tmp_path):
    seen = set()
    for number, files in enumerate((
        {}, FILES, {**FILES, "checkpoints/Net-1a2b.json": b"[]"},
        {"checkpoints/Net-1a2c.safetensors": b"weights", "checkpoints/Net-1a2b.json": b"{}"},
    )):  # fmt: skip
        one = only(folder(tmp_path / str(number), {"hw1.ipynb": GOOD, **files}))
        seen.add((one.sha256, content_of(one.notebook, one.checkpoints)))
    assert len({sha for sha, _ in seen}) == len({content for _, content in seen}) == 4


# The batch.

UNANSWERED = {"stopped": {"kind": "not_answered", "rationale": "f is not defined.", "hint": ""}}


class Pool(tiny.FakePool):
    """Loads what is there, or trains; a cell says what training gives as "again"."""

    def run(self, job, on_event):
        settings = job / "kit" / "training" / "checkpoints.json"
        cells = json.loads((job / "notebook.ipynb").read_text())["cells"]
        (answer,) = ["".join(c["source"]) for c in cells if c["id"] == f"{tiny.NAME}-answer"]
        wanted = json.loads(answer.partition("# ")[2])
        if not settings.exists():
            self.log.append("trained")
            return tiny.outcome({**wanted, **wanted.get("again", {})})
        asked = {"assignment": tiny.NAME, "mode": "load", "samples": 0}
        assert json.loads(settings.read_text()) == asked
        self.log.append("loaded")
        if not (job / "checkpoints" / "Net-1a2b.safetensors").exists():
            error = (
                "CheckpointError: No checkpoint for Net (43 parameters, 2 epochs): x is missing."
            )
            left = tiny.outcome({**wanted, "error": error})
            for event in left.events:
                if event.get("question") == "size" and "evidence" in event:
                    event["evidence"] = UNANSWERED
            return left
        return tiny.outcome(wanted)


@pytest.fixture
def root(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    tiny.make_root(root)
    raw = tiny.settings()
    verify = {"loss": 0.1, "accuracy": 0.05, "samples": 0}
    raw["assignments"][tiny.NAME] |= {"training": "checkpoint", "verify": verify}
    tiny.write_settings(root, raw)
    Pool.log = []
    tiny.use_fakes(monkeypatch, Pool)
    return root


def hand_in(inbox, student, files=FILES, sizes=tiny.RIGHT, code="f = 1", **more):
    for name, data in files.items():
        put(inbox / student / name, data)
    answer = f"{code}\n# {json.dumps({'sizes': sizes, **more})}"
    (inbox / student).mkdir(parents=True, exist_ok=True)
    nbformat.write(tiny.notebook(answer), inbox / student / f"{tiny.NAME}.ipynb")


def grade(root, inbox, fraction=0.0, stop_after=None):
    grading = config.load(root / "grading.yml")
    with (
        closing(Batch(Release.load(tiny.NAME, root), grading, root / "out", fraction)) as batch,
        closing(Crew(grading, 1)) as crew,
    ):
        waiting, _ = batch.pending(find(inbox, tiny.NAME))
        found = {}
        for attempt in batch.run(waiting, crew):
            found[attempt.student] = attempt
            if len(found) == stop_after:
                batch.stop()
        return found


def test_networks_are_loaded_and_nothing_is_trained(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada")
    attempt = grade(root, tmp_path / "inbox")["ada"]
    assert (attempt.status, attempt.points("shape")) == ("graded", 4)
    assert Pool.log == ["loaded"]


def test_a_missing_checkpoint_is_no_zero_and_needs_a_person(root, tmp_path, capsys):
    hand_in(tmp_path / "inbox", "ada", files={})
    command = tiny.command(root, tmp_path / "inbox", root / "out")
    assert cli.main(command) == 1
    told = capsys.readouterr().out.partition("Needs a person:")[2]
    assert "partial (1)" in told
    assert "ada: size: No checkpoint for Net (43 parameters, 2 epochs): x is missing." in told
    (row,) = tiny.table(root / "out").splitlines()[1:]
    assert row.startswith("ada,4,,,0,0,,7,why,partial,")  # no points of size, and no total
    assert cli.main(command) == 1  # and is not forgotten
    assert Pool.log == ["loaded"]


def test_a_network_that_was_made_but_got_no_weights_fails_nothing():
    grading = config.Config.model_validate(tiny.settings()).assignment(tiny.NAME)
    events = tiny.outcome({"sizes": [1, 1]}).events
    records = [{k: e[k] for k in ("question", "case", "check", "evidence")}
               for e in events if e["event"] == "evidence"]  # fmt: skip
    run = Run(records, {"size": "CheckpointError: gone"}, {}, unloaded="gone")
    assert {r.verdict.status for r in judge(grading, run) if r.question == "size"} == {"not_run"}
    assert status_of(judge(grading, run), run) == ("partial", "size: gone")


def test_the_same_code_with_other_weights_is_no_twin(root, tmp_path):
    other = {**FILES, "checkpoints/Net-1a2b.safetensors": b"others"}
    for student, files in (("ada", FILES), ("bob", other), ("cyd", FILES)):
        hand_in(tmp_path / "inbox", student, files)
    contents = {s: a.content for s, a in grade(root, tmp_path / "inbox").items()}
    assert Pool.log == ["loaded"] * 2
    assert contents["ada"] == contents["cyd"] != contents["bob"]


def test_other_weights_of_the_same_student_are_graded_anew(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada")
    grade(root, tmp_path / "inbox")
    assert grade(root, tmp_path / "inbox") == {}
    hand_in(tmp_path / "inbox", "ada", {**FILES, "checkpoints/Net-1a2b.json": b"[]"})
    assert list(grade(root, tmp_path / "inbox")) == ["ada"]


# A second run, with training.


def test_one_that_agrees_is_graded(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada")
    attempt = grade(root, tmp_path / "inbox", 1.0)["ada"]
    assert Pool.log == ["loaded", "trained"]
    assert (attempt.status, attempt.reason) == ("graded", "")


def test_one_that_differs_is_flagged_in_words_and_stays_so(root, tmp_path, capsys):
    hand_in(tmp_path / "inbox", "ada", again={"sizes": [14, 8]})
    command = tiny.command(root, tmp_path / "inbox", root / "out", "--verify-fraction", "1")
    assert cli.main(command) == 1
    told = capsys.readouterr().out
    assert "flagged (1)" in told
    assert "Trained again, it differs from its checkpoints." in told
    assert "size.more: passed by its checkpoint, failed when trained again: " in told
    raw = config.yaml.safe_load((root / "grading.yml").read_text())
    raw["assignments"][tiny.NAME]["questions"]["size"]["checks"]["more"]["points"] = 3
    tiny.write_settings(root, raw)
    assert cli.main(["--root", str(root), "rejudge", str(root / "out")]) == 1
    with closing(Gradebook(root / "out" / "gradebook.sqlite")) as book:
        (attempt,) = book.attempts(tiny.NAME)
    assert attempt.status == "flagged"
    assert "size.more" in attempt.reason


def test_one_without_checkpoints_is_not_trained_again(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada", files={})
    assert grade(root, tmp_path / "inbox", 1.0)["ada"].status == "partial"
    assert Pool.log == ["loaded"]


def test_one_that_lacks_a_checkpoint_which_nobody_misses_is_trained_again(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada", error="CheckpointError: x", again={"sizes": [14, 8]})
    attempt = grade(root, tmp_path / "inbox", 1.0)["ada"]
    assert Pool.log == ["loaded", "trained"]
    assert attempt.status == "flagged"


def test_what_a_second_run_finds_is_not_hidden_by_a_run_that_ended_early(root):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    for run in (Run([], {}, {}, ended="died"), Run([], {}, {}, stopped="too long", unloaded="x")):
        assert status_of(judge(assignment, run), run)[0] == "partial"
        told = replace(run, unlike="it differs")
        assert status_of(judge(assignment, told), told) == ("flagged", "it differs")


def test_cases_without_checkpoint_are_no_difference(root):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    records = run_of_tiny([1, 1])
    lacking = Run(records, {"size": "CheckpointError: gone"}, {}, unloaded="gone")
    assert compared(assignment, lacking, Run(run_of_tiny(tiny.RIGHT), {}, {})).unlike == ""


def run_of_tiny(sizes):
    events = tiny.outcome({"sizes": sizes}).events
    return [{k: e[k] for k in ("question", "case", "check", "evidence")}
            for e in events if e["event"] == "evidence"]  # fmt: skip


def test_code_that_tampers_only_where_networks_are_trained_is_flagged(root):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    run = Run(run_of_tiny(tiny.RIGHT), {}, {})
    for again in (replace(run, tampered=["a check"]), replace(run, refused=1)):
        assert "only in the second run" in compared(assignment, run, again).unlike


def test_who_would_lose_points_by_a_checkpoint_is_trained_again_whatever_the_fraction(
    root, tmp_path, monkeypatch
):
    monkeypatch.setattr("autograder.grade.grader.doubtful", lambda *_: True)
    hand_in(tmp_path / "inbox", "ada", again={"sizes": [14, 8]})
    assert grade(root, tmp_path / "inbox")["ada"].status == "flagged"


@pytest.mark.parametrize(
    ("question", "status", "expected"),
    [("training", "failed", True), ("training", "passed", False), ("training", "not_run", False),
     ("cnn", "failed", False)],
)  # fmt: skip
def test_only_failures_of_a_question_with_a_training_are_in_doubt(question, status, expected):
    assignment = config.load(REPOSITORY / "grading.yml").assignment("cnn_vs_fnn")
    result = CaseResult(question, "any", False, 0, 1, Verdict(status, ""))
    assert doubtful(assignment, [result]) == expected


def test_the_secret_is_drawn_once_for_a_folder(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, other = map(secret_of, folders)
    assert len(first) == 32
    assert first == secret_of(folders[0]) != other
    (folders[0] / "verify.key").write_text("")  # it was stopped before it was written
    assert len(secret_of(folders[0])) == 32


def test_a_second_run_that_fails_for_our_reasons_is_run_again(root, tmp_path):
    hand_in(tmp_path / "inbox", "ada", again={"ended": "infrastructure"})
    attempt = grade(root, tmp_path / "inbox", 1.0)["ada"]
    assert attempt.status == "infrastructure"
    assert attempt.reason.startswith("Trained again, it ended: ")
    assert list(grade(root, tmp_path / "inbox", 0.0)) == ["ada"]


def test_a_tenth_is_chosen_always_the_same_and_by_the_secret():
    contents = [f"{number:016x}" for number in range(4000)]
    first = [chosen(content, "a", 0.1) for content in contents]
    assert 320 < sum(first) < 480  # 400, and four standard deviations
    assert first == [chosen(content, "a", 0.1) for content in contents]
    assert first != [chosen(content, "b", 0.1) for content in contents]
    more = [chosen(content, "a", 0.3) for content in contents]
    assert all(b for a, b in zip(first, more, strict=True) if a)
    assert all(chosen(c, "a", 1.0) and not chosen(c, "a", 0.0) for c in contents)


def test_a_stopped_batch_trains_the_same_ones_again(root, tmp_path):
    for number in range(12):
        hand_in(tmp_path / "inbox", f"s{number}", code=f"f = {number}")
    grade(root, tmp_path / "inbox", 0.5)
    undisturbed = sorted(Pool.log)
    secret = (root / "out" / "verify.key").read_bytes()
    shutil.rmtree(root / "out")
    put(root / "out" / "verify.key", secret)
    Pool.log.clear()
    first = grade(root, tmp_path / "inbox", 0.5, stop_after=4)
    second = grade(root, tmp_path / "inbox", 0.5)
    assert 4 <= len(first) < 12
    assert first.keys().isdisjoint(second)
    assert sorted(Pool.log) == undisturbed
    assert undisturbed.count("loaded") == 12
    assert 0 < undisturbed.count("trained") < 12


def test_identical_submissions_are_trained_again_once(root, tmp_path):
    for student in ("ada", "bob"):
        hand_in(tmp_path / "inbox", student)
    attempts = grade(root, tmp_path / "inbox", 1.0)
    assert Pool.log == ["loaded", "trained"]
    assert {a.status for a in attempts.values()} == {"graded"}


LEARNED = {"guessing": 1.1, "losses": [1.0, 0.30], "unchanged": [], "recorded": 0.9, "now": 0.9}


def trained(**changes):
    record = {"question": "q", "case": "c", "check": "learned", "evidence": {**LEARNED, **changes}}
    return Run([record], {}, {})


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ({}, ""),
        ({"losses": [1.1, 0.40]}, ""),
        ({"recorded": 0.86}, ""),
        ({"losses": [1.0, 0.41]}, "the last training loss is 0.3, 0.41 when trained again, from 1"),
        ({"recorded": 0.84}, "q.c: the validation accuracy is 0.900, 0.840 when trained again."),
    ],
)
def test_losses_and_accuracies_may_differ_by_the_tolerances(root, again, expected):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    assert expected in (told := compared(assignment, trained(), trained(**again)).unlike)
    assert bool(told) == bool(expected)


@pytest.mark.parametrize("broken", [{"losses": []}, {"losses": ["x"]}, {"recorded": None}])
def test_records_that_no_check_makes_do_not_stop_the_batch(root, broken):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    assert compared(assignment, trained(**broken), trained()).unlike == ""


def test_many_differences_are_cut_short(root):
    assignment = config.load(root / "grading.yml").assignment(tiny.NAME)
    many = [replace_case(trained(recorded=0.1), number) for number in range(9)]
    few = [replace_case(trained(), number) for number in range(9)]
    told = compared(assignment, joined(few), joined(many)).unlike
    assert told.endswith("And 5 more.")


def replace_case(run, number):
    return replace(run, records=[{**run.records[0], "case": f"c{number}"}])


def joined(runs):
    return Run([record for run in runs for record in run.records], {}, {})


@pytest.mark.parametrize("fraction", ["-0.1", "1.5", "nan"])
def test_a_fraction_is_from_0_to_1(root, tmp_path, capsys, fraction):
    hand_in(tmp_path / "inbox", "ada")
    command = tiny.command(root, tmp_path / "inbox", root / "out")
    assert cli.main([*command, f"--verify-fraction={fraction}"]) == 2
    assert "--verify-fraction: from 0 to 1" in capsys.readouterr().err


def test_the_option_is_refused_where_all_are_trained_again(root, tmp_path, capsys):
    tiny.write_settings(root, tiny.settings())
    hand_in(tmp_path / "inbox", "ada")
    command = tiny.command(root, tmp_path / "inbox", root / "out", "--verify-fraction", "0.1")
    assert cli.main(command) == 2
    assert "tiny has training: rerun in grading.yml" in capsys.readouterr().err


def test_the_dry_run_knows_checkpoints(root, tmp_path, capsys):
    hand_in(tmp_path / "inbox", "ada", {"checkpoints/A-1.json": b"0" * 2**20})
    raw = config.yaml.safe_load((root / "grading.yml").read_text())
    raw["limits"]["submission_mib"] = 0.5
    tiny.write_settings(root, raw)
    command = ["--root", str(root), "grade", tiny.NAME, str(tmp_path / "inbox"), "--dry-run"]
    assert cli.main(command) == 1
    assert "larger than 0.5 MiB together" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"training": "load"}, "training: input should be 'rerun' or 'checkpoint'"),
        ({"training": "checkpoint"}, "training: checkpoint needs verify"),
        (
            {"verify": {"loss": 0.1, "accurcy": 1}},
            "verify.accurcy: unknown key; allowed here: loss",
        ),
        (
            {"verify": {"loss": 0, "accuracy": 1, "samples": 0}},
            "verify.loss: input should be greater than 0",
        ),
    ],
)
def test_settings_that_make_no_sense_are_told(tmp_path, change, expected):
    raw = tiny.settings()
    raw["assignments"][tiny.NAME] |= change
    with pytest.raises(ConfigError) as caught:
        tiny.write_settings(tmp_path, raw)
    assert expected in str(caught.value)
