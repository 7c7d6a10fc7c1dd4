import copy
import dataclasses
import io
import json
import math
import random

import numpy as np
import pytest
import torch
from matplotlib import pyplot
from torch import nn
from torch.nn import functional

from autograder import data, training
from autograder.training import History, Recipe, loop


def recipe(**changes):
    values = {"epochs": 2, "batch_size": 8, "learning_rate": 0.01, "seed": 3, "device": "cpu"}
    return Recipe(**(values | changes))


def blobs(count, seed=0):
    """Three easy classes in the plane."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    centres = torch.tensor([[0.0, 2.0], [2.0, -2.0], [-2.0, -2.0]])
    return centres[labels] + 0.5 * torch.randn(count, 2, generator=generator), labels


def mlp(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))


TRAIN, VALIDATION = blobs(30), blobs(12, seed=1)
X, Y = TRAIN


# fit against a plain loop


def one_cycle(step, steps, peak):
    """Learning rate and momentum of a step, by cosines: up in 30 % of the steps, then down."""
    top, last = 0.3 * steps - 1, steps - 1
    if step <= top:
        low, share = peak / 25, step / top
    else:
        low, share = peak / 25 / 10_000, (last - step) / (last - top)
    height = (1 - math.cos(math.pi * share)) / 2
    return low + height * (peak - low), 0.95 - height * 0.1


def adam(weights, averages, step, lr, momentum):
    """One step of Adam; `averages` of the gradient and its square."""
    for weight, (mean, square) in zip(weights, averages, strict=True):
        mean.mul_(momentum).add_((1 - momentum) * weight.grad)
        square.mul_(0.999).add_(0.001 * weight.grad**2)
        unbiased = mean / (1 - momentum ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        with torch.no_grad():
            weight.sub_(lr * unbiased[0] / (unbiased[1].sqrt() + 1e-8))
        weight.grad = None


def plain_loop(model, train, validation, *, epochs, batch, lr, seed):
    (x, y), (vx, vy) = train, validation
    weights = list(model.parameters())
    averages = [(torch.zeros_like(w), torch.zeros_like(w)) for w in weights]
    step, steps = 0, epochs * math.ceil(len(x) / batch)
    generator = torch.Generator()
    generator.manual_seed(seed)
    curves = []
    for _ in range(epochs):
        losses, right = [], 0
        order = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), batch):
            rows = order[start : start + batch]
            out = model(x[rows])
            picked = out.log_softmax(1)[torch.arange(len(rows)), y[rows]]
            (-picked.mean()).backward()
            adam(weights, averages, step, *one_cycle(step, steps, lr))
            step += 1
            losses += (-picked).tolist()
            right += sum(out.argmax(1).eq(y[rows]).tolist())
        with torch.no_grad():
            out = model(vx)
            validation_loss = -out.log_softmax(1)[torch.arange(len(vx)), vy].mean().item()
            validation_right = out.argmax(1).eq(vy).double().mean().item()
        curves.append((sum(losses) / len(x), right / len(x), validation_loss, validation_right))
    return curves


# 8 and 90 steps, and one batch an epoch: 3 and 2 steps
@pytest.mark.parametrize(("epochs", "batch"), [(2, 8), (9, 3), (3, 64), (2, 30)])
def test_training_equals_a_plain_loop(epochs, batch):
    model, oracle = mlp(), mlp()
    start = copy.deepcopy(model)
    expected = plain_loop(oracle, TRAIN, VALIDATION, epochs=epochs, batch=batch, lr=0.01, seed=3)
    history = training.fit(model, TRAIN, VALIDATION, recipe(epochs=epochs, batch_size=batch))
    got = zip(
        history.train_loss,
        history.train_accuracy,
        history.validation_loss,
        history.validation_accuracy,
        strict=True,
    )
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    for mine, theirs in zip(model.parameters(), oracle.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
    assert (history.parameters, history.samples) == (2 * 8 + 8 + 8 * 3 + 3, 30)
    for (name, before), after in zip(start.named_parameters(), oracle.parameters(), strict=True):
        expected_change = (after - before).norm().item() / before.norm().item()
        assert history.weight_change[name] == pytest.approx(expected_change, rel=1e-4)


@pytest.mark.parametrize("samples", [1, 30])
def test_a_training_of_a_single_step_moves_every_tensor(samples):
    few = X[:samples], Y[:samples]
    history = training.fit(mlp(), few, VALIDATION, recipe(epochs=1, batch_size=64))
    assert len(history.train_loss) == 1
    assert all(change > 1e-3 for change in history.weight_change.values())


def test_the_loss_falls_and_easy_classes_are_learnt():
    history = training.fit(mlp(), TRAIN, VALIDATION, recipe(epochs=30, learning_rate=0.03))
    assert history.train_loss[-1] < 0.2 * history.train_loss[0]
    assert history.validation_accuracy[-1] == 1
    assert history.seconds > 0


def test_digits_are_learnt():
    digits = data.digits()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))
    history = training.fit(
        model, digits.train, digits.validation, recipe(batch_size=64, learning_rate=0.01)
    )
    assert history.validation_accuracy[-1] > 0.7
    assert history.validation_accuracy[-1] == training.accuracy(model, digits.validation)
    assert history.train_fingerprints == data.fingerprints(digits.train.images)


def test_sequences_are_learnt_by_an_lstm():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(2, 16, batch_first=True)
            self.head = nn.Linear(16, 2)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 6, 2, generator=generator)
    labels = (inputs[..., 0].sum(1) > 0).long()
    train, validation = (inputs[:200], labels[:200]), (inputs[200:], labels[200:])
    torch.manual_seed(0)
    history = training.fit(Last(), train, validation, recipe(epochs=20, learning_rate=0.02))
    assert history.validation_accuracy[-1] > 0.85
    assert len(set(history.train_fingerprints)) == 200


# order, seeds, modes


class Recorder(nn.Module):
    """Keeps what it saw in training, and in which modes it ran."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.seen, self.gradients_wanted = [], {True: [], False: []}

    def forward(self, x):
        if self.training:
            self.seen.append(x)
        self.gradients_wanted[self.training].append(torch.is_grad_enabled())
        return self.layer(x)


