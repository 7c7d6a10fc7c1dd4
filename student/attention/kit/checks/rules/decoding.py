"""Rules for one step of training, and for translating with a model that says what we know.

Shapes: sources (B, S), targets (B, T), decoder inputs (B, T), all int64; logits (B, T, V).
Optimisers go by torch.optim alone: torch changes their classes when the first one is made, and what
stands in this module is watched.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn, optim

from autograder.checks.core import Stop
from autograder.checks.rules.masked_loss import loss_by_hand
from autograder.checks.rules.rule import Rule
from autograder.checks.rules.translations import whole_numbers
from autograder.data import BOS, EOS, PAD, VOCABULARY, pairs

Arguments = tuple[Any, ...]
RATE = 0.5  # learning rate of the optimisers in the cases


class Small(nn.Module):
    """A translator of a few numbers, whose decoder reads from left to right."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 3)
        self.encoder = nn.GRU(3, 4, batch_first=True)
        self.decoder = nn.GRU(3, 4, batch_first=True)
        self.logits = nn.Linear(4, VOCABULARY)

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Sources (B, S), decoder inputs (B, T) -> logits (B, T, V)."""
        _, state = self.encoder(self.embedding(source))
        states, _ = self.decoder(self.embedding(decoder_input), state)
        logits: Tensor = self.logits(states)
        return logits


def _drawn(count: int, length: int) -> tuple[Tensor, Tensor]:
    return pairs(count, length, int(torch.randint(10**6, ())))


def _training(count: int, length: int, before: bool = False) -> Arguments:
    """Model, optimiser, sources and targets; with gradients of another batch, `before`."""
    model = Small()
    if before:
        source, target = _drawn(count, length)
        _loss(model, source, target).backward()  # type: ignore[no-untyped-call]
    return model, optim.SGD(model.parameters(), lr=RATE), *_drawn(count, length)


def _beside_short_ones() -> Arguments:
    """A batch of one long answer, and of others that are mostly padding."""
    model, optimizer, *_ = _training(2, 3)
    source = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 7, 7, 7, 7, 7], [8, 0, 8, 0, 8, 0]])
    target = [[6, 5, 4, 3, 2, 1, EOS], [7, EOS, *[PAD] * 5], [0, 8, EOS, *[PAD] * 4]]
    return model, optimizer, source, torch.tensor(target)


def _right_input(target: Tensor) -> Tensor:
    return torch.cat([torch.full((len(target), 1), BOS), target[:, :-1]], dim=1)


def _loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return loss_by_hand(model(source, _right_input(target)), target)


def _step(
    loss_of: Callable[[nn.Module, Tensor, Tensor], Tensor], clear: bool = True, move: bool = True
) -> Callable[..., float]:
    """One step of plain gradient descent on a loss, by hand; what it returns is the loss before."""

    def step(model: nn.Module, _: optim.Optimizer, source: Tensor, target: Tensor) -> float:
        loss = loss_of(model, source, target)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                old = 0 if clear or parameter.grad is None else parameter.grad
                parameter.sub_(RATE * move * (gradient + old))
        return float(loss.detach())

    return step


def _with_input(of_target: Callable[[Tensor], Tensor]) -> Callable[..., float]:
    return _step(lambda m, source, target: loss_by_hand(m(source, of_target(target)), target))


def _everything(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, _right_input(target))
    return nn.functional.cross_entropy(logits.transpose(1, 2), target)


def _twice(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return loss_by_hand(model(source, target[:, :-1]), target[:, 1:])


def _after_step(
    model: nn.Module, optimizer: optim.Optimizer, source: Tensor, target: Tensor
) -> float:
    _step(_loss)(model, optimizer, source, target)
    return float(_loss(model, source, target).detach())


def _loss_and_parameters(result: Any, arguments: Arguments) -> tuple[Any, Tensor]:
    """The loss, and all parameters after the step."""
    if isinstance(result, Tensor) and result.requires_grad:
        raise Stop(
            "that is a tensor with its graph, which would stay in memory.",
            "Return the loss as a float: loss.item().",
        )
    return result, torch.cat([p.detach().flatten() for p in arguments[0].parameters()])


TRAINING_STEP = Rule(
    cases={
        "a batch of four": lambda: _training(4, 5),
        "a batch of one": lambda: _training(1, 4),
        "gradients left from another batch": lambda: _training(3, 5, before=True),
        "a batch with much padding": _beside_short_ones,
        "a large batch": lambda: _training(40, 7),
    },
    oracle=_step(_loss),
    read=_loss_and_parameters,
    hint="Clear the gradients, run the model on source and shifted target, take the masked loss "
    "against target, go back through it, make one step of the optimiser, return the loss.",
    slips={
        "Gradients of an earlier batch are added: call optimizer.zero_grad() before backward().": (
            _step(_loss, clear=False)
        ),
        "The parameters have not moved: after backward() call optimizer.step().": (
            _step(_loss, move=False)
        ),
        "The decoder sees the very token that it has to say: give it the shifted target.": (
            _with_input(lambda target: target)
        ),
        "The decoder sees nothing of the target: teacher forcing gives it the right tokens, "
        "shifted by one.": _with_input(lambda target: torch.full_like(target, BOS)),
        "The loss compares with the decoder input; compare with the target.": (
            _step(
                lambda m, source, target: loss_by_hand(
                    m(source, _right_input(target)), _right_input(target)
                )
            )
        ),
        "Padding counts in the loss: use your masked loss.": _step(_everything),
        "That is shifted twice: the target has no <bos> in front, so the decoder reads the shifted "
        "target, and all columns of the target count in the loss.": _step(_twice),
        "Return the loss from before the step.": _after_step,
    },
)


class Teller(nn.Module):
    """Says digits that hang on the source and on all that was said; a 4 in front: EOS after four.

    It never stops to speak after EOS. In training mode it says other digits, as if by dropout.
    """

    def __init__(self, training: bool = False) -> None:
        """Choose the mode."""
        super().__init__()
        self.certainty = nn.Parameter(torch.tensor(2.0))
        self.train(training)

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Sources (B, S), decoder inputs (B, T) -> logits (B, T, V)."""
        places = torch.arange(decoder_input.shape[1])
        told = (decoder_input * (places + 1)).cumsum(1)
        token = (source.sum(1, keepdim=True) + 3 * told + self.training) % 10
        token = torch.where(places == source[:, :1], EOS, token)
        noise = 0.3 * torch.sin(torch.arange(VOCABULARY) + token[:, :, None])
        return self.certainty * nn.functional.one_hot(token, VOCABULARY) + noise


