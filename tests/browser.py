"""Pages in a real Chromium: what they log, what they ask for, how they look, who can read them.

A test module says `pytest_plugins = ["tests.browser"]` and takes the fixture `visit`. Where
Chromium or the package playwright is missing, its tests are skipped with the reason. Nothing is
downloaded: playwright drives the Chromium of the system.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
BINARIES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
VARIANTS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
LOCAL = ("file", "data", "blob", "about")
# axe-core takes a page without a background for white; the browser paints the theme's canvas.
CANVAS = """() => {
    const painted = [document.documentElement, document.body].map(getComputedStyle);
    if (painted.every(style => style.backgroundColor === "rgba(0, 0, 0, 0)"))
        document.documentElement.style.backgroundColor = "Canvas";
}"""


@dataclass
class Visit:
    """A page that was opened, and all that it has said and asked for until now.

    Attributes:
        problems: errors and warnings of the console, and uncaught errors of scripts.
        foreign: addresses outside of this machine that it asked for; none was let through.
    """

    page: Any
    shots: Path
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def foreign(self) -> list[str]:
        """Requests that leave this machine."""
        return [url for url in self.requests if not is_local(url)]

    def listen(self) -> None:
        """Collect what the page logs and asks for from now on."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text} ({message.location['url']})")

    def violations(self, within: str | None = None) -> list[str]:
        """What axe-core finds against WCAG 2.2 A and AA: rule, element, and what to do about it."""
        axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
        self.page.evaluate(CANVAS)
        options = {"resultTypes": ["violations"], "runOnly": list(RULES)}
        found = axe.run(self.page, context=within, options=options).response["violations"]
        return [
            f"{rule['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
            for rule in found
            for node in rule["nodes"]
        ]

    def too_wide(self) -> int:
        """By how many pixels the page is wider than the window: a phone would scroll sideways."""
        script = "document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
        return int(self.page.evaluate(script))

    def shot(self, name: str) -> Path:
        """A picture of the whole page."""
        path = self.shots / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path


def is_local(url: str) -> bool:
    """Whether an address stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in LOCAL or parts.hostname in ("127.0.0.1", "localhost")


# For a module only: playwright's event loop counts as running, which asyncio elsewhere refuses.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser; headless."""
    api = pytest.importorskip("playwright.sync_api", reason="the package playwright is missing")
    binary = next(filter(None, map(shutil.which, BINARIES)), None)
    if binary is None:
        pytest.skip(f"there is no Chromium here (none of {', '.join(BINARIES)})")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    """Each of VARIANTS."""
    return str(request.param)


@pytest.fixture
def visit(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Opens a file or an address in one of VARIANTS, with a fresh profile: visit(path, "dark")."""
    visits: list[Visit] = []

    def go(place: Path | str, variant: str = "light") -> Visit:
        context = chromium.new_context(**VARIANTS[variant], service_workers="block")
        context.route(lambda url: not is_local(url), lambda route: route.abort())
        visit = Visit(context.new_page(), tmp_path)
        visits.append(visit)
        visit.listen()
        if isinstance(place, Path):  # idle: a script of the page may ask for something late
            visit.page.goto(place.resolve().as_uri(), wait_until="networkidle")
        else:
            visit.page.goto(place)
        return visit

    yield go
    for number, visit in enumerate(visits):
        visit.shot(f"last-{number}")  # where a test has failed, this shows why
        visit.page.context.close()
