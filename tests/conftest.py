"""Fixtures that many tests share: built releases, each made once a session."""

import os
import shutil
from pathlib import Path

import pytest

# Two graders with default threads are many times slower than with one thread each.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

from autograder import config, release

REPOSITORY = Path(__file__).resolve().parents[1]
NAME = "cnn_vs_fnn"  # where one assignment is enough
NAMES = tuple(config.load(REPOSITORY / "grading.yml").assignments)

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Builds an assignment's release when it is first asked for; gives the folder of all."""
    root = tmp_path_factory.mktemp("release")
    for part in ("assignments", "reference"):
        shutil.copytree(REPOSITORY / part, root / part)
    shutil.copy(REPOSITORY / "grading.yml", root)

    def build(name):
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
