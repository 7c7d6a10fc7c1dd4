"""Rules for batches of tokens: the shift to the right, and how many translations are right.

Shapes: targets and translations (B, T), int64 tokens as in `data.backwards`.
"""

from typing import Any

import torch
from torch import Tensor

from autograder.checks.core import Stop
from autograder.checks.rules.rule import Rule
from autograder.data import BOS, EOS, PAD, pairs

Arguments = tuple[Any, ...]


def targets(count: int, length: int) -> Tensor:
    """Targets (count, length + 1) of random sequences."""
    return pairs(count, length, int(torch.randint(10**6, ())))[1]


def whole_numbers(result: Any) -> Tensor:
    """A tensor of tokens; anything else is a `Stop`."""
    if not isinstance(result, Tensor):
        raise Stop(f"that is a {type(result).__name__}.", "Return a tensor of tokens.")
    if result.is_floating_point() or result.is_complex() or result.dtype == torch.bool:
        raise Stop(
            f"that is a tensor of {str(result.dtype).removeprefix('torch.')}.",
            "Tokens are whole numbers, int64: an embedding refuses others. torch.full and "
            "torch.zeros take a dtype.",
        )
    return result


def _shifted(target: Tensor) -> Tensor:
    return torch.tensor([[BOS, *row[:-1]] for row in target.tolist()])


def _with_target(result: Any, arguments: Arguments) -> tuple[Tensor, Tensor]:
    """The decoder input, and the target as it is after the call."""
    return whole_numbers(result), arguments[0]


SHIFT = Rule(
    cases={
        "one answer of two digits": lambda: (torch.tensor([[7, 2, EOS]]),),
        "three answers": lambda: (targets(3, 4),),
        "many answers": lambda: (targets(40, 7),),
        "answers that are all of one length": lambda: (torch.tensor([[1, EOS], [5, EOS]]),),
        "answers with much padding": lambda: (
            torch.tensor([[4, EOS, PAD, PAD, PAD], [EOS, PAD, PAD, PAD, PAD], [1, 2, 3, 4, EOS]]),
        ),
        "one step": lambda: (torch.tensor([[EOS], [EOS]]),),
    },
    oracle=_shifted,
    read=_with_target,
    hint="A column of <bos>, then all columns of the target apart from the last.",
    slips={
        "That has changed target itself, which the loss still needs: make a new tensor.": (
            lambda target: target.copy_(_shifted(target))
        ),
        "As long as the target: with <bos> in front, the last column is left out.": (
            lambda target: torch.cat([torch.full((len(target), 1), BOS), target], dim=1)
        ),
        "That is shifted to the left: step t would see the token after its own.": (
            lambda target: torch.cat([target[:, 1:], torch.full((len(target), 1), PAD)], dim=1)
        ),
        "<bos> takes the place of the first digit; the digits have to move.": (
            lambda target: torch.cat([torch.full((len(target), 1), BOS), target[:, 1:]], dim=1)
        ),
        "The last column comes round to the front: that place is for <bos>.": (
            lambda target: target.roll(1, dims=1)
        ),
        "Rows are answers: the tokens move within a row, dim=1, not from answer to answer.": (
            lambda target: torch.cat([torch.full_like(target[:1], BOS), target[:-1]])
        ),
        "Leave <eos> where it is; only the last column falls out.": (
            lambda target: _shifted(target).masked_fill(_shifted(target) == EOS, PAD)
        ),
    },
)


def _compared(predicted: list[list[int]], target: list[list[int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor(predicted), torch.tensor(target)


def _spoilt(count: int, length: int, wrong: int) -> tuple[Tensor, Tensor]:
    """Translations of which the first `wrong` have a fault somewhere, after EOS included."""
    target = targets(count, length)
    said = target.clone()
    for row in range(wrong):
        place = int(torch.randint(length + 1, ()))
        said[row, place] = (said[row, place] + 3) % 10
    order = torch.randperm(count)
    return said[order], target[order]


def _share_of_rows(predicted: Tensor, target: Tensor) -> float:
    rows = zip(predicted.tolist(), target.tolist(), strict=True)
    return sum(int(said == right) for said, right in rows) / len(target)


def _by_token(predicted: Tensor, target: Tensor) -> Tensor:
    return (predicted == target)[target != PAD].double().mean()


SEQUENCE_ACCURACY = Rule(
    cases={
        "four translations, one with a wrong digit": lambda: _compared(
            [[1, 2, EOS, PAD], [3, EOS, PAD, PAD], [5, 6, 7, EOS], [8, 9, EOS, PAD]],
            [[1, 2, EOS, PAD], [3, EOS, PAD, PAD], [5, 0, 7, EOS], [8, 9, EOS, PAD]],
        ),
        "one right translation": lambda: _spoilt(1, 5, 0),
        "one wrong translation": lambda: _spoilt(1, 5, 1),
        "two translations that stop too late or too early": lambda: _compared(
            [[1, 2, EOS, PAD], [3, EOS, PAD, PAD], [4, 5, 6, 6]],
            [[1, 2, EOS, PAD], [3, 7, EOS, PAD], [4, 5, 6, EOS]],
        ),
        "a translation that goes on after its end": lambda: _compared(
            [[6, EOS, 3, PAD], [2, 9, EOS, PAD]], [[6, EOS, PAD, PAD], [2, 9, EOS, PAD]]
        ),
        "50 translations, 13 of them with a fault": lambda: _spoilt(50, 7, 13),
        "the same tokens in another order": lambda: _compared(
            [[2, 1, EOS], [4, 3, EOS]], [[1, 2, EOS], [4, 3, EOS]]
        ),
    },
    oracle=_share_of_rows,
    hint="A translation is right if all of its tokens are; return the share of right ones, 0 to 1.",
    slips={
        "That is the share of right tokens. One wrong token spoils a translation: .all(dim=1).": (
            _by_token
        ),
        "That is the share of right tokens, padding included. One wrong token spoils a "
        "translation: .all(dim=1).": lambda p, t: (p == t).double().mean(),
        "That is the number of right translations; divide it by that of all.": (
            lambda p, t: (p == t).all(1).sum()
        ),
        "That is a percentage; return a share from 0 to 1.": (
            lambda p, t: 100 * (p == t).all(1).double().mean()
        ),
        "That counts a translation as right if any token is: use all, not any.": (
            lambda p, t: (p == t).any(1).double().mean()
        ),
        "That is one answer for the whole batch; look at each row, dim=1.": (
            lambda p, t: float((p == t).all())
        ),
        "A translation that stops too early or too late is wrong: compare <eos> as well.": (
            lambda p, t: ((p == t) | (t >= PAD)).all(1).double().mean()
        ),
        "What comes after <eos> must be <pad>: compare all columns.": (
            lambda p, t: ((p == t) | (t == PAD)).all(1).double().mean()
        ),
        "That is the share of wrong ones.": lambda p, t: 1 - _share_of_rows(p, t),
    },
)

RULES = {"shift_right": SHIFT, "sequence_accuracy": SEQUENCE_ACCURACY}
