import copy
import random

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.notebook import read_notebook
from autograder.restore import restore, wrong_assignment

SETUP = "import torch\nimport otter\ngrader = otter.Notebook()\ntorch.manual_seed(0)"
SLOTS = ["q1", "q2", "q3a", "q3b", "q4", "q5a", "q5b", "q6", "q7", "q8"]
MANUAL = "q7"


def cell(new, source, name, role, question=None):
    marks = {"role": role} | ({"question": question} if question else {})
    return new(source, id=name, metadata={"autograder": marks})


def stub(slot):
    if slot == MANUAL:
        return "*Write your answer here.*"
    # Half of the stubs bind a name, the others are bare: both kinds exist in a release.
    return f"def solve_{slot}():\n    ...  # your code" if slot < "q5" else "# your code\n..."


def make_pristine():
    cells = [
        cell(new_markdown_cell, "# Assignment", "title", "text"),
        cell(new_code_cell, SETUP, "setup", "setup"),
    ]
    for number in range(1, 9):
        question = f"q{number}"
        cells.append(
            cell(new_markdown_cell, f"## Question {number}", f"{question}-text", "text", question)
        )
        if number % 3 == 0:
            source = f"data_{number} = [{number}] * 3"
            cells.append(cell(new_code_cell, source, f"{question}-given", "given", question))
        for slot in [slot for slot in SLOTS if slot.startswith(question)]:
            new = new_markdown_cell if slot == MANUAL else new_code_cell
            cells.append(cell(new, stub(slot), slot, "answer", question))
            if slot == "q5a":
                cells.append(cell(new_markdown_cell, "Now part b.", "q5-mid", "text", question))
        if question != MANUAL:
            source = f'grader.check("{question}")'
            cells.append(cell(new_code_cell, source, f"{question}-check", "check", question))
    cells.append(cell(new_code_cell, "grader.export()", "export", "export"))
    return new_notebook(cells=cells, metadata={"otter": {"assignment_name": "hw1"}})


def answer(slot):
    if slot == MANUAL:
        return "The loss falls because of momentum."
    return f"def solve_{slot}():\n    return {slot!r}  # mine"


def make_student():
    notebook = make_pristine()
    for one in notebook.cells:
        if one.id in SLOTS:
            one.source = answer(one.id)
    return notebook


def find(notebook, name):
    return next(one for one in notebook.cells if one.id == name)


def at(notebook, name):
    return next(i for i, one in enumerate(notebook.cells) if one.id == name)


def without(notebook, *names):
    notebook.cells = [one for one in notebook.cells if one.id not in names]
    return notebook


def insert(notebook, position, source, new=new_code_cell, **fields):
    notebook.cells.insert(position, new(source, **fields))
    return notebook


def stripped(notebook):
    """As other tools hand it back: no ids, no metadata."""
    notebook = copy.deepcopy(notebook)
    notebook.metadata = {}
    for number, one in enumerate(notebook.cells):
        one.metadata = {}
        one.id = f"random-{number}"
    return notebook


def restored(student):
    notebook, notes = restore(student, make_pristine())
    nbformat.validate(notebook)
    return notebook, notes


def sources(notebook, role):
    return [one.source for one in notebook.cells if one.metadata["autograder"]["role"] == role]


def assert_complete(notebook):
    """Every answer is in its slot, and the given cells are the pristine ones in their order."""
    pristine = make_pristine()
    assert {slot: find(notebook, slot).source for slot in SLOTS} == {s: answer(s) for s in SLOTS}
    core = [one for one in notebook.cells if one.metadata["autograder"]["role"] != "extra"]
    assert [one.id for one in core] == [one.id for one in pristine.cells]
    for mine, theirs in zip(core, pristine.cells, strict=True):
        assert mine.metadata == theirs.metadata
        assert mine.cell_type == theirs.cell_type
        assert mine.id in SLOTS or mine.source == theirs.source


def assert_runs_in_order(notebook):
    """Every answer runs after the earlier ones, before its own check, after the check before."""
    sources = [one.source for one in notebook.cells]
    places = [sources.index(answer(slot)) for slot in SLOTS]
    assert places == sorted(places)
    for slot, place in zip(SLOTS, places, strict=True):
        before = [c.id for c in notebook.cells[:place] if c.id.endswith("-check")]
        own = f"{slot[:2]}-check"
        assert own not in before
        assert before == [
            c.id
            for c in make_pristine().cells
            if c.id in before or (c.id < own and c.id.endswith("-check"))
        ]


