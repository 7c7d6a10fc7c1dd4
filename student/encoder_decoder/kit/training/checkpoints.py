"""Trained weights and their histories as files, so that grading need not train again.

A release of an assignment with `training: checkpoint` has the file checkpoints.json beside this
module. With it, `fit` keeps what it has trained in the folder `checkpoints` beside the notebook:
NAME.safetensors and NAME.json, the History. When a batch is graded, the file says "load", and
`fit` takes weights and History from that folder instead of training.

NAME is the model's class and a hash of the names, shapes and types of its tensors, of the recipe
without its device, and of the number of samples: running a cell again replaces its files. Two
networks that are equal in all of this would share one checkpoint; that is told, and refused.
"""

import gc
import hashlib
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from torch import Tensor, nn

from autograder.data import fingerprints
from autograder.training.record import History, Recipe
from autograder.training.weights import (
    UnfitWeights,
    layout_of,
    packed,
    put_into,
    tensors_of,
    unpacked,
)

FOLDER = "checkpoints"
SETTINGS = Path(__file__).with_name("checkpoints.json")
ADVICE = f"Run the training cell once more, and hand in the folder {FOLDER} with the notebook."

_used: "WeakValueDictionary[str, nn.Module]" = WeakValueDictionary()  # by checkpoint, while alive


class CheckpointError(RuntimeError):
    """A network has no checkpoint that can be used; the message says why and what to do."""


def settings(assignment: str, mode: Literal["keep", "load"], samples: float = 0.0) -> str:
    """What SETTINGS holds, for an assignment; for `samples` see `config.Verify`."""
    return json.dumps({"assignment": assignment, "mode": mode, "samples": samples})


def keep(model: nn.Module, history: History) -> None:
    """Write the trained model's weights and its history, if the release asks for it.

    A warning says so if that fails: the training itself must not be lost.
    """
    asked = _asked()
    if asked.get("mode") != "keep":
        return
    try:
        name = name_of(model, history.recipe, history.samples)
        if _taken(name, model):
            warnings.warn(f"{_shared(model)} The later one has now replaced the one before, which "
                          "is right if you only ran a cell again.")  # fmt: skip
        _used[name] = model
        path = _folder() / name
        path.parent.mkdir(exist_ok=True)
        record = history.to_json().encode()
        about = {"assignment": str(asked["assignment"]), "history": _digest(record)}
        _write(path.with_suffix(".json"), record)
        _write(path.with_suffix(".safetensors"), packed(model, about))
    except Exception as error:  # a full disk, or weights of a kind that the format doesn't know
        kind = type(model).__name__
        warnings.warn(f"The checkpoint of {kind} could not be written ({error}). {ADVICE}")


def handed_in(model: nn.Module, recipe: Recipe, inputs: Tensor) -> History | None:
    """Put handed-in weights into the model, which is then in eval mode, and give their History.

    None if networks are to be trained. `inputs` are the samples that would be trained on.

    Raises:  CheckpointError: the files are missing, broken, or of another network or training.
    """
    asked = _asked()
    if asked.get("mode") != "load":
        return None
    try:
        return _loaded(model, recipe, inputs, asked)
    except CheckpointError:
        raise
    except Exception as error:  # of whatever kind: it must not look like a wrong answer
        kind, told = type(model).__name__, f"{type(error).__name__}: {error}"[:300]
        raise CheckpointError(
            f"The checkpoint of {kind} can't be used ({told}). {ADVICE}"
        ) from None


def _loaded(model: nn.Module, recipe: Recipe, inputs: Tensor, asked: Mapping[str, Any]) -> History:
    samples = len(inputs)
    name = name_of(model, recipe, samples)
    if _taken(name, model):
        raise CheckpointError(_shared(model))
    weights, record = (_folder() / f"{name}{end}" for end in (".safetensors", ".json"))
    for path in (weights, record):
        if not path.is_file():
            raise CheckpointError(_missing(model, recipe, path))
    try:
        tensors, about = unpacked(weights)
        text = record.read_bytes()
        _require_pair(about, text, asked["assignment"])
        history = History.from_json(text.decode())
        _require_same(history, model, recipe, samples)
        _require_samples(history, inputs, asked["samples"])
        put_into(model, tensors)  # last: where the history is refused, the model stays as it was
    except UnfitWeights as error:
        raise CheckpointError(f"{FOLDER}/{weights.name} {error}. {ADVICE}") from None
    except ValueError as error:
        raise CheckpointError(f"{FOLDER}/{record.name}: {error} {ADVICE}") from None
    model.eval()
    return history


