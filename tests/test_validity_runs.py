"""Around an audit: who depends on whom, what shares a notebook, orders, seeds and splits."""

import io
import zipfile
from pathlib import PurePosixPath

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.grade import Release
from autograder.intake.reading import notebook_of
from autograder.master import Author
from autograder.validity.bank import Entry, reference
from autograder.validity.conditions import (
    ORDERS,
    Condition,
    as_made,
    checks_twice,
    conditions,
    sections_backwards,
    without_checks,
    without_text,
)
from autograder.validity.dependencies import Dependencies
from autograder.validity.notebooks import merge, notebook, pack, solved
from autograder.validity.runs import Bench
from autograder.validity.splits import divided, reseeded
from tests.conftest import NAME, REPOSITORY


def master(*cells):
    """A master of cells given as (role, question, source)."""
    made = [new_code_cell(source) for _, _, source in cells]
    for cell, (role, question, _) in zip(made, cells, strict=True):
        cell.metadata["autograder"] = {"role": role, **({"question": question} if question else {})}
    return new_notebook(cells=made)


CHAIN = Dependencies(
    master(
        ("answer", "first", "def one(x):\n    seed = 1\n    return x + seed"),
        ("given", None, "data = one(2)"),
        ("answer", "second", "two = data + 1"),
        ("answer", "third", "def three(one):\n    return one"),
        ("given", "fourth", "seed = 3"),
        ("answer", "fourth", "def four():\n    return seed, [two for two in range(3)]"),
        ("test", "fifth", "def case(two, three):\n    from autograder import checks"),
        ("answer", "sixth", "%time\ntwo = three(two)"),
    )
)


@pytest.mark.parametrize(
    ("question", "reached", "needed"),
    [
        (
            "first",
            {"first", "second", "fifth", "sixth"},
            {"first"},
        ),  # through a given cell, and a test
        ("second", {"second", "fifth", "sixth"}, {"first", "second"}),
        ("third", {"third", "fifth", "sixth"}, {"third"}),  # `one` is an argument there
        ("fourth", {"fourth"}, {"fourth"}),  # `seed` is local in `first`, `two` in a comprehension
        ("fifth", {"fifth"}, {"first", "second", "third", "fifth"}),
        ("sixth", {"sixth"}, {"first", "second", "third", "sixth"}),  # takes a `two`, binds another
    ],
)
def test_questions_depend_on_what_they_use(question, reached, needed):
    assert CHAIN.reached([question]) == reached
    assert CHAIN.needed([question]) == needed


def entry(kind, name, question, **more):
    return Entry("x", kind, name, "an idea", answers={f"{question}-answer-1": name}, **more)


def names(groups):
    return [[one.name for one in group] for group in groups]


def test_right_entries_share_a_notebook_if_they_name_other_questions():
    bank = [entry("variants", n, q) for n, q in (("a", "first"), ("b", "second"), ("c", "first"))]
    assert names(pack(bank, CHAIN)) == [["a", "b"], ["c"]]


def test_mutants_share_one_if_none_reaches_what_the_other_should_fail():
    """Else the failure of one could be taken for that of the other, which nothing notices."""
    bank = [
        entry("mutants", "a", "first", fails=frozenset({"first.x"})),
        entry("mutants", "b", "second", fails=frozenset({"second.x"})),
        entry("mutants", "c", "fourth", fails=frozenset({"fourth.x"})),
    ]
    assert names(pack(bank, CHAIN)) == [["a", "c"], ["b"]], "the first reaches the second"


def test_generated_entries_share_one_if_none_reaches_what_judges_the_other():
    bank = [entry("generated", n, q) for n, q in (("a", "first"), ("b", "second"), ("c", "fourth"))]
    assert names(pack(bank, CHAIN)) == [["a", "c"], ["b"]]
    alone = [
        Entry("x", "generated", n, "", answers={f"{q}-answer-1": n}, answered=frozenset({q}))
        for n, q in (("a", "third"), ("b", "fourth"), ("c", "fifth"))
    ]
    assert names(pack(alone, CHAIN)) == [["a", "b"], ["c"]], "the third reaches the fifth"
    assert merge(alone[:2]).answered == {"third", "fourth"}


def test_what_is_inserted_and_what_changes_nothing_stays_alone():
    inserted = entry("variants", "a", "first", inserted={"first-answer-1": "import os"})
    bank = [
        inserted,
        entry("variants", "b", "second"),
        reference("x"),
        entry("variants", "c", "third"),
    ]
    assert names(pack(bank, CHAIN)) == [["a"], ["b", "c"], ["reference"]]


