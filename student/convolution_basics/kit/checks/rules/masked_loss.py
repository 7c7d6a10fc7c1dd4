"""Rules for the cross-entropy of answers of different lengths: padding plays no part.

Shapes: logits (B, T, V), targets (B, T), int64 tokens as in `data.backwards`.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule
from autograder.checks.rules.translations import targets
from autograder.data import EOS, PAD, VOCABULARY

Arguments = tuple[Any, ...]


def _scored(count: int, length: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    target = targets(count, length)
    return (scale * torch.randn(*target.shape, VOCABULARY)).requires_grad_(), target


def _padded(padding: int) -> tuple[Tensor, Tensor]:
    """Answers of which one has the length 2, beside that many columns of padding."""
    logits, target = _scored(3, 3)
    target[0] = torch.tensor([6, 1, EOS, PAD])
    more = torch.full((3, padding), PAD)
    large = 30 * torch.randn(3, padding, VOCABULARY)  # what stands there must not matter
    target = torch.cat([target, more], dim=1)
    return torch.cat([logits.detach(), large], dim=1).requires_grad_(), target


def _counted(target: Tensor) -> list[tuple[int, int]]:
    """Places that count, as row and column."""
    rows = enumerate(target.tolist())
    return [(b, t) for b, row in rows for t, token in enumerate(row) if token != PAD]


def loss_by_hand(logits: Tensor, target: Tensor) -> Tensor:
    """Token after token in double precision: logsumexp minus the logit of the right token."""
    losses = [
        torch.logsumexp(logits[b, t], 0) - logits[b, t, target[b, t]] for b, t in _counted(target)
    ]
    return torch.stack(losses).mean()


def _token_losses(logits: Tensor, target: Tensor) -> Tensor:
    """Losses of all tokens, those of padding included, (B, T)."""
    return functional.cross_entropy(logits.transpose(1, 2), target, reduction="none")


def _over(kept: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def mistaken(logits: Tensor, target: Tensor) -> Tensor:
        return _token_losses(logits, target)[kept(target)].mean()

    return mistaken


def _mean_of_means(logits: Tensor, target: Tensor) -> Tensor:
    mask = target != PAD
    return ((_token_losses(logits, target) * mask).sum(1) / mask.sum(1)).mean()


def _mixed(logits: Tensor, target: Tensor) -> Tensor:
    batch, steps, _ = logits.shape
    moved = logits.reshape(batch, VOCABULARY, steps)
    return functional.cross_entropy(moved, target, ignore_index=PAD)


SLIPS: dict[str, Callable[..., Tensor]] = {
    "Padding counts in your mean: leave out the places where target is <pad>.": (
        _over(lambda target: torch.ones_like(target, dtype=torch.bool))
    ),
    "Padding adds nothing, but is counted: divide by the number of tokens that are not <pad>.": (
        lambda logits, target: (_token_losses(logits, target) * (target != PAD)).mean()
    ),
    "<eos> belongs to the answer: the model has to learn where to stop. Leave out <pad> alone.": (
        _over(lambda target: target < PAD)
    ),
    "That is the sum; the mean over all tokens that are not <pad> is asked for.": (
        lambda logits, target: (_token_losses(logits, target) * (target != PAD)).sum()
    ),
    "That is the sum by the number of sequences; divide by the number of tokens.": (
        lambda logits, target: (_token_losses(logits, target) * (target != PAD)).sum() / len(target)
    ),
    "Each token counts the same: one mean over all of them, not the mean of the rows' means.": (
        _mean_of_means
    ),
    "reshape doesn't exchange dimensions: it mixes steps and tokens. Use transpose(1, 2), or "
    "flatten batch and steps of both.": _mixed,
    "F.cross_entropy applies log-softmax itself: give it the logits, not probabilities.": (
        lambda logits, target: loss_by_hand(logits.softmax(2), target)
    ),
    "The sign is wrong: a loss is minus the logarithm of the right token's probability.": (
        lambda logits, target: -loss_by_hand(logits, target)
    ),
}


def _one_number(loss: Any, arguments: Arguments) -> Any:
    """The loss; a tensor of one number may have dimensions."""
    return loss.reshape(()) if isinstance(loss, Tensor) and loss.numel() == 1 else loss


MASKED_LOSS = Rule(
    cases={
        "three answers of different lengths": lambda: _scored(3, 5),
        "answers with much padding": lambda: _padded(6),
        "one answer": lambda: _scored(1, 4),
        "answers without padding": lambda: (
            torch.randn(2, 3, VOCABULARY, requires_grad=True),
            torch.tensor([[4, 1, EOS], [0, 7, EOS]]),
        ),
        "large logits": lambda: _scored(4, 6, 400.0),
    },
    oracle=loss_by_hand,
    read=_one_number,
    hint="Minus the log_softmax at the right token, then the mean over all places of the batch "
    "whose token is not <pad>. The logarithm of a softmax is wrong for large logits.",
    slips=SLIPS,
)


def _gradient(loss: Any, arguments: Arguments) -> Tensor:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise Stop(
            "that is no tensor of one number.",
            "Return the mean as a tensor: not .item(), and not one loss for each token.",
        )
    try:
        (gradient,) = torch.autograd.grad(loss.sum(), arguments[:1])
    except RuntimeError as error:
        raise Stop(
            f"no gradient flows from the loss to the logits: {str(error)[:200].rstrip(' .')}.",
            "Stay with torch operations: .item(), detach(), numpy and torch.tensor(…) cut it.",
        ) from None
    return gradient


class _Given(torch.autograd.Function):
    """A loss with a gradient in closed form: softmax minus one at the right token, by the count."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor) -> Tensor:
        gradient, places = torch.zeros_like(logits), _counted(target)
        for b, t in places:
            exponents = [math.exp(v - max(logits[b, t].tolist())) for v in logits[b, t].tolist()]
            gradient[b, t] = torch.tensor([e / math.fsum(exponents) for e in exponents])
            gradient[b, t, target[b, t]] -= 1
        ctx.save_for_backward(gradient / len(places))
        return logits.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return outer[0] * gradient, None


def _closed_form(logits: Tensor, target: Tensor) -> Tensor:
    loss: Tensor = _Given.apply(logits, target)
    return loss


MASKED_LOSS_GRADIENT = Rule(
    cases={
        "three answers of different lengths": lambda: _scored(3, 5),
        "answers with much padding": lambda: _padded(4),
    },
    oracle=_closed_form,
    read=_gradient,
    hint="Its gradient with respect to the logits is not that of the mean loss: at a place of "
    "padding it is 0, elsewhere softmax minus one at the right token, by the number of tokens.",
    slips=SLIPS,
)

RULES = {"masked_loss": MASKED_LOSS, "masked_loss_gradient": MASKED_LOSS_GRADIENT}
