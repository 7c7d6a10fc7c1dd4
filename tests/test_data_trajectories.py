import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from autograder import data
from autograder.data import files, make_trajectories
from autograder.data.make_trajectories import normalise

FOLDER = Path(data.__file__).parent
SIZES = {"train": 2400, "validation": 300, "test": 300, "hidden": 900}
NAMES = ["trajectories.npz", "hidden/trajectories.npz", "hidden/trajectories_labels.npz"]


def all_sets(positions_per_step=4):
    shown = data.trajectories(positions_per_step)
    sets = {name: getattr(shown, name) for name in ("train", "validation", "test")}
    hidden = data.Steps(data.hidden_inputs("trajectories"), data.hidden_labels("trajectories"))
    return sets | {"hidden": hidden}


# the shipped files


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_sizes_types_and_classes(name, size):
    inputs, labels = all_sets()[name]
    assert inputs.shape == (size, 25, 4)
    assert inputs.dtype == torch.float32
    assert labels.dtype == torch.int64
    assert torch.bincount(labels).tolist() == [size // 3] * 3


@pytest.mark.parametrize("name", SIZES)
def test_labels_are_shuffled(name):
    labels = all_sets()[name].labels
    same_as_next = (labels[1:] == labels[:-1]).double().mean()
    assert same_as_next < 0.45  # sorted: nearly 1; shuffled: 0.33


@pytest.mark.parametrize("name", SIZES)
def test_every_trajectory_has_mean_0_and_standard_deviation_3(name):
    positions = all_sets()[name].inputs.flatten(1).double()
    rounding = 1 / 1024
    assert positions.mean(1).abs().max() < rounding
    assert (positions.std(1, correction=0) - 3).abs().max() < rounding


def test_no_two_samples_of_all_sets_are_equal():
    sets = [split.inputs for split in all_sets().values()]
    marks = [mark for inputs in sets for mark in data.fingerprints(inputs)]
    assert len(set(marks)) == len(marks) == sum(SIZES.values())
    values = [sample.numpy().tobytes() for inputs in sets for sample in inputs]
    assert len(set(values)) == len(values)


def test_no_trajectory_is_constant_or_one_single_step():
    for inputs, _ in all_sets().values():
        assert min(len(set(sample.flatten().tolist())) for sample in inputs) >= 3


def test_labels_belong_to_their_trajectories():
    """CTRW rests most of the time; FBM at this exponent is nearly white noise, ATTM is neither."""
    for inputs, labels in all_sets().values():
        moves = inputs.flatten(1).diff(dim=1)
        rests = (moves == 0).double().mean(1)
        assert rests[labels == 1].min() > 0.6
        assert rests[labels == 2].max() < 0.2
        # Successive moves of FBM with exponent 0.2 correlate by 2 ** 0.2 / 2 - 1 = -0.43, the
        # moves of ATTM and CTRW do not.
        turning = (moves[:, 1:] * moves[:, :-1]).sum(1) / moves.square().sum(1)
        assert turning[labels == 2].mean() == pytest.approx(2**0.2 / 2 - 1, abs=0.02)
        for other in (0, 1):
            assert abs(turning[labels == other].mean()) < 0.06


def test_inputs_are_the_stored_positions_over_1024_exactly():
    stored = np.load(FOLDER / "trajectories.npz", allow_pickle=False)
    assert {stored[key].dtype for key in stored.files} == {np.dtype("int16"), np.dtype("uint8")}
    expected = (stored["test_positions"] / 1024).reshape(300, 25, 4)  # float64
    np.testing.assert_array_equal(data.trajectories().test.inputs.numpy(), expected)


def test_fingerprints_stay_the_same_for_ever():
    """Histories of other machines are compared with these."""
    marks = data.fingerprints(data.trajectories().test.inputs)
    assert hashlib.sha256("".join(marks).encode()).hexdigest()[:16] == "1f6f1fe9a6925de3"


def test_hidden_positions_carry_no_labels():
    assert np.load(FOLDER / "hidden/trajectories.npz").files == ["positions"]


# the loader


@pytest.mark.parametrize("size", [1, 2, 4, 5, 10, 20, 25, 50, 100])
def test_steps_hold_successive_positions(size):
    single = data.trajectories(1).validation
    grouped = data.trajectories(size).validation
    assert grouped.inputs.shape == (300, 100 // size, size)
    assert torch.equal(grouped.inputs.flatten(1), single.inputs.flatten(1))
    assert torch.equal(grouped.labels, single.labels)
    assert torch.equal(grouped.inputs[7, 0], single.inputs[7, :size, 0])


@pytest.mark.parametrize("size", [0, -4, 3, 8, 200, 2.5, None, "4"])
def test_other_numbers_of_positions_are_refused(size):
    with pytest.raises(ValueError, match=r"must divide 100 \(1, 2, 4, 5, .*, 100\), got"):
        data.trajectories(size)


def test_load_gives_the_trajectories_by_name():
    loaded, direct = data.load("trajectories"), data.trajectories()
    for split in ("train", "validation", "test"):
        (inputs, labels), expected = getattr(loaded, split), getattr(direct, split)
        assert torch.equal(inputs, expected.inputs)
        assert torch.equal(labels, expected.labels)


def test_the_classes_are_named_in_the_order_of_labels():
    assert data.CLASSES == ("ATTM", "CTRW", "FBM")


def test_damaged_files_are_not_the_students_fault(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_HERE", tmp_path)
    (tmp_path / "trajectories.npz").write_bytes(b"PK but no zip")
    with pytest.raises(data.DataUnavailable, match=r"trajectories.npz.*not with your work"):
        data.trajectories()


def test_the_hidden_set_beside_the_package_comes_first(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "_BESIDE_PACKAGE", tmp_path)
    row = np.arange(100, dtype=np.int16)[None]
    np.savez(tmp_path / "hidden_trajectories.npz", positions=row)
    np.savez(tmp_path / "hidden_trajectories_labels.npz", labels=np.array([2], np.uint8))
    inputs = data.hidden_inputs("trajectories")
    assert inputs.shape == (1, 25, 4)
    assert inputs[0, 3].tolist() == [12 / 1024, 13 / 1024, 14 / 1024, 15 / 1024]
    assert data.hidden_labels("trajectories").tolist() == [2]


# the script


def test_normalise_gives_mean_0_and_standard_deviation_1_at_every_scale():
    rng = np.random.default_rng(0)
    positions = rng.standard_normal((5, 30)).cumsum(1) * [[1e-25], [1e-3], [1], [1e3], [1e25]]
    got = normalise(positions)
    np.testing.assert_allclose(got.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(got.std(1), 1, rtol=1e-12)
    order = positions.argsort(1)
    np.testing.assert_array_equal(got.argsort(1), order)
    one = (positions[2] - sum(positions[2]) / 30) / np.sqrt(np.var(positions[2]))
    np.testing.assert_allclose(got[2], one, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e300])
def test_a_constant_trajectory_becomes_zeros(value):
    assert (normalise(np.full((2, 100), value)) == 0).all()


def toy_generator(seed):
    """As `andi_datasets` would draw, with many a trajectory that must be left out."""
    rng = np.random.default_rng(seed)

    def draw(label, count):
        walks = rng.standard_normal((count, 100)).cumsum(1) + 1000 * label
        walks[0] = 0.1  # never moves
        walks[1] = np.arange(100) >= 40  # moves once
        walks[2] = -5.0 * (np.arange(100) >= 40)
        walks[3] = np.arange(100) * (label + seed)  # equal to that of other classes and sets
        walks[5] = 3 * walks[4] + 1  # equal once normalised
        return walks

    return draw


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(make_trajectories, "PER_CLASS", {"train": 20, "validation": 5, "test": 6})
    monkeypatch.setattr(make_trajectories, "HIDDEN_PER_CLASS", 9)


@pytest.mark.usefixtures("small")
def test_the_script_leaves_out_what_would_be_the_same_sample(tmp_path):
    make_trajectories.write_sets(tmp_path, toy_generator, 8)
    shown = np.load(tmp_path / "trajectories.npz")
    hidden = np.load(tmp_path / "hidden/trajectories.npz")["positions"]
    parts = {name: shown[f"{name}_positions"] for name in ("train", "validation", "test")}
    assert {name: len(rows) for name, rows in parts.items()} == {
        "train": 60,
        "validation": 15,
        "test": 18,
    }
    rows = [tuple(row) for part in (*parts.values(), hidden) for row in part]
    assert len(set(rows)) == len(rows) == 60 + 15 + 18 + 27
    assert min(len(set(row)) for row in rows) > 2
    line = np.rint(normalise(np.arange(100.0)[None]) * 3 * 1024)[0]
    assert sum(tuple(line) == row for row in rows) == 1


@pytest.mark.usefixtures("small")
def test_the_seed_changes_the_hidden_set_alone(tmp_path):
    for folder, seed in (("a", 5), ("b", 5), ("c", 6)):
        make_trajectories.write_sets(tmp_path / folder, toy_generator, seed)
    content = {f: [(tmp_path / f / name).read_bytes() for name in NAMES] for f in "abc"}
    assert content["a"] == content["b"]
    assert [one == other for one, other in zip(content["a"], content["c"], strict=True)] == [
        True,
        False,
        False,
    ]
    members = zipfile.ZipFile(tmp_path / "a/trajectories.npz").infolist()
    assert {member.date_time for member in members} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.usefixtures("small")
def test_labels_follow_their_trajectories(tmp_path):
    def generator(seed):
        rng = np.random.default_rng(seed)

        def draw(label, count):  # class c: c + 1 large jumps in little noise
            walks = 1e-3 * rng.standard_normal((count, 100))
            for place in np.linspace(20, 80, label + 1).astype(int):
                walks[:, place:] += 1
            return walks

        return draw

    make_trajectories.write_sets(tmp_path, generator, 8)
    shown = np.load(tmp_path / "trajectories.npz")
    pairs = [(shown[f"{n}_positions"], shown[f"{n}_labels"]) for n in ("train", "validation")]
    hidden = [np.load(tmp_path / name) for name in NAMES[1:]]
    for positions, labels in [*pairs, (hidden[0]["positions"], hidden[1]["labels"])]:
        jumps = (np.diff(positions.astype(int), axis=1) > 2000).sum(1)
        np.testing.assert_array_equal(jumps - 1, labels)


def test_the_shipped_files_come_from_the_script_and_its_default_seeds(tmp_path, monkeypatch):
    pytest.importorskip("andi_datasets")
    pytest.importorskip("stochastic")
    monkeypatch.setattr(sys, "argv", ["make_trajectories", "--folder", str(tmp_path)])
    make_trajectories.main()
    for name in NAMES:
        made, shipped = np.load(tmp_path / name), np.load(FOLDER / name)
        assert made.files == shipped.files
        for key in made.files:
            assert made[key].dtype == shipped[key].dtype
            # Another numpy or processor may round a value to the neighbouring whole number.
            difference = np.abs(made[key].astype(int) - shipped[key].astype(int))
            assert difference.max() <= (1 if key.endswith("positions") else 0)
            assert (difference > 0).mean() < 1e-4


def test_without_the_generator_the_script_says_what_to_install(tmp_path):
    block = "import sys; sys.modules['andi_datasets'] = None; sys.argv = ['x', '--folder', '{}']; "
    call = "from autograder.data.make_trajectories import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", block.format(tmp_path) + call],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert make_trajectories.INSTALL in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