def order_of(seed, global_seed=0):
    torch.manual_seed(global_seed)
    model = Recorder()
    training.fit(model, TRAIN, VALIDATION, recipe(seed=seed))
    return torch.cat(model.seen)


def test_every_epoch_sees_every_sample_once_in_a_new_order():
    first, second = order_of(1).split(30)
    for epoch in (first, second):
        assert sorted(epoch.tolist()) == sorted(TRAIN[0].tolist())
    assert not torch.equal(first, second)
    assert not torch.equal(first, TRAIN[0])


def test_the_order_depends_on_the_recipes_seed_alone():
    assert torch.equal(order_of(1), order_of(1, global_seed=9))
    assert not torch.equal(order_of(1), order_of(2))


def test_the_same_seed_gives_the_same_numbers():
    def losses(seed):
        training.seed_everything(seed)
        model = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
        return training.fit(model, TRAIN, VALIDATION, recipe(seed=seed)).validation_loss

    assert losses(4) == losses(4)
    assert losses(4) != losses(5)


def test_fit_draws_nothing_from_the_global_generator():
    model = mlp()
    torch.manual_seed(0)
    training.fit(model, TRAIN, VALIDATION, recipe())
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


def test_validation_runs_in_eval_mode_and_training_in_train_mode():
    model = Recorder()
    model.eval()  # what a student may have left behind
    training.fit(model, TRAIN, VALIDATION, recipe())
    assert sum(map(len, model.seen)) == 2 * 30
    assert not model.training
    assert all(model.gradients_wanted[True])
    assert not any(model.gradients_wanted[False])


def test_batch_norm_counts_training_batches_only():
    norm = nn.BatchNorm1d(2)
    training.fit(nn.Sequential(norm, nn.Linear(2, 3)), TRAIN, VALIDATION, recipe())
    assert norm.num_batches_tracked == 2 * math.ceil(30 / 8)


def test_frozen_parameters_stay_and_are_not_counted():
    model = mlp()
    model[0].weight.requires_grad_(False)
    history = training.fit(model, TRAIN, VALIDATION, recipe())
    assert history.parameters == 8 + 8 * 3 + 3
    assert history.weight_change["0.weight"] == 0
    assert history.weight_change["2.weight"] > 0


def test_lazy_layers_are_filled_before_the_optimiser_is_made():
    model = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(3))
    history = training.fit(model, TRAIN, VALIDATION, recipe())
    assert history.parameters == 2 * 8 + 8 + 8 * 3 + 3
    assert all(change > 0 for change in history.weight_change.values())


# what fit refuses


class Returns(nn.Module):
    """Returns what the given function makes of right logits."""

    def __init__(self, change, classes=3):
        super().__init__()
        self.layer, self.change = nn.Linear(2, classes), change

    def forward(self, x):
        return self.change(self.layer(x))


