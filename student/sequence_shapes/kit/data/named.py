"""Data sets by name, as checks ask for them, and their hidden test sets."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from autograder.data.diffusion import Trajectories, as_steps, trajectories
from autograder.data.files import Array, as_labels, hidden
from autograder.data.mnist import Digits, as_images, digits


class _Named(NamedTuple):
    load: Callable[[], Digits | Trajectories]
    hidden_key: str  # of the inputs, in the file of the hidden set
    as_inputs: Callable[[Array], Tensor]


_SETS = {
    "digits": _Named(digits, "images", as_images),
    "trajectories": _Named(trajectories, "positions", as_steps),
}


def load(name: str) -> Digits | Trajectories:
    """The embedded data set `name`: train, validation and test, each a pair (inputs, labels).

    Raises:  ValueError: unknown name. DataUnavailable: the file is missing or damaged.
    """
    return _named(name).load()


def hidden_inputs(name: str) -> Tensor:
    """The inputs of the hidden test set `name`, in the form that `load` gives the others.

    Shapes:  float32; digits (N, 1, 28, 28), trajectories (N, 25, 4).
    Raises:  ValueError: unknown name. DataUnavailable: the hidden set is not on this machine.
    """
    chosen = _named(name)
    return chosen.as_inputs(hidden(name, chosen.hidden_key))


def hidden_labels(name: str) -> Tensor:
    """The labels of the hidden test set `name`, in the order of its inputs.

    Shapes:  int64 (N,).
    Raises:  ValueError: unknown name. DataUnavailable: the hidden set is not on this machine.
    """
    _named(name)
    return as_labels(hidden(f"{name}_labels", "labels"))


def _named(name: str) -> _Named:
    if name not in _SETS:
        raise ValueError(f"The data set must be one of {', '.join(_SETS)}, got {name!r}.")
    return _SETS[name]
