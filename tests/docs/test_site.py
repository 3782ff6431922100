"""The site of `make docs`: no dead link, searchable, readable in the dark and the light."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.bench.browser import Browser, browser

__all__ = ["browser"]

pytestmark = pytest.mark.slow
NEEDS = "needs what `pip install 'kvframe[docs]'` brings"
ROOT = Path(__file__).parents[2]
BUILT = os.environ.get("KVFRAME_SITE")  # here, since tests have no variables of kvframe


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` has built, or the same built here."""
    if BUILT is not None:
        return (ROOT / BUILT).resolve()
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason=NEEDS)
    folder = tmp_path_factory.mktemp("site")
    build = ["-q", "-W", "--keep-going", "-c", "docs/site", ".", str(folder / "html")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *build, "-d", str(folder / "trees")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


class Page(HTMLParser):
    """What a page links to, and what in it can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def test_no_link_is_dead(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("http:", "https:", "data:")):
                continue
            to, anchor = map(unquote, urldefrag(link))
            target = (path.parent / to.partition("?")[0]).resolve() if to else path
            known = pages.get(target)
            if not target.is_file() or (anchor and known and anchor not in known.ids):
                dead.append(f"{path.relative_to(site)}: {link}")
    assert len(pages) > 50
    assert dead == []


def test_it_is_there_as_text(site: Path) -> None:
    short, full = (site / "llms.txt").read_text(), (site / "llms-full.txt").read_text()
    assert short.startswith("# kvframe's documentation\n\n> kvframe decides ")
    assert "](docs/how-to/vllm.md)" in short
    for page in (ROOT / "docs").glob("*/*.md"):
        text = page.read_text("utf-8")
        assert text in full
        assert (site / page.relative_to(ROOT)).read_text("utf-8") == text
    addresses = (site / "external-links.txt").read_text().split()
    assert addresses
    assert all(address.startswith(("http://", "https://")) for address in addresses)


def luminance(color: str) -> float:
    """Relative luminance of ``rgb(r, g, b)`` as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in color.partition("(")[2].rstrip(")").split(",")[:3]]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    "page", ["index.html", "README.html", "docs/how-to/vllm.html", "docs/reference/commands.html"]
)
def test_it_is_read_in_a_browser(
    browser: Browser, site: Path, tmp_path: Path, page: str, dark: bool
) -> None:
    browser.open(site / page, dark=dark)
    console, asked = browser.logged()
    assert console == []
    assert [one for one in asked if not one.startswith(("file:", "data:"))] == []
    ink, paper = browser.run(
        "const style = getComputedStyle(document.querySelector('article p'));"
        "let at = document.querySelector('article');"
        "const back = (one) => getComputedStyle(one).backgroundColor;"
        "while (at.parentElement && back(at) === 'rgba(0, 0, 0, 0)') at = at.parentElement;"
        "return [style.color, back(at)]"
    )
    low, high = sorted((luminance(ink), luminance(paper)))
    assert (luminance(paper) < 0.1) is dark
    assert (high + 0.05) / (low + 0.05) >= 7
    captions = browser.run(
        "return [...document.querySelectorAll('.sidebar-tree .caption')].map((c) => c.textContent)"
    )
    assert captions[:5] == [
        "Tutorials",
        "How-to guides",
        "Reference",
        "Explanation",
        "Vocabulary",
    ]
    shot = tmp_path / f"{Path(page).stem}-{'dark' if dark else 'light'}.png"
    shot.write_bytes(browser.picture())
    assert shot.read_bytes().startswith(b"\x89PNG")


def test_it_is_searched_without_a_server(browser: Browser, site: Path) -> None:
    browser.open(site / "index.html")
    browser.driver.get(f"{(site / 'search.html').as_uri()}?q=NeverFitsError")
    found: list[str] = browser.driver.execute_async_script(
        "const done = arguments[0];"
        "const links = () => [...document.querySelectorAll('#search-results li a')];"
        "const look = () => links().length ? done(links().map((a) => a.href))"
        " : setTimeout(look, 50); look()"
    )
    assert any("reference/errors" in link for link in found)


@pytest.mark.parametrize("width", [420, 800, 1020, 1100, 1264, 1330, 1440, 1600])
@pytest.mark.parametrize("page", ["docs/index.html", "README.html", "docs/reference/zoo.html"])
def test_a_window_of_any_width_scrolls_down_only(
    browser: Browser, site: Path, page: str, width: int
) -> None:
    browser.open(site / page, width=width)
    scrolled, text, drawer = browser.run(
        "const right = (one) => document.querySelector(one)?.getBoundingClientRect().right ?? 0;"
        "return [document.documentElement.scrollWidth, right('article p'), right('.toc-tree')]"
    )
    assert max(scrolled, text) <= width
    if width > 82 * 16:  # below that the theme keeps the page's contents out of the window
        assert drawer <= width
