"""Who runs the submissions of a batch, by the options: processes on this machine, or a cluster."""

import argparse
import os
from typing import TYPE_CHECKING

from autograder.config import Config, ConfigError
from autograder.grade import Crew, Release, environments

if TYPE_CHECKING:
    from autograder.cluster import Cluster


def chosen(options: argparse.Namespace, config: Config) -> tuple[Config, str]:
    """The settings with the options in their place, and who will run submissions, in words.

    Raises:
        ConfigError: that can't be.
    """
    if options.workers is not None and options.workers < 1:
        raise ConfigError("--workers: at least 1.")
    device = options.device or config.device
    if options.scheduler is not None or options.local_cluster is not None:
        return _for_cluster(options, config, device)
    workers = options.workers or config.workers or os.cpu_count() or 1
    config = config.model_copy(update={"device": device, "workers": workers})
    slots = environments(config, workers)
    used = "CPU" if slots[0]["AUTOGRADER_DEVICE"] == "cpu" else "GPU"
    return config, f"Device: {used} (asked for: {device}), {len(slots)} side by side."


def opened(options: argparse.Namespace, config: Config, release: Release) -> "Crew | Cluster":
    """The crew for a batch of that release, which has to be closed; `config` as `chosen` gave it.

    Raises:
        ConfigError: there is no such device or no such cluster, or it doesn't fit.
        SandboxMissing: submissions can't be confined, and have to be.
    """
    if options.scheduler is not None or options.local_cluster is not None:
        return _cluster(options, config, release)
    return Crew(config, config.workers, require=options.require_sandbox)


def _for_cluster(options: argparse.Namespace, config: Config, device: str) -> tuple[Config, str]:
    """On a cluster "auto" is the CPU: nobody knows beforehand which worker gets what."""
    if options.scheduler == "":
        raise ConfigError("--scheduler: give an address, such as tcp://10.0.0.1:8786.")
    if options.local_cluster is not None:
        if options.local_cluster < 1:
            raise ConfigError("--local-cluster: at least 1.")
        if options.workers or device == "cuda":
            raise ConfigError(
                "--local-cluster N: N says how many, and they train on the CPU. Leave out "
                "--workers and --device cuda, or leave out --local-cluster."
            )
    device = "cuda" if device == "cuda" else "cpu"
    used = "GPU (workers with the resource GPU)" if device == "cuda" else "CPU"
    config = config.model_copy(update={"device": device, "workers": options.workers or 0})
    return config, f"Device: {used}, on {options.scheduler or 'a Dask cluster on this machine'}."


def _cluster(options: argparse.Namespace, config: Config, release: Release) -> "Cluster":
    try:
        from autograder import cluster
    except ImportError as error:
        raise ConfigError(
            f"A cluster needs Dask ({error}). Install it: pip install -e '.[cluster]'"
        ) from error
    where = options.scheduler or cluster.local(options.local_cluster)
    return cluster.Cluster(where, config, release, print)
