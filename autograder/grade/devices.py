"""Where submissions run: on the CPU, or in the slots of the GPUs.

The grading process never asks CUDA itself, because a process that has done so can't fork workers
that use it. A process of its own is asked, once.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from autograder import sandbox
from autograder.config import Config, ConfigError
from autograder.grade.built import Release
from autograder.grade.job import Here

Environment = dict[str, str]


def environments(config: Config, workers: int) -> list[Environment]:
    """One environment a worker; on GPUs at most one for each slot, spread over the devices.

    Raises:
        ConfigError: the device is "cuda", and there is no GPU that PyTorch can use.
    """
    gpus = _gpus(config.device)
    if not gpus:
        return [{"AUTOGRADER_DEVICE": "cpu"}] * workers
    slots = [
        {
            "AUTOGRADER_DEVICE": "cuda",
            "CUDA_VISIBLE_DEVICES": gpu,
            "AUTOGRADER_GPU_MEMORY_FRACTION": f"{config.gpu.memory_fraction:g}",
        }
        for _ in range(config.gpu.slots_per_device)
        for gpu in gpus
    ]
    return slots[:workers]


class Crew:
    """The pools of processes that run the submissions of a batch, one pool for each device.

    Attributes:
        slots: as many as submissions can run side by side, each with the pool that runs it.
        guarantee: what may be relied on while they run, in words.
    """

    def __init__(self, config: Config, workers: int, *, require: bool = False) -> None:
        """Start the pools.

        Raises:
            ConfigError: see `environments`.
            sandbox.SandboxMissing: submissions can't be confined, and have to be.
        """
        wanted = [tuple(env.items()) for env in environments(config, workers)]
        pools: dict[tuple[tuple[str, str], ...], sandbox.Pool] = {}
        with ExitStack() as starting:
            for env, count in Counter(wanted).items():
                pool = sandbox.Pool(
                    bounds(config), count, dict(env), require=require,
                    cuda="CUDA_VISIBLE_DEVICES" in dict(env),
                )  # fmt: skip
                pools[env] = starting.enter_context(pool)
            self._stack = starting.pop_all()
        self.slots = [pools[env] for env in wanted]
        self.guarantee = self.slots[0].guarantee
        self._most_mib = config.limits.file_mib

    def places(self, release: Release, scratch: Path) -> list[Here]:
        """One for each slot; folders for jobs are made in `scratch`."""
        return [Here(pool, release.files, scratch, self._most_mib) for pool in self.slots]

    def end_jobs(self) -> None:
        """End what runs now. Pools stay usable; call it until nothing runs."""
        for pool in set(self.slots):
            pool.end_jobs()

    def close(self) -> None:
        """End the pools."""
        self._stack.close()


def bounds(config: Config) -> sandbox.Bounds:
    """The limits of grading.yml as the sandbox takes them."""
    return sandbox.Bounds(**config.limits.model_dump(exclude={"submission_mib"}))


def _gpus(device: str) -> list[str]:
    """Names of the GPUs to use, as CUDA_VISIBLE_DEVICES takes them; none for the CPU."""
    if device == "cpu" or (device == "auto" and not _has_driver()):
        return []
    count = count_gpus()
    if device == "cuda" and not count:
        raise ConfigError(
            "The device is cuda, but PyTorch sees no GPU here. Give --device cpu, or install a "
            "PyTorch with CUDA and see whether nvidia-smi lists the GPU. Nothing was graded."
        )
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return (visible.split(",") if visible else [str(i) for i in range(count)])[:count]


def _has_driver() -> bool:
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


@cache
def count_gpus() -> int:
    """Number of GPUs that PyTorch can use, asked in a process of its own."""
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0
