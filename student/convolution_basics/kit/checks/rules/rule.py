"""What a function that the student writes has to do: arguments to try, and who knows the answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def _result(result: Any, arguments: tuple[Any, ...]) -> Any:
    return result


@dataclass(frozen=True)
class Rule:
    """A function's task.

    Attributes:
        cases: by their names the makers of the arguments. They draw from torch's global generator,
            which is seeded before each call; float64 is the default type meanwhile.
        oracle: gives the right result for the arguments, in another way than students would.
        hint: where to look when the result is wrong.
        slips: by their hints functions that make a known mistake; a result that equals one of
            theirs, and not the right one, gets that hint.
        read: what to compare, from result and arguments, where it isn't the result itself (for
            instance the parameters of a module that the function changes).
        words: what the numbers of a result are called, where they stand for something.
    """

    cases: Mapping[str, Callable[[], tuple[Any, ...]]]
    oracle: Callable[..., Any]
    hint: str
    slips: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    read: Callable[[Any, tuple[Any, ...]], Any] = _result
    words: Mapping[float, str] = field(default_factory=dict)
