"""Rules for one recurrent layer in three roles: what goes in, and which outputs are used?

Shapes: inputs (B, T, D), vector (B, D), states (B, T, H), h_n (L, B, H), outputs (…, K). The layer
is an nn.RNN or nn.GRU with batch_first and one direction, the readout an nn.Linear.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.rules.rule import Rule

Arguments = tuple[Any, ...]
Kind = Callable[..., nn.RNNBase]
BEFORE = 10**6  # more steps than there are: nothing is left after the vector
_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _simple_step(of_input: Tensor, of_state: Tensor, _: Tensor) -> Tensor:
    return torch.tanh(of_input + of_state)


def _gru_step(of_input: Tensor, of_state: Tensor, h: Tensor) -> Tensor:
    (r, z, n), (hr, hz, hn) = of_input.chunk(3, dim=1), of_state.chunk(3, dim=1)
    z = torch.sigmoid(z + hz)
    return (1 - z) * torch.tanh(n + torch.sigmoid(r + hr) * hn) + z * h


_STEPS = {"RNN_TANH": _simple_step, "GRU": _gru_step}


def run_by_hand(rnn: nn.RNNBase, inputs: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """States (B, T, H) of the top layer and h_n (L, B, H), step by step from the weights."""
    step, lasts = _STEPS[rnn.mode], []
    for k in range(rnn.num_layers):
        w_ih, w_hh, b_ih, b_hh = (rnn.get_parameter(f"{name}_l{k}") for name in _WEIGHTS)
        h = inputs.new_zeros(len(inputs), rnn.hidden_size) if h0 is None else h0[k]
        states = []
        for x in inputs.unbind(1):
            h = step(x @ w_ih.T + b_ih, h @ w_hh.T + b_hh, h)
            states.append(h)
        inputs = torch.stack(states, dim=1)
        lasts.append(h)
    return inputs, torch.stack(lasts)


def network(
    kind: Kind, layers: int, features: int, hidden: int, outputs: int
) -> tuple[nn.RNNBase, nn.Linear]:
    """A recurrent layer and a readout, with weights large enough for a state to matter."""
    rnn = kind(features, hidden, layers, batch_first=True)
    with torch.no_grad():
        for weight in rnn.parameters():
            weight.mul_(1.5)
    return rnn, nn.Linear(hidden, outputs)


def _with_inputs(
    kind: Kind, layers: int, sizes: tuple[int, int, int], batch: int, steps: int
) -> Callable[[], Arguments]:
    """Makes rnn, readout, inputs; sizes are D, H, K."""
    return lambda: (*network(kind, layers, *sizes), torch.randn(batch, steps, sizes[0]))


def _with_vector(
    kind: Kind, layers: int, sizes: tuple[int, int, int], batch: int, steps: int
) -> Callable[[], Arguments]:
    """Makes rnn, readout, vector, length."""
    return lambda: (*network(kind, layers, *sizes), torch.randn(batch, sizes[0]), steps)


def _cases(make: Callable[..., Callable[[], Arguments]]) -> dict[str, Callable[[], Arguments]]:
    return {
        "a simple layer": make(nn.RNN, 1, (3, 5, 2), 4, 7),
        "a GRU of two layers": make(nn.GRU, 2, (2, 4, 3), 3, 6),
        "a simple layer of three": make(nn.RNN, 3, (2, 6, 1), 4, 5),
        "a batch of one": make(nn.GRU, 1, (3, 4, 2), 1, 6),
        "one step": make(nn.RNN, 2, (2, 3, 4), 5, 1),
        "one feature and one output": make(nn.RNN, 1, (1, 4, 1), 3, 8),
        "all sizes alike": make(nn.RNN, 4, (4, 4, 4), 4, 4),
    }


def _readout_of(
    choose: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[nn.RNNBase, nn.Linear, Tensor], Tensor]:
    """The readout of what is chosen of states and h_n."""
    return lambda rnn, readout, inputs: readout(choose(*rnn(inputs)))


TO_SEQUENCE = Rule(
    cases=_cases(_with_inputs),
    oracle=lambda rnn, readout, inputs: readout(run_by_hand(rnn, inputs)[0]),
    hint="rnn(inputs) returns the states of all steps and h_n: apply the readout to the states.",
    slips={
        "These are the states. The readout turns each of them into an output.": (
            lambda rnn, readout, inputs: rnn(inputs)[0]
        ),
        "That is one output for each sequence; here each *step* has one.": (
            _readout_of(lambda states, last: last[-1])
        ),
        "h_n holds the last step of every layer; the states of all steps are the first thing "
        "that rnn returns.": _readout_of(lambda states, last: last),
        "Sequences and steps have changed places: the batch comes first here.": (
            _readout_of(lambda states, last: states.transpose(0, 1))
        ),
    },
)

TO_VECTOR = Rule(
    cases=_cases(_with_inputs),
    oracle=lambda rnn, readout, inputs: readout(run_by_hand(rnn, inputs)[1][-1]),
    hint="Take the top layer's state after the last step, output[:, -1] or h_n[-1], and apply the "
    "readout to it.",
    slips={
        "output[-1] is the last *sequence* of the batch; the last step is output[:, -1].": (
            _readout_of(lambda states, last: states[-1])
        ),
        "output[:, 0] has seen the first step alone; the last step is output[:, -1].": (
            _readout_of(lambda states, last: states[:, 0])
        ),
        "h_n[0] is the first layer; the top one is h_n[-1].": (
            _readout_of(lambda states, last: last[0])
        ),
        "h_n has an entry for each layer in front: the top one is h_n[-1].": (
            _readout_of(lambda states, last: last)
        ),
        "Only the last step is read, not the mean of all steps.": (
            _readout_of(lambda states, last: states.mean(1))
        ),
        "Only the last step is read: one output for each sequence.": (
            _readout_of(lambda states, last: states)
        ),
        "That is the state. The readout turns it into the output.": (
            lambda rnn, readout, inputs: rnn(inputs)[1][-1]
        ),
    },
)


def _generated(rnn: nn.RNNBase, readout: nn.Linear, vector: Tensor, length: int) -> Tensor:
    later = vector.new_zeros(len(vector), length - 1, vector.shape[1])
    outputs: Tensor = readout(run_by_hand(rnn, torch.cat([vector[:, None], later], dim=1))[0])
    return outputs


def _from_inputs(
    inputs: Callable[[Tensor, int], Tensor],
) -> Callable[[nn.RNNBase, nn.Linear, Tensor, int], Tensor]:
    """The outputs for other inputs (B, T, D), made from vector and length."""
    return lambda rnn, readout, vector, length: readout(rnn(inputs(vector, length))[0])


def _padded(before: int, after: int) -> Callable[[Tensor, int], Tensor]:
    """The vector among zeros: `before` or `after` counted beyond the length."""

    def inputs(vector: Tensor, length: int) -> Tensor:
        zeros = vector.new_zeros(len(vector), length - 1 if before < 0 else before, len(vector[0]))
        rest = vector.new_zeros(len(vector), max(0, length + after), len(vector[0]))
        return torch.cat([zeros, vector[:, None], rest], dim=1)

    return inputs


def _without_state(rnn: nn.RNNBase, readout: nn.Linear, vector: Tensor, length: int) -> Tensor:
    later = torch.zeros_like(vector)[:, None]
    states = [rnn(vector[:, None] if t == 0 else later)[0] for t in range(length)]
    outputs: Tensor = readout(torch.cat(states, dim=1))
    return outputs


FROM_VECTOR = Rule(
    cases=_cases(_with_vector),
    oracle=_generated,
    hint="Make inputs of shape (B, length, D) that are zero but for the first step, which is the "
    "vector; then go on as in sequence to sequence.",
    slips={
        "The vector comes in at the first step only; at all later steps the input is zero.": (
            _from_inputs(lambda vector, length: vector[:, None].repeat(1, length, 1))
        ),
        "The step that the vector enters counts: there are `length` steps in all, not one more.": (
            _from_inputs(_padded(0, 0))
        ),
        "There are `length` steps in all, the first one included: one is missing.": (
            _from_inputs(_padded(0, -2))
        ),
        "The vector comes in at the first step, not at the last.": _from_inputs(
            _padded(-1, -BEFORE)
        ),
        "The state is lost from step to step: hand it on, or run the layer once over all steps.": (
            _without_state
        ),
        "Sequences and steps have changed places: the batch comes first here.": (
            lambda rnn, readout, vector, length: readout(
                rnn(_padded(0, -1)(vector, length))[0]
            ).transpose(0, 1)
        ),
        "These are the states. The readout turns each of them into an output.": (
            lambda rnn, _, vector, length: rnn(_padded(0, -1)(vector, length))[0]
        ),
        "Each step has an output of its own, not the last one alone.": (
            lambda rnn, readout, vector, length: readout(rnn(_padded(0, -1)(vector, length))[1][-1])
        ),
    },
)

RULES = {
    "sequence_to_sequence": TO_SEQUENCE,
    "sequence_to_vector": TO_VECTOR,
    "vector_to_sequence": FROM_VECTOR,
}
