"""Which attempt counts and what lateness costs, against figures by hand."""

from datetime import datetime

import pytest

from autograder.checks.core import Verdict
from autograder.config import ConfigError, Policy, load
from autograder.gradebook import Attempt
from autograder.judge import CaseResult
from autograder.ledger import Mark
from autograder.policy import differences, grade
from tests.conftest import NAME, REPOSITORY

DUE = datetime.fromisoformat("2026-12-01T23:59:00+01:00")


@pytest.fixture
def assignment(grading):
    """cnn_vs_fnn: 38 points by checks, 4 by a person."""
    return grading.assignment(NAME)


def with_policy(assignment, **settings):
    return assignment.model_copy(update={"policy": Policy(**settings)})


def attempt(assignment, lost=0.0, submitted=None, sha256="sha", status="passed", **more):
    """All points but `lost` ones of the first question's cases."""
    results = [
        CaseResult(name, case, entry.hidden, entry.points, entry.points, Verdict("passed", ""))
        for name, question in assignment.questions.items()
        for case, entry in question.checks.items()
    ]
    first = results[0]
    results[0] = CaseResult(
        first.question, first.case, False, first.points - lost, first.possible, Verdict(status, "")
    )
    return Attempt(
        NAME, "v", "ada", sha256, "ada.ipynb", more.get("kind", "graded"), "", (), tuple(results),
        submitted=submitted,
    )  # fmt: skip


def test_what_waits_for_a_person_is_in_neither_total_nor_possible_points(assignment):
    given = grade(assignment, [attempt(assignment)], {})
    assert (given.total, given.possible, given.unmarked) == (38, 38, ("reflection",))
    marked = grade(
        assignment, [attempt(assignment)], {("sha", "reflection"): Mark(2.5, 4, "clear")}
    )
    assert (marked.total, marked.possible, marked.unmarked) == (40.5, 42, ())
    assert marked.comments == {"reflection": "clear"}


def test_a_mark_belongs_to_the_file_that_was_read(assignment):
    given = grade(assignment, [attempt(assignment)], {("another", "reflection"): Mark(2.5, 4)})
    assert given.unmarked == ("reflection",)


@pytest.mark.parametrize("status", ["not_run", "refused"])
def test_no_total_where_a_question_could_not_be_graded(assignment, status):
    assert grade(assignment, [attempt(assignment, status=status)], {}).total is None


@pytest.mark.parametrize(
    ("submitted", "days"),
    [
        ("2026-12-01T22:59:00+00:00", 0),  # on the minute, in another zone
        ("2026-12-01T23:14:00+00:00", 0),  # within the grace
        ("2026-12-01T23:14:01+00:00", 1),
        ("2026-12-02T22:59:00+00:00", 1),
        ("2026-12-02T22:59:01+00:00", 2),
        ("2026-12-05T12:00:00+00:00", 4),
    ],
)
def test_days_are_counted_from_the_due_date_once_the_grace_is_over(assignment, submitted, days):
    late = with_policy(assignment, due=DUE, grace_min=15, late_percent_per_day=10)
    given = grade(late, [attempt(late, submitted=submitted)], {})
    assert given.late_days == days
    assert given.total == pytest.approx(38 * (1 - days / 10))


def test_points_never_fall_below_zero(assignment):
    late = with_policy(assignment, due=DUE, late_percent_per_day=60)
    given = grade(late, [attempt(late, 1, "2026-12-03T23:00:00+00:00")], {})
    assert (given.late_days, given.deduction, given.total) == (3, 38, 0)


def test_an_extension_moves_the_due_date_of_one_student(assignment):
    more = {"ada": datetime.fromisoformat("2026-12-04T00:00:00+00:00")}
    late = with_policy(assignment, due=DUE, late_percent_per_day=10, extensions=more)
    assert grade(late, [attempt(late, submitted="2026-12-03T00:00:00+00:00")], {}).late_days == 0
    other = with_policy(
        assignment, due=DUE, late_percent_per_day=10, extensions={"bob": more["ada"]}
    )
    assert grade(other, [attempt(other, submitted="2026-12-03T00:00:00+00:00")], {}).late_days == 2


