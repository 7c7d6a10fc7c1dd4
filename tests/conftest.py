"""Fixtures that many tests share: a built release, made once a session."""

import os
import shutil
from pathlib import Path

import pytest

# Two graders with default threads are many times slower than with one thread each.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

from autograder import config, release

REPOSITORY = Path(__file__).resolve().parents[1]
NAME = "cnn_vs_fnn"

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def release_root(tmp_path_factory):
    """A copy of the repository's inputs with dist/ and student/ freshly built beside them."""
    root = tmp_path_factory.mktemp("release")
    for part in ("assignments", "reference"):
        shutil.copytree(REPOSITORY / part, root / part)
    shutil.copy(REPOSITORY / "grading.yml", root)
    release.build(NAME, config.load(root / "grading.yml"), root)
    return root


@pytest.fixture(scope="session")
def grading():
    """The repository's own grading.yml."""
    return config.load(REPOSITORY / "grading.yml")