def _telling(*rows: list[int], steps: int, training: bool = False) -> Arguments:
    return Teller(training), torch.tensor(rows), steps


def _random_telling(count: int, steps: int) -> Arguments:
    return Teller(), torch.randint(10, (count, 5)), steps


def _words(teller: Teller, row: list[int], steps: int, after: list[int]) -> list[int]:
    """What the model says to one source, as a calculation with whole numbers."""
    said, total, tokens = BOS, 0, list[int]()
    for step in range(steps):
        total += said * (step + 1)
        said = EOS if step == row[0] else (sum(row) + 3 * total) % 10
        tokens.append(said)
        if said == EOS:
            return (tokens + after * steps)[:steps]
    return tokens


def _told(teller: Teller, source: Tensor, steps: int) -> Tensor:
    return torch.tensor([_words(teller, row, steps, [PAD]) for row in source.tolist()])


def _greedy(
    model: Teller, source: Tensor, steps: int, first: int = BOS, window: int = 100
) -> Tensor:
    """The likeliest tokens, without any end; `window` is how many of them the model gets to see."""
    model.eval()
    said = torch.full((len(source), 1), first)
    for _ in range(steps):
        token = model(source, said[:, -window:])[:, -1].argmax(1)
        said = torch.cat([said, token[:, None]], dim=1)
    return said[:, 1:]


def _ended(tokens: Tensor) -> Tensor:
    """PAD after the first EOS."""
    ends = (tokens == EOS).long().cumsum(1) - (tokens == EOS).long()
    return tokens.masked_fill(ends > 0, PAD)


