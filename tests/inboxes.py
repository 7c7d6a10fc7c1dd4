"""A small assignment `hw1` and files of students, for tests of the inbox."""

import io
import json
import zipfile

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ANSWER = "net = 'größe'"


def make_pristine():
    def marked(new, source, name, role):
        return new(source, id=name, metadata={"autograder": {"role": role, "question": "q1"}})

    cells = [
        marked(new_markdown_cell, "# Größe", "text", "text"),
        marked(new_code_cell, "net = ...", "q1", "answer"),
        marked(new_code_cell, 'grader.check("q1")', "q1-check", "check"),
    ]
    return new_notebook(cells=cells, metadata={"otter": {"assignment_name": "hw1"}})


def make_raw(source=ANSWER):
    notebook = make_pristine()
    notebook.cells[1].source = source
    return notebook


def encode(notebook, encoding="utf-8"):
    return json.dumps(notebook, ensure_ascii=False).encode(encoding, "surrogatepass")


GOOD = encode(make_raw())


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def put(path, data=GOOD):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
