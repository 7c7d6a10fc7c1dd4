"""An executed notebook as a page to read: nothing in it runs, and nothing asks another machine.

Students wrote it, or code of theirs could. So there are three walls: only sources and a few kinds
of outputs enter the notebook that nbconvert renders, only harmless elements and attributes of the
result enter the page, and a policy in the page forbids scripts and requests.
"""

import base64
import binascii
import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from bleach.html5lib_shim import Filter
from bleach.sanitizer import Cleaner
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbformat import v4
from nbformat.notebooknode import NotebookNode
from pygments.formatters import HtmlFormatter

from autograder.notebook import InvalidNotebook, printable, read_notebook
from autograder.report.pages import PAGES, write_page

# What is longer nobody would read to its end, and hostile text would take minutes to render.
CELLS: Final = 500
OUTPUTS: Final = 50  # of a cell
SOURCE: Final = 10_000  # characters of a cell, about 250 lines
TEXT: Final = 10_000  # characters of an output
TEXTS: Final = 200_000  # characters of all sources and outputs; an assignment has about 20,000
IMAGE: Final = 1_000_000  # bytes; a plot has 20,000 to 100,000
IMAGES: Final = 10_000_000  # bytes of all images

STARTS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
SVG = "image/svg+xml"  # shown as an image, in which a browser runs no script and loads nothing
TAGS = {
    "a", "b", "blockquote", "br", "caption", "code", "dd", "del", "div", "dl", "dt", "em", "h1",
    "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s", "span",
    "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
EMBEDDED = tuple(f"data:{kind};base64," for kind in (*STARTS, SVG))
_QUIET = logging.getLogger(__name__)  # nbconvert warns of images that have no description
_QUIET.setLevel(logging.CRITICAL)


def write_notebook_page(path: Path, title: str, notebook: bytes) -> None:
    """Write a page from the bytes of an executed notebook; of one that is broken it says so."""
    write_page(path, (title, notebook), lambda: _page(title, notebook))


def _page(title: str, notebook: bytes) -> str:
    try:
        body, broken = _body(notebook), ""
    except InvalidNotebook as error:
        body, broken = "", str(error)
    except Exception as error:  # what a text can do to those that parse it nobody knows
        body, broken = "", f"It could not be turned into a page ({type(error).__name__})."
    return PAGES.get_template("notebook_page.html").render(
        title=title, body=Markup(body), broken=broken,
        light=_colours("default"), dark=_colours("monokai"),
    )  # fmt: skip


def _colours(style: str) -> Markup:
    return Markup(HtmlFormatter(style=style, nobackground=True).get_style_defs(".highlight"))


def _body(notebook: bytes) -> str:
    """The notebook as harmless markup; what nbconvert makes of it is not trusted."""
    metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    plain = v4.new_notebook(cells=[*_cells(notebook)], metadata=metadata)
    rendered, _ = _exporter().from_notebook_node(plain)
    return str(_cleaner().clean(rendered))


@cache
def _exporter() -> Any:
    """Made once, because its templates take as long as a notebook."""
    return HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic", exclude_anchor_links=True, exclude_input_prompt=True, log=_QUIET,
        extra_template_basedirs=[],  # not what happens to lie where the command runs
    )  # fmt: skip


@cache
def _cleaner() -> Any:
    return Cleaner(
        tags=TAGS, attributes=_allowed, protocols={"http", "https", "data"}, strip=True,
        filters=[_Images],
    )  # fmt: skip


def _allowed(tag: str, name: str, value: str) -> bool:
    """Whether an attribute stays. No styles: they could hide or cover what others wrote."""
    if tag == "a" and name == "href":
        return value.startswith(("https://", "http://"))
    if tag == "img" and name == "src":
        return value.startswith(EMBEDDED)
    return name == "class" or (tag == "img" and name == "alt")


