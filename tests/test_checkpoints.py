"""What `fit` keeps, and what it loads: round trips, and each way in which files can be wrong."""

import json
import pickle
import warnings
from dataclasses import asdict, replace
from weakref import WeakValueDictionary

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from autograder import training
from autograder.training import History, Recipe, checkpoints
from autograder.training.checkpoints import CheckpointError

RECIPE = Recipe(epochs=2, batch_size=8, learning_rate=0.01, seed=3, device="cpu")


def blobs(count, seed=0):
    labels = torch.arange(count) % 3
    generator = torch.Generator().manual_seed(seed)
    return labels[:, None] + torch.randn(count, 4, generator=generator), labels


TRAIN, VALIDATION, OTHER = blobs(24), blobs(9, seed=1), blobs(50, seed=2)[0]


class Net(nn.Module):
    def __init__(self, hidden=5):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.layers(x)


class Normed(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.layers(self.norm(x))


class Lazy(Net):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(3))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))


class Masked(Net):
    """A buffer of infinities, as masks of attention are, and one that is not kept."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.full((3,), -torch.inf).masked_fill(torch.ones(3) > 0, 0))
        self.register_buffer("never", torch.full((2,), -torch.inf))
        self.register_buffer("scale", torch.ones(4), persistent=False)

    def forward(self, x):
        return super().forward(x * self.scale) + self.mask


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(2, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.lstm(x.unflatten(1, (2, 2)))[0][:, -1])


class Mixed(Net):
    """Weights of other types than float32."""

    def __init__(self):
        super().__init__()
        self.short = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.long_ = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x):
        return super().forward(x) * self.short.float() * self.long_.float()


class Expanded(Net):
    """A buffer whose numbers share memory, so that torch copies nothing into it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((1,), 2.0).expand(4))

    def forward(self, x):
        return super().forward(x * self.scale)


Odd = type("Größe/2", (Net,), {})  # a name that not every file system takes


@pytest.fixture
def release(tmp_path, monkeypatch):
    """Says what the release asks of `fit`; gives the folder of the checkpoints."""
    place = tmp_path / "kit" / "training" / "checkpoints.json"
    place.parent.mkdir(parents=True)
    monkeypatch.setattr(checkpoints, "SETTINGS", place)
    monkeypatch.setattr(checkpoints, "_used", WeakValueDictionary())
    return tmp_path / "checkpoints"


def asks(mode, assignment="hw", samples=0):
    """In a new process, as far as `checkpoints` can tell."""
    checkpoints._used.clear()
    checkpoints.SETTINGS.write_text(checkpoints.settings(assignment, mode, samples))


def fit(make=Net, seed=0, recipe=RECIPE, data=TRAIN):
    torch.manual_seed(seed)
    model = make()
    return model, training.fit(model, data, VALIDATION, recipe)


@pytest.fixture
def kept(release):
    """One training of Net: model, history and the paths of its files; then "load" is asked."""
    asks("keep")
    model, history = fit()
    (weights,) = release.glob("*.safetensors")
    asks("load")
    return model, history, weights, weights.with_suffix(".json")


def rewrite(kept, change=None, edit=None, **about):
    """Write the kept files anew, as somebody would who knows the format."""
    _, history, weights, record = kept
    tensors = load(weights.read_bytes())
    if change:
        change(tensors)
    text = history.to_json()
    if edit:
        raw = json.loads(text)
        edit(raw)
        text = json.dumps(raw)
    record.write_text(text)
    told = {"assignment": "hw", "history": checkpoints._digest(text.encode()), **about}
    weights.write_bytes(save(tensors, metadata=told))


@pytest.mark.parametrize("make", [Net, Normed, Lazy, Tied, Masked, Recurrent, Mixed, Expanded, Odd])
def test_what_was_trained_comes_back_without_training(release, make, monkeypatch):
    asks("keep")
    trained, history = fit(make)
    asks("load")
    monkeypatch.setattr(training.loop, "_epochs", None)  # training would fail
    loaded, same = fit(make, seed=7)
    assert same == history
    assert not loaded.training
    before, after = trained.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert torch.equal(tensor, after[name]), name
    assert torch.equal(trained.eval()(OTHER), loaded(OTHER))