def _as_it_is(model: Teller, source: Tensor, steps: int) -> Tensor:
    """In the mode that the model is in."""
    said = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        said = torch.cat([said, model(source, said)[:, -1].argmax(1)[:, None]], dim=1)
    return _ended(said[:, 1:])


def _stopped_together(model: Teller, source: Tensor, steps: int) -> Tensor:
    """All stop where the first one does."""
    said = _told(model, source, steps)
    first = min(row.index(EOS) if EOS in row else steps for row in said.tolist())
    said[:, first + 1 :] = PAD
    return said


def _forgotten(model: Teller, source: Tensor, steps: int) -> Tensor:
    """PAD comes right after EOS only, then the row speaks again."""
    model.eval()
    said = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        token = model(source, said)[:, -1].argmax(1)
        token = token.masked_fill(said[:, -1] == EOS, PAD)
        said = torch.cat([said, token[:, None]], dim=1)
    return said[:, 1:]


def _cut(model: Teller, source: Tensor, steps: int) -> Tensor:
    said = _told(model, source, steps)
    return said[:, : int((said != PAD).sum(1).max())]


TRANSLATE = Rule(
    cases={
        "one source": lambda: _telling([3, 1, 4, 1], steps=6),
        "three sources that end at different steps": lambda: _telling(
            [2, 7, 1], [5, 0, 0], [0, 9, 4], steps=7
        ),
        "an answer that is longer than max_len": lambda: _telling([9, 2, 2], [1, 8, 3], steps=4),
        "max_len 1": lambda: _telling([4, 4], [0, 4], steps=1),
        "max_len 12, though all end early": lambda: _telling([2, 5, 5], [3, 1, 0], steps=12),
        "a model that is in training mode": lambda: _telling(
            [3, 6, 6], [4, 9, 0], steps=6, training=True
        ),
        "40 sources": lambda: _random_telling(40, 8),
    },
    oracle=_told,
    read=lambda result, _: whole_numbers(result),
    hint="Start from a column of <bos>. At each step run the model on source and on all tokens so "
    "far, take the likeliest token of the last step, and append it; rows that have said <eos> get "
    "<pad>. Return max_len columns, without <bos>.",
    slips={
        "Leave out <bos>: it starts the decoder, and is no part of the translation.": (
            lambda m, s, n: torch.cat([torch.full((len(s), 1), BOS), _told(m, s, n)], dim=1)
        ),
        "<bos> is no part of the translation, and max_len tokens follow it.": (
            lambda m, s, n: torch.cat([torch.full((len(s), 1), BOS), _told(m, s, n)[:, :-1]], dim=1)
        ),
        "Always max_len columns: fill up with <pad>.": _cut,
        "What a row says after its <eos> is thrown away: put <pad> there.": _greedy,
        "After the first <eos> comes <pad>, not more <eos>.": (
            lambda m, s, n: torch.tensor([_words(m, row, n, [EOS]) for row in s.tolist()])
        ),
        "<eos> belongs to the translation: keep the first one, and put <pad> after it.": (
            lambda m, s, n: _told(m, s, n).masked_fill(_told(m, s, n) == EOS, PAD)
        ),
        "A row that is finished stays so: remember it, for only one of its tokens is <eos>.": (
            _forgotten
        ),
        "Each row ends by itself: others go on when one has said <eos>.": _stopped_together,
        "The decoder starts from <bos>.": lambda m, s, n: _ended(_greedy(m, s, n, first=PAD)),
        "The decoder starts from <bos>, not from <eos>.": (
            lambda m, s, n: _ended(_greedy(m, s, n, first=EOS))
        ),
        "Give the model all tokens so far, not the newest alone: it keeps no state.": (
            lambda m, s, n: _ended(_greedy(m, s, n, window=1))
        ),
        "The model is still in training mode, with dropout: call model.eval() first.": (_as_it_is),
    },
)

RULES = {"training_step": TRAINING_STEP, "translate": TRANSLATE}
