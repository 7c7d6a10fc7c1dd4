"""Grading: a batch of submissions, and judging stored evidence again."""

from autograder.grade.batch import Batch
from autograder.grade.built import Release, ReleaseMissing
from autograder.grade.devices import Crew, bounds, environments
from autograder.grade.executed import Executed, file_stem
from autograder.grade.flow import Waiting
from autograder.grade.grader import run_of
from autograder.grade.rejudge import Change, Rejudged, rejudge

__all__ = [
    "Batch",
    "Change",
    "Crew",
    "Executed",
    "Rejudged",
    "Release",
    "ReleaseMissing",
    "Waiting",
    "bounds",
    "environments",
    "file_stem",
    "rejudge",
    "run_of",
]
