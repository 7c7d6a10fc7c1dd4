"""What a network is made of, read from the operators that really run, not from class names.

Shapes: images (B, C, H, W), sequences (B, T, D), convolution weights (O, C, kh, kw).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checks.core import Check, Threshold, Verdict, number, verdict
from autograder.checks.models import build, forward, nudged, samples

# Operators that multiply by weights.
WEIGHTS = frozenset({"convolution", "addmm", "mm", "bmm", "baddbmm", "addbmm", "_trilinear"})


SAMPLES = 97  # a prime, so that the rows of a product tell samples from places in an image


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Geometry of the convolutions of a forward pass, and rows of its matrix products."""

    def __init__(self) -> None:
        """Start with empty records."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.convolutions: list[dict[str, list[int]]] = []
        self.rows: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and note it."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket.__name__)
        if name == "convolution":
            self.convolutions.append(
                {"kernel": list(args[1].shape[2:]), "output": list(result.shape[2:])}
            )
        elif name == "im2col":  # F.unfold, the start of a convolution by hand
            columns = _steps(args)
            self.convolutions.append({"kernel": list(args[1]), "output": columns})
        elif name in WEIGHTS and isinstance(result, Tensor):
            self.rows.append(result[..., 0].numel())
        return result


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


class Averaging(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Runs a network with mean in place of maximum pooling and without normalisation.

    What is left of a network without activations is affine from its first layer to its last.
    The first layer's output is replaced by noise, drawn and added up by `seeds`; `results` are
    the outputs of the layers (operators that multiply by weights) after it.
    """

    def __init__(self, seeds: list[int]) -> None:
        """Start with empty records."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.seeds, self.layers = seeds, 0
        self.results: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator or its stand-in."""
        result = func(*args, **(kwargs or {}))
        name = str(func.overloadpacket.__name__)
        if name in WEIGHTS and result.is_floating_point():
            self.layers += 1
            if self.layers == 1:
                return sum((_noise(result, seed) for seed in self.seeds), torch.zeros_like(result))
            self.results.append(result)
        if name in STAND_INS:
            return STAND_INS[name](result, *args)
        return result


def _noise(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(like.shape, generator=generator)).to(like.dtype)


def _mean_pool(result: Any, maps: Tensor, kernel: Any, stride: Any = (), *more: Any) -> Any:
    defaults: list[Any] = [(0,), (1,), False]
    padding, dilation, ceil = [*more, *defaults[len(more) :]]
    if set(dilation) != {1}:
        return torch.zeros_like(result[0]), result[1]
    mean = nn.functional.avg_pool2d(maps, kernel, stride or kernel, tuple(padding), ceil)
    return mean, result[1]


def _mean_of_map(result: Any, maps: Tensor, dims: Any = (), *keep: Any) -> Any:
    places = [dims] if isinstance(dims, int) else list(dims)
    if maps.dim() != 4 or not places or any(d % 4 < 2 for d in places):
        return result  # not a pooling over height and width: maxout, for instance
    mean = maps.mean(places, *keep)
    return mean if isinstance(result, Tensor) else (mean, result[1])


STAND_INS: dict[str, Callable[..., Any]] = {
    "max_pool2d_with_indices": _mean_pool,
    "adaptive_max_pool2d": lambda result, maps, size: (
        torch.nn.functional.adaptive_avg_pool2d(maps, size), result[1]
    ),
    "amax": _mean_of_map,
    "max": _mean_of_map,
    "native_layer_norm": lambda result, maps, *_: (maps, *result[1:]),
    "native_group_norm": lambda result, maps, *_: (maps, *result[1:]),
}  # fmt: skip


@dataclass(frozen=True)
class Linearity:
    """Largest relative size of f(a+b) − f(a) − f(b) + f(0) among the layers with weights."""

    deviation: float | None


