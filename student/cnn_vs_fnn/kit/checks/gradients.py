"""Does the gradient of the loss reach every parameter? And gradients of any output, in words.

Shapes: images (B, C, H, W), sequences (B, T, D), outputs (B, K).
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from autograder.checks.core import Check, Stop, Verdict, number
from autograder.checks.models import build, forward, nudged, parameters_of, samples


@dataclass(frozen=True)
class Gradients:
    """Gradient norm of each parameter tensor (None: no finite gradient), and the frozen ones."""

    norms: dict[str, float | None]
    missing: list[str]
    frozen: list[str]


def measure_gradient_reach(
    model: Any, *, name: str, input_shape: list[int], outputs: int, seed: int
) -> Gradients:
    """Gradient of the loss on a random batch, in evaluation mode, from nudged starts.

    In training mode batch norm cancels the gradient of a bias before it, a last layer that starts
    at zero hides the rest, and in a narrow layer all units can be off by chance; none is a fault.
    So the largest of three gradients counts for each tensor.
    """
    module = build(model, name, input_shape)
    inputs = samples(input_shape, 32, seed)
    starts = [nudged(module, seed + k) for k in range(3)]
    for start in starts:
        output = forward(start, inputs, name)
        if output.shape != (32, outputs):
            raise Stop(
                f"{name} gives shape {tuple(output.shape)} for 32 samples.", "Mend the shape first."
            )
        loss = _loss(output)
        if loss.requires_grad:  # else nothing is reached, which is what will be told
            with _in_words(name):
                torch.autograd.backward(loss)
    trained = {n for n, p in parameters_of(module) if p.requires_grad}
    reached = {n: _norms(n, starts) for n in sorted(trained)}
    return Gradients(
        norms={n: _largest(norms) for n, norms in reached.items() if norms},
        missing=[n for n, norms in reached.items() if not norms],
        frozen=[n for n, _ in parameters_of(module) if n not in trained],
    )


def _loss(output: Tensor) -> Tensor:
    """Cross-entropy, or the squared error where there is one output, and so no classes."""
    if output.shape[1] == 1:
        return nn.functional.mse_loss(output, torch.ones_like(output))
    return nn.functional.cross_entropy(output, torch.arange(len(output)) % output.shape[1])


def _largest(norms: list[float | None]) -> float | None:
    finite = [norm for norm in norms if norm is not None]
    return max(finite) if len(finite) == len(norms) else None


def _norms(name: str, starts: list[nn.Module]) -> list[float | None]:
    """Norms of the gradients that reached a parameter; None for one that is not finite."""
    gradients = [nn.Module.get_parameter(start, name).grad for start in starts]
    return [number(g.double().norm()) for g in gradients if g is not None]


@contextlib.contextmanager
def _in_words(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise Stop(
            f"The backward pass of {name} raised {type(error).__name__}: {str(error)[:500]}",
            "Write x = x + 1 in place of x += 1: a gradient may need what was overwritten.",
        ) from None


def edge(tensor: Tensor) -> GradientEdge | None:
    """Where a tensor stands in the graph now, whatever is written into it later."""
    return get_gradient_edge(tensor) if tensor.requires_grad else None


def pull(
    output: Tensor, targets: list[Tensor], seed: int, name: str, at: GradientEdge | None = None
) -> list[Tensor]:
    """Gradients of a randomly weighted sum of `output` for each target, in double precision.

    Taken at 1e20 times their size, so that what vanishes over many steps is not rounded to zero;
    at their own size where that overflows. `at` is the output's place in the graph, if it has
    been written into since.
    """
    start = at or edge(output)
    if start is None:
        return [torch.zeros(t.shape, dtype=torch.float64) for t in targets]
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    for scale in (1e20, 1.0):
        with _in_words(name):
            found = torch.autograd.grad(
                [start], targets, [(scale * weights).to(output.dtype)],
                retain_graph=True, allow_unused=True, materialize_grads=True,
            )  # fmt: skip
        gradients = [g.double() / scale for g in found]
        if all(g.isfinite().all() for g in gradients):
            break
    return gradients


def judge_gradient_reach(seen: Gradients) -> Verdict:
    """Every parameter tensor is trainable, and its gradient is finite and not zero."""
    silent = [
        *seen.missing,
        *(n for n, norm in seen.norms.items() if norm is not None and norm <= 0),
    ]
    if not seen.norms and not silent and not seen.frozen:
        return Verdict("failed", "There are no parameters.", "Create the layers in __init__.")
    faults = {
        "no gradient reaches {}": (silent, _why_silent(silent)),
        "{} can't learn, requires_grad is off": (
            seen.frozen,
            "fixed numbers belong into register_buffer; everything else must be trainable",
        ),
        "the gradient of {} is not finite": (
            [n for n, norm in seen.norms.items() if norm is None], "look for log(0) or 0/0"
        ),
    }  # fmt: skip
    found = [(text.format(", ".join(who)), hint) for text, (who, hint) in faults.items() if who]
    if found:
        return Verdict(
            "failed",
            f"In the backward pass {'; '.join(text for text, _ in found)}.",
            f"Possible cause: {'; '.join(hint for _, hint in found)}.",
        )
    return Verdict("passed", f"The gradient reaches all {len(seen.norms)} parameter tensors.")


def _why_silent(names: list[str]) -> str:
    """The usual cause, by the names that torch gives the tensors of recurrent layers."""
    if all("_reverse" in name for name in names):
        return (
            "at the last position the reversed direction has seen one step only: take h_n[-2] and "
            "h_n[-1]"
        )
    if all(re.search(r"_[ih]h_l[1-9]", name) for name in names):
        return "h_n[0] is the first layer; the top one is h_n[-1]"
    return (
        "a layer is not used in forward, or the graph is cut by detach(), .data, item(), numpy() "
        "or torch.no_grad()"
    )


gradient_reach = Check(measure_gradient_reach, judge_gradient_reach)