def test_untouched_notebook_comes_back_as_it_was():
    notebook, notes = restored(make_pristine())
    assert [one.source for one in notebook.cells] == [one.source for one in make_pristine().cells]
    assert notes == []


def test_answers_land_in_their_slots_and_input_stays_unchanged():
    student, before = make_student(), make_student()
    notebook, notes = restored(student)
    assert_complete(notebook)
    assert notes == []
    assert student == before


def test_outputs_are_dropped_and_metadata_is_pristine():
    student = make_student()
    student.metadata["kernelspec"] = {"name": "dl-course", "display_name": "x"}
    find(student, "q1").outputs = [nbformat.v4.new_output("stream", text="hello")]
    find(student, "q1").metadata = {"autograder": {"role": "given"}, "tags": ["x"]}
    notebook, _ = restored(student)
    assert find(notebook, "q1").outputs == []
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.otter.assignment_name == "hw1"
    assert_complete(notebook)


def test_changed_given_cells_are_put_back_with_a_note():
    student = make_student()
    find(student, "q1-check").source = "print('all good')"
    find(student, "q3-given").source = "data_3 = None"
    notebook, notes = restored(student)
    assert_complete(notebook)
    assert sources(notebook, "extra") == []
    assert notes == [
        "Changed given cells were put back: "
        "the check of question q1, the given code of question q3."
    ]


def test_changed_white_space_is_no_change():
    student = make_student()
    find(student, "setup").source += "\n\n"
    assert restored(student)[1] == []


def test_lines_added_to_the_setup_cell_survive():
    student = make_student()
    find(student, "setup").source = "import os\n" + SETUP + "\nimport math\nX = math.pi"
    notebook, notes = restored(student)
    assert_complete(notebook)
    place = at(notebook, "setup")
    assert notebook.cells[place - 1].source == "import os"
    assert notebook.cells[place + 1].source == "import math\nX = math.pi"
    assert "setup cell" in notes[0]


def test_answer_written_into_the_check_cell_runs_before_the_check():
    student = make_student()
    find(student, "q1-check").source = "net = 1\n" + 'grader.check("q1")'
    notebook, _ = restored(student)
    assert notebook.cells[at(notebook, "q1-check") - 1].source == "net = 1"


@pytest.mark.parametrize(
    "source",
    [
        "torch.manual_seed(1)",
        SETUP.replace("import otter", "if 1:\n  x ="),
        SETUP + "\n# only a comment",
        SETUP + "\n   oops(",
    ],
)
def test_lines_that_cannot_be_told_apart_are_not_kept(source):
    student = make_student()
    find(student, "setup").source = source
    notebook, notes = restored(student)
    assert sources(notebook, "extra") == []
    assert notes


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("torch.manual_seed(1)\nimport math", "import math"),
        (SETUP + "\n%matplotlib inline\nimport math", "import math"),
        ("import math\n!pip install x\n" + SETUP, "import math"),
        (
            "from torch import nn as n, optim\nif 1:\n    !pip install x\n",
            "from torch import nn as n, optim",
        ),
    ],
)
def test_imports_survive_in_a_given_cell_that_was_changed(source, kept):
    """Without its import a right answer would fail."""
    student = make_student()
    find(student, "setup").source = source
    notebook, notes = restored(student)
    assert sources(notebook, "extra") == [kept]
    assert notes


def test_deleted_and_copied_given_cells_are_noted():
    student = without(make_student(), "q2-check", "setup")
    student.cells.append(copy.deepcopy(find(student, "q4-check")))
    insert(student, 3, 'grader.check("q5")')
    notebook, notes = restored(student)
    assert_complete(notebook)
    assert sources(notebook, "extra") == []
    assert notes == [
        "Missing given cells were put back: the setup cell, the check of question q2.",
        "Copies of given cells were left out: 2.",
    ]


