"""Runs notebooks and their Otter tests, and streams what happens. A script, never imported.

    python -P worker/__main__.py CONTROL_FD SETTINGS

CONTROL_FD is a socket with the protocol of `server`, SETTINGS its Settings as JSON. A job is a
folder that holds notebook.ipynb (restored), tests/<question>.py, the package `autograder` as the
student had it, hidden data sets and job.json: {"seed": int, "output_kib": int, "cell_s": float}.
Cells run in its folder work. The notebook as executed is executed.ipynb. Exit status: the
worker's own, or 128 + n when signal n ended it. Events are lines of ASCII JSON, as listed in
autograder.sandbox.
"""

import importlib
import sys
import types
from pathlib import Path

# Our modules are found through a package of a private name and not through sys.path, where -P
# keeps this folder out: so `import shell` in a notebook finds the student's own shell.py, and
# `import autograder` the package in JOB, as neither of our folders is ever searched for them.
PACKAGE = "_autograder_worker"


if __name__ == "__main__":
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(Path(__file__).resolve().parent)]
    sys.modules[PACKAGE] = package
    importlib.import_module(f"{PACKAGE}.server").main(sys.argv[1:])
