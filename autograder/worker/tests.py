"""Otter's test files: loaded before student code runs, and what they leave out."""

from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any


def load_tests(job: Path) -> tuple[dict[str, Any], Callable[[Any], None], CodeType]:
    """Otter's test files by question, the function that installs a sink, and who calls that."""
    import otter
    from otter.nbmeta_config import NBMetadataConfig
    from otter.test_files import create_test_file

    from autograder.checks import run
    from autograder.checks.core import set_sink

    folder = job / "tests"
    otter.Notebook.init_grading_mode(str(folder))  # a cell's own grader.check() finds its tests
    paths = sorted(p for p in folder.glob("*.py") if p.name != "__init__.py")
    tests = {p.stem: create_test_file(str(p), NBMetadataConfig()) for p in paths}
    return tests, set_sink, run.__code__


def without_evidence(file: Any, received: int) -> str | None:
    """Why a question's tests gave less evidence than there are cases; None if they didn't."""
    results = file.test_case_results
    if received >= len(results):
        return None
    last = [r.message.rstrip().rpartition("\n")[2] for r in results if not r.passed]
    missing = f"{len(results) - received} of {len(results)} tests sent no evidence"
    return f"{missing}: {'; '.join(last)}"[:2000]
