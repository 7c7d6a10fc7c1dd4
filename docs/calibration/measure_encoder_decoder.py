"""Measure how many unseen sequences right and wrong models of encoder_decoder translate.

Run it from the repository root, where the package is installed, on an idle machine (the CPU time
of all trainings is in the last column): python docs/calibration/measure_encoder_decoder.py
The loop is that of the text, numbers and threshold come from grading.yml; seed s seeds weights,
pairs and unseen sequences. A list of names after the command measures these models alone.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from measuring import head, line
from torch import Tensor, nn
from torch.nn import functional

from autograder.checks.greedy import translations
from autograder.data import VOCABULARY, pairs
from reference import encoder_decoder as reference
from reference.encoder_decoder import Seq2Seq, masked_loss, shift_right

UNSEEN = 300  # as many as the checks take
NUMBERS = ("steps", "batch", "learning_rate", "length")


class _Recurrent(nn.Module):
    """Two recurrent layers of a kind; options say what else the decoder gets."""

    def __init__(self, kind: type[nn.RNNBase] = nn.GRU, hidden: int = 128, **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.encoder = kind(32, hidden, batch_first=True, **options)
        self.decoder = kind(32, hidden, batch_first=True, **options)
        self.output = nn.Linear(hidden, VOCABULARY)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        _, state = self.encoder(self.embedding(source))
        return self.output(self.decoder(self.embedding(said), state)[0])


class _Context(nn.Module):
    """The encoder's last state is an input at every step, beside the token (Cho et al. 2014)."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.source, self.said = nn.Embedding(VOCABULARY, 24), nn.Embedding(VOCABULARY, 24)
        self.encoder = nn.GRU(24, hidden, batch_first=True)
        self.decoder = nn.GRU(24 + hidden, hidden, batch_first=True)
        self.output = nn.Linear(2 * hidden + 24, VOCABULARY)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        _, state = self.encoder(self.source(source))
        tokens = self.said(said)
        context = state[-1][:, None].expand(-1, tokens.shape[1], -1)
        states, _ = self.decoder(torch.cat([tokens, context], 2), state)
        return self.output(torch.cat([states, context, tokens], 2))


class _Attentive(nn.Module):
    """A bidirectional encoder, and a decoder that attends to its states."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.encoder = nn.GRU(32, hidden, batch_first=True, bidirectional=True)
        self.decoder = nn.GRU(32, 2 * hidden, batch_first=True)
        self.output = nn.Linear(4 * hidden, VOCABULARY)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        memory, state = self.encoder(self.embedding(source))
        first = torch.cat([state[0], state[1]], 1)[None]
        states, _ = self.decoder(self.embedding(said), first)
        found = functional.scaled_dot_product_attention(states, memory, memory)
        return self.output(torch.cat([states, found], 2))


class _Transformer(nn.Module):
    """An encoder and a decoder of two layers, with learned places."""

    def __init__(self, width: int = 64, masked: bool = True, **options: Any) -> None:
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True} | options
        self.embedding, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(16, width)
        self.transformer = nn.Transformer(width, 4, 2, 2, 128, **options)
        self.output, self.masked = nn.Linear(width, VOCABULARY), masked

    def _placed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) + self.places(torch.arange(tokens.shape[1]))

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(said.shape[1])
        options = {"tgt_mask": mask, "tgt_is_causal": True} if self.masked else {}
        return self.output(self.transformer(self._placed(source), self._placed(said), **options))


class _LooksAhead(_Recurrent):
    """The decoder reads in both directions, a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = nn.GRU(32, 128, batch_first=True, bidirectional=True)
        self.output = nn.Linear(256, VOCABULARY)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        _, state = self.encoder(self.embedding(source))
        return self.output(self.decoder(self.embedding(said), state.repeat(2, 1, 1))[0])


