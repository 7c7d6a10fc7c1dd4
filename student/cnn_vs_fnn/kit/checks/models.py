"""What goes in, what comes out: kind, shapes, independence of samples, evaluation mode, logits.

Shapes: images (B, C, H, W), outputs (B, K) with K classes.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import (
    Check,
    NotAnswered,
    Stop,
    Verdict,
    number,
    require,
    verdict,
)

# Kept before any student code runs, so that an override in a model class changes nothing.
parameters_of = nn.Module.named_parameters


def build(model: Any, name: str, shape: list[int]) -> nn.Module:
    """A fresh CPU model in evaluation mode from the student's class, function or instance.

    Lazy layers get their sizes from one forward pass on zeros of shape (2, *shape).
    """
    given = isinstance(model, nn.Module)
    module = duplicate(model, name) if given else _on_cpu(_working(_construct(model, name), name))
    with torch.no_grad():
        forward(module, torch.zeros(2, *shape), name)
    if unused := [n for n, p in parameters_of(module) if nn.parameter.is_lazy(p)]:
        raise Stop(
            f"{name} never uses {', '.join(unused)} in forward.",
            "Use the lazy layer in forward, or remove it from __init__.",
        )
    return module


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
    """The module's output for `inputs` in the dtype of its parameters; faults become `Stop`."""
    example = next((p for _, p in parameters_of(module) if p.is_floating_point()), inputs)
    try:
        output = module(inputs.to(example.dtype))
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


def scaled(module: nn.Module, factor: float) -> nn.Module:
    """A copy whose parameters are multiplied by `factor`."""
    copied = duplicate(module, "The model")
    with torch.no_grad():
        for _, parameter in parameters_of(copied):
            parameter.mul_(factor)
    return copied


def pictures(shape: list[int], count: int, seed: int) -> Tensor:
    """Smooth random inputs in [0, 1], shape (count, *shape): neighbouring values are alike."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, *shape, generator=generator)
    for dim in range(2, noise.dim()):
        noise = sum((noise.roll(k, dim) for k in range(-2, 3)), torch.zeros_like(noise))
    return torch.sigmoid(noise / noise.std())


@dataclass(frozen=True)
class Shapes:
    """Output shape for each batch size."""

    batches: list[int]
    shapes: list[list[int]]


def measure_output_shape(
    model: Any, *, name: str, input_shape: list[int], batches: list[int]
) -> Shapes:
    """Shapes of the outputs for several batch sizes."""
    module = build(model, name, input_shape)
    with torch.no_grad():
        outputs = [forward(module, torch.zeros(b, *input_shape), name) for b in batches]
    return Shapes(batches, [list(o.shape) for o in outputs])


def judge_output_shape(seen: Shapes, *, outputs: int, batches: list[int]) -> Verdict:
    """Every batch of B samples must give (B, outputs), a batch of one included."""
    wrong = [
        f"a batch of {b} gives shape {tuple(s)}, expected {(b, outputs)}"
        for b, s in zip(seen.batches, seen.shapes, strict=True)
        if s != [b, outputs]
    ]
    hint = "Keep the batch dimension: flatten with start_dim=1, and give squeeze() a dimension."
    passed = not wrong and seen.batches == batches
    return verdict(
        passed, "; ".join(wrong) or f"Shape (B, {outputs}) for B = {seen.batches}.", hint
    )


@dataclass(frozen=True)
class Independence:
    """Largest difference between a sample's output alone and in company, and the outputs' size."""

    difference: float | None
    scale: float | None


def measure_batch_independence(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Independence:
    """Compare each sample's output in a batch of five with its output alone and beside others."""
    module = nudged(build(model, name, input_shape), seed)
    batch = pictures(input_shape, 5, seed)
    with torch.no_grad():
        together = forward(module, batch, name)
        alone = torch.stack([forward(module, batch[i : i + 1], name).reshape(-1) for i in range(5)])
        mixed = forward(module, torch.cat([batch[:1], 1 - batch[1:]]), name)
    if together.dim() != 2 or alone.shape != together.shape or mixed.shape != together.shape:
        raise Stop(
            f"{name} gives shape {tuple(together.shape)} for a batch of 5.",
            "Mend the output shape first: one row a sample.",
        )
    difference = max((together - alone).abs().max(), (together[0] - mixed[0]).abs().max())
    return Independence(number(difference), number(together.abs().max()))


