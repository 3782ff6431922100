"""Every link inside the repository leads somewhere, and the index names every page once."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *ROOT.glob("perf/*.md"),
        *ROOT.glob("plugins/*/*.md"),
        *ROOT.glob("python/kvframe/*/README.md"),
    ]
)
FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^ *\2`*\s*$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*#*$", re.M)
SITE = ("http://", "https://", "mailto:")


@cache
def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCED.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    """Where its links lead, in order, but for those out of the repository."""
    found = LINK.findall(CODE.sub("code", prose(page)))
    return [link for link in found if not link.startswith(SITE)]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    text = LINK.sub(lambda link: link[0][1 : link[0].index("](")], heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    seen, found = Counter[str](), set[str]()
    for heading in HEADING.findall(prose(page)):
        name = slug(heading)
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def dead(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = Path(posixpath.normpath(page.parent / path)) if path else page
        inside = target.is_relative_to(ROOT) and target.is_file()
        if not inside or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    assert dead(page) == []


def test_a_dead_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("# One `[[two]]`\n\n# Same\n\n# Same\n")
    page = tmp_path / "b.md"
    page.write_text(
        "[a](a.md) [b](a.md#one-two) [c](a.md#same-1) [d](#here)\n# [Here](a.md)\n"
        "[e](a.md#three) [f](c.md) [g](#there) ![h](h.png) [i](../i.md) `[j](j.md)`\n"
        "```text\n[k](k.md)\n```\n"
    )
    assert dead(page) == ["a.md#three", "c.md", "#there", "h.png", "../i.md"]


def test_the_index_lists_every_page_once() -> None:
    """All that the site has: a strict build fails for a page that is in no list."""
    index = DOCS / "index.md"
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", index.read_text("utf-8"), re.M)
    told = Counter(posixpath.normpath(DOCS / link) for link in listed)
    assert told == Counter(str(page) for page in PAGES if page != index)


def test_the_readme_names_the_index() -> None:
    assert "docs/index.md" in links(ROOT / "README.md")
