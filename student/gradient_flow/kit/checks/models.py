"""Networks to measure: built, copied and changed without a trace on the student's own, and inputs.

Shapes: images (C, H, W), sequences (T, D); a batch of B has one more dimension in front.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import NotAnswered, Stop, require

# Kept before any student code runs, so that an override in a model class changes nothing.
parameters_of = nn.Module.named_parameters


def build(model: Any, name: str, shape: list[int]) -> nn.Module:
    """A fresh CPU model in evaluation mode from the student's class, function or instance.

    Lazy layers get their sizes from one forward pass on zeros of shape (2, *shape).
    """
    module = made(model, name)
    with torch.no_grad():
        forward(module, torch.zeros(2, *shape), name)
    if unused := [n for n, p in parameters_of(module) if nn.parameter.is_lazy(p)]:
        raise Stop(
            f"{name} never uses {', '.join(unused)} in forward.",
            "Use the lazy layer in forward, or remove it from __init__.",
        )
    return module


def made(model: Any, name: str) -> nn.Module:
    """A fresh model from a class or function, or a copy of an instance, on the CPU, to evaluate."""
    given = isinstance(model, nn.Module)
    return duplicate(model, name) if given else _on_cpu(_working(_construct(model, name), name))


def duplicate(module: nn.Module, name: str) -> nn.Module:
    """A copy on the CPU in evaluation mode; methods that the class overrides play no part.

    Tensors that the model keeps from a forward pass hang on its graph, which can't be copied.
    """
    kept = {
        id(value): value.detach()
        for part in nn.Module.modules(_working(module, name))
        for value in vars(part).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        copied = copy.deepcopy(module, kept)
    except Exception as error:
        raise Stop(
            f"{name} can't be copied: {type(error).__name__}: {str(error)[:300]}",
            "Keep no generators, locks, open files or lists of outputs in the model.",
        ) from None
    return _on_cpu(copied)


def _working(module: nn.Module, name: str) -> nn.Module:
    try:
        list(nn.Module.modules(module))
    except Exception as error:
        raise Stop(
            f"{name} is not a working module: {type(error).__name__}: {str(error)[:300]}",
            "Call super().__init__() first in __init__, and don't make the class a @dataclass.",
        ) from None
    return module


def _on_cpu(module: nn.Module) -> nn.Module:
    for part in nn.Module.modules(module):
        part.training = False
    return nn.Module.cpu(module)


def _construct(model: Any, name: str) -> nn.Module:
    if not callable(require(model, name)):
        raise Stop(
            f"{name} is a {type(model).__name__}.", f"Make {name} a class derived from nn.Module."
        )
    try:
        module = model()
    except Exception as error:
        raise Stop(
            f"{name}() raised {type(error).__name__}: {str(error)[:500]}",
            f"{name}() must build the network without arguments; look at __init__.",
        ) from None
    if not isinstance(module, nn.Module):
        raise Stop(
            f"{name}() gives a {type(module).__name__}, not a torch.nn.Module.",
            f"Derive {name} from nn.Module, and call super().__init__() first.",
        )
    return module


def forward(module: nn.Module, inputs: Tensor, name: str) -> Tensor:
    """The module's output for `inputs` in the dtype of its parameters; faults become `Stop`.

    A forward may write into its input: pass a clone of what is used again.
    """
    example = next((p for _, p in parameters_of(module) if p.is_floating_point()), inputs)
    try:
        output = module(inputs.to(example.dtype))
    except Stop:
        raise
    except Exception as error:
        raise Stop(
            f"{name} can't process an input of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {str(error)[:500]}",
            "Follow the shape of the tensor through forward, layer by layer.",
        ) from None
    if output is None or output is ...:
        raise NotAnswered(
            f"The forward method of {name} returns nothing yet.", "Complete the class."
        )
    if not isinstance(output, Tensor) or not output.is_floating_point():
        raise Stop(
            f"{name} returns a {type(output).__name__}, expected a tensor of float logits.",
            "Return the output of the last layer.",
        )
    if not output.numel():
        raise Stop(
            f"{name} returns an empty tensor of shape {tuple(output.shape)}.",
            "Look for a slice that leaves nothing.",
        )
    return output


def nudged(module: nn.Module, seed: int) -> nn.Module:
    """A copy whose parameters moved a little, so that an initial value of zero hides nothing."""
    moved = duplicate(module, "The model")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in parameters_of(moved):
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.05 * noise.to(parameter.dtype))
    return moved


def scaled(module: nn.Module, factors: dict[str, float], seed: int) -> nn.Module:
    """A copy whose named parameters are multiplied by a factor, each value with a random sign."""
    copied = duplicate(module, "The model")
    generator = torch.Generator().manual_seed(seed)
    named = dict(parameters_of(copied))
    with torch.no_grad():
        for name, factor in factors.items():
            signs = 2 * torch.randint(2, named[name].shape, generator=generator) - 1
            named[name].mul_(factor * signs)
    return copied


def samples(shape: list[int], count: int, seed: int) -> Tensor:
    """Random inputs, shape (count, *shape), in single precision whatever the student's default is.

    A sequence (T, D) is standard normal; anything else is an image in [0, 1], smooth, so that
    neighbouring values are alike.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, *shape, generator=generator, dtype=torch.float32)
    if len(shape) == 2:
        return noise
    for dim in range(2, noise.dim()):
        noise = sum((noise.roll(k, dim) for k in range(-2, 3)), torch.zeros_like(noise))
    return torch.sigmoid(noise / noise.std())