class _Bag(_Recurrent):
    """The encoder adds up embeddings, so that order plays no part, a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.Linear(32, 128)

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        state = self.bag(self.embedding(source).sum(1)).tanh()[None]
        return self.output(self.decoder(self.embedding(said), state)[0])


class _Deaf(_Recurrent):
    """The decoder gets nothing of the source, a fault."""

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        return self.output(self.decoder(self.embedding(said))[0])


class _Mute(_Recurrent):
    """The decoder hears nothing of what was said, a fault."""

    def forward(self, source: Tensor, said: Tensor) -> Tensor:
        return super().forward(source, torch.zeros_like(said))


Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def _forced(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return masked_loss(model(source, shift_right(target)), target)


def _unshifted(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return masked_loss(model(source, target), target)


def _with_padding(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, shift_right(target))
    return functional.cross_entropy(logits.transpose(1, 2), target)


RIGHT: dict[str, tuple[int, Callable[[], nn.Module]]] = {
    "GRU 128": (16, Seq2Seq),
    "GRU 64": (6, lambda: _Recurrent(hidden=64)),
    "GRU 256": (4, lambda: _Recurrent(hidden=256)),
    "GRU 96-96": (6, lambda: _Recurrent(hidden=96, num_layers=2)),
    "GRU 128, context at each step": (6, _Context),
    "LSTM 128": (6, lambda: _Recurrent(nn.LSTM)),
    "LSTM 64": (6, lambda: _Recurrent(nn.LSTM, 64)),
    "GRU 64, both directions, attention": (6, _Attentive),
    "Transformer 64": (6, _Transformer),
    "Transformer 64, norm first, dropout .1": (
        6,
        lambda: _Transformer(norm_first=True, dropout=0.1),
    ),
    "RNN 128": (6, lambda: _Recurrent(nn.RNN)),
    "GRU 32": (6, lambda: _Recurrent(hidden=32)),
}
WRONG: dict[str, tuple[int, Callable[[], nn.Module], Loss]] = {
    "GRU 128, no shift": (3, Seq2Seq, _unshifted),
    "GRU 128, padding in the loss": (3, Seq2Seq, _with_padding),
    "decoder of both directions": (3, _LooksAhead, _forced),
    "Transformer without a mask": (3, lambda: _Transformer(masked=False), _forced),
    "bag of tokens as encoder": (3, _Bag, _forced),
    "decoder without the source": (3, _Deaf, _forced),
    "decoder without its own words": (3, _Mute, _forced),
}


def train(model: nn.Module, loss_of: Loss, numbers: dict[str, Any], seed: int) -> float:
    """The loop of the text; the mean loss of its last twenty steps."""
    steps, batch, rate, length = (numbers[name] for name in NUMBERS)
    source, target = pairs(steps * batch, length, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    losses = []
    for rows in torch.arange(steps * batch).split(batch):
        loss = loss_of(model, source[rows], target[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


def measure(
    make: Callable[[], nn.Module], loss_of: Loss, seeds: int, numbers: dict[str, Any]
) -> Tensor:
    """One row a seed: share of right translations, last loss, CPU seconds of the training."""
    rows = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        model, started = make(), time.process_time()
        loss = train(model, loss_of, numbers, 1000 + seed)
        seconds = time.process_time() - started
        source, target = pairs(UNSEEN, numbers["length"], 500_000 + seed)
        said = translations(model.eval(), source, numbers["length"] + 1, "model")
        rows.append([reference.sequence_accuracy(said, target), loss, seconds])
    return torch.tensor(rows)


def main() -> None:
    """Print the table, a row as soon as it is measured, and every training."""
    torch.set_num_threads(1)
    grading = yaml.safe_load(Path("grading.yml").read_text(encoding="utf-8"))
    assignment = grading["assignments"]["encoder_decoder"]
    smallest = assignment["questions"]["training"]["settings"]["smallest"]
    models = {name: (*entry, _forced) for name, entry in RIGHT.items()} | WRONG
    results = {}
    head("model", "last loss", "CPU s")
    for name in sys.argv[1:] or models:
        seeds, make, loss_of = models[name]
        seen = results[name] = measure(make, loss_of, seeds, assignment["values"])
        more = f"{seen[:, 1].mean():.4f}", f"{seen[:, 2].mean():.1f}"
        line(name, seen[:, 0].numpy(), smallest, *more)
    print("\nShare of right translations, each seed, from 0:\n")
    for name, seen in results.items():
        print(f"- {name}:", " ".join(f"{value:.3f}" for value in seen[:, 0].tolist()))


if __name__ == "__main__":
    main()
