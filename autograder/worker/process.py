"""The process that runs student code: made ready, seeded, ended."""

import builtins
import getpass
import json
import os
import random
import signal
import sys
import tempfile
import traceback
from collections.abc import Set
from pathlib import Path
from typing import NoReturn

from .events import Events
from .limit import TimeLimit
from .notebook import Run
from .stubs import Colab, no_input


def work(job: Path, descriptor: int, blocked: Set[signal.Signals]) -> NoReturn:
    """The worker process; ends without waiting for threads or hooks that student code left."""
    settings = json.loads((job / "job.json").read_text("utf-8"))
    limit = TimeLimit(settings["cell_s"])
    limit.install()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    events = Events(descriptor, limit)
    try:
        prepare_process(job)
        seed_everything(settings["seed"])
        Run(job, events, limit, settings["output_kib"]).everything()
    except BaseException:
        sys.stderr = sys.__stderr__
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def prepare_process(job: Path) -> None:
    """Everything that is set once, before anything of the student's is read."""
    os.environ.update(own_folders(job))
    tempfile.tempdir = None  # forget the one of before
    os.environ["PYTHONBREAKPOINT"] = "0"  # breakpoint() does nothing
    sys.argv = [""]
    builtins.input = no_input
    getpass.getpass = no_input
    sys.meta_path.append(Colab())
    # JOB first and its work folder last: a student's torch.py hides nothing
    sys.path[:] = [str(job), *filter(None, sys.path), str(job / "work")]


def own_folders(job: Path) -> dict[str, str]:
    """Environment variables that name the job's own folders."""
    home = job / "home"
    named = {"HOME": home, "IPYTHONDIR": home / "ipython", "MPLCONFIGDIR": home / "matplotlib"}
    return {name: str(path) for name, path in {**named, "TMPDIR": job / "tmp"}.items()}


def seed_everything(seed: int) -> None:
    """Seed random, numpy and torch; one thread, as several are slower when several jobs run."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    if fraction := os.environ.get("AUTOGRADER_GPU_MEMORY_FRACTION"):
        torch.cuda.set_per_process_memory_fraction(float(fraction))
