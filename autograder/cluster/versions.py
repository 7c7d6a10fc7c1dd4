"""What has to be the same where submissions run and where their evidence is judged."""

import hashlib
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import distributions, requires
from pathlib import Path

KIT = "inductive-bias-autograder"
MOST = 8  # packages that are named

Versions = Mapping[str, str]


@cache
def here() -> Versions:
    """Versions of all packages of this environment, by name, and of Python and the kit.

    The kit's has a hash of its code, since a version stays the same while code is edited. Of others
    the part after "+" is left out, so that a CPU build of torch may send work to a CUDA build.
    """
    found = {_plain(d.name): d.version.partition("+")[0] for d in distributions()}
    return found | {"python": platform.python_version(), KIT: f"{found.get(KIT)} (code {_code()})"}


def differences(theirs: Versions, ours: Versions) -> str:
    """All that a worker must not lack or have otherwise, in words; empty if there is nothing.

    What the kit itself needs has to have the same version. Of all else that is here some version
    has to be there, since a submission may import it.
    """
    own = [entry for entry in requires(KIT) or () if "extra ==" not in entry]
    needed = {"python", KIT, "distributed", *map(_plain, own)}
    wrong = [
        f"{name} {theirs[name]} there, {ours[name]} here"
        for name in ours
        if name in theirs and name in needed and theirs[name] != ours[name]
    ]
    missing = [f"{name} {version}" for name, version in ours.items() if name not in theirs]
    if missing:
        wrong.append(f"missing there: {_some(missing)}")
    return "; ".join(wrong)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return f"{', '.join(sorted(names)[:MOST])}{more}"


def _plain(requirement: str) -> str:
    """The name of a package, as it is compared, at the beginning of what asks for it."""
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-").replace(".", "-")


def _code() -> str:
    package, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]
