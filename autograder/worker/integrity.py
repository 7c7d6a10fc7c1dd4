"""Did student code change the process in which it is measured?

Three looks, taken before student code runs and again after each cell and after each question's
tests: `identities` (functions, classes and data of the checks and of what they call),
`hooks` (traces, threads, modes), `canaries` (checks with a known outcome). What was found is put
back where possible, so that later answers are measured as they should be, and it is told.

What this catches: changes that are there when a look is taken. What it doesn't: code that changes
something while it is called by a test and puts it back before it returns; code that reads a test's
frames for the right answer; code that finds these objects in memory and changes them first; a
process that makes up a whole run's events and ends; memory written through ctypes; finalizers; what
a plot says of itself. Whoever reads this file can get around it. Hence labels stay outside,
evidence is judged outside, and the same process holds no other submission.
"""

import sys
from collections.abc import Mapping
from typing import Any

from .canaries import Canaries
from .hooks import Hooks
from .identities import Identities

MOST = 20  # changes that are told, of one look


class Integrity:
    """The process as it is when this is made, after all imports and before student code."""

    def __init__(self, tests: Mapping[str, Any]) -> None:
        """Take Otter's test files by question; from then on, sys.modules has none of ours.

        What the looks call is kept here by reference, so that they also see a change of themselves.
        """
        from autograder.checks import CHECKS, core

        canaries = Canaries(core, CHECKS)
        canaries.changes()  # the first time loads parts of torch
        self._looks = Hooks().changes, Identities(tests).changes
        self._known, self._changes = canaries.changes, self.changes
        for name in [n for n in sys.modules if f"{n}.".startswith(f"{__package__}.")]:
            del sys.modules[name]

    def changes(self) -> list[str]:
        """What is not as it was, in words. Raises nothing."""
        try:
            return [words for look in self._looks for words in look()][:MOST]
        except Exception as error:  # only student code can have brought that about
            return [f"what the comparison needs ({type(error).__name__})"]

    def changes_after_tests(self) -> list[str]:
        """The same, and checks of which the outcome is known."""
        try:
            wrong = self._known()
        except Exception as error:
            wrong = [f"checks with a known outcome ({type(error).__name__})"]
        return [*wrong, *self._changes()][:MOST]