def measure_nonlinearity(model: Any, *, name: str, input_shape: list[int], seed: int) -> Linearity:
    """Test whether what reaches each later layer is an affine function of the first one's output.

    Maximum pooling is not affine either, so it is replaced by the mean meanwhile; an activation
    after the last layer doesn't help, so the results of the layers count, not the output.
    """
    module = nudged(build(model, name, input_shape), seed)
    inputs, a, b = samples(input_shape, 16, seed), seed + 1, seed + 2
    with torch.no_grad():
        layers = [_layers(module, inputs, seeds, name) for seeds in ([a], [b], [a, b], [])]
    deviations = [
        (fab - fa - fb + f0).abs().max() / (fa - f0).abs().max().clamp_min(1e-12)
        for fa, fb, fab, f0 in zip(*layers, strict=False)
        if fa.shape == fb.shape == fab.shape == f0.shape
    ]
    return Linearity(number(max(deviations, default=0.0)))


def _layers(module: nn.Module, inputs: Tensor, seeds: list[int], name: str) -> list[Tensor]:
    mode = Averaging(seeds)
    with torch.backends.mkldnn.flags(enabled=False), mode:  # it would hide the steps of an RNN
        forward(module, inputs, name)
    return mode.results


def judge_nonlinearity(seen: Linearity, *, smallest: float) -> Verdict:
    """The network is not affine, and an activation stands between its layers."""
    if seen.deviation is None:
        return Verdict("failed", "The outputs are not finite.", "Look for a division by zero.")
    return verdict(
        seen.deviation >= smallest,
        f"Deviation from a linear map between the layers: {seen.deviation:.2g} "
        f"(at least {smallest:.2g}).",
        "Without an activation between them, two linear layers or convolutions, or two steps of a "
        "recurrence, are one: put a ReLU or tanh after each, and use what it returns.",
    )


@dataclass(frozen=True)
class Convolutions:
    """Kernel and output size of every convolution, and uses of the first linear layer an image."""

    kernels: list[list[int]]
    outputs: list[list[int]]
    places: int


def measure_convolution(
    model: Any, *, name: str, input_shape: list[int], seed: int
) -> Convolutions:
    """Geometry of the convolutions, and at how many places the first linear layer is used."""
    module = build(model, name, input_shape)
    seen = _record(module, samples(input_shape, SAMPLES, seed), name)
    places = [rows // SAMPLES for rows in seen.rows if rows % SAMPLES == 0]
    return Convolutions(
        [c["kernel"] for c in seen.convolutions],
        [c["output"] for c in seen.convolutions],
        places[0] if places else 0,
    )


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
    """No weights are used at several places of the image, by a convolution or by hand."""
    pairs = zip(seen.kernels, seen.outputs, strict=True)
    real = [k for k, n in pairs if any(a > 1 and m > 1 for a, m in zip(k, n, strict=True))]
    return verdict(
        not real and 0 <= seen.places <= 1,
        f"Convolutions that slide over the image: {len(real)} (allowed: 0); uses of the first "
        f"linear layer on one image: {seen.places} (allowed: 1).",
        "The feed-forward network must treat all pixels alike: flatten first, then linear layers.",
    )


@dataclass(frozen=True)
class Change:
    """Change of the output when pixels are shuffled, relative to the outputs' own spread."""

    relative: float | None


def measure_pixel_order(model: Any, *, name: str, input_shape: list[int], seed: int) -> Change:
    """Shuffle the pixels of smooth pictures, all in the same way, and compare the outputs."""
    module = nudged(build(model, name, input_shape), seed)
    images = samples(input_shape, 16, seed)
    order = torch.randperm(images[0, 0].numel(), generator=torch.Generator().manual_seed(seed))
    shuffled = images.flatten(2)[:, :, order].reshape(images.shape)
    with torch.no_grad():
        plain, mixed = forward(module, images, name), forward(module, shuffled, name)
        others = forward(module, samples(input_shape, 16, seed + 1), name)
    spread = (plain - others).abs().max().clamp_min(1e-12)
    return Change(number((plain - mixed).abs().max() / spread))


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


nonlinearity = Check(
    measure_nonlinearity,
    judge_nonlinearity,
    Threshold("smallest", lambda seen: seen.deviation, at_least=True),
)
convolution = Check(measure_convolution, judge_convolution)
no_convolution = Check(measure_convolution, judge_no_convolution)
pixel_order = Check(
    measure_pixel_order,
    judge_pixel_order,
    Threshold("smallest", lambda seen: seen.relative, at_least=True),
)
