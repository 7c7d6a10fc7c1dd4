"""Fixtures that many tests share: built releases, each made once a session."""

import os
import shutil
from pathlib import Path

import pytest

# Two graders with default threads are many times slower than with one thread each.
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from filelock import FileLock
from xdist.scheduler import LoadFileScheduling

from autograder import config, release

REPOSITORY = Path(__file__).resolve().parents[1]
NAME = "cnn_vs_fnn"  # where one assignment is enough
BANK = ("test_golden.py", "test_otter_contract.py")  # they grade the same notebooks
NAMES = tuple(config.load(REPOSITORY / "grading.yml").assignments)

torch.set_num_threads(1)


class Files(LoadFileScheduling):
    """Tests of a file share a process, for its fixtures, and so do those that grade the bank."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return "bank" if Path(file).name in BANK else file


def pytest_xdist_make_scheduler(config, log):
    """How tests are dealt out to several processes."""
    return Files(config, log)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Builds an assignment's release when it is first asked for; gives the folder of all.

    Processes that test side by side share it.
    """
    shared = tmp_path_factory.getbasetemp()
    root = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "release"

    def build(name):
        with FileLock(f"{root}.lock"):
            if not root.exists():
                for part in ("assignments", "reference"):
                    shutil.copytree(REPOSITORY / part, root / part)
                shutil.copy(REPOSITORY / "grading.yml", root)
            if not (root / "dist" / name).exists():
                release.build(name, config.load(root / "grading.yml"), root)
        return root

    return build


@pytest.fixture(scope="session")
def release_root(built):
    """The folder of the inputs with dist/ and student/ of cnn_vs_fnn freshly built beside them."""
    return built(NAME)


@pytest.fixture(scope="session")
def grading():
    """The repository's own grading.yml."""
    return config.load(REPOSITORY / "grading.yml")
