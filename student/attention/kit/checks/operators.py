"""The operators that a forward pass really runs, and what their operands were made from.

Below autograd every layer is a handful of operators, whatever the class around it is called.
"""

from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from autograder.checks.models import parameters_of

ADDING = frozenset({"addmm", "baddbmm", "addbmm", "addmv"})  # first argument: what is added
PRODUCTS = ADDING | {"mm", "bmm", "mv", "convolution"}
INPUT = ""  # no parameter has an empty name


class Trace(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's base is untyped
    """Follows the input and the parameters through a forward pass that runs inside it.

    Memory is followed, not tensor objects: a view or a write into part of a tensor counts.
    """

    def __init__(self, module: nn.Module, inputs: Tensor) -> None:
        """Know the parameters of `module` and the `inputs` that it will get."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._origins = {place(p): frozenset({n}) for n, p in parameters_of(module)}
        self._origins[place(inputs)] = frozenset({INPUT})
        self._kept: list[Tensor] = []  # so that no memory and no id is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, and note it and what its result was made from."""
        result = func(*args, **(kwargs or {}))
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        made = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        name = str(func.overloadpacket.__name__)
        self.note(name, args, given, made)
        if not name.startswith("new_") and not name.endswith("_like"):  # they copy shapes only
            origin = frozenset[str]().union(*map(self.origin, given))
            for tensor in made:
                self._origins[place(tensor)] = self.origin(tensor) | origin
        self._kept += made
        return result

    def note(self, name: str, args: Any, given: list[Tensor], made: list[Tensor]) -> None:
        """Called for each operator, with its arguments, the tensors among them, and its results."""

    def origin(self, tensor: Tensor) -> frozenset[str]:
        """Names of the parameters that a tensor was made from, and INPUT where that took part."""
        return self._origins.get(place(tensor), frozenset())

    def is_data(self, value: Any) -> bool:
        """Whether a value is a tensor that was made from the input."""
        return isinstance(value, Tensor) and INPUT in self.origin(value)


def factors(name: str, args: Any) -> tuple[Tensor, Tensor] | None:
    """The two tensors that a matrix product multiplies; None for any other operator."""
    if name not in PRODUCTS:
        return None
    left, right = args[1:3] if name in ADDING else args[:2]
    return left, right


def place(tensor: Tensor) -> int:
    """A number for the memory that a tensor lies in."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # sparse and other tensors without one memory
        return id(tensor)