class Unused(Returns):
    def __init__(self):
        super().__init__(lambda logits: logits)
        self.extra = nn.LazyLinear(4)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (lambda x: x, TypeError, "needs a torch.nn.Module, got function"),
        (Recorder, TypeError, r"got the class Recorder: make a model, Recorder\(\)"),
        (nn.Flatten(), ValueError, "no trainable parameters"),
        (Returns(lambda z: (z, z)), TypeError, "one tensor of logits, got tuple"),
        (Returns(lambda z: z.argmax(1)), ValueError, r"here \(2, classes\), got \(2,\)"),
        (
            Returns(lambda z: z[None]),
            ValueError,
            r"\(2, classes\), got \(1, 2, 3\).*shape \(2, 2\)",
        ),
        (Returns(lambda z: z[:1]), ValueError, r"\(2, classes\), got \(1, 3\)"),
        (Returns(lambda z: z, classes=2), ValueError, r"expected shape \(2, 3\), got \(2, 2\)"),
        (Returns(lambda z: z.detach()), ValueError, "does not depend on its parameters"),
        (Unused(), ValueError, "'extra.weight' is never used in forward"),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(model, error, message):
    with pytest.raises(error, match=message):
        training.fit(model, TRAIN, VALIDATION, recipe())


def test_a_dropped_batch_dimension_shows_at_the_batch_of_one():
    samples = TRAIN[0][:9], TRAIN[1][:9]  # 9 = 8 + 1
    with pytest.raises(ValueError, match=r"here \(1, classes\), got \(3,\)"):
        training.fit(Returns(torch.squeeze), samples, VALIDATION, recipe())


@pytest.mark.parametrize(
    ("pair", "error", "message"),
    [
        (X, TypeError, r"pair of tensors \(inputs, labels\), got Tensor"),
        ((X, Y.tolist()), TypeError, "pair of tensors"),
        ((X, Y.float()), TypeError, r"int64 of shape \(N,\), got float32"),
        ((X, Y.int()), TypeError, "got int32"),
        ((X, functional.one_hot(Y)), TypeError, r"got int64 of shape \(30, 3\).*argmax"),
        ((X[:29], Y), ValueError, r"inputs \(29, 2\) and labels \(30,\)"),
        ((X[:0], Y[:0]), ValueError, "at least one sample"),
        ((X, Y - 1), ValueError, "from 0, got -1"),
    ],
)
def test_data_that_cannot_be_trained_on_are_refused(pair, error, message):
    with pytest.raises(error, match=f"(?s)training.*{message}"):
        training.fit(mlp(), pair, VALIDATION, recipe())
    with pytest.raises(error, match=f"(?s)validation.*{message}"):
        training.fit(mlp(), TRAIN, pair, recipe())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_with_its_epoch(value):
    class Breaks(Recorder):
        def forward(self, x):
            factor = value if len(self.seen) >= 6 else 1.0  # 4 batches an epoch
            return super().forward(x) * factor

    model = Breaks()
    with pytest.raises(FloatingPointError, match=r"training loss became .* in epoch 2.*lower"):
        training.fit(model, TRAIN, VALIDATION, recipe(epochs=5))
    assert len(model.seen) == 8  # nothing was trained after the second epoch


# predict, accuracy


def test_predict_is_argmax_in_eval_mode_and_restores_every_mode():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model.train()
    model[1].eval()
    classes = training.predict(model, X, batch_size=7)
    assert [m.training for m in model] == [True, False, True, True]
    with torch.no_grad():
        expected = copy.deepcopy(model).eval()(X).max(1).indices
    assert classes.dtype == torch.int64
    assert torch.equal(classes, expected)
    for labels in (Y, (Y + 1) % 3):
        right = [p == y for p, y in zip(expected.tolist(), labels.tolist(), strict=True)]
        assert training.accuracy(model, (X, labels)) == sum(right) / 30


def test_modes_are_restored_after_an_error():
    model = Returns(lambda z: z.sum())
    model.train()
    with pytest.raises(ValueError, match=r"got \(\)"):
        training.predict(model, X)
    assert model.training


# seeds, devices, recipes


def test_seed_everything_seeds_all_three_generators():
    def draw():
        training.seed_everything(11)
        return random.random(), np.random.rand(), torch.rand(1).item()

    assert draw() == draw()
    assert torch.backends.cudnn.deterministic
    assert not torch.backends.cudnn.benchmark


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.delenv("AUTOGRADER_DEVICE", raising=False)
    return lambda there: monkeypatch.setattr(torch.cuda, "is_available", lambda: there)


def test_auto_takes_the_gpu_if_there_is_one(cuda):
    cuda(True)
    assert training.device().type == "cuda"
    cuda(False)
    assert training.device("auto").type == "cpu"


def test_cuda_without_a_gpu_says_what_to_do(cuda):
    cuda(False)
    with pytest.raises(RuntimeError, match=r"no CUDA GPU here\. Use 'auto' or 'cpu'"):
        training.device("cuda")
    with pytest.raises(RuntimeError, match="no CUDA GPU here"):
        training.fit(mlp(), TRAIN, VALIDATION, recipe(device="cuda"))


