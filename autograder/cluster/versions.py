"""What has to be the same where submissions run and where their evidence is judged."""

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

KIT = "inductive-bias-autograder"
PACKAGES = ("otter-grader", "torch", "numpy", "matplotlib", "ipython", "nbformat", "distributed")

Versions = Mapping[str, str]


@cache
def here() -> Versions:
    """Versions by name in this environment; the kit's with a hash of its code.

    Of torch's the part after "+" is left out, so that a CPU build may send work to a CUDA build.
    """
    known = {"kit": f"{_of(KIT)} (code {_code()})", "python": platform.python_version()}
    return known | {name: _of(name).partition("+")[0] for name in PACKAGES}


def differences(theirs: Versions, ours: Versions) -> str:
    """Both versions of all that differs, in words; empty if nothing does."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    return "; ".join(
        f"{name} {theirs.get(name, 'unknown')} there, {ours.get(name, 'unknown')} here"
        for name in names
    )


def _of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _code() -> str:
    """A version stays the same while code is edited, so the code itself is looked at."""
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]