def _taken(name: str, model: nn.Module) -> bool:
    """Whether the checkpoint belongs to another network that is still in use."""
    if _used.setdefault(name, model) is model:
        return False
    gc.collect()  # one that refers to itself may only seem to be in use
    return _used.setdefault(name, model) is not model


def name_of(model: nn.Module, recipe: Recipe, samples: int) -> str:
    """The name of the checkpoint's files, without ending."""
    layout = sorted(layout_of(tensors_of(model)).items())
    plan = {key: value for key, value in asdict(recipe).items() if key != "device"}
    kind = type(model).__name__  # in the hash too: some systems take Rnn-1 and RNN-1 for one file
    digest = _digest(json.dumps([kind, layout, plan, samples]).encode())
    return f"{_readable(model)}-{digest[:12]}"


def _readable(model: nn.Module) -> str:
    return re.sub(r"\W", "_", type(model).__name__, flags=re.ASCII)[:40]


def _asked() -> dict[str, Any]:
    """What the release says of checkpoints; nothing, if it has none."""
    try:
        found: dict[str, Any] = json.loads(SETTINGS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _folder() -> Path:
    """Beside the notebook, where the release has its package too, whatever os.chdir did."""
    return SETTINGS.resolve().parents[2] / FOLDER


def _write(path: Path, data: bytes) -> None:
    """All or nothing. A part has a name that nobody hands in."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    os.replace(part, path)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _shared(model: nn.Module) -> str:
    return (
        f"Two networks {type(model).__name__} have the same layers, recipe and number of samples, "
        "so they share one checkpoint: give one of them a class of another name."
    )


def _missing(model: nn.Module, recipe: Recipe, path: Path) -> str:
    count = sum(p.numel() for p in nn.Module.parameters(model) if p.requires_grad)
    kind = type(model).__name__
    others = sorted(p.name for p in path.parent.glob(f"{_readable(model)}-*{path.suffix}"))
    told = f" There is {', '.join(others[:3])}, but class, recipe or samples were others then: \
was something changed after training?" if others else ""  # fmt: skip
    return (
        f"No checkpoint for {kind} ({count:,} parameters, {recipe.epochs} epochs): "
        f"{FOLDER}/{path.name} is missing.{told} {ADVICE}"
    )


def _require_pair(about: dict[str, str], record: bytes, assignment: str) -> None:
    if about.get("assignment") != assignment:
        raise UnfitWeights(f"is of assignment {about.get('assignment', '?')[:80]!r}, not of this")
    if about.get("history") != _digest(record):
        raise UnfitWeights("was written by another training than the .json file beside it")


def _require_same(history: History, model: nn.Module, recipe: Recipe, samples: int) -> None:
    """Raises ValueError where the history is not one of this model, recipe and number of samples.

    The device may be another one.
    """
    weights = dict(nn.Module.named_parameters(model))
    count = sum(weight.numel() for weight in weights.values() if weight.requires_grad)
    plans = [{**asdict(one), "device": ""} for one in (history.recipe, recipe)]
    if plans[0] != plans[1]:
        raise ValueError("The history is of another recipe.")
    if (history.parameters, history.samples) != (count, samples):
        raise ValueError("The history is of another network, or of another number of samples.")
    if history.weight_change.keys() != weights.keys():
        raise ValueError("The history does not tell how each tensor changed.")


def _require_samples(history: History, inputs: Tensor, share: float) -> None:
    """Raises ValueError where the history tells of other samples than those that fit now gets.

    Else what the checks say of the samples would be about data that the notebook no longer uses.
    A share of them may differ: rounding on another machine can change a fingerprint.
    """
    then, now = Counter(history.train_fingerprints), Counter(fingerprints(inputs))
    if (then - now).total() > share * len(inputs):
        raise ValueError(
            "The network was trained on other samples than those that the notebook gives to fit: "
            "were they changed after training?"
        )