def test_additional_cells_stay_where_they_stood_and_are_marked():
    student = make_student()
    insert(student, at(student, "q2"), "helper = 1", id="before")
    insert(student, at(student, "q2") + 1, "helper += 1", id="after")
    insert(student, at(student, "q4-check") + 1, "A remark", new_markdown_cell)
    insert(student, 0, "first = 0")
    notebook, notes = restored(student)
    assert_complete(notebook)
    place = at(notebook, "q2")
    assert [one.source for one in notebook.cells[place - 1 : place + 2 : 2]] == [
        "helper = 1",
        "helper += 1",
    ]
    assert notebook.cells[0].source == "first = 0"
    assert notebook.cells[0].metadata == {"autograder": {"role": "extra"}}
    assert notebook.cells[at(notebook, "q4-check") + 1].source == "A remark"
    assert notebook.cells[place - 1].metadata.autograder == {"role": "extra", "question": "q2"}
    assert notes == []


def test_an_additional_cell_cannot_pretend_to_be_given():
    student = make_student()
    marks = {"autograder": {"role": "check", "question": "q1"}}
    insert(student, 4, "grader = Fake()", id="forged", metadata=marks)
    find(student, "q2-text").cell_type = "code"
    find(student, "q2-text").source = "cheat = 1"
    notebook, _ = restored(student)
    assert sorted(sources(notebook, "extra")) == ["cheat = 1", "grader = Fake()"]
    assert sources(notebook, "check") == sources(make_pristine(), "check")
    assert sources(notebook, "text") == sources(make_pristine(), "text")


def test_blank_additional_cells_vanish():
    student = insert(make_student(), 5, "  \n")
    assert sources(restored(student)[0], "extra") == []


def test_two_cells_with_one_id_share_the_slot_in_order():
    student = make_student()
    student.cells.append(new_code_cell("more = 1", id="q1"))
    notebook, _ = restored(student)
    assert notebook.cells[at(notebook, "q1") + 1].source == "more = 1"
    assert_complete(notebook)


def test_duplicate_ids_survive_the_reading_of_the_file():
    student = make_student()
    student.cells.append(new_code_cell("more = 1", id="q1"))
    text = nbformat.v4.writes(student)
    clean, notes = read_notebook(text.encode())
    nbformat.validate(clean)
    notebook, _ = restored(clean)
    assert notebook.cells[at(notebook, "q1") + 1].source == "more = 1"
    assert len(notes) == 1


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_code_answer_turned_into_text_becomes_code_again(kind):
    student = make_student()
    find(student, "q2").cell_type = kind
    notebook, notes = restored(student)
    assert_complete(notebook)
    assert find(notebook, "q2").outputs == []
    assert notes == ["A cell was turned back into code: the answer of question q2."]


def test_markdown_answer_without_id_becomes_code_again():
    student = make_student()
    find(student, "q6").cell_type = "markdown"
    notebook, notes = restored(stripped(student))
    assert_complete(notebook)
    assert notes == ["A cell was turned back into code: the answer of question q6."]


@pytest.mark.parametrize("prose", ["Done", "I am not sure.", "# My thoughts", "- a list: item"])
def test_prose_in_a_code_gap_stays_prose(prose):
    student = without(make_student(), "q6")
    insert(student, at(student, "q6-check"), prose, new_markdown_cell)
    notebook, notes = restored(student)
    assert sources(notebook, "extra") == [prose]
    assert find(notebook, "q6").source == stub("q6")
    assert notes == ["The cell for the answer of question q6 is missing."]


def test_prose_under_an_answer_id_gives_way_to_the_code_beside_it():
    student = make_student()
    find(student, "q6").cell_type = "markdown"
    find(student, "q6").source = "My answer is below."
    insert(student, at(student, "q6-check"), answer("q6"), id="q6")
    notebook, _ = restored(student)
    assert find(notebook, "q6").source == answer("q6")
    assert sources(notebook, "extra") == ["My answer is below."]


def test_manual_answer_turned_into_code_becomes_text_again():
    student = make_student()
    find(student, MANUAL).cell_type = "code"
    notebook, notes = restored(student)
    assert_complete(notebook)
    assert notes == ["A cell was turned back into text: the answer of question q7."]


def test_new_cell_replaces_a_deleted_answer_cell():
    student = without(make_student(), "q4")
    insert(student, at(student, "q4-check"), answer("q4"), id="pasted")
    assert_complete(restored(student)[0])


