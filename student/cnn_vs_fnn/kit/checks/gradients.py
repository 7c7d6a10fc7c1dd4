"""Does the gradient of the loss reach every parameter?

Shapes: images (B, C, H, W), outputs (B, K).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from autograder.checks.core import Check, Stop, Verdict, number
from autograder.checks.models import build, forward, nudged, parameters_of, pictures


@dataclass(frozen=True)
class Gradients:
    """Gradient norm of each parameter tensor (None: no finite gradient), and the frozen ones."""

    norms: dict[str, float | None]
    missing: list[str]
    frozen: list[str]


def measure_gradient_reach(
    model: Any, *, name: str, input_shape: list[int], outputs: int, seed: int
) -> Gradients:
    """Gradient of the cross-entropy on a random batch, in evaluation mode, from a nudged start.

    In training mode batch norm cancels the gradient of a bias before it, and a last layer that
    starts at zero hides the rest; neither is a fault.
    """
    module = nudged(build(model, name, input_shape), seed)
    target = torch.arange(32) % outputs
    output = forward(module, pictures(input_shape, 32, seed), name)
    if output.shape != (32, outputs):
        raise Stop(
            f"{name} gives shape {tuple(output.shape)} for 32 samples.", "Mend the shape first."
        )
    loss = nn.functional.cross_entropy(output, target)
    if loss.requires_grad:
        torch.autograd.backward(loss)
    named = dict(parameters_of(module))
    trained = {n: p.grad for n, p in named.items() if p.requires_grad}
    norms = {n: number(g.double().norm()) for n, g in trained.items() if g is not None}
    missing = [n for n, g in trained.items() if g is None]
    return Gradients(norms, missing, [n for n, p in named.items() if not p.requires_grad])


def judge_gradient_reach(seen: Gradients) -> Verdict:
    """Every parameter tensor is trainable, and its gradient is finite and not zero."""
    silent = [*seen.missing, *(n for n, norm in seen.norms.items() if norm == 0)]
    if not seen.norms and not silent and not seen.frozen:
        return Verdict("failed", "There are no parameters.", "Create the layers in __init__.")
    faults = {
        "no gradient reaches {}": (silent, "a layer is not used in forward, or the graph is cut by "
                                   "detach(), .data, item(), numpy() or torch.no_grad()"),
        "{} can't learn, requires_grad is off": (seen.frozen, "leave requires_grad as it is"),
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


gradient_reach = Check(measure_gradient_reach, judge_gradient_reach)
