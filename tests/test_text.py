"""Reading an assignment's text and reference."""

import textwrap

import pytest

from autograder.text import Reference, blocks, lookup

TEXT = """\
# Title

Some prose with $x_{[=no]}$ and code `a[=1]`.

```python setup
import torch
```

<!-- question: first -->
## One

- a list

  ```python
  not_a_cell = "fenced inside a list item stays prose"
  ```

```python solution=f body
```

```python check=case
shape(model=M)
```

```text
stays prose
```

<!-- end question -->
After.
"""


def test_blocks_come_in_order_with_their_lines():
    seen = [(b.kind, b.words) for b in blocks(TEXT)]
    assert seen == [
        ("text", {}),
        ("setup", {"setup": ""}),
        ("question", {"question": "first"}),
        ("text", {}),
        ("solution", {"solution": "f", "body": ""}),
        ("check", {"check": "case"}),
        ("text", {}),
        ("end", {}),
        ("text", {}),
    ]
    lines = TEXT.splitlines()
    for block in blocks(TEXT):
        if block.content:
            assert lines[block.line - 1] == block.content.split("\n")[0]


def test_prose_is_kept_verbatim():
    prose = "".join(b.content for b in blocks(TEXT) if b.kind == "text")
    for line in ("Some prose with $x_{[=no]}$ and code `a[=1]`.", "- a list", "stays prose"):
        assert line in prose
    assert "not_a_cell" in prose


SOURCE = textwrap.dedent('''\
    import os

    def plain(x):
        """Doc."""
        # BEGIN SOLUTION
        return x
        # END SOLUTION

    @decorated
    class Thing:
        """Doc."""

        def method(self):
            # BEGIN SOLUTION
            return 1
            # END SOLUTION

    def steps(a):
        """Doc, over
        two lines."""
        b = a  # SOLUTION
        # BEGIN SOLUTION
        c = b
        # END SOLUTION
        return c
    ''')


def test_definitions_come_whole_with_decorators_and_closing_comments():
    reference = Reference(SOURCE)
    assert reference.definition("plain").splitlines()[0] == "def plain(x):"
    assert reference.definition("plain").endswith("# END SOLUTION")
    thing = reference.definition("Thing")
    assert thing.startswith("@decorated\nclass Thing:")
    assert thing.count("END SOLUTION") == 1
    assert "def steps" not in thing


def test_a_body_has_no_signature_docstring_or_return():
    body = Reference(SOURCE).body("steps")
    assert body == "b = a  # SOLUTION\n# BEGIN SOLUTION\nc = b\n# END SOLUTION"


def test_unknown_names_are_key_errors():
    with pytest.raises(KeyError):
        Reference(SOURCE).definition("absent")


def test_lookup_finds_questions_checks_and_top_level_values(grading):
    assignment = grading.assignment("cnn_vs_fnn")

    def value(path):
        return lookup(grading, assignment, path)

    assert value("cnn.parameter_budget.largest") == 25000
    assert value("cnn.outputs") == 10
    assert value("cnn.points") == assignment.questions["cnn"].possible
    assert value("seed") == assignment.seed
    assert value("values.image") == 28
    assert value("limits.cell_s") == grading.limits.cell_s
    assert value("points") == assignment.possible
    for absent in ("cnn.nothing", "nothing", "values.image.deeper"):
        with pytest.raises((KeyError, TypeError)):
            value(absent)