def test_tied_weights_stay_tied(release):
    asks("keep")
    fit(Tied)
    asks("load")
    loaded, _ = fit(Tied)
    assert loaded.first.weight is loaded.second.weight


def test_files_hold_numbers_only_and_are_readable_without_us(kept):
    model, history, weights, record = kept
    tensors = load(weights.read_bytes())
    assert tensors.keys() == model.state_dict().keys()
    assert History.from_json(record.read_text()) == history
    assert weights.name.startswith("Net-")
    assert sorted(p.name for p in weights.parent.iterdir()) == [record.name, weights.name]


def test_a_release_without_checkpoints_writes_none(release):
    fit()
    assert not release.exists()


def test_running_a_cell_again_replaces_its_files(release):
    asks("keep")
    fit(seed=0)
    second, _ = fit(seed=1)
    assert len(list(release.iterdir())) == 2
    asks("load")
    assert torch.equal(fit(seed=2)[0](OTHER), second(OTHER))


def test_different_networks_recipes_and_sizes_of_data_have_files_of_their_own(release):
    asks("keep")
    fit()
    fit(lambda: Net(hidden=6))
    fit(Normed)
    fit(recipe=replace(RECIPE, learning_rate=0.02))
    fit(data=blobs(12))
    assert len(list(release.glob("*.safetensors"))) == len(list(release.glob("*.json"))) == 5


def test_the_device_makes_no_difference(release):
    asks("keep")
    fit(recipe=replace(RECIPE, device="auto"))
    asks("load")
    fit(recipe=RECIPE)


def test_the_folder_is_beside_the_notebook_wherever_a_cell_has_gone(release, monkeypatch, tmp_path):
    asks("keep")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    fit()
    assert len(list(release.iterdir())) == 2


def test_a_checkpoint_that_can_not_be_written_costs_a_warning_not_the_training(release):
    asks("keep")
    release.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match=r"checkpoint of Net could not be written .* once more"):
        _, history = fit()
    assert len(history.train_loss) == 2


def test_weights_that_the_format_does_not_know_are_told(release):
    class Strange(Net):
        def __init__(self):
            super().__init__()
            self.register_buffer("sparse", torch.eye(3).to_sparse())

    asks("keep")
    with pytest.warns(UserWarning, match="checkpoint of Strange could not be written"):
        fit(Strange)
    assert not list(release.glob("*.safetensors"))


def test_two_networks_that_share_a_checkpoint_are_told(release):
    asks("keep")
    first, _ = fit(seed=0)
    with pytest.warns(UserWarning, match="Two networks Net have the same layers"):
        fit(seed=1)
    assert first is not None


def test_two_networks_that_share_a_checkpoint_are_not_both_loaded(kept):
    first, _ = fit()
    with pytest.raises(CheckpointError, match="give one of them a class of another name"):
        fit()
    training.fit(first, TRAIN, VALIDATION, RECIPE)  # the same network once more
    del first
    fit()


def test_one_that_refers_to_itself_is_not_in_use_any_more(kept):
    first, _ = fit()
    first.itself = [first]
    del first
    fit()


def test_names_that_differ_in_case_alone_have_files_of_their_own_on_every_system(release):
    asks("keep")
    for name in ("Rnn", "RNN"):
        fit(type(name, (Net,), {}))
    assert len({path.name.lower() for path in release.iterdir()}) == 4


# Files that can't be used.


def refused(make=Net, recipe=RECIPE):
    with pytest.raises(CheckpointError) as caught:
        fit(make, recipe=recipe)
    told = str(caught.value)
    assert told.endswith(checkpoints.ADVICE)
    assert "\n" not in told
    return told


