import math

import pytest
import torch
from torch import nn

from autograder.training import Recipe, Regression, fit_values, pair_fingerprints


def recipe(**changes):
    values = {"epochs": 3, "batch_size": 4, "learning_rate": 0.05, "seed": 3, "device": "cpu"}
    return Recipe(**(values | changes))


def line(count=10):
    x = torch.linspace(-1, 1, count)[:, None]
    return x, 3 * x + 1


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(1, 1)


def test_it_finds_a_line():
    fitted = model()
    history = fit_values(fitted, *line(), recipe(epochs=200))
    assert fitted.weight.item() == pytest.approx(3, abs=0.01)
    assert fitted.bias.item() == pytest.approx(1, abs=0.01)
    assert len(history.loss) == 200
    assert history.loss[-1] < 1e-4
    assert not fitted.training


def test_the_first_loss_is_that_of_the_untrained_model():
    x, y = line(4)
    untrained = model()
    expected = (untrained(x) - y).square().mean().item()
    history = fit_values(untrained, x, y, recipe(epochs=1))
    assert history.loss == [pytest.approx(expected)]


def test_it_goes_the_way_of_adam_on_the_one_cycle_schedule():
    x, y = line(4)
    ours, plain = model(), model()
    fit_values(ours, x, y, recipe(epochs=5))
    optimiser = torch.optim.Adam(plain.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.05, total_steps=5)
    for _ in range(5):
        optimiser.zero_grad()
        (plain(x) - y).square().mean().backward()
        gradients = torch.cat([p.grad.flatten() for p in plain.parameters()])
        for parameter in plain.parameters():
            parameter.grad *= min(1.0, 0.5 / (gradients.norm().item() + 1e-6))
        optimiser.step()
        schedule.step()
    torch.testing.assert_close(ours.weight, plain.weight)
    torch.testing.assert_close(ours.bias, plain.bias)


def test_the_seed_alone_decides_the_order():
    runs = []
    for drawn in (1, 2):
        fitted = model()
        torch.manual_seed(drawn)
        runs.append(fit_values(fitted, *line(), recipe()).loss)
    assert runs[0] == runs[1]
    assert fit_values(model(), *line(), recipe(seed=4)).loss != runs[0]


def test_the_record_names_every_pair():
    x, y = line()
    history = fit_values(model(), x, y, recipe())
    assert isinstance(history, Regression)
    assert history.fingerprints == pair_fingerprints(x, y)
    assert len(set(history.fingerprints)) == 10
    assert "fingerprints" not in repr(history)


def test_a_pair_is_known_by_its_target_too():
    x, y = line()
    assert not set(pair_fingerprints(x, y)) & set(pair_fingerprints(x, y + 1))


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, x):
        return self.layer(x).flatten()


@pytest.mark.parametrize(("given", "error", "message"), [
    ((Flat(), *line()), ValueError, "broadcast"),
    ((nn.RNN(1, 1, batch_first=True), line()[0][None], line()[1][None, :, 0]),
     ValueError, "a tuple of shape"),
    ((model(), line()[0], line()[1][:, 0]), ValueError, r"targets \(N, K\)"),
    ((model(), line()[0], line()[1][1:]), ValueError, "got"),
    ((model(), torch.zeros(0, 1), torch.zeros(0, 1)), ValueError, "got"),
    ((model(), line(), line()[1]), TypeError, "two tensors"),
    ((model(), ..., ...), TypeError, "two tensors"),
    ((nn.Linear, *line()), TypeError, "make a model"),
    ((nn.ReLU(), *line()), ValueError, "no trainable parameters"),
    ((model(), line()[0], line()[1] * math.inf), FloatingPointError, "epoch 1"),
])  # fmt: skip
def test_what_cant_be_trained_is_refused_with_a_reason(given, error, message):
    with pytest.raises(error, match=message):
        fit_values(*given, recipe())
