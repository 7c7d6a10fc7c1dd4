"""An autograder for Gradescope that gives each submission its results from here.

Gradescope has no import of grades for programming assignments; what it takes is results.json, which
an autograder writes beside a submission. So the results of all students travel in an autograder
that runs nothing of a student, looks for the submission's email, and hands out what is there. In
Gradescope: Configure Autograder, upload the zip, then Regrade All Submissions. A gradebook CSV
could only be read by people, and `csv` has more for these.

Source: gradescope-autograders.readthedocs.io, Autograder Specifications (files, output format,
visibility) and Submission Metadata.
"""

import json
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from autograder.judge import CaseResult
from autograder.policy import Grade
from autograder.report.exports.batch import Batch
from autograder.report.grades import shown

RUN = Path(__file__).with_name("run_autograder.py")
SETUP = "#!/bin/bash\ncommand -v python3 || (apt-get update && apt-get install -y python3)\n"


def write_autograder(path: Path, batch: Batch) -> None:
    """Write the zip: setup.sh, run_autograder, and results.json with the results by email.

    A submission of a student without a grade finds no results, so that Gradescope shows that the
    autograder failed, and no score. In the roster an email is there once.
    """
    results = {
        one.person.email.strip().lower(): _result(batch, one.grade, one.total)
        for one in batch.rows()
        if one.listed and one.person.email and one.grade and one.total is not None
    }
    part = path.with_suffix(".part")
    with ZipFile(part, "w") as package:
        for name, text in (
            ("setup.sh", SETUP),
            ("run_autograder", RUN.read_text(encoding="utf-8")),
            ("results.json", json.dumps(results, indent=1)),  # ASCII, whatever is in it
        ):
            member = ZipInfo(name)
            member.external_attr = 0o755 << 16
            package.writestr(member, text, ZIP_DEFLATED)
    part.replace(path)


def _result(batch: Batch, grade: Grade, total: float) -> dict[str, Any]:
    """The results.json of a student."""
    return {
        "score": round(total, 4),  # overrides the sum of the tests, so it may be less
        "output": _output(batch, grade, total),
        "stdout_visibility": "hidden",
        "tests": [
            *(_test(batch, one) for one in grade.attempt.results),
            *(_mark(batch, name, grade) for name in _manual(batch)),
        ],
        "extra_data": {"student": grade.attempt.student, "sha256": grade.attempt.sha256},
    }


def _output(batch: Batch, grade: Grade, total: float) -> str:
    lines = [f"{shown(total)} of {shown(batch.possible)} points."]
    if grade.deduction:
        lines.append(f"{shown(grade.deduction)} points are deducted for lateness.")
    return "\n".join(filter(None, (*lines, grade.attempt.reason, *grade.notes)))


def _test(batch: Batch, one: CaseResult) -> dict[str, Any]:
    """A check. Of a hidden one students see the outcome when grades are published, as on pages.

    "hidden" is meant for tests without points.
    """
    secret = one.hidden and one.question not in batch.assignment.released
    told = "Hidden: only its outcome is shown." if secret else str(one.verdict)
    return {
        "name": f"{one.question}: {one.case}",
        "score": round(one.points, 4),
        "max_score": round(one.possible, 4),
        "status": "passed" if one.verdict.status == "passed" else "failed",
        "output": told,
        "visibility": "after_published" if one.hidden else "visible",
    }


def _mark(batch: Batch, name: str, grade: Grade) -> dict[str, Any]:
    return {
        "name": name,
        "score": round(grade.points[name] or 0.0, 4),  # marked, since the student has a grade
        "max_score": round(batch.assignment.questions[name].possible, 4),
        "output": "Graded by a person.",
        "visibility": "after_published",
    }


def _manual(batch: Batch) -> list[str]:
    return [name for name in batch.questions if batch.assignment.questions[name].manual]