def test_unfilled_slot_keeps_the_stub_unless_it_would_undo_an_answer():
    student = without(make_student(), "q2", "q4")
    find(student, "q1").source += "\n\ndef solve_q2():\n    return 2"
    notebook, notes = restored(student)
    assert find(notebook, "q2").source == ""
    assert find(notebook, "q4").source == stub("q4")
    assert len(notes) == 2


def test_two_answers_merged_into_one_cell_are_not_undone():
    student = stripped(without(make_student(), "q3b"))
    merged = next(one for one in student.cells if one.source == answer("q3a"))
    merged.source += "\n\n" + answer("q3b")
    notebook, _ = restored(student)
    assert find(notebook, "q3a").source == merged.source
    assert find(notebook, "q3b").source == ""


def test_id_in_colab_metadata_counts():
    student = make_student()
    for number, one in enumerate(student.cells):
        one.metadata = {"id": one.id}
        one.id = f"new-{number}"
    random.Random(3).shuffle(student.cells)
    assert_complete(restored(student)[0])


def test_moved_section_without_ids_keeps_its_answers():
    student = make_student()
    start, end = at(student, "q4-text"), at(student, "q6-text")
    section = student.cells[start:end]
    del student.cells[start:end]
    student.cells[2:2] = section
    assert_complete(restored(stripped(student))[0])


@pytest.mark.parametrize("name", ["q2-text", "q6-check", "q3-given", "export", "setup", "q8-text"])
@pytest.mark.parametrize("target", [0, 6, 12, -1])
def test_one_moved_given_cell_without_ids_changes_no_order(name, target):
    student = make_student()
    moved = find(student, name)
    student.cells.remove(moved)
    student.cells.insert(target, moved)
    assert_runs_in_order(restored(stripped(student))[0])


def test_answer_below_its_check_without_ids_is_known_by_its_name():
    student = make_student()
    check = find(student, "q2-check")
    student.cells.remove(check)
    student.cells.insert(at(student, "q2"), check)
    assert_complete(restored(stripped(student))[0])


def test_copy_of_a_check_elsewhere_does_not_mislead_answers_without_ids():
    student = make_student()
    insert(student, at(student, "q6"), 'grader.check("q1")')
    insert(student, at(student, "q1"), 'grader.check("q8")')
    notebook, notes = restored(stripped(student))
    assert_complete(notebook)
    assert notes == ["Copies of given cells were left out: 2."]


def test_helper_below_a_moved_heading_still_runs_where_it_stood():
    student = make_student()
    heading = find(student, "q8-text")
    student.cells.remove(heading)
    student.cells.insert(at(student, "q2-text"), heading)
    insert(student, at(student, "q2-text"), "helper = 1", id="mine")
    notebook, _ = restored(student)
    assert notebook.cells[at(notebook, "q1-check") + 1].source == "helper = 1"


def test_copy_of_a_stub_does_not_take_the_slot_of_the_known_answer():
    student = make_student()
    moved = find(student, "q2")
    student.cells.remove(moved)
    insert(student, at(student, "q2-check"), stub("q2"), id="copy")
    student.cells.append(moved)
    notebook, _ = restored(student)
    assert_complete(notebook)
    assert at(notebook, "q2") == at(notebook, "q2-check") - 1


def test_two_headings_moved_around_an_answer_do_not_mislead():
    student = make_student()
    for name, target in (("q8-text", "q4"), ("q1-text", "q4-check")):
        moved = find(student, name)
        student.cells.remove(moved)
        student.cells.insert(at(student, target), moved)
    assert_complete(restored(stripped(student))[0])


def test_stripped_notebook_needs_no_note():
    notebook, notes = restored(stripped(make_student()))
    assert_complete(notebook)
    assert notes == []


def test_untouched_stubs_without_ids_stay_in_their_slots():
    student = stripped(make_pristine())
    student.cells[at(make_pristine(), "q6")].source = answer("q6")
    notebook, _ = restored(student)
    assert find(notebook, "q6").source == answer("q6")
    assert find(notebook, "q5a").source == find(notebook, "q8").source == stub("q8")
    assert sources(notebook, "extra") == []


