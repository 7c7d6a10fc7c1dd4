"""A model's weights as safetensors, and back into a model of the same class. Never pickled."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn


class UnfitWeights(ValueError):
    """The weights can't be used for this model; the message says why."""


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; a tensor with two names is there twice."""
    state = nn.Module.state_dict(model)
    return {name: tensor for name, tensor in state.items() if isinstance(tensor, Tensor)}


def layout_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Type and shape of each tensor in words, such as "float32 (16, 1, 3, 3)"."""
    kinds = {name: str(t.dtype).removeprefix("torch.") for name, t in tensors.items()}
    return {name: f"{kinds[name]} {tuple(t.shape)}" for name, t in tensors.items()}


def packed(model: nn.Module, about: Mapping[str, str]) -> bytes:
    """The weights as the bytes of a safetensors file, with `about` as its metadata.

    Raises:  Exception: safetensors can't hold a tensor of this kind (sparse, for instance).
    """
    from safetensors.torch import save

    # Copies, as safetensors refuses tensors that share memory, which tied weights do.
    own = {n: t.detach().cpu().contiguous().clone() for n, t in tensors_of(model).items()}
    return bytes(save(own, metadata=dict(about)))


def unpacked(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file.

    Raises:  UnfitWeights: it is none, or it is cut off.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
    except (SafetensorError, OSError, ValueError, RuntimeError):
        raise UnfitWeights("is no whole safetensors file") from None


def put_into(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors into the model, where names, shapes and types have to be the same.

    Raises:  UnfitWeights: they are not, a parameter is infinite or NaN, or torch can't copy one.
    """
    own = tensors_of(model)
    wanted, given = layout_of(own), layout_of(tensors)
    for name in dict.fromkeys((*wanted, *given)):
        if wanted.get(name) != given.get(name):
            now, then = wanted.get(name, "nothing"), given.get(name, "nothing")
            raise UnfitWeights(f"holds {then} for {name!r}, but the class has {now} there")
    parameters = dict(nn.Module.named_parameters(model))
    for name in parameters.keys() & tensors.keys():  # a buffer may be a mask of infinities
        if not torch.isfinite(tensors[name]).all():
            raise UnfitWeights(f"holds infinite or NaN numbers in {name!r}")
    for name, tensor in own.items():
        _copy(name, tensor, tensors[name])
    if any(not torch.equal(p.cpu(), tensors[n]) for n, p in parameters.items() if n in tensors):
        raise UnfitWeights("can't be put into the model: its class overrides state_dict, or ties "
                           "weights that the file holds apart")  # fmt: skip


def _copy(name: str, target: Tensor, source: Tensor) -> None:
    if torch.equal(target.cpu(), source):  # an expanded tensor takes no copy, but seldom needs one
        return
    try:
        with torch.no_grad():
            target.copy_(source)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0][:200]
        raise UnfitWeights(f"can't be put into {name!r} of the model: {reason}") from None
