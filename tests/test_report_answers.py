"""A student's own cells, out of notebooks that nobody can trust."""

import json

import pytest

from autograder.report.answers import answers, code, rubrics


def cell(kind, source, tags=(), **mark):
    return {"cell_type": kind, "source": source, "metadata": {"autograder": mark, "tags": [*tags]}}


def notebook(*cells):
    return json.dumps({"cells": cells}).encode()


OWN = notebook(
    cell("code", "x = 1", role="answer", question="q"),
    cell("code", "given = 2", role="given", question="q"),
    cell("markdown", ["so ", "it is"], role="answer", question="why"),
    cell("code", "mine = 3", role="extra", question="q"),
    {"cell_type": "code", "source": "no = 4", "metadata": {}},
)


def test_answers_and_added_cells_by_question():
    assert answers(OWN) == {
        "q": [("code", "x = 1"), ("code", "mine = 3")], "why": [("markdown", "so it is")],
    }  # fmt: skip
    assert code(OWN) == "x = 1\n\nmine = 3"


@pytest.mark.parametrize(
    "broken", [b"", b"{}", b"[]", b"\xff", b'{"cells": 3}', b'{"cells": [{}]}', b"[" * 100_000,
               notebook({"cell_type": "code", "source": 3, "metadata": {"autograder": 3}})]
)  # fmt: skip
def test_what_can_not_be_read_has_no_answers(broken):
    assert answers(broken) == {}
    assert code(broken) == ""


def test_a_rubric_is_what_the_solved_notebook_tells():
    tags = ["otter_assign_solution_cell"]
    solved = notebook(
        cell("code", "x = 1", tags, role="answer", question="q"),
        cell("markdown", "**Rubric**", tags, role="text", question="why"),
        cell("markdown", "Explain.", role="text", question="why"),
    )
    assert rubrics(solved) == {"why": "**Rubric**"}
