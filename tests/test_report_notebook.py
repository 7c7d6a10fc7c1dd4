"""The executed notebook as a page: what a student wrote is shown, and never runs or calls."""

import base64
import html.parser
import io
import json

import pytest
from matplotlib.figure import Figure

from autograder.report import notebook_page
from autograder.report.notebook_page import write_notebook_page

HOST = "http://elsewhere.example"
HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></div><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    f"<img src='{HOST}/a.png'>",
    f"<img srcset='{HOST}/a.png 1x' src=''>",
    f"<iframe src='{HOST}'></iframe><iframe srcdoc='<script>alert(1)</script>'></iframe>",
    f"<meta http-equiv=refresh content='0;url={HOST}'>",
    f"<link rel=stylesheet href='{HOST}/a.css'><base href='{HOST}'>",
    f"<style>body {{ background: url({HOST}/a.png) }}</style>",
    f"<p style='background: url({HOST}/a.png); position: fixed; inset: 0'>x</p>",
    "<a href='javascript:alert(1)'>x</a><a href=' java\tscript:alert(1)'>x</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "<svg onload=alert(1)><script>alert(1)</script><image href='x'/><use href='data:x#y'/></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;<img src=1 onerror=x()>'>",
    f"<form action='{HOST}'><input name=a><button>x</button></form>",
    f"<object data='{HOST}'></object><embed src='{HOST}'><video src='{HOST}'></video>",
    "<template><script>alert(1)</script></template><noscript><p title='</noscript><script>'>",
    "<!-- --!><script>alert(1)</script> -->",
    "<details ontoggle=alert(1) open><div onmouseover=alert(1)>x</div></details>",
    f"[x](javascript:alert(1)) ![x]({HOST}/a.png) ![x](attachment:a.png) <javascript:alert(1)>",
    f"[x]: {HOST}/a 'a\" onmouseover=\"alert(1)'\n\n[x] ![x]",
    "```<script>alert(1)</script>\n<script>alert(1)</script>\n```",
    "$\\href{javascript:alert(1)}{x}$ $$<img src=x onerror=alert(1)>$$",
    "%%html\n<script>alert(1)</script>",
    "{{ 7 * 7 }} {% include 'x' %} \x00 \ud800 \u202e",
    "\x1b[31m<script>alert(1)</script>\x1b[0m",
    'a" onmouseover="alert(1)',
]
MIMES = [
    "text/html", "text/plain", "text/markdown", "text/latex", "image/svg+xml", "image/png",
    "image/jpeg", "application/javascript", "application/json", "application/pdf",
    "application/vnd.jupyter.widget-view+json", "text/x<script>alert(1)</script>",
]  # fmt: skip
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none';"
    " form-action 'none'"
)


