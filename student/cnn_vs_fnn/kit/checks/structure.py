"""What a network is made of, read from the operators that really run, not from class names.

Shapes: images (B, C, H, W), convolution weights (O, C, kh, kw).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checks.core import Check, Verdict, number, verdict
from autograder.checks.models import build, forward, nudged, pictures

# Operators that multiply by weights, and element-wise operators that are not affine.
WEIGHTS = frozenset(
    {"convolution", "addmm", "mm", "bmm", "baddbmm", "matmul", "linear", "addbmm", "dot", "mv"}
)
# fmt: off
ACTIVATIONS = frozenset([
    "abs", "asinh", "atan", "arctan", "celu", "clamp", "clamp_max", "clamp_min", "cos", "elu",
    "erf", "exp", "expm1", "fmax", "fmin", "gelu", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "heaviside", "leaky_relu", "log", "log1p", "log_sigmoid_forward", "maximum",
    "minimum", "mish", "pow", "prelu", "_prelu_kernel", "relu", "rrelu", "rrelu_with_noise",
    "selu", "sigmoid", "sign", "silu", "sin", "sinh", "softplus", "softshrink", "sqrt",
    "square", "tanh", "threshold", "where",
])
# fmt: on


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Names of the operators of a forward pass in order, and the geometry of its convolutions."""

    def __init__(self) -> None:
        """Start with empty records."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []
        self.convolutions: list[dict[str, list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and note it."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket.__name__)
        name = name[:-1] if name.endswith("_") and not name.startswith("__") else name
        if name == "mul" and _product_of_activations(args):
            name = "square"
        self.operators.append(name)
        if name == "convolution":
            self.convolutions.append(
                {"kernel": list(args[1].shape[2:]), "output": list(result.shape[2:])}
            )
        elif name == "im2col":  # F.unfold, the start of a convolution by hand
            columns = _steps(args)
            self.convolutions.append({"kernel": list(args[1]), "output": columns})
        return result


def _product_of_activations(args: Any) -> bool:
    """X * x and gates are non-linear; a product with a parameter or a number is not."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    return len(tensors) == 2 and all(t.dim() > 0 and not t.is_leaf for t in tensors)


def _steps(args: Any) -> list[int]:
    sizes, (kernel, dilation, padding, stride) = args[0].shape[-2:], args[1:5]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return [
        (n + 2 * p - s) // t + 1 for n, p, s, t in zip(sizes, padding, spans, stride, strict=True)
    ]


def _record(module: nn.Module, inputs: Tensor, name: str) -> Recorder:
    recorder = Recorder()
    with recorder:
        forward(module, inputs, name)
    return recorder


@dataclass(frozen=True)
class Linearity:
    """Relative size of f(a+b) − f(a) − f(b) + f(0), and activations between the weight layers."""

    deviation: float | None
    activations: list[str]


def measure_nonlinearity(model: Any, *, name: str, input_shape: list[int], seed: int) -> Linearity:
    """Test additivity, and list the activation operators between the first and last weights.

    Max pooling is not additive either, so additivity alone would let a CNN without any activation
    pass; an activation after the last layer doesn't help, so only those in between count.
    """
    module = nudged(build(model, name, input_shape), seed)
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(16, *input_shape, generator=generator) for _ in range(2))
    with torch.no_grad():
        fa, fb, fab, f0 = (forward(module, x, name) for x in (a, b, a + b, torch.zeros_like(a)))
    deviation = (fab - fa - fb + f0).abs().max() / (fa - f0).abs().max().clamp_min(1e-12)
    return Linearity(number(deviation), _activations(_record(module, a, name).operators))


def _activations(operators: list[str]) -> list[str]:
    places = [i for i, operator in enumerate(operators) if operator in WEIGHTS]
    between = operators[places[0] : places[-1]] if places else []
    return [operator for operator in between if operator in ACTIVATIONS]


