"""Did student code change the process in which it is measured?

Three looks, taken before student code runs and again after each cell and after each question's
tests: `identities` (functions, classes and data of the checks and of what they call),
`hooks` (traces, threads, modes), `canaries` (checks with a known outcome). What was found is put
back where possible, so that later answers are measured as they should be, and it is told.

What this catches: changes that are there when a look is taken. What it doesn't: code that changes
something while it is called by a test and puts it back before it returns; code that finds these
objects in memory and changes them first; memory written through ctypes; finalizers; what a plot
says of itself. Whoever reads this file can get around it. Hence labels stay outside, evidence is
judged outside, and the same process holds no other submission.
"""

from collections.abc import Mapping
from typing import Any

from .canaries import Canaries
from .hooks import Hooks
from .identities import Identities

MOST = 20  # changes that are told, of one look


class Integrity:
    """The process as it is when this is made, after all imports and before student code."""

    def __init__(self, tests: Mapping[str, Any]) -> None:
        """`tests` are Otter's test files by question."""
        from autograder import checks
        from autograder.checks import core

        known = getattr(checks, "CHECKS", {})
        self._canaries = Canaries(core, known)
        self._canaries.changes()  # the first time loads parts of torch
        self._identities = Identities(tests)
        self._hooks = Hooks()

    def changes(self) -> list[str]:
        """What is not as it was, in words. Raises nothing."""
        try:
            return [*self._hooks.changes(), *self._identities.changes()][:MOST]
        except Exception as error:  # only student code can have brought that about
            return [f"what the comparison needs ({type(error).__name__})"]

    def changes_after_tests(self) -> list[str]:
        """The same, and checks of which the outcome is known."""
        try:
            wrong = self._canaries.changes()
        except Exception as error:
            wrong = [f"checks with a known outcome ({type(error).__name__})"]
        return [*wrong, *self.changes()][:MOST]