class _Images(Filter):  # type: ignore[misc]  # bleach has no types
    """In the place of an image that lies elsewhere, what it shows in words."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for token in super().__iter__():
            data = token.get("data")
            if token.get("name") == "img" and (None, "src") not in data:
                words = data.get((None, "alt"), "")
                yield {"type": "Characters", "data": f"[image: {words}]"}
            else:
                yield token


@dataclass
class _Room:
    """What may still come, in characters of text and bytes of images."""

    texts: int = TEXTS
    images: int = IMAGES

    def text(self, text: str, most: int) -> str:
        """So much of the text as there is room for, and a note about the rest."""
        kept = text[: max(0, min(most, self.texts))]
        self.texts -= len(kept)
        more = len(text) - len(kept)
        return f"{kept}\n[{more:,} more characters are not shown]" if more else kept

    def image(self, content: bytes) -> bool:
        """Whether there is room for an image, which then is taken."""
        fits = len(content) <= min(IMAGE, self.images)
        self.images -= len(content) if fits else 0
        return fits


def _cells(notebook: bytes) -> Iterator[NotebookNode]:
    """The cells with what may be shown of them, and nothing else."""
    clean, _ = read_notebook(notebook)
    room = _Room()
    raw = _raw(notebook)
    for place, cell in enumerate(clean.cells[:CELLS]):
        original = raw[place] if place < len(raw) else {}
        source = room.text(cell.source, SOURCE)
        metadata = {"tags": ["answer"]} if _answered(original) else {}
        if cell.cell_type == "code":
            outputs = [*_outputs(original.get("outputs"), room)]
            yield v4.new_code_cell(source, outputs=outputs, metadata=metadata)
        else:  # an attachment that is not there would end it all
            source = source.replace("attachment:", "attachment ")
            yield v4.new_markdown_cell(source, metadata=metadata)
    if (more := len(clean.cells) - CELLS) > 0:
        yield v4.new_markdown_cell(f"{more:,} more cells are not shown.")


def _raw(notebook: bytes) -> list[Mapping[str, Any]]:
    """The cells as they stand, in the order of `read_notebook`; none of an old or odd file."""
    try:
        cells = json.loads(notebook, strict=False).get("cells", [])
    except (ValueError, AttributeError):
        return []
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _answered(raw: Mapping[str, Any]) -> bool:
    """Whether a cell is one that students write."""
    metadata = raw.get("metadata")
    mark = metadata.get("autograder") if isinstance(metadata, dict) else None
    return isinstance(mark, dict) and mark.get("role") in ("answer", "extra")


def _outputs(raw: Any, room: _Room) -> Iterator[NotebookNode]:
    outputs = [one for one in raw if isinstance(one, dict)] if isinstance(raw, list) else []
    for one in outputs[:OUTPUTS]:
        if one.get("output_type") == "stream":
            text = room.text(_as_on_screen(_joined(one.get("text"))), TEXT)
            name = "stderr" if one.get("name") == "stderr" else "stdout"
            yield v4.new_output("stream", name=name, text=text)
        elif one.get("output_type") == "error":
            lines = one.get("traceback")
            told = "\n".join(map(_joined, lines)) if isinstance(lines, list) else ""
            told = told or f"{_joined(one.get('ename'))}: {_joined(one.get('evalue'))}"
            yield v4.new_output("error", ename="", evalue="", traceback=[room.text(told, TEXT)])
        else:
            yield v4.new_output("display_data", data=_displayed(one.get("data"), room))
    if (more := len(outputs) - OUTPUTS) > 0:
        text = f"[{more:,} more outputs are not shown]"
        yield v4.new_output("stream", name="stdout", text=text)


def _displayed(data: Any, room: _Room) -> dict[str, str]:
    """The form of an output that tells most, of those that are harmless: one MIME type."""
    forms = data if isinstance(data, dict) else {}
    html = _joined(forms.get("text/html"))
    # Without its style or script such a table is a heap of numbers: its plain text is better.
    if html and len(html) <= TEXT and not re.search("<(style|script)", html, re.IGNORECASE):
        return {"text/html": room.text(html, TEXT)}
    for kind in (*STARTS, SVG):
        if image := _image(kind, _joined(forms.get(kind))):
            if room.image(image):
                return {kind: image.decode() if kind == SVG else base64.b64encode(image).decode()}
            return {"text/plain": "[an image that is too large to be shown here]"}
    for kind in ("text/plain", "text/markdown", "text/latex"):
        if text := _joined(forms.get(kind)):
            return {"text/plain": room.text(text, TEXT)}
    return {"text/plain": "[an output of a kind that is not shown here]"}


def _image(kind: str, text: str) -> bytes:
    """Content of an image; b"" where the text is no image of that kind."""
    if kind == SVG:
        return text.encode()
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        return b""
    return content if content.startswith(STARTS[kind]) else b""


def _joined(text: Any) -> str:
    """Text of a notebook file, which may be divided into lines."""
    lines = text if isinstance(text, list) else [text]
    return printable("".join(line for line in lines if isinstance(line, str)))


def _as_on_screen(text: str) -> str:
    """Of lines that were written over, as progress bars do, the last state."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
