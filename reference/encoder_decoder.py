"""Reference solution of the assignment encoder_decoder.

What stands between BEGIN SOLUTION and END SOLUTION, and lines that end in SOLUTION, are cut from
the student notebook; docstrings and signatures stay. Shapes: B sequences, S tokens of a source,
T tokens of a target or steps of the decoder, V = 13 tokens in the vocabulary.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from autograder.data import BOS, EOS, PAD, VOCABULARY, pairs


def shift_right(target: Tensor) -> Tensor:
    """What the decoder reads: <bos>, then the target without its last column. (B, T) -> (B, T)."""
    # BEGIN SOLUTION
    first = torch.full_like(target[:, :1], BOS)
    return torch.cat([first, target[:, :-1]], dim=1)
    # END SOLUTION


def masked_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean cross-entropy over all tokens that are not <pad>: logits (B, T, V), target (B, T)."""
    # BEGIN SOLUTION
    log_probabilities = logits.log_softmax(dim=2).gather(2, target[:, :, None])[:, :, 0]  # (B, T)
    return -log_probabilities[target != PAD].mean()
    # END SOLUTION


class Seq2Seq(nn.Module):
    """An encoder and a decoder, both GRUs; the decoder starts from the encoder's last state.

    After Sutskever, Vinyals and Le (2014), Sequence to sequence learning with neural networks, and
    Cho et al. (2014), Learning phrase representations using RNN encoder-decoder.
    """

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        # BEGIN SOLUTION
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.encoder = nn.GRU(32, 128, batch_first=True)
        self.decoder = nn.GRU(32, 128, batch_first=True)
        self.output = nn.Linear(128, VOCABULARY)
        # END SOLUTION

    def forward(self, source: Tensor, decoder_input: Tensor) -> Tensor:
        """Sources (B, S), decoder inputs (B, T) -> logits (B, T, V)."""
        # BEGIN SOLUTION
        _, state = self.encoder(self.embedding(source))  # (1, B, 128)
        states, _ = self.decoder(self.embedding(decoder_input), state)  # (B, T, 128)
        logits: Tensor = self.output(states)  # (B, T, 13)
        return logits
        # END SOLUTION


def training_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, source: Tensor, target: Tensor
) -> float:
    """One step of training with teacher forcing on a batch; the loss before the step.

    After Williams and Zipser (1989), A learning algorithm for continually running fully recurrent
    neural networks.
    """
    # BEGIN SOLUTION
    optimizer.zero_grad()
    loss = masked_loss(model(source, shift_right(target)), target)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.item()
    # END SOLUTION


def translate(model: nn.Module, source: Tensor, max_len: int) -> Tensor:
    """Greedy translation of sources (B, S): tokens (B, max_len), with <pad> after <eos>."""
    # BEGIN SOLUTION
    model.eval()
    said = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    with torch.no_grad():
        for _ in range(max_len):
            token = model(source, said)[:, -1].argmax(dim=1)  # (B,)
            token = torch.where(ended, PAD, token)
            ended = ended | (token == EOS)
            said = torch.cat([said, token[:, None]], dim=1)
    return said[:, 1:]
    # END SOLUTION


def sequence_accuracy(predicted: Tensor, target: Tensor) -> float:
    """Share of translations that are right in every token: both (B, T)."""
    # BEGIN SOLUTION
    return (predicted == target).all(dim=1).float().mean().item()
    # END SOLUTION


def training(
    train: Callable[[nn.Module], list[float]], length: int, count: int, seed: int
) -> nn.Module:
    """Train a model, and translate sequences that it has never seen."""
    torch.manual_seed(seed)
    model = Seq2Seq()  # SOLUTION
    losses = train(model)  # SOLUTION # noqa: F841 - the notebook draws them
    source, target = pairs(count, length, seed=seed + 1)
    predicted = translate(model, source, length + 1)  # SOLUTION
    accuracy = sequence_accuracy(predicted, target)  # SOLUTION # noqa: F841 - and shows it
    return model