def judge_batch_independence(seen: Independence, *, tolerance: float) -> Verdict:
    """A sample's logits may not depend on the samples beside it (relative to their size)."""
    if seen.difference is None or seen.scale is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    passed = 0 <= seen.difference <= tolerance * max(1.0, seen.scale)
    return verdict(
        passed,
        f"In company a sample's output changes by {seen.difference:.2g} "
        f"(allowed: {tolerance * max(1.0, seen.scale):.2g}).",
        "Samples of a batch are mixed: look for a reshape that moves the batch dimension, dropout "
        "that stays on in evaluation, or batch statistics that are used in evaluation.",
    )


@dataclass(frozen=True)
class Repetition:
    """Largest difference between two passes over the same input in evaluation mode."""

    difference: float | None


def measure_evaluation_mode(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Repetition:
    """Two passes over the same five inputs after model.eval()."""
    module = build(model, name, input_shape)
    batch = pictures(input_shape, 5, seed)
    with torch.no_grad():
        difference = forward(module, batch, name) - forward(module, batch, name)
    return Repetition(number(difference.abs().max()))


def judge_evaluation_mode(seen: Repetition, *, tolerance: float) -> Verdict:
    """Evaluation is deterministic."""
    if seen.difference is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        0 <= seen.difference <= tolerance,
        f"Two passes in evaluation mode differ by {seen.difference:.2g} (up to {tolerance:.2g}).",
        "Use nn.Dropout, or F.dropout(x, p, self.training): plain F.dropout never switches off.",
    )


@dataclass(frozen=True)
class Outputs:
    """Range of the outputs over many inputs, and how far row sums are from 1."""

    smallest: float | None
    largest: float | None
    row_sum_error: float | None


def measure_logits(model: Any, *, name: str, input_shape: list[int], seed: int) -> Outputs:
    """Range and row sums over pictures, with the weights as they are and up to 64 times as large.

    Weights change the size of logits, but not the range of a softmax, sigmoid, ReLU or tanh.
    """
    module, images = nudged(build(model, name, input_shape), seed), pictures(input_shape, 32, seed)
    with torch.no_grad():
        plain, *more = (forward(scaled(module, k), images, name) for k in (1, -1, 8, -8, 64, -64))
    if plain.dim() != 2 or not plain.numel():
        raise Stop(f"{name} gives shape {tuple(plain.shape)}.", "Mend the output shape first.")
    output = torch.cat([plain, *(o for o in more if o.isfinite().all())])
    error = (output.sum(1) - 1).abs().max()
    return Outputs(number(output.min()), number(output.max()), number(error))


def _squashing(seen: Outputs) -> Iterator[str]:
    if seen.smallest is None or seen.largest is None or seen.row_sum_error is None:
        yield "The outputs are not finite."
    elif seen.smallest >= 0 and seen.row_sum_error < 1e-3:
        yield "Every row of the output is non-negative and sums to 1: these are probabilities."
    elif seen.smallest >= 0 and seen.largest <= 1:
        yield "Every output lies between 0 and 1, as after a sigmoid."
    elif seen.smallest >= 0:
        yield "No output is ever negative, as after a ReLU."
    elif seen.smallest >= -1 and seen.largest <= 1:
        yield "Every output lies between -1 and 1, as after a tanh."


def judge_logits(seen: Outputs) -> Verdict:
    """Cross-entropy takes unbounded logits: no softmax, sigmoid, ReLU or tanh on the last layer.

    A log-softmax is accepted: the cross-entropy of log-probabilities equals that of the logits.
    """
    faults = list(_squashing(seen))
    hint = (
        "Return the last linear layer's output as it is: nn.CrossEntropyLoss applies log-softmax "
        "itself, and a second squashing slows or stops learning."
    )
    return verdict(not faults, " ".join(faults) or "The outputs are unbounded logits.", hint)


output_shape = Check(measure_output_shape, judge_output_shape)
batch_independence = Check(measure_batch_independence, judge_batch_independence)
evaluation_mode = Check(measure_evaluation_mode, judge_evaluation_mode)
logits = Check(measure_logits, judge_logits)
