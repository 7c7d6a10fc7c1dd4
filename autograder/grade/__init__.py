"""Grading: a batch of submissions, and judging stored evidence again."""

from autograder.grade.batch import Batch, Workforce
from autograder.grade.built import Release, ReleaseMissing
from autograder.grade.devices import Crew, bounds, environments
from autograder.grade.executed import Executed, file_stem
from autograder.grade.flow import Waiting
from autograder.grade.grader import run_of
from autograder.grade.job import Here, Job, Outage, Place, Ran, put
from autograder.grade.rejudge import Change, Rejudged, rejudge

__all__ = [
    "Batch",
    "Change",
    "Crew",
    "Executed",
    "Here",
    "Job",
    "Outage",
    "Place",
    "Ran",
    "Rejudged",
    "Release",
    "ReleaseMissing",
    "Waiting",
    "Workforce",
    "bounds",
    "environments",
    "file_stem",
    "put",
    "rejudge",
    "run_of",
]
