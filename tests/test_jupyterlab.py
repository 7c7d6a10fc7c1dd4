"""A student's notebook in JupyterLab, in a real browser: what is rendered, and that nothing fails.

Needs `jupyter lab`, in the environment of the tests or on the PATH, and what tests/browser.py
needs; skipped otherwise. The notebook's kernel is this Python, wherever JupyterLab lies.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import nbformat
import pytest

from tests.conftest import NAME

pytest_plugins = ["tests.browser"]

# All cells are there at once, also those out of sight; no questions about news or saving.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    "apputils-extension/themes": {"adaptive-theme": True},  # as the browser's
    "apputils-extension/notification": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
}  # fmt: skip
READY = """async () => {
    await window.jupyterapp.restored;
    const { context, sessionContext } = window.jupyterapp.shell.currentWidget;
    await context.ready;
    await sessionContext.ready;
    await sessionContext.session.kernel.info;
}"""
LINES = """cell => {
    const text = new Range();
    text.selectNodeContents(cell);
    return new Set(Array.from(text.getClientRects(), box => box.top)).size;
}"""
BADGE = "https://colab.research.google.com/assets/colab-badge.svg"  # asked for, not let through
WRONG = "def conv_output_size(size, kernel, stride=1, padding=0):\n    return size - kernel"


@contextmanager
def jupyter_lab(folder, home):
    """JupyterLab on a folder; gives its address, with the token."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = shutil.which("jupyter-lab", path=places)
    if program is None:
        pytest.skip("jupyter lab is not installed: pip install 'jupyterlab>=4,<5'")
    command = [
        program, "--no-browser", "--ip=127.0.0.1", "--ServerApp.root_dir", str(folder),
        "--LabApp.expose_app_in_browser=True", *(["--allow-root"] if os.getuid() == 0 else []),
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, env=environment(home), stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            lines = []
            for line in server.stderr:
                lines.append(line)
                if address := re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", line):
                    break
            else:
                pytest.fail(f"jupyter lab did not start:\n{''.join(lines)}")
            rest = Thread(target=lines.extend, args=[server.stderr])  # or the pipe fills up
            rest.start()
            yield address[0]
            server.terminate()
            rest.join()
        finally:
            server.terminate()


def environment(home):
    """Folders of Jupyter's own below `home`, with the settings, and this Python as the kernel."""
    kernel = home / "data" / "kernels" / "python3" / "kernel.json"
    texts = {
        kernel: {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python 3", "language": "python",
        },
        **{home / "lab" / "@jupyterlab" / f"{name}.jupyterlab-settings": content
           for name, content in SETTINGS.items()},
    }  # fmt: skip
    for path, content in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    folders = {
        "HOME": home, "JUPYTER_PATH": home / "data", "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_DATA_DIR": home / "own", "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "lab", "IPYTHONDIR": home / "ipython",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
    }  # fmt: skip
    # Without PYTHONPATH: the kernel imports the kit that lies beside the notebook, as a student's.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "OMP_NUM_THREADS": "1", **{name: str(path) for name, path in folders.items()}}


class Notebook:
    """The open notebook: its cells by their ids, run one after the other."""

    def __init__(self, visit, ids):
        self.visit, self.ids, self.runs = visit, ids, 0
        self.cells = visit.page.locator(".jp-Notebook .jp-Cell")
        self.cells.nth(len(ids) - 1).wait_for(state="attached")
        visit.page.evaluate(READY)  # a cell that is run before is dropped without a word

    def run(self, key):
        """Run a cell; gives the locator of what it shows."""
        cell = self.cells.nth(self.ids.index(key))
        cell.scroll_into_view_if_needed()
        cell.locator(".jp-InputPrompt").click()
        self.visit.page.locator(".jp-Notebook.jp-mod-commandMode:focus-within").wait_for()
        self.visit.page.keyboard.press("Control+Enter")
        self.runs += 1
        prompt = cell.locator(".jp-InputPrompt", has_text=f"[{self.runs}]:")
        prompt.wait_for(timeout=90_000)
        return cell.locator(".jp-OutputArea").first

    def answer(self, key, source):
        """Type an answer, and run it."""
        editor = self.cells.nth(self.ids.index(key)).locator(".cm-content")
        editor.click()
        self.visit.page.keyboard.press("Control+a")
        self.visit.page.keyboard.insert_text(source)
        self.run(key)


@pytest.fixture
def lab(built, tmp_path):
    """The address of JupyterLab on a student's folder, and the ids of the notebook's cells."""
    folder = shutil.copytree(built(NAME) / "student" / NAME, tmp_path / "course")
    notebook = nbformat.read(folder / f"{NAME}.ipynb", as_version=4)
    with jupyter_lab(folder, tmp_path / "home") as address:
        yield address, [cell.id for cell in notebook.cells]


def table(shown):
    """The texts of a rendered table, row by row."""
    rows = shown.locator("table tr").all()
    return [[cell.inner_text().strip() for cell in row.locator("th, td").all()] for row in rows]


@pytest.mark.parametrize("theme", ["dark"])  # a light one was looked at; each takes 40 s
def test_a_students_way_through_the_notebook(theme, lab, visit):
    address, ids = lab
    seen = visit(address.replace("/lab?", f"/lab/tree/{NAME}.ipynb?reset&"), theme)
    notebook = Notebook(seen, ids)
    last = max(i for i in ids if i.startswith(f"{NAME}-page-given-"))

    notebook.run(f"{NAME}-page-setup-1")
    empty = notebook.run(f"{NAME}-conv_size-check-1")
    assert "○ conv_size: conv_output_size is not defined yet." in empty.inner_text()
    assert empty.locator("table").count() == 0

    notebook.answer(f"{NAME}-conv_size-answer-1", WRONG)
    wrong = notebook.run(f"{NAME}-conv_size-check-1")
    head, (case, result, seen_there, hint) = table(wrong)
    assert head == ["check", "result", "what was seen", "hint"]
    assert (case, result.replace("\u00a0", " ")) == ("examples", "✗ not passed")
    assert "nn.Conv2d gives" in seen_there
    assert hint
    titles = wrong.locator("th").all()
    assert [title.evaluate(LINES) for title in titles] == [1] * 5  # not crushed by long messages

    overview = notebook.run(last)
    rows = {row[0]: row[1:] for row in table(overview)}
    assert rows["conv_size"] == ["0 of 1", "0 of 1 visible checks passed"]
    assert rows["cnn"][1] == "not run yet"
    assert rows["reflection"] == ["–", "graded by a person"]
    assert rows["all questions"][0].startswith("0 of ")
    assert "after changing an answer" in overview.inner_text()

    seen.page.keyboard.press("Control+s")
    seen.page.locator(".jp-mod-dirty").wait_for(state="detached")
    told = notebook.run(f"{NAME}-page-export-1").inner_text()
    made = Path(re.search(r"Hand in this file: (.+\.zip)", told)[1])
    with zipfile.ZipFile(made) as archive:
        assert "return size - kernel" in archive.read(f"{NAME}.ipynb").decode()

    assert seen.page.locator(".jp-RenderedText[data-mime-type$=stderr]").count() == 0
    assert "Traceback" not in seen.page.locator(".jp-Notebook").inner_text()
    for shown in (wrong, overview):
        shown.evaluate("element => element.setAttribute('data-looked-at', '')")
    assert seen.violations("[data-looked-at]") == []
    assert set(seen.foreign) <= {BADGE}
    assert [p for p in seen.problems if p.startswith("error") and BADGE not in p] == []
    wrong.scroll_into_view_if_needed()
    assert seen.shot(f"check-{theme}").stat().st_size
    overview.scroll_into_view_if_needed()
    assert seen.shot(f"overview-{theme}").stat().st_size