def test_an_unknown_time_is_in_time_and_said_so(assignment):
    late = with_policy(assignment, due=DUE, late_percent_per_day=10)
    given = grade(late, [attempt(late)], {})
    assert given.total == 38
    assert "not known" in given.notes[0]


def test_the_best_attempt_counts_after_what_lateness_costs(assignment):
    best = with_policy(assignment, due=DUE, late_percent_per_day=10, counts="best")
    early = attempt(best, 0.5, "2026-12-01T00:00:00+00:00", "early")
    late = attempt(best, 0, "2026-12-03T00:00:00+00:00", "late")
    assert grade(best, [early, late], {}).attempt is early
    assert grade(best, [late, early], {}).attempt is early
    latest = best.model_copy(update={"policy": best.policy.model_copy(update={"counts": "latest"})})
    assert grade(latest, [early, late], {}).attempt is late


def test_of_equal_attempts_the_last_counts_and_one_without_total_never_as_best(assignment):
    best = with_policy(assignment, counts="best")
    one, two = attempt(best, sha256="one"), attempt(best, sha256="two")
    assert grade(best, [one, two], {}).attempt is two
    open_ = attempt(best, sha256="open", status="not_run", kind="infrastructure")
    assert grade(best, [one, open_], {}).attempt is one
    assert grade(best, [open_], {}).attempt is open_


def test_a_file_that_can_not_be_used_has_no_total_even_where_no_check_is_asked(assignment):
    asked = {"reflection": assignment.questions["reflection"]}
    manual = assignment.model_copy(update={"questions": asked})
    broken = Attempt(NAME, "v", "ada", "sha", "x", "invalid", "", (), ())
    assert grade(manual, [broken], {}).total is None


def test_a_change_of_a_grade_is_told(assignment):
    before = grade(assignment, [attempt(assignment)], {}).record()
    assert list(differences(before, before)) == []
    after = grade(
        assignment, [attempt(assignment, 1)], {("sha", "reflection"): Mark(3, 4)}
    ).record()
    assert list(differences(before, after)) == [
        "total 38 of 38 -> 40 of 42", "conv_size: 3 -> 2", "reflection: none -> 3",
    ]  # fmt: skip
    told = grade(assignment, [attempt(assignment, 1)], {("sha", "reflection"): Mark(3, 4, "Good.")})
    assert list(differences(after, told.record())) == ["another comment"]


def test_a_mark_of_other_possible_points_does_not_count(assignment):
    given = grade(assignment, [attempt(assignment)], {("sha", "reflection"): Mark(2, 2)})
    assert (given.total, given.unmarked) == (38, ("reflection",))
    assert given.notes == (
        "reflection was marked 2 of 2; now it has 4 points, and has to be marked again.",
    )


def test_an_attempt_that_needs_a_person_is_never_the_best(assignment):
    best = with_policy(assignment, counts="best")
    honest = attempt(best, 3, sha256="honest")
    for kind in ("flagged", "infrastructure", "invalid"):
        assert grade(best, [honest, attempt(best, sha256="x", kind=kind)], {}).attempt is honest


def test_marks_do_not_choose_the_best_attempt(assignment):
    best = with_policy(assignment, counts="best")
    first, last = attempt(best, sha256="first"), attempt(best, sha256="last")
    for points in (0, 4):
        marks = {("first", "reflection"): Mark(points, 4)}
        assert grade(best, [first, last], marks).attempt is last


@pytest.mark.parametrize(
    ("due", "told"),
    [
        ("2026-12-01", r"policy\.due: give date, time and offset"),
        ("2026-12-01T23:59:00", r"policy\.due: give date, time and offset"),
        ("soon", r"policy\.due: give date, time and offset"),
        ("2026-13-01", "not readable as YAML: month must be"),
        ("2026-12-01T23:59:00+25:00", "not readable as YAML: offset must be"),
    ],
)
def test_a_due_date_that_could_mean_several_times_is_refused(tmp_path, due, told):
    text = (REPOSITORY / "grading.yml").read_text(encoding="utf-8")
    path = tmp_path / "grading.yml"
    path.write_text(text.replace("    values:", f"    policy: {{due: {due}}}\n    values:", 1))
    with pytest.raises(ConfigError, match=told):
        load(path)
