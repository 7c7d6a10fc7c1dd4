"""Functions that the student writes by hand: right values, without the layer of torch itself.

Values alone can't tell a convolution that was written from one that was called.
"""

from dataclasses import dataclass
from typing import Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.checks.core import Check, Verdict, verdict
from autograder.checks.functions import Comparison, judge_same_values, measure_same_values


class Calls(TorchFunctionMode):
    """Notes the names of torch's functions that are called inside it.

    Some are made of other operators before these run: attention, for instance, of products.
    """

    def __init__(self, seen: set[str]) -> None:
        """Add the names to `seen`."""
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, and note its name."""
        self.seen.add(str(getattr(func, "__name__", "")))
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Notes the names of the operators that run inside it, whatever function asked for them."""

    def __init__(self, seen: set[str]) -> None:
        """Add the names to `seen`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note its name."""
        self.seen.add(str(func.overloadpacket.__name__))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class ByHand:
    """What the function gave, and the names of all operators and functions of torch that ran."""

    compared: Comparison
    operators: list[str]


def measure_by_hand(function: Any, *, name: str, rule: str, cases: list[str], seed: int) -> ByHand:
    """Compare with the oracle as `same_values` does; the oracle's own operators don't count."""
    seen: set[str] = set()

    def watched(*arguments: Any) -> Any:
        with Calls(seen), Operators(seen):
            return function(*arguments)

    answer = watched if callable(function) else function
    compared = measure_same_values(answer, name=name, rule=rule, cases=cases, seed=seed)
    return ByHand(compared, sorted(seen))


def judge_by_hand(
    seen: ByHand, *, rule: str, cases: list[str], tolerance: float, forbidden: str
) -> Verdict:
    """The values are right, and nothing that ran has `forbidden` in its name."""
    values = judge_same_values(seen.compared, rule=rule, cases=cases, tolerance=tolerance)
    if values.status != "passed":
        return values
    called = [operator for operator in seen.operators if forbidden in operator]
    return verdict(
        not called,
        f"The function calls torch's own {min(called, key=len)}."
        if called
        else "The function computes it by itself.",
        "The values are right, but here you are asked to write this computation yourself: call "
        f"nothing of torch that has '{forbidden}' in its name.",
    )


by_hand = Check(measure_by_hand, judge_by_hand)
