"""The site: Sphinx over the Markdown of the repository as it is (`make docs`).

The pages know nothing of Sphinx. docs/index.md says which there are and how they are grouped: its
lists become the site's navigation and llms.txt.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"
ENTRY = re.compile(r"^- \[(?P<label>[^]]+)\]\((?P<path>[^)#]+\.md)\)", re.M)
EXTERNAL = re.compile(r"https?://[^\s<>\"'`)\]}|]+")

project = "kvframe"
author = "The kvframe developers"
version = release = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"][
    "version"
]

root_doc = "docs/index"
include_patterns = [
    "*.md",
    "docs/*.md",
    "docs/**/*.md",
    "perf/*.md",
    "plugins/*/*.md",
    "python/kvframe/traces/*.md",
]
# Folders that no page is in are not walked.
exclude_patterns = [".*", "target", "rust", "tests", "examples", "plugins/*/tests"]
extensions = ["myst_parser"]
myst_heading_anchors = 6
nitpicky = True

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_title = f"kvframe {version}"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}


def pages() -> dict[str, list[tuple[str, str]]]:
    """Label and path from the repository's root of each page, by heading of the index."""
    found = {}
    for section in INDEX.read_text("utf-8").split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        found[heading] = [
            (entry["label"], (INDEX.parent / entry["path"]).resolve().relative_to(ROOT).as_posix())
            for entry in ENTRY.finditer(text)
        ]
    return found


def add_navigation(app: Any, docname: str, source: list[str]) -> None:
    """Give Sphinx the index's lists as its own kind of list, out of sight."""
    if docname != root_doc:
        return
    for heading, entries in pages().items():
        lines = [f"{label} </{path.removesuffix('.md')}>" for label, path in entries]
        options = [":hidden:", f":caption: {heading}", ""]
        source[0] += "\n".join(["", "```{toctree}", *options, *lines, "```", ""])


def write_plain(app: Any, exception: Exception | None) -> None:
    """Beside the HTML: the pages' Markdown, llms.txt, llms-full.txt, the addresses they name."""
    if exception is not None or app.builder.name != "html":
        return
    out, named = Path(app.outdir), [path for listed in pages().values() for _, path in listed]
    full, addresses = [], set[str]()
    for path in named:
        text = (ROOT / path).read_text("utf-8")
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, out / path)
        full.append(f"<!-- {path} -->\n\n{text}")
        addresses |= {found.rstrip(".,;:") for found in EXTERNAL.findall(text)}
    (out / "llms-full.txt").write_text("\n".join(full), "utf-8")
    (out / "external-links.txt").write_text("".join(f"{one}\n" for one in sorted(addresses)))
    text = INDEX.read_text("utf-8").replace("](../", "](")
    text = re.sub(r"\]\((?=(?:tutorial|how-to|reference|explanation)/)", "](docs/", text)
    (out / "llms.txt").write_text(text, "utf-8")
    (out / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>kvframe</title>'
        '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        '<a href="docs/index.html">kvframe\'s documentation</a>\n'
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", write_plain)
