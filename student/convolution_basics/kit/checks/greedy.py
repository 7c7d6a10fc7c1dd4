"""What does a model say when it has nothing but its own words to go on?

The kit translates by itself, so that neither the true answers nor a student's own decoding plays a
part. Translations are evidence; the true ones are made by the judging half.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from autograder.checks.core import Check, Threshold, Verdict, verdict
from autograder.checks.models import made
from autograder.checks.trained import trained
from autograder.checks.translation import logits_of
from autograder.data import BOS, EOS, PAD, pairs


@dataclass(frozen=True)
class Translations:
    """The tokens that were said for each source, with PAD after EOS."""

    tokens: list[list[int]]


def translations(module: nn.Module, source: Tensor, steps: int, name: str) -> Tensor:
    """Greedy translations (B, steps): the likeliest token each time, given those before it."""
    said = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    with torch.no_grad():
        for _ in range(steps):
            token = logits_of(module, source, said, name)[:, -1].argmax(1)
            token = torch.where(ended, PAD, token)
            ended = ended | (token == EOS)
            said = torch.cat([said, token[:, None]], dim=1)
    return said[:, 1:]


def _translated(module: nn.Module, count: int, length: int, seed: int, name: str) -> Translations:
    source, _ = pairs(count, length, seed)
    return Translations(translations(module, source, length + 1, name).tolist())


def measure_translation_accuracy(
    model: Any, *, name: str, count: int, length: int, seed: int
) -> Translations:
    """Translations of `count` sources by the trained model."""
    return _translated(trained(model, name), count, length, seed, name)


def _right(seen: Translations, count: int, length: int, seed: int) -> tuple[float, float]:
    """Share of faultless translations, and of right tokens, EOS included and PAD left out."""
    _, target = pairs(count, length, seed)
    if len(seen.tokens) != count or any(len(row) != length + 1 for row in seen.tokens):
        raise ValueError("not one translation a source")
    rows = list(zip(seen.tokens, target.tolist(), strict=True))
    tokens = [a == b for said, right in rows for a, b in zip(said, right, strict=True) if b != PAD]
    return sum(a == b for a, b in rows) / count, sum(tokens) / len(tokens)


def _share(seen: Translations, *, count: int, length: int, seed: int) -> float:
    return _right(seen, count, length, seed)[0]


def judge_translation_accuracy(
    seen: Translations, *, smallest: float, count: int, length: int, seed: int
) -> Verdict:
    """Enough of the translations are right in every token."""
    share, tokens = _right(seen, count, length, seed)
    return verdict(
        share >= smallest,
        f"Of {count} new sequences {share:.1%} are translated without a fault (at least "
        f"{smallest:.0%}); of the single tokens {tokens:.1%} are right.",
        "Is the training loss small all the same? Then the decoder has seen in training what it "
        "doesn't have now: at step t it may read the tokens before t, and none later. Else train "
        "longer, or with a larger state.",
    )


def measure_untrained(model: Any, *, name: str, count: int, length: int, seed: int) -> Translations:
    """Translations of `count` sources by a fresh model."""
    return _translated(made(model, name), count, length, seed, name)


def judge_untrained(
    seen: Translations, *, largest: float, count: int, length: int, seed: int
) -> Verdict:
    """A fresh model can't translate: what it knows later, it has learnt."""
    share = _share(seen, count=count, length=length, seed=seed)
    return verdict(
        share <= largest,
        f"Before any training {share:.1%} of {count} sequences are translated right (at most "
        f"{largest:.0%}).",
        "The model must learn the rule from examples: its forward must not compute the answer, nor "
        "its __init__ load or train weights.",
    )


translation_accuracy = Check(
    measure_translation_accuracy,
    judge_translation_accuracy,
    Threshold("smallest", _share, at_least=True),
)
untrained = Check(measure_untrained, judge_untrained, Threshold("largest", _share, at_least=False))