def cells():
    def marked(cell, role, question):
        cell.metadata["autograder"] = {"role": role, "question": question}
        return cell

    return [
        new_markdown_cell("page"),
        marked(new_markdown_cell("text 1"), "text", "1"),
        new_code_cell("own"),
        marked(new_code_cell("answer 1"), "answer", "1"),
        marked(new_code_cell("check 1"), "check", "1"),
        marked(new_code_cell("answer 2"), "answer", "2"),
        marked(new_code_cell("check 2"), "check", "2"),
    ]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (as_made, "page, text 1, own, answer 1, check 1, answer 2, check 2"),
        (sections_backwards, "answer 2, check 2, text 1, own, answer 1, check 1, page"),
        (without_checks, "page, text 1, own, answer 1, answer 2"),
        (checks_twice, "page, text 1, own, answer 1, check 1, check 1, answer 2, check 2, check 2"),
        (without_text, "page, own, answer 1, check 1, answer 2, check 2"),
    ],
)
def test_orders_of_cells(order, expected):
    assert ", ".join(cell.source for cell in order(cells())) == expected


def test_five_conditions_have_all_orders_both_numbers_of_threads_and_five_seeds():
    five = list(conditions(range(7, 12)))
    assert {c.order for c in five} == set(ORDERS)
    assert [c.threads for c in five] == [1, 2, 1, 2, 1]
    assert [c.seed for c in five] == [7, 8, 9, 10, 11]
    assert len({c.name for c in five}) == 5


def test_a_first_cell_sets_threads_and_generators_and_leaves_no_name():
    import torch

    made = Condition(11, 2, as_made).begun(new_notebook(cells=cells()))
    before, names = torch.get_num_threads(), {"print": print}
    exec(made.cells[0].source, names)  # our own, not a student's
    drawn, threads = torch.rand(1), torch.get_num_threads()
    torch.set_num_threads(before)
    assert threads == 2
    assert drawn == torch.rand(1, generator=torch.Generator().manual_seed(11))
    assert set(names) - {"__builtins__"} == {"print", "torch"}


@pytest.fixture(scope="module")
def bench(release_root, grading, tmp_path_factory):
    return Bench(NAME, release_root, grading, tmp_path_factory.mktemp("bench"), 1, "cpu")


def test_another_seed_stands_in_the_given_cells_and_nowhere_else(bench):
    before, made = solved(bench.release), reseeded(bench, 4711)(solved(bench.release))
    changed = [
        (a.source, b.source) for a, b in zip(before.cells, made.cells, strict=True) if a != b
    ]
    seed = bench.config.assignment(NAME).seed
    assert changed == [(a, a.replace(f"seed={seed}", "seed=4711")) for a, _ in changed]
    assert len(changed) == 1


def test_all_orders_come_back_in_the_released_one(bench):
    """Intake puts them right, with the answers in their places."""
    pristine = Release.load(NAME, bench.root).pristine
    wanted = code(bench, as_made, pristine)
    assert all(code(bench, order, pristine) == wanted for order in ORDERS)


def code(bench, order, pristine):
    """The code that runs of the reference with its cells in an order."""
    made = notebook(reference(NAME), bench.release)
    made.cells = order(made.cells)
    restored, _ = notebook_of(nbformat.writes(made).encode(), pristine)
    return [cell.source for cell in restored.cells if cell.cell_type == "code"]


def arrays(release):
    with zipfile.ZipFile(io.BytesIO(release.content)) as archive:
        content = archive.read("files/kit/data/digits.npz")
    with np.load(io.BytesIO(content)) as file:
        return {name: file[name] for name in file.files}


def test_a_split_exchanges_samples_within_each_class_and_changes_nothing_else(bench):
    built = Release.load(NAME, bench.root)
    assert divided(built, 0) is built
    old, new, other = (arrays(divided(built, split)) for split in (0, 1, 2))
    parts = ("train", "validation", "test")
    for part in parts:
        assert (old[f"{part}_labels"] == new[f"{part}_labels"]).all()
    for label in range(10):
        pooled = [
            sorted(
                image.tobytes()
                for part in parts
                for image in data[f"{part}_images"][data[f"{part}_labels"] == label]
            )
            for data in (old, new, other)
        ]
        assert pooled[0] == pooled[1] == pooled[2]
    trained = [{image.tobytes() for image in data["train_images"]} for data in (old, new, other)]
    # Three quarters of the samples train, so about three quarters of those are the same ones.
    assert 0.7 < len(trained[0] & trained[1]) / len(trained[0]) < 0.8
    assert 0.7 < len(trained[1] & trained[2]) / len(trained[0]) < 0.8


def test_a_split_has_a_version_of_its_own_and_the_same_other_files(bench):
    built = Release.load(NAME, bench.root)
    made = divided(built, 1)
    assert made.version not in (built.version, divided(built, 2).version)
    with (
        zipfile.ZipFile(io.BytesIO(built.content)) as old,
        zipfile.ZipFile(io.BytesIO(made.content)) as new,
    ):
        assert old.namelist() == new.namelist()
        changed = {n for n in old.namelist() if old.read(n) != new.read(n)}
    assert {PurePosixPath(n).name for n in changed} == {"digits.npz"}


@pytest.mark.parametrize("assignment", ["cnn_vs_fnn", "sequence_models", "encoder_decoder"])
def test_a_real_training_needs_the_models_and_reaches_no_other_question(assignment, grading):
    graph = Dependencies(Author(assignment, grading, REPOSITORY).notebook())
    assert graph.reached(["training"]) <= {"training", "comparison"}
    assert len(graph.needed(["training"])) > 2