def test_a_missing_file_is_named_with_its_network(kept):
    kept[2].unlink()
    told = refused()
    assert "No checkpoint for Net (43 parameters, 2 epochs): " in told
    assert f"checkpoints/{kept[2].name} is missing." in told
    assert "after training" not in told


def test_a_missing_history_is_named(kept):
    kept[3].unlink()
    assert f"checkpoints/{kept[3].name} is missing." in refused()


def test_no_folder_at_all(release):
    asks("load")
    assert "No checkpoint for Net" in refused()


@pytest.mark.parametrize(
    ("make", "recipe"), [(lambda: Net(hidden=6), RECIPE), (Net, replace(RECIPE, epochs=3))]
)
def test_a_class_or_recipe_that_was_changed_after_training_is_told(kept, make, recipe):
    told = refused(make, recipe)
    assert kept[2].name in told
    assert "was something changed after training?" in told


def test_weights_of_another_network_under_this_name(kept):
    rewrite(kept, lambda t: t.update({"layers.0.weight": torch.zeros(6, 4)}))
    assert "holds float32 (6, 4) for 'layers.0.weight', but the class has float32 (5, 4)" in (
        refused()
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t.pop("layers.2.bias"), "holds nothing for 'layers.2.bias'"),
        (lambda t: t.update(extra=torch.zeros(2)), "for 'extra', but the class has nothing there"),
        (lambda t: t.update({"layers.2.bias": t["layers.2.bias"].double()}), "holds float64 (3,)"),
        (lambda t: t["layers.2.bias"].fill_(torch.nan), "infinite or NaN numbers in 'layers.2"),
        (lambda t: t["layers.0.weight"][1].fill_(torch.inf), "infinite or NaN numbers in 'lay"),
    ],
)
def test_weights_that_do_not_fit(kept, change, expected):
    rewrite(kept, change)
    assert expected in refused()


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": lambda t: t["layers.2.bias"].fill_(torch.nan)},
        {"edit": lambda r: r["train_loss"].pop()},
    ],
)
def test_the_model_is_untouched_by_files_that_do_not_fit(kept, wrong):
    rewrite(kept, **wrong)
    torch.manual_seed(5)
    model = Net()
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError):
        training.fit(model, TRAIN, VALIDATION, RECIPE)
    assert all(torch.equal(start[name], t) for name, t in model.state_dict().items())


def test_tied_weights_that_a_file_holds_apart_are_refused(release):
    asks("keep")
    trained, history = fit(Tied)
    (weights,) = release.glob("*.safetensors")
    asks("load")
    apart = (trained, history, weights, weights.with_suffix(".json"))
    rewrite(apart, lambda t: t["second.weight"].add_(1))
    assert "ties weights that the file holds apart" in refused(Tied)


def test_an_expanded_buffer_that_a_file_holds_otherwise_is_refused(release):
    asks("keep")
    trained, history = fit(Expanded)
    (weights,) = release.glob("*.safetensors")
    asks("load")
    other = (trained, history, weights, weights.with_suffix(".json"))
    rewrite(other, lambda t: t["scale"].add_(1))
    assert "can't be put into 'scale' of the model" in refused(Expanded)


def test_samples_that_were_changed_after_training_are_told(kept):
    with pytest.raises(
        CheckpointError, match=r"trained on other samples .* changed after training"
    ):
        fit(data=blobs(24, seed=9))


def test_a_fingerprint_that_another_machine_rounds_otherwise_is_no_other_sample(kept):
    asks("load", samples=1 / 24)
    inputs, labels = TRAIN
    fit(data=(torch.cat([inputs[:1] + 0.01, inputs[1:]]), labels))


