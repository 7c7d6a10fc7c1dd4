"""Run a Python command as a user without rights: `python -m tests.hostile.unprivileged ARGUMENTS`.

For tests that run as root. Where this Python lies below a folder that only root may enter, that
folder is covered, for this process alone, by an empty one that shows only Python.
"""

import os
import sys
from pathlib import Path

from autograder.sandbox.start import _python_folders
from autograder.worker import linux

NOBODY = 65534


def closed(path: Path) -> Path | None:
    """The topmost folder on the way to `path` that others may not enter."""
    ways = (p for p in reversed(path.parents) if not p.stat().st_mode & 0o1)
    return next(ways, None)


def open_ways(paths: list[Path]) -> None:
    hidden: dict[Path, list[Path]] = {}
    for path in paths:
        if way := closed(path):
            hidden.setdefault(way, []).append(path)
    linux.unshare(linux.NEWNS)
    linux.mount("", "/", None, linux.RECURSIVE | linux.PRIVATE)
    for way, inside in hidden.items():
        kept = [(path, os.open(path, os.O_PATH)) for path in inside]
        linux.mount("tmpfs", str(way), "tmpfs", linux.NOSUID, "mode=755")
        for path, descriptor in kept:
            path.mkdir(parents=True, exist_ok=True)
            linux.mount(
                f"/proc/self/fd/{descriptor}", str(path), None, linux.BIND | linux.RECURSIVE
            )


def main() -> None:
    open_ways([*map(Path, _python_folders()), Path.cwd()])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
