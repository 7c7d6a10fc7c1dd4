"""A release with its data sets divided anew, and notebooks with another seed."""

import io
import zipfile
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
from nbformat import NotebookNode

from autograder.config import Config
from autograder.grade import Release
from autograder.master import Author
from autograder.validity.notebooks import solved
from autograder.validity.runs import Bench, Change

PARTS = ("train", "validation", "test")
DATA = PurePosixPath("files/kit/data")


def divided(release: Release, split: int) -> Release:
    """The release with other samples in training, validation and test set; 0 is the one as built.

    Within each class the samples of the three sets change places, so sizes and shares of classes
    stay. The hidden set is left alone: all are graded on the same one.
    """
    if split == 0:
        return release
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(release.content)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            path, content = PurePosixPath(name), old.read(name)
            if path.parent == DATA and path.suffix == ".npz":
                content = _shuffled(content, split)
            new.writestr(name, content)
    return replace(release, content=made.getvalue(), version=f"{release.version}-split{split}")


def _shuffled(content: bytes, split: int) -> bytes:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    labels = np.concatenate([arrays[f"{part}_labels"] for part in PARTS])
    (kind,) = {name.partition("_")[2] for name in arrays} - {"labels"}
    samples = np.concatenate([arrays[f"{part}_{kind}"] for part in PARTS])
    generator = np.random.default_rng(split)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        samples[places] = samples[generator.permutation(places)]
    ends = np.cumsum([len(arrays[f"{part}_labels"]) for part in PARTS])[:-1]
    for part, chosen in zip(PARTS, np.split(samples, ends), strict=True):
        arrays[f"{part}_{kind}"] = chosen
    made = io.BytesIO()
    np.savez(made, **arrays)
    return made.getvalue()


def reseeded(bench: Bench, seed: int) -> Change:
    """Gives a notebook the given cells that it would have if grading.yml said this seed."""
    made = solved(bench.release)
    own, other = (_given(bench, s) for s in (bench.config.assignment(bench.name).seed, seed))
    cells = [c for c in made.cells if c.metadata.autograder.role == "given"]
    if [c.source for c in cells] != own:
        raise AssertionError(f"{bench.release} was not built from the text that is there now")
    sources = {cell.id: source for cell, source in zip(cells, other, strict=True)}

    def change(notebook: NotebookNode) -> NotebookNode:
        for cell in notebook.cells:
            cell.source = sources.get(cell.id, cell.source)
        return notebook

    return change


def _given(bench: Bench, seed: int) -> list[str]:
    assignment = bench.config.assignment(bench.name).model_copy(update={"seed": seed})
    others = {**bench.config.assignments, bench.name: assignment}
    config: Config = bench.config.model_copy(update={"assignments": others})
    cells = Author(bench.name, config, bench.root).notebook().cells
    return [c.source for c in cells if c.metadata.get("autograder", {}).get("role") == "given"]