@pytest.mark.parametrize("seed", range(80))
def test_any_mess_among_given_cells_leaves_every_answer_in_its_slot(seed):
    chance = random.Random(seed)
    student = make_student()
    given = [one for one in student.cells if one.id not in SLOTS]
    for one in chance.sample(given, 6):
        student.cells.remove(one)
    for one in chance.choices(given, k=5):
        student.cells.insert(chance.randrange(len(student.cells)), copy.deepcopy(one))
    for one in chance.sample(student.cells, 8):
        student.cells.remove(one)
        student.cells.insert(chance.randrange(len(student.cells)), one)
    if seed % 3 == 0:
        chance.shuffle(student.cells)
    for number in range(4):
        insert(student, chance.randrange(len(student.cells)), f"extra_{number} = {number}")
    notebook, _ = restored(student)
    assert_complete(notebook)
    assert sorted(sources(notebook, "extra")) == [f"extra_{n} = {n}" for n in range(4)]


@pytest.mark.parametrize("seed", range(80))
def test_without_ids_answers_land_right_in_spite_of_deletions_copies_and_additions(seed):
    chance = random.Random(seed)
    student = make_student()
    given = [one for one in student.cells if one.id not in SLOTS]
    # Where a stub binds no name, its landmarks are all there is: leave it the check.
    doomed = chance.sample([one for one in given if not one.id.endswith("-check")], 5)
    doomed.append(find(student, chance.choice(["q1-check", "q2-check", "q3-check"])))
    for one in doomed:
        student.cells.remove(one)
    for one in chance.choices([one for one in given if one not in doomed], k=3):
        student.cells.insert(chance.randrange(len(student.cells)), copy.deepcopy(one))
    for number in range(3):
        place = at(student, chance.choice(SLOTS)) + 1
        insert(student, place, f"extra_{number} = {number}")
    notebook, _ = restored(stripped(student))
    assert_runs_in_order(notebook)


def test_wrong_assignment_by_name():
    student = make_student()
    student.metadata.otter.assignment_name = "hw2"
    problem = wrong_assignment(student, make_pristine())
    assert problem == "This is the notebook of assignment 'hw2', not of 'hw1'."
    assert wrong_assignment(make_student(), make_pristine()) is None


def test_wrong_assignment_without_a_name():
    pristine = make_pristine()
    other = new_notebook(cells=[new_code_cell("print(1)"), new_markdown_cell("# Assignment")])
    assert "does not look like assignment 'hw1'" in str(wrong_assignment(other, pristine))
    assert wrong_assignment(stripped(make_student()), pristine) is None
    known = new_notebook(cells=[new_code_cell(answer("q1"), id="q1")])
    assert wrong_assignment(known, pristine) is None
    checks = [new_code_cell(f"grader.check('q{n}')".replace("'", '"')) for n in range(1, 5)]
    assert wrong_assignment(new_notebook(cells=checks), pristine) is None  # 4 of 7
    assert wrong_assignment(new_notebook(cells=checks[:3]), pristine) is not None


def test_extra_ids_do_not_collide_with_pristine_ids():
    pristine = make_pristine()
    pristine.cells[0].id = "extra-1"
    student = insert(copy.deepcopy(pristine), 2, "x = 1")
    notebook, _ = restore(student, pristine)
    ids = [one.id for one in notebook.cells]
    assert len(ids) == len(set(ids))
    assert "extra-2" in ids


def test_many_hostile_cells_take_linear_time():
    student = make_student()
    source = 'grader.check("q1")'
    student.cells += [new_code_cell(source if n % 2 else "x", id="q1") for n in range(20_000)]
    notebook, _ = restore(student, make_pristine())
    assert len(notebook.cells) == 20_000 + len(make_pristine().cells)


def test_what_stands_before_an_answer_stays_there_when_all_sections_are_turned_around():
    """An import above an answer is needed by it; after the question's check it is too late."""
    student = insert(student_ := make_student(), at(student_, "q1"), "import math")
    sections = {f"q{n}": [] for n in range(8, 0, -1)}
    for one in student.cells:
        if question := one.metadata.get("autograder", {}).get("question"):
            sections[question].append(one)
        elif one.source == "import math":
            sections["q1"].append(one)
    turned = [one for section in sections.values() for one in section]
    student.cells = [*student.cells[:2], *turned, student.cells[-1]]
    notebook, _ = restored(student)
    assert_complete(notebook)
    (place,) = [i for i, one in enumerate(notebook.cells) if one.source == "import math"]
    assert at(notebook, "q1-text") < place < at(notebook, "q1")
