"""Does the order of a sequence matter, and does every step of it reach the output?

Shapes: sequences (B, T, D), outputs (B, K).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograder.checks.core import Check, Threshold, Verdict, number, verdict
from autograder.checks.gradients import pull
from autograder.checks.models import build, forward, nudged, samples


@dataclass(frozen=True)
class Change:
    """Change of the output when steps are shuffled, relative to the outputs' own spread."""

    relative: float | None


def measure_sequence_order(model: Any, *, name: str, input_shape: list[int], seed: int) -> Change:
    """Shuffle the steps of random sequences, all in the same way; the largest of five changes.

    First and last step keep their place: an attention without positions would notice that another
    step is read at the end, and nothing else.
    """
    module = nudged(build(model, name, input_shape), seed)
    inputs, others = samples(input_shape, 16, seed), samples(input_shape, 16, seed + 1)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        plain, other = forward(module, inputs.clone(), name), forward(module, others, name)
        mixed = [forward(module, shuffled(inputs, generator), name) for _ in range(5)]
    # What is below the rounding of the outputs is no spread.
    rounding = 1e3 * torch.finfo(plain.dtype).eps * plain.abs().max()
    spread = torch.maximum((plain - other).abs().max(), rounding).clamp_min(1e-12)
    changes = torch.stack([(plain - m).abs().max() for m in mixed])
    return Change(number(changes.max() / spread))


def shuffled(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """The inner steps in another order, the same for all sequences: (B, T, D)."""
    last = inputs.shape[1] - 1
    inner = 1 + torch.randperm(last - 1, generator=generator)
    return inputs[:, [0, *inner.tolist(), last]]


def judge_sequence_order(seen: Change, *, smallest: float) -> Verdict:
    """The order of the steps matters."""
    if seen.relative is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        seen.relative >= smallest,
        f"Shuffling the steps between the first and the last changes the output by "
        f"{seen.relative:.2g} of its spread (at least {smallest:.2g}).",
        "The model can't see the order of the steps: attention and mean over steps are blind to "
        "it, so add a positional encoding to the tokens before the first layer, with a different "
        "value at each step; a recurrent model must hand its state on from step to step.",
    )


@dataclass(frozen=True)
class Reach:
    """Norm of the output's gradient with respect to each step; None where it is not finite."""

    norms: list[float | None]


def measure_sequence_reach(model: Any, *, name: str, input_shape: list[int], seed: int) -> Reach:
    """Gradient of a randomly weighted sum of outputs, over 64 sequences, for each step.

    Random weights, since behind a layer norm the plain sum has no gradient; the largest of three
    nudged starts, since units can be off by chance.
    """
    module = build(model, name, input_shape)
    rows = []
    for k in range(3):
        inputs = samples(input_shape, 64, seed).requires_grad_()
        output = forward(nudged(module, seed + k), inputs.clone(), name)
        rows.append(by_step(pull(output, [inputs], seed, name)[0]))
    return Reach([number(norm) for norm in torch.stack(rows).amax(0)])


def by_step(gradient: Tensor) -> Tensor:
    """Norm for each step: (B, T, D) -> (T,)."""
    return gradient.transpose(0, 1).flatten(1).square().sum(1).sqrt()


def judge_sequence_reach(seen: Reach) -> Verdict:
    """Every step has a gradient that is finite and not zero, however small."""
    steps = len(seen.norms)
    norms = [norm for norm in seen.norms if norm is not None]
    if len(norms) < steps:
        return Verdict("failed", "The gradients are not finite.", "Look for log(0) or 0/0.")
    if not norms or min(norms) < 0:
        raise ValueError("no norms, or a negative one")
    reached = [norm > 0 for norm in norms]
    if all(reached):
        return Verdict("passed", f"All {steps} steps reach the output.")
    return Verdict("failed", *_unreached(reached, steps))


def _unreached(reached: list[bool], steps: int) -> tuple[str, str]:
    count = sum(reached)
    if not count:
        return (
            f"None of the {steps} steps reaches the output.",
            "Use the input in forward; detach(), .data, item(), numpy(), torch.no_grad() and "
            "torch.tensor(...) cut the graph.",
        )
    some = "step reaches" if count == 1 else f"{count} steps reach"
    if all(reached[-count:]):
        return (
            f"Of {steps} steps only the last {some} the output.",
            "The state is cut or set back on its way: no detach() and no new state inside the "
            "loop over steps. With nn.RNN, nn.LSTM or nn.Transformer set batch_first=True, or "
            "steps and samples change places.",
        )
    if all(reached[:count]):
        return (
            f"Of {steps} steps only the first {some} the output.",
            "Read the last state: out[:, 0] has seen the first step alone. Run the loop over all "
            "steps.",
        )
    silent = [str(t + 1) for t, there in enumerate(reached) if not there]
    return (
        f"Steps {', '.join(silent)} of {steps} don't reach the output.",
        "Use every step: look at slices and strides in forward, and with attention at what the "
        "mask hides (True means hidden).",
    )


ORDER = Threshold("smallest", lambda seen: seen.relative, at_least=True)  # of any Change

sequence_order = Check(measure_sequence_order, judge_sequence_order, ORDER)
sequence_reach = Check(measure_sequence_reach, judge_sequence_reach)
