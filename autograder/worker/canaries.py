"""Questions with known answers: checks that must pass, and checks that must not.

They see what `identities` doesn't: a change below Python, or one that came with the tests.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Limits = tuple[tuple[Mapping[str, Any], str], ...]

_pass, _fail = "passed", "failed"


def _floor(size: int, kernel: int, stride: int | None = None, padding: int = 0) -> int:
    return (size + 2 * padding - kernel) // (stride or kernel) + 1


def _model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2))  # 50 values


_SIZES = {"name": "f", "rule": "pooling", "cases": 1, "seed": 1}
_BUDGET = {"name": "M", "input_shape": [1, 3, 3], "seed": 1}
_FITS, _IS_OVER = {"smallest": 50, "largest": 50}, {"smallest": 1, "largest": 49}
# check, settings, the student's objects, and what has to come out with which limits
KNOWN: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any], Limits], ...] = (
    ("output_size", _SIZES, {"function": _floor}, (({}, _pass),)),
    ("output_size", _SIZES, {"function": lambda *_: -1}, (({}, _fail),)),
    ("parameter_budget", _BUDGET, {"model": _model}, ((_FITS, _pass), (_IS_OVER, _fail))),
)


class Canaries:
    """The known questions, for the checks that a release has."""

    def __init__(self, core: Any, checks: Mapping[str, Any]) -> None:
        """Take the module `core` of the release's checks, and its checks by name."""
        self._known = [(k[0], checks[k[0]], *k[1:]) for k in KNOWN if k[0] in checks]
        self._perform, self._decide = core.perform, core.decide

    def changes(self) -> list[str]:
        """The questions that were answered wrongly, in words."""
        return [*self._checks(), *_arithmetic()]

    def _checks(self) -> Iterator[str]:
        for name, check, settings, objects, outcomes in self._known:
            try:
                evidence = self._perform(check, settings, objects)
                got = [
                    self._decide(check, {**settings, **limits}, evidence).status
                    for limits, _ in outcomes
                ]
            except Exception as error:
                got = [type(error).__name__]
            if got != [wanted for _, wanted in outcomes]:
                yield f"a check with a known outcome ({name})"


def _arithmetic() -> Iterator[str]:
    """PyTorch on two numbers: a graph, a loss, comparisons, modes.

    No backward pass: it would start threads, and break processes that student code forks later.
    """
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
            wrong = [name for name, right in _known_numbers() if not right]
    except Exception as error:
        wrong = [f"{type(error).__name__}"]
    yield from (f"PyTorch's own arithmetic ({name})" for name in wrong)


def _known_numbers() -> Iterator[tuple[str, bool]]:
    x = torch.tensor([2.0, -3.0], dtype=torch.float64, requires_grad=True)
    yield "graph", type((x**3).sum().grad_fn).__name__ == "SumBackward0"
    loss = functional.cross_entropy(x.detach()[None], torch.tensor([1])).item()
    yield "cross_entropy", abs(loss - math.log1p(math.exp(5.0))) < 1e-9
    one, two = torch.ones(2, dtype=torch.float64), torch.full((2,), 2.0, dtype=torch.float64)
    yield "allclose", torch.allclose(one, one) and not torch.allclose(one, two)
    yield "equal", torch.equal(two, one + one) and not torch.equal(one, two)
    yield "numel", x.numel() == 2 and x.requires_grad and x.grad_fn is None
    with torch.no_grad():
        yield "no_grad", not (x + 1).requires_grad