def judge_nonlinearity(seen: Linearity, *, smallest: float) -> Verdict:
    """The network is not affine, and an activation stands between its layers."""
    if seen.deviation is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    hint = (
        "Without an activation between them, two linear layers or convolutions are one: put a ReLU "
        "after each hidden layer."
    )
    if not seen.activations:
        return Verdict("failed", "No activation function acts between the layers.", hint)
    rationale = f"Deviation from a linear map: {seen.deviation:.2g} (at least {smallest:.2g})."
    return verdict(seen.deviation >= smallest, rationale, hint)


@dataclass(frozen=True)
class Convolutions:
    """Kernel and output size of every convolution of a forward pass."""

    kernels: list[list[int]]
    outputs: list[list[int]]


def measure_convolution(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Convolutions:
    """Geometry of the convolutions that run on two pictures."""
    module = build(model, name, input_shape)
    seen = _record(module, pictures(input_shape, 2, seed), name).convolutions
    return Convolutions([c["kernel"] for c in seen], [c["output"] for c in seen])


def spatial(seen: Convolutions) -> list[list[int]]:
    """Kernels that look at more than one pixel and are used at more than one place, per axis."""
    real = []
    for kernel, output in zip(seen.kernels, seen.outputs, strict=True):
        axes = [k if k > 1 and n > 1 else 1 for k, n in zip(kernel, output, strict=True)]
        real.append(axes if len(axes) == 2 else [1, 1])
    return [axes for axes in real if axes != [1, 1]]


def judge_convolution(seen: Convolutions, *, smallest: int) -> Verdict:
    """At least `smallest` two-dimensional convolutions slide over the image, in both directions."""
    real = spatial(seen)
    both = all(any(axes[d] > 1 for axes in real) for d in (0, 1))
    sizes = ", ".join("×".join(map(str, kernel)) for kernel in seen.kernels) or "none"
    return verdict(
        len(real) >= smallest and both,
        f"Convolutions that slide over the image: {len(real)} (at least {smallest}); "
        f"kernels: {sizes}.",
        "Use nn.Conv2d on the image (B, 1, H, W), before flattening, with a kernel that is larger "
        "than 1×1 and smaller than the image.",
    )


def judge_no_convolution(seen: Convolutions) -> Verdict:
    """No convolution slides over the image."""
    real = spatial(seen)
    return verdict(
        not real,
        f"Convolutions that slide over the image: {len(real)} (allowed: 0).",
        "The feed-forward network must treat all pixels alike: flatten first, then linear layers.",
    )


@dataclass(frozen=True)
class Change:
    """Change of the output when pixels are shuffled, relative to the outputs' own spread."""

    relative: float | None


def measure_pixel_order(model: Any, *, name: str, input_shape: list[int], seed: int) -> Change:
    """Shuffle the pixels of smooth pictures, all in the same way, and compare the outputs."""
    module = nudged(build(model, name, input_shape), seed)
    images = pictures(input_shape, 16, seed)
    order = torch.randperm(images[0, 0].numel(), generator=torch.Generator().manual_seed(seed))
    shuffled = images.flatten(2)[:, :, order].reshape(images.shape)
    with torch.no_grad():
        plain, mixed = forward(module, images, name), forward(module, shuffled, name)
        blank = forward(module, torch.zeros_like(images), name)
    return Change(
        number((plain - mixed).abs().max() / (plain - blank).abs().max().clamp_min(1e-12))
    )


def judge_pixel_order(seen: Change, *, smallest: float) -> Verdict:
    """The arrangement of the pixels matters."""
    if seen.relative is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        seen.relative >= smallest,
        f"Shuffling the pixels changes the output by {seen.relative:.2g} "
        f"(at least {smallest:.2g}).",
        "The network can't see where a pixel is: pool after a convolution, not instead of it.",
    )


nonlinearity = Check(measure_nonlinearity, judge_nonlinearity)
convolution = Check(measure_convolution, judge_convolution)
no_convolution = Check(measure_convolution, judge_no_convolution)
pixel_order = Check(measure_pixel_order, judge_pixel_order)
