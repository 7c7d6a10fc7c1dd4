"""The sample class of `make demo` fits the present release."""

import nbformat

from autograder.intake import collect
from tests.conftest import NAME, REPOSITORY


def test_the_sample_class_is_current(release_root):
    """A class made for an older text would show corrections that nobody made."""
    pristine = nbformat.read(release_root / "student" / NAME / f"{NAME}.ipynb", as_version=4)
    found = list(collect(REPOSITORY / "examples" / NAME, pristine, 50.0))
    students = [s.student for s in found]
    assert students == ["00417", "ada", "bruno (1)", "chiara", "dana", "emil", "farah", "gustav"]
    assert [s.student for s in found if s.problem] == ["gustav"]
    assert [s.notes for s in found] == [()] * len(found)
