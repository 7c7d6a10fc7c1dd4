"""Rules for the plain recurrence, and for the gradient that flows back through it.

Shapes: inputs (B, T, D), states (B, T, H), h0 (B, H), h0 of nn.RNN (1, B, H).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]


def _draw(batch: int, steps: int, features: int, hidden: int) -> tuple[Tensor, ...]:
    """Arguments of a recurrence: inputs, h0, w_xh (H, D), w_hh (H, H)."""
    return (
        torch.randn(batch, steps, features),
        torch.randn(batch, hidden),
        torch.randn(hidden, features) / features**0.5,
        torch.randn(hidden, hidden) / hidden**0.5,
    )


def _layer(inputs: Tensor, h0: Tensor, w_xh: Tensor, w_hh: Tensor) -> Tensor:
    rnn = nn.RNN(*reversed(w_xh.shape), bias=False, batch_first=True)
    weights = {"weight_ih_l0": w_xh, "weight_hh_l0": w_hh}  # in the graph, for their gradients
    states: Tensor = torch.func.functional_call(rnn, weights, (inputs, h0[None]))[0]
    return states


def _with(activation: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def mistaken(inputs: Tensor, h: Tensor, w_xh: Tensor, w_hh: Tensor) -> Tensor:
        states = []
        for x in inputs.unbind(1):
            h = activation(x @ w_xh.T + h @ w_hh.T)
            states.append(h)
        return torch.stack(states, dim=1)

    return mistaken


def _without_memory(inputs: Tensor, h0: Tensor, w_xh: Tensor, w_hh: Tensor) -> Tensor:
    return torch.tanh(inputs @ w_xh.T + (h0 @ w_hh.T)[:, None])


def _of_the_next_step(inputs: Tensor, *others: Tensor) -> Tensor:
    return _layer(torch.cat([inputs[:, 1:], torch.zeros_like(inputs[:, :1])], dim=1), *others)


def _states_before(inputs: Tensor, h0: Tensor, *weights: Tensor) -> Tensor:
    states = _layer(inputs, h0, *weights)
    return torch.cat([h0[:, None], states[:, :-1]], dim=1)


def _states(result: Any, _: Arguments) -> Any:
    if isinstance(result, tuple | list) and len(result) == 2 and _is_sequence(result[0]):
        raise Stop("that is a tuple of two.", "Return the states alone.")
    return result


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 3


RECURRENCE = Rule(
    cases={
        "three features": lambda: _draw(4, 6, 3, 5),
        "as many features as hidden units": lambda: _draw(2, 5, 4, 4),
        "a batch of one": lambda: _draw(1, 4, 2, 3),
        "one step": lambda: _draw(3, 1, 2, 4),
        "one hidden unit": lambda: _draw(2, 6, 3, 1),
        "a long sequence": lambda: _draw(2, 60, 2, 6),
    },
    oracle=_layer,
    read=_states,
    hint="For each step: new h = tanh(W_xh x + W_hh h), for all sequences of the batch at once; "
    "keep the new h of each step.",
    slips={
        "Start from h0, not from zeros.": lambda x, h, w, u: _layer(x, torch.zeros_like(h), w, u),
        "The activation is missing: apply torch.tanh to the sum.": _with(nn.Identity()),
        "The activation is torch.tanh, not a ReLU.": _with(torch.relu),
        "The activation is torch.tanh, not a sigmoid.": _with(torch.sigmoid),
        "w_hh is used the wrong way round: with states as rows, multiply by w_hh.T.": (
            lambda x, h, w, u: _layer(x, h, w, u.T)
        ),
        "Each step must start from the state that the step before has left, not from h0.": (
            _without_memory
        ),
        "Step t must use input t: yours looks one step into the future.": _of_the_next_step,
        "Keep the state after each step, not the one before it: h0 is none of the results.": (
            _states_before
        ),
        "Time came first: put the states together with torch.stack(states, dim=1).": (
            lambda *a: _layer(*a).transpose(0, 1)
        ),
    },
)


def _with_gradient(*sizes: int) -> tuple[Tensor, ...]:
    return tuple(argument.requires_grad_() for argument in _draw(*sizes))


def _gradients(states: Any, arguments: Arguments) -> tuple[Tensor, ...]:
    """Derivatives of a weighted sum of all states with respect to all four arguments."""
    inputs, h0, *_ = arguments
    expected = (*inputs.shape[:2], h0.shape[1])
    if not isinstance(states, Tensor) or states.shape != expected:
        raise Stop("the states have the wrong shape or kind.", "Mend the values first.")
    weights = torch.linspace(1, 2, states.numel()).view_as(states)
    try:
        return torch.autograd.grad((weights * states).sum(), arguments)
    except RuntimeError as error:
        raise Stop(
            f"no gradient flows from the states to all four arguments: {str(error)[:200]}",
            "Stay with torch operations on tensors from step to step: detach(), .data, item(), "
            "numpy, torch.tensor(…) and torch.no_grad() cut the gradient, and so does writing into "
            "a tensor that is read again: collect the states in a list, then torch.stack.",
        ) from None


RECURRENCE_GRADIENT = Rule(
    cases={
        "8 steps": lambda: _with_gradient(2, 8, 3, 4),
        "30 steps": lambda: _with_gradient(3, 30, 2, 5),
    },
    oracle=_layer,
    read=_gradients,
    hint="The values of the states may be right, but the gradient of each state with respect to "
    "inputs, h0, w_xh and w_hh is not: look for detach(), .data and torch.no_grad().",
)


def _network(batch: int, steps: int, features: int, hidden: int) -> tuple[nn.RNN, Tensor, Tensor]:
    rnn = nn.RNN(features, hidden, batch_first=True)
    return rnn, torch.randn(batch, steps, features), torch.randn(1, batch, hidden)


def by_jacobians(rnn: nn.RNN, inputs: Tensor, h0: Tensor) -> Tensor:
    """The product of Jacobians diag(1 - h²) W_hh, from the last step to the first, by hand."""
    with torch.no_grad():
        w_ih, w_hh, b_ih, b_hh = rnn.parameters()
        h, states = h0[0], []
        for x in inputs.unbind(1):
            h = torch.tanh(x @ w_ih.T + h @ w_hh.T + b_ih + b_hh)
            states.append(h)
        gradient = 2 * h / h.numel()
        for h in reversed(states):
            gradient = (gradient * (1 - h**2)) @ w_hh
    return gradient[None]


def _of_loss(
    loss: Callable[[Tensor], Tensor], of: int = 2
) -> Callable[[nn.RNN, Tensor, Tensor], Tensor]:
    """The gradient of another loss of the outputs, or with respect to the inputs (`of` 1)."""

    def mistaken(rnn: nn.RNN, inputs: Tensor, h0: Tensor) -> Tensor:
        inputs, h0 = inputs.requires_grad_(), h0.requires_grad_()
        return torch.autograd.grad(loss(rnn(inputs, h0)[0]), (inputs, h0)[of - 1])[0]

    return mistaken


STATE_GRADIENT = Rule(
    cases={
        "two sequences": lambda: _network(2, 5, 3, 4),
        "a batch of one": lambda: _network(1, 6, 2, 3),
        "one step": lambda: _network(3, 1, 2, 4),
        "one hidden unit": lambda: _network(2, 4, 1, 1),
        "100 steps": lambda: _network(2, 100, 1, 5),
    },
    oracle=by_jacobians,
    hint="Let h0 require a gradient, run the layer from h0, take the mean of the squared last "
    "output, and return its gradient with respect to h0.",
    slips={
        "That is the gradient with respect to the inputs; h0 is asked for.": (
            _of_loss(lambda output: output[:, -1].square().mean(), of=1)
        ),
        "That is the norm. Return the gradient itself, with the shape of h0.": (
            lambda *a: by_jacobians(*a).norm()
        ),
        "torch.autograd.grad returns a tuple, here of one gradient: take [0].": (
            lambda *a: by_jacobians(*a)[None]
        ),
        "The loss looks at the last step, output[:, -1], not at the first.": (
            _of_loss(lambda output: output[:, 0].square().mean())
        ),
        "The loss looks at the last step alone, output[:, -1], not at all of them.": (
            _of_loss(lambda output: output.square().mean())
        ),
        "The loss is the mean of the squares, not their sum.": (
            _of_loss(lambda output: output[:, -1].square().sum())
        ),
        "The mean goes over sequences and units, as in F.mse_loss.": (
            _of_loss(lambda output: output[:, -1].square().sum(1).mean())
        ),
        "The loss is the mean of the *squared* outputs.": (
            _of_loss(lambda output: output[:, -1].mean())
        ),
    },
)


RULES = {
    "recurrence": RECURRENCE,
    "recurrence_gradient": RECURRENCE_GRADIENT,
    "state_gradient": STATE_GRADIENT,
}