def test_whatever_else_goes_wrong_does_not_look_like_a_wrong_answer(kept, monkeypatch):
    def broken(*_):
        raise KeyError("strange")

    monkeypatch.setattr(checkpoints, "put_into", broken)
    assert "The checkpoint of Net can't be used (KeyError: 'strange')." in refused()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:5],
        lambda data: data[:60],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: pickle.dumps(Bomb()),
        lambda data: b"\xff" * 8 + data[8:],
        lambda data: b"\x02\0\0\0\0\0\0\0[]",
    ],
    ids=["empty", "short", "cut in the header", "cut", "longer", "pickle", "huge header", "list"],
)
def test_what_is_no_whole_safetensors_file(kept, spoil):
    kept[2].write_bytes(spoil(kept[2].read_bytes()))
    assert f"checkpoints/{kept[2].name} is no whole safetensors file." in refused()


def test_a_file_of_torch_save_is_not_opened(kept):
    torch.save(kept[0], kept[2])
    assert "is no whole safetensors file" in refused()


def test_a_checkpoint_of_another_assignment(kept):
    rewrite(kept, assignment="hw0")
    assert "is of assignment 'hw0', not of this" in refused()


def test_weights_and_history_of_two_trainings(kept):
    kept[3].write_text(replace(kept[1], seconds=1.5).to_json())
    assert "was written by another training than the .json file beside it" in refused()


def test_weights_without_a_word_of_where_they_come_from(kept):
    kept[2].write_bytes(save(load(kept[2].read_bytes())))
    assert "is of assignment '?'" in refused()


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda r: r.pop("train_loss"), "not a training history"),
        (lambda r: r.update(more=1), "not a training history"),
        (lambda r: r["train_loss"].append(0.1), "one number an epoch"),
        (lambda r: r["train_loss"].__setitem__(0, float("nan")), "one number an epoch"),
        (lambda r: r["train_loss"].__setitem__(0, "low"), "one number an epoch"),
        (lambda r: r["train_accuracy"].__setitem__(0, 1.5), "accuracies from 0 to 1"),
        (lambda r: r["validation_accuracy"].__setitem__(0, -0.1), "accuracies from 0 to 1"),
        (lambda r: r["train_fingerprints"].pop(), "one fingerprint a sample"),
        (lambda r: r["weight_change"].pop("layers.0.bias"), "how each tensor changed"),
        (lambda r: r["recipe"].update(learning_rate=0.5), "of another recipe"),
        (lambda r: r["recipe"].update(epochs=0), "epochs must be"),
        (lambda r: r.update(parameters=44), "of another network"),
        (lambda r: r.update(samples=23, train_fingerprints=["a"] * 23), "number of samples"),
    ],
)
def test_histories_that_do_not_fit(kept, edit, expected):
    rewrite(kept, edit=edit)
    told = refused()
    assert expected in told
    assert f"checkpoints/{kept[3].name}" in told


@pytest.mark.parametrize("text", ["", "{", "null", "3", "[" * 100_000, "\udcff", '{"recipe": 1}'])
def test_what_is_no_history(kept, text):
    data = text.encode("utf-8", "surrogateescape")
    kept[3].write_bytes(data)
    tensors = load(kept[2].read_bytes())
    about = {"assignment": "hw", "history": checkpoints._digest(data)}
    kept[2].write_bytes(save(tensors, metadata=about))
    assert f"checkpoints/{kept[3].name}" in refused()


def test_a_model_that_hides_its_state_is_refused(kept):
    class Hiding(Net):
        def state_dict(self, *arguments, destination, **more):
            super().state_dict(*arguments, destination=destination, **more)
            destination |= {name: t.clone() for name, t in destination.items()}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Hiding()

        def forward(self, x):
            return self.inner(x)

    asks("keep")
    fit(Outer)
    asks("load")
    assert "overrides state_dict" in refused(Outer)


def test_what_can_not_be_trained_is_refused_before_anything_is_loaded(kept):
    with pytest.raises(TypeError, match="make a model"):
        training.fit(Net, TRAIN, VALIDATION, RECIPE)


def test_nothing_is_written_while_loading(kept):
    before = {p: p.read_bytes() for p in kept[2].parent.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, history = fit()
    assert asdict(history) == asdict(kept[1])
    assert {p: p.read_bytes() for p in kept[2].parent.iterdir()} == before
