"""Handwritten digits: the embedded 4,000, and full MNIST on request."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from autograder.data.files import Array, DataUnavailable, as_labels, embedded, one_line

_SOURCES = ("embedded", "mnist")
_TRAINING_IMAGES = 55_000  # of MNIST's 60,000: the course's own split
_SILENCE_S = 30.0  # a server that says nothing for so long is taken as gone


class DownloadFailed(DataUnavailable):
    """Full MNIST could not be fetched; the grader leaves such a run ungraded."""


class Split(NamedTuple):
    """Images with their labels.

    Shapes:  images float32 (N, 1, 28, 28), labels int64 (N,).
    Units:   grey value, 0 background to 1 ink; class number 0 to 9.
    """

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Digits:
    """Three disjoint splits of one set of digits."""

    train: Split
    validation: Split
    test: Split


def digits(source: str = "embedded", root: str | Path = "mnist") -> Digits:
    """Handwritten digits for training.

    "embedded" needs no network: 3,000 / 500 / 500 images, every class equally often.
    "mnist" is full MNIST, 55,000 / 5,000 / 10,000 images; torchvision downloads it into the folder
    `root`, or reads it from there. The embedded digits and the hidden test set are a part of MNIST,
    so a model trained on "mnist" may have seen the hidden images.

    Raises:  ValueError: unknown source. DataUnavailable: download or file fails.
    Source:  LeCun and Cortes, CC BY-SA 3.0; see LICENSE-MNIST.md.
    """
    if source == "embedded":
        return _embedded()
    if source == "mnist":
        return _mnist(Path(root))
    raise ValueError(f"digits: source must be one of {', '.join(_SOURCES)}, got {source!r}.")


def as_images(pixels: Array) -> Tensor:
    """Stored pixels (N, 28, 28) as float32 (N, 1, 28, 28), 0 background to 1 ink."""
    return torch.from_numpy(pixels).unsqueeze(1).to(torch.float32).div_(255)


def _embedded() -> Digits:
    return Digits(_embedded_split("train"), _embedded_split("validation"), _embedded_split("test"))


def _embedded_split(name: str) -> Split:
    return Split(
        as_images(embedded("digits", f"{name}_images")),
        as_labels(embedded("digits", f"{name}_labels")),
    )


def _mnist(root: Path) -> Digits:
    # Anything can go wrong between here and the server (403, 503, no route, a bad check sum, a full
    # disk, a half-written file): all of it is trouble with the machine, none is the student's.
    try:
        with _bounded_silence():
            from torchvision.datasets import MNIST

            sets = [MNIST(root, train=train, download=True) for train in (True, False)]
            (images, labels), (test_images, test_labels) = (
                (as_images(part.data.numpy()), as_labels(part.targets.numpy())) for part in sets
            )
    except Exception as error:
        raise DownloadFailed(
            "Full MNIST could not be loaded. This is a problem with the network or the download, "
            "not with your work. Use digits('embedded'), which needs no network, or put a copy of "
            f"the four MNIST files into {root / 'MNIST' / 'raw'} and try again. "
            f"(Reason: {one_line(error)})"
        ) from None
    return Digits(
        Split(images[:_TRAINING_IMAGES], labels[:_TRAINING_IMAGES]),
        Split(images[_TRAINING_IMAGES:], labels[_TRAINING_IMAGES:]),
        Split(test_images, test_labels),
    )


@contextlib.contextmanager
def _bounded_silence() -> Iterator[None]:
    """Give up on a server that does not answer; torchvision itself would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SILENCE_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