def test_the_environment_decides_auto_only(cuda, monkeypatch):
    cuda(True)
    monkeypatch.setenv("AUTOGRADER_DEVICE", "cpu")
    assert training.device("auto").type == "cpu"
    assert training.device("cuda").type == "cuda"
    monkeypatch.setenv("AUTOGRADER_DEVICE", "gpu")
    with pytest.raises(ValueError, match="AUTOGRADER_DEVICE must be one of auto, cpu, cuda"):
        training.device("auto")
    with pytest.raises(ValueError, match=r"^device must be one of .* got 'tpu'"):
        training.device("tpu")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_model_and_data_are_moved():
    model = mlp()
    training.fit(model, TRAIN, VALIDATION, recipe(device="cuda", epochs=30))
    assert next(model.parameters()).is_cuda
    assert training.predict(model, X).device.type == "cpu"
    assert training.accuracy(model, VALIDATION) > 0.9


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("epochs", 0, "a whole number, at least 1"),
        ("epochs", 2.0, "a whole number"),
        ("epochs", True, "a whole number"),
        ("batch_size", -1, "a whole number, at least 1"),
        ("learning_rate", 0, "a number above 0"),
        ("learning_rate", math.nan, "a number above 0"),
        ("learning_rate", math.inf, "a number above 0"),
        ("learning_rate", "3e-3", "a number above 0, got '3e-3'"),
        ("seed", -1, "from 0 to"),
        ("seed", 2**32, "from 0 to"),
        ("device", "gpu", "one of auto, cpu, cuda, got 'gpu'"),
    ],
)
def test_a_recipe_names_the_wrong_value(field, value, rule):
    with pytest.raises(ValueError, match=f"Recipe: {field} must be {rule}"):
        recipe(**{field: value})


def test_a_recipe_has_no_default_numbers():
    assert all(f.default is dataclasses.MISSING for f in dataclasses.fields(Recipe))


# history


@pytest.fixture(scope="module")
def history():
    return training.fit(mlp(), TRAIN, VALIDATION, recipe())


def test_json_round_trip(history):
    text = history.to_json()
    assert History.from_json(text) == history
    assert json.loads(text)["recipe"]["epochs"] == 2


def without(key):
    return lambda record: record.pop(key)


def with_value(key, value):
    return lambda record: record.__setitem__(key, value)


@pytest.mark.parametrize(
    "damage",
    [
        without("seconds"),
        without("recipe"),
        with_value("extra", 1),
        with_value("recipe", {"epochs": 2}),
        with_value("recipe", [1]),
        with_value("train_loss", [1.0]),
        with_value("train_loss", "ab"),
        with_value("train_loss", [1.0, math.nan]),
        with_value("validation_loss", [1.0, "1"]),
        with_value("validation_accuracy", [True, False]),
        with_value("train_accuracy", [10**400, 1]),
        with_value("samples", 29),
        with_value("samples", "30"),
        with_value("parameters", 1.5),
        with_value("train_fingerprints", [1] * 30),
        with_value("weight_change", [1.0]),
        with_value("weight_change", {"a": None}),
        with_value("seconds", None),
    ],
)
def test_a_damaged_history_is_refused(history, damage):
    record = json.loads(history.to_json())
    damage(record)
    with pytest.raises(ValueError, match="not a training history"):
        History.from_json(json.dumps(record))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"a"', "{}", "[" * 100_000])
def test_text_that_is_no_history_is_refused(text):
    with pytest.raises(ValueError):
        History.from_json(text)


def test_the_plot_shows_the_numbers_and_leaves_pyplot_alone(history):
    open_figures = pyplot.get_fignums()
    figure = training.plot_history({"CNN": history, "FNN": history})
    losses, accuracies = figure.axes
    assert (losses.get_xlabel(), losses.get_ylabel()) == ("epoch", "cross-entropy loss")
    assert (accuracies.get_xlabel(), accuracies.get_ylabel()) == ("epoch", "validation accuracy")
    drawn = {line.get_label(): list(line.get_ydata()) for line in losses.lines}
    assert drawn["CNN, training"] == history.train_loss
    assert drawn["FNN, validation"] == history.validation_loss
    assert list(accuracies.lines[0].get_ydata()) == history.validation_accuracy
    assert [t.get_text() for t in accuracies.get_legend().get_texts()] == ["CNN", "FNN"]
    figure.savefig(io.BytesIO())
    assert pyplot.get_fignums() == open_figures


# progress


def test_no_progress_bar_where_nobody_watches(capsys):
    training.fit(mlp(), TRAIN, VALIDATION, recipe())
    assert capsys.readouterr() == ("", "")


def test_the_progress_bar_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(loop, "_watched", lambda: True)
    training.fit(mlp(), TRAIN, VALIDATION, recipe(epochs=20))
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.count("\r") <= 21
    assert "20/20" in shown
    assert "validation accuracy" in shown