class Seen(html.parser.HTMLParser):
    """Elements, attributes and text of a page, without what its own head says."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.inside = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if self.inside:
            self.tags.append((tag, dict(attrs)))
        self.inside |= tag == "body"

    def handle_data(self, data):
        if self.inside:
            self.text += data


@pytest.fixture
def page(tmp_path):
    """Writes a page and gives its text."""

    def write(notebook, title="ada"):
        path = tmp_path / "page.html"
        content = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        write_notebook_page(path, title, content)
        return path.read_text(encoding="utf-8")

    return write


def notebook(*cells, **metadata):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": list(cells)}


def cell(kind, source, *outputs, **metadata):
    shared = {"cell_type": kind, "source": source, "metadata": metadata}
    return shared | ({"outputs": list(outputs), "execution_count": 1} if kind == "code" else {})


def display(**data):
    kinds = {"html": "text/html", "plain": "text/plain", "png": "image/png"}
    return {"output_type": "display_data", "metadata": {},
            "data": {kinds[kind]: content for kind, content in data.items()}}  # fmt: skip


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def picture():
    file = io.BytesIO()
    Figure(figsize=(1, 1)).savefig(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def harmless(text):
    """That nothing in the body runs, loads, sends or hides."""
    seen = Seen(text)
    allowed = {*notebook_page.TAGS, "div", "h1", "p"}
    assert {tag for tag, _ in seen.tags} <= allowed
    for tag, attributes in seen.tags:
        assert set(attributes) <= {"class", "href", "src", "alt"}, (tag, attributes)
        assert "src" not in attributes or attributes["src"].startswith("data:image/")
        assert "href" not in attributes or attributes["href"].startswith(("http://", "https://"))
    return seen


def everywhere(text):
    """A notebook with the text in all places that a student can reach."""
    anything = [
        {"output_type": "display_data", "data": {mime: text},
         "metadata": {mime: {"isolated": True, "width": text}, "filenames": {mime: text}}}
        for mime in MIMES
    ]  # fmt: skip
    error = {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]}
    outputs = [*anything, error, stream(text), stream(text, "stderr"), stream(text, text)]
    outputs += [{"output_type": text, "data": {text: text}}]
    attached = {"attachments": {"a.png": {"image/png": text}}}
    return notebook(
        cell("code", text, *outputs, tags=[text], alt=text, magics_language=text),
        cell("markdown", text, tags=[text]) | attached,
        cell("raw", text, raw_mimetype="text/html"),
        cell(text, text),
        {**cell("code", text), "id": text, "execution_count": text},
        kernelspec={"language": text}, title=text, widgets={text: text},
        language_info={"name": text, "pygments_lexer": text},
    )  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_comes_through(page, text):
    written = page(everywhere(text), title=text)
    assert written.count("Content-Security-Policy") == 1
    assert f'content="{POLICY}"' in written
    assert written.index("Content-Security-Policy") < written.index("<title>")
    seen = harmless(written)
    assert "can't be shown" not in seen.text


def test_the_guard_holds_without_the_other_walls(monkeypatch, page):
    """Even if raw HTML of a student were to pass what chooses outputs."""
    evil = "".join(HOSTILE)
    monkeypatch.setattr(notebook_page, "_displayed", lambda data, room: {"text/html": evil})
    harmless(page(notebook(cell("code", "1", display(html="x")))))


def test_sources_and_outputs_are_shown(page):
    seen = harmless(
        page(
            notebook(
                cell("markdown", "# Title\n\nSome *text*"),
                cell(
                    "code", "answer = 6 * 7", stream("printed\n"),
                    display(plain="<Figure>", png=picture()),
                    display(html="<table><tr><td>in a table</td></tr></table>", plain="no"),
                    {"output_type": "error", "traceback": ["\x1b[31mTypeError\x1b[0m: broke"]},
                ),
            )
        )
    )  # fmt: skip
    for text in ("Title", "answer", "printed", "in a table", "TypeError: broke"):
        assert text in seen.text
    assert "<Figure>" not in seen.text
    assert [a["src"] for t, a in seen.tags if t == "img"] == [f"data:image/png;base64,{picture()}"]


def test_cells_of_the_student_are_marked(page):
    mine = cell("code", "mine", autograder={"role": "answer", "question": "q"})
    seen = Seen(page(notebook(cell("code", "given"), mine)))
    cells = [a["class"] for _, a in seen.tags if "code_cell" in (a.get("class") or "")]
    assert ["celltag_answer" in classes for classes in cells] == [False, True]


def test_what_styles_itself_is_shown_as_plain_text(page):
    given = display(html="<style>td {color: red}</style><table></table>", plain="a   b")
    assert "a   b" in Seen(page(notebook(cell("code", "1", given)))).text


def test_an_image_elsewhere_becomes_words(page):
    seen = harmless(page(notebook(cell("markdown", f"![a cat]({HOST}/cat.png)"))))
    assert "[image: a cat]" in seen.text


def test_a_file_that_is_no_image_is_not_shown_as_one(page):
    given = display(png=base64.b64encode(b"<svg onload=alert(1)>").decode(), plain="instead")
    seen = harmless(page(notebook(cell("code", "1", given))))
    assert "instead" in seen.text
    assert not [tag for tag, _ in seen.tags if tag == "img"]


def test_of_a_progress_bar_the_last_state_is_shown(page):
    text = Seen(page(notebook(cell("code", "1", stream("1 %\r50 %\r100 %\r\ndone\r\n"))))).text
    assert "100 %\ndone" in text
    assert "50 %" not in text


def test_long_text_is_cut_and_the_page_says_so(page):
    most = notebook_page.TEXT
    text = Seen(page(notebook(cell("code", "1", stream("x" * (most + 1234)))))).text
    assert "1,234 more characters are not shown" in text
    assert "x" * most in text


def test_all_outputs_together_are_bounded(page):
    outputs = [stream("y" * notebook_page.TEXT) for _ in range(30)]
    written = page(notebook(*[cell("code", "1", *outputs)] * 3))
    assert written.count("y") < notebook_page.TEXTS + 1000
    assert "more characters are not shown" in written


def test_images_cells_and_outputs_are_bounded(page, monkeypatch):
    monkeypatch.setattr(notebook_page, "IMAGE", 100)
    monkeypatch.setattr(notebook_page, "CELLS", 2)
    monkeypatch.setattr(notebook_page, "OUTPUTS", 3)
    many = cell("code", "1", *[stream(f"<{place}>") for place in range(5)])
    large = cell("code", "1", display(png=picture()))
    text = harmless(page(notebook(many, large, cell("code", "last")))).text
    assert "an image that is too large" in text
    assert "1 more cells are not shown" in text
    assert "last" not in text
    assert "<2>" in text
    assert "<3>" not in text
    assert "2 more outputs are not shown" in text


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"<html>sign in</html>", b"[]", b'{"cells": 3}', b"\xff\xfe\x00", b"null",
        b"[" * 100_000, b'{"cells": []}', json.dumps({"cells": "x"}).encode(),
    ],
)  # fmt: skip
def test_of_a_broken_file_the_page_says_so(page, content):
    assert "can't be shown here" in harmless(page(content)).text


@pytest.mark.parametrize(
    "broken",
    [
        {"outputs": "x"}, {"outputs": [3, None, {}]}, {"outputs": {"a": 1}}, {"outputs": None},
        {"outputs": [{"output_type": "stream", "text": {"a": 1}}]},
        {"outputs": [{"output_type": "error", "traceback": 3}]},
        {"outputs": [{"output_type": "display_data", "data": {"image/png": "%%%"}}]},
        {"outputs": [{"output_type": "display_data", "data": [1]}]},
        {"metadata": [1]}, {"metadata": {"autograder": "x"}}, {"execution_count": "x"},
    ],
)  # fmt: skip
def test_odd_parts_hide_nothing_else(page, broken):
    text = harmless(page(notebook(cell("code", "first") | broken, cell("markdown", "second")))).text
    assert "first" in text
    assert "second" in text


def test_what_can_not_be_rendered_is_told(page, monkeypatch):
    def fail():
        raise RecursionError

    monkeypatch.setattr(notebook_page, "_exporter", fail)
    assert "RecursionError" in harmless(page(notebook(cell("code", "1")))).text


def test_an_old_notebook_shows_its_sources(page):
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": "an_answer"}]}]}
    assert "an_answer" in harmless(page(old)).text


def test_a_template_in_the_folder_is_not_used(page, tmp_path, monkeypatch):
    folder = tmp_path / "basic"
    folder.mkdir()
    (folder / "conf.json").write_text('{"base_template": "classic"}')
    (folder / "index.html.j2").write_text("planted")
    monkeypatch.chdir(tmp_path)
    notebook_page._exporter.cache_clear()
    assert "planted" not in page(notebook(cell("code", "1")))
    notebook_page._exporter.cache_clear()
