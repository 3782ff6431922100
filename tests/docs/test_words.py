"""Comments, docstrings and pages use the field's words: each refused word has one to use instead.

Code, string literals, and what stands in backquotes or in fenced blocks may use any word.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFUSED = {
    r"nobody(?:'s)?": "name the thing: no block, no request, no owner",
    r"(?:some|any|every)body(?:'s)?": "name the thing: another owner, any request, every caller",
    r"who(?:so)?ever|whomever": "name the thing: the caller, the owner, the reader",
    r"die|dies|died|dying": "is evicted (a block), ends (a sequence), exits (a process)",
    r"deaths?": "eviction (of a block), end (of a sequence)",
    r"kids?": "child, children",
    r"heirs?": "last child",
}
"""Regular expressions of whole words, in lower case, and what to write instead."""
WORD = re.compile("|".join(rf"(?P<w{at}>\b(?:{word})\b)" for at, word in enumerate(REFUSED)), re.I)
QUOTED = re.compile(r"(`+)[^`]+?\1")
FENCE = re.compile(r"^\s*(?:>\s*)?(`{3,}|~{3,})")

Lines = Iterator[tuple[int, str]]


def python_prose(text: str) -> Lines:
    """Lines of comments and of docstrings, those of attributes and constants among them."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for at in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield at, lines[at - 1]


def rust_prose(text: str) -> Lines:
    """Lines that are a comment: ``//``, ``///`` or ``//!``."""
    for at, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("//"):
            yield at, line


def page_prose(text: str) -> Lines:
    """Lines outside fenced blocks."""
    fence = ""
    for at, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark is None:
            if not fence:
                yield at, line
        elif not fence:
            fence = mark[1]
        elif mark[1].startswith(fence):
            fence = ""


READERS = {".py": python_prose, ".rs": rust_prose, ".md": page_prose}


def refused(path: Path) -> Iterator[str]:
    """``FILE:LINE: word: what to write instead`` for each refused word of a file."""
    for line, prose in READERS[path.suffix](path.read_text(encoding="utf-8")):
        for found in WORD.finditer(QUOTED.sub("", prose)):
            advice = list(REFUSED.values())[int(str(found.lastgroup)[1:])]
            yield f"{path.relative_to(ROOT)}:{line}: {found[0]}: {advice}"


PACKAGE = ROOT / "python" / "kvframe"
FOLDERS = {
    "kvframe": [*PACKAGE.glob("*.py")],
    **{
        f"kvframe/{folder.name}": [*folder.rglob("*.py")]
        for folder in sorted(PACKAGE.iterdir())
        if folder.is_dir() and folder.name not in ("__pycache__", "templates")
    },
    **{
        str(folder.relative_to(ROOT)): [*folder.rglob("*.rs")]
        for folder in sorted(ROOT.glob("rust/*/src"))
    },
    **{
        str(folder.relative_to(ROOT)): [*folder.rglob("*.md")]
        for folder in sorted((ROOT / "docs").iterdir())
        if folder.is_dir()
    },
    "README": [ROOT / "README.md", *(ROOT / "docs").glob("*.md")],
    "plugins": sorted(ROOT.glob("plugins/*/README.md")),
}
"""Files by folder. ``_core.pyi`` is generated from the comments of Rust, which are looked at."""


@pytest.mark.parametrize("folder", sorted(name for name, files in FOLDERS.items() if files))
def test_no_refused_word(folder: str) -> None:
    found = [line for path in sorted(FOLDERS[folder]) for line in refused(path)]
    assert not found, "\n".join(found)


def test_every_kind_of_prose_is_looked_at() -> None:
    code = '# nobody\nx = "nobody"\n"""Nobody."""\ndef f():\n    """`nobody`, somebody."""\n'
    assert sorted(line for line, _ in python_prose(code)) == [1, 3, 5]
    assert [line for line, _ in rust_prose('let x = "y"; // z\n    /// a\n//! b\n')] == [2, 3]
    assert [line for line, _ in page_prose("a\n```py\nb\n```\nc\n")] == [1, 5]
    words = ["Nobody's", "somebody", "Whoever", "dies", "died", "kids"]
    assert all(WORD.search(f"{word} here") for word in words)
    assert not WORD.search("diet, everybodyish, a skid, studied")
    assert not WORD.search(QUOTED.sub("", "the constant `NOBODY`, ``die``"))
