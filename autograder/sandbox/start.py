"""How the worker is started: its command, its environment, its pipes."""

import os
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import psutil

from autograder.sandbox.bounds import Bounds

WORKER = Path(__file__).parents[1] / "worker" / "__main__.py"


def start(
    job: Path, bounds: Bounds, env: Mapping[str, str]
) -> tuple["subprocess.Popen[bytes]", list[IO[bytes]]]:
    """The supervisor process, and our ends of its pipes: events, and stdout with stderr.

    The worker sets its own rlimits: a function between fork and exec isn't safe among threads.
    -P, and not -I: no script folder on the path, but PYTHONHASHSEED and PYTHONUSERBASE count.
    """
    ends = [os.pipe(), os.pipe()]
    (_, events), (_, log) = ends
    command = [sys.executable, "-P", "-X", "faulthandler", str(WORKER)]
    command += [str(job), str(events), str(bounds.file_mib), str(_task_limit(bounds.processes))]
    try:
        process = subprocess.Popen(
            command, env=_environment(job, env), cwd=job, pass_fds=(events,),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    except BaseException:
        for end in ends:
            os.close(end[0])
        raise
    finally:
        for end in ends:
            os.close(end[1])
    return process, [os.fdopen(end[0], "rb", buffering=0) for end in ends]


def _environment(job: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The worker's whole environment: nothing of ours but what is named here."""
    built = {
        "PATH": os.defpath,
        "HOME": str(job / "home"),
        "TMPDIR": str(job / "tmp"),
        "IPYTHONDIR": str(job / "home" / "ipython"),
        "MPLCONFIGDIR": str(job / "home" / "matplotlib"),
        "PYTHONUSERBASE": site.getuserbase(),  # packages may be installed for this user only
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # deterministic matrix products on CUDA
    }
    built |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    passed = {name: os.environ[name] for name in ("OPENBLAS_CORETYPE",) if name in os.environ}
    return built | passed | dict(env)


def _task_limit(processes: int) -> int:
    """RLIMIT_NPROC for the worker, 0 for none.

    It counts all threads of the user on the whole machine, so those that are there are added; root
    it doesn't bind at all.
    """
    if os.getuid() == 0:
        return 0
    fields = (p.info for p in psutil.process_iter(["uids", "num_threads"]))
    mine = (f["num_threads"] or 1 for f in fields if f["uids"] and f["uids"].real == os.getuid())
    return processes + sum(mine)
