"""How the server of jobs is started: its command, its environment, what it is told."""

import json
import math
import os
import pwd
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from autograder.sandbox.bounds import Bounds

WORKER = Path(__file__).parents[1] / "worker" / "__main__.py"
SPARE_UIDS = range(61_184, 65_520)  # those that systemd keeps for users without an account
LATE_S = 5  # how much later than ours the supervisors' own alarm clock rings


@dataclass(frozen=True)
class Plan:
    """How jobs run: their limits, their environment beside the built one, a GPU or none."""

    bounds: Bounds
    env: Mapping[str, str]
    cuda: bool = False


def start(plan: Plan, folder: Path, control: int, *, confined: bool) -> "subprocess.Popen[bytes]":
    """The server process; `folder` is its own, `control` its end of the socket.

    -P, and not -I: no script folder on the path, but PYTHONHASHSEED and PYTHONUSERBASE count.
    """
    for name in ("home", "tmp", "root"):
        (folder / name).mkdir()
    settings = _settings(plan, folder, confined=confined)
    command = [sys.executable, "-P", "-X", "faulthandler", str(WORKER), str(control)]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, json.dumps(settings)], env=_environment(folder, plan.env), cwd=folder,
            pass_fds=(control,), start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip


def _settings(plan: Plan, folder: Path, *, confined: bool) -> dict[str, Any]:
    bounds = plan.bounds
    return {
        "base": str(folder / "root"),
        "seconds": math.ceil(bounds.notebook_s + bounds.grace_s) + LATE_S,
        "file_mib": bounds.file_mib,
        "open_files": bounds.open_files,
        "tasks": 0 if confined else _task_limit(bounds.processes),
        "world": _world(plan) if confined else None,
    }


def _world(plan: Plan) -> dict[str, Any]:
    bounds = plan.bounds
    return {
        "uid": _job_uid(),
        "visible": [*_python_folders(), *(["/sys"] if plan.cuda else [])],
        "hidden": [str(WORKER.parents[1])],  # has hidden data sets, where we are installed
        "devices": [p.name for p in Path("/dev").glob("nvidia*") if plan.cuda and not p.is_dir()],
        "disk_mib": bounds.disk_mib,
        "files": bounds.files,
        "memory_mib": bounds.memory_mib,
        "processes": bounds.processes + _counted_supervisors(),
    }


def _python_folders() -> list[str]:
    """Where this Python and its packages lie, as spelled and as resolved.

    Not all of sys.path: for a package under development that would be the whole project.
    """
    named = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    named |= {site.getusersitepackages(), *site.getsitepackages(), *sysconfig.get_paths().values()}
    paths = {p for name in named for p in (Path(name), Path(name).resolve()) if p.is_dir()}
    return sorted(str(p) for p in paths if p != Path("/"))


def _job_uid() -> int:
    """Whom jobs run as: ourselves, or for root a user without an account."""
    if os.getuid() != 0:
        return os.getuid()
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in SPARE_UIDS if uid not in taken)


def _counted_supervisors() -> int:
    """How many of our own processes the kernel counts among a confined job's: those of its user.

    For root the one outside stays root's.
    """
    return 1 if os.getuid() == 0 else 2


def _environment(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The server's whole environment, and but for the folders its jobs': nothing of ours."""
    built = {
        "PATH": os.defpath,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "MPLCONFIGDIR": str(folder / "home" / "matplotlib"),
        "USER": "student",
        "PYTHONUSERBASE": site.getuserbase(),  # packages may be installed for this user only
        "PYTHONHASHSEED": "0",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # Agg, shown as outputs
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # a look for a GPU that a fork survives
        "OMP_WAIT_POLICY": "PASSIVE",  # who asks for more threads shall not hold up the others
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # deterministic matrix products on CUDA
    }
    built |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    passed = {name: os.environ[name] for name in ("OPENBLAS_CORETYPE",) if name in os.environ}
    return built | passed | dict(env)


def _task_limit(processes: int) -> int:
    """RLIMIT_NPROC for a job that isn't confined, 0 for none.

    It counts all threads of the user on the whole machine, so those that are there are added; root
    it doesn't bind at all.
    """
    if os.getuid() == 0:
        return 0
    fields = (p.info for p in psutil.process_iter(["uids", "num_threads"]))
    mine = (f["num_threads"] or 1 for f in fields if f["uids"] and f["uids"].real == os.getuid())
    return processes + sum(mine)
