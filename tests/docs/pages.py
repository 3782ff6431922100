"""Pages of documentation as blocks of code; the convention is told in test_snippets.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w+-]*)[^`]*$")
_NOTE = re.compile(r"^\s*<!--\s*(?P<word>file|needs|output)(?::\s*(?P<value>\S+))?\s*-->\s*$")
_NAMED = re.compile(r"^#\s*(?P<name>[\w./-]+\.\w+)\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What stands behind the fence, in lower case.
        text: Its lines, without the indentation of the fence.
        line: Where its first line stands in the page, from 1.
        file: The file it is to be written to, if any.
        needs: A module without which it is left out, if any.
        output: Whether it shows what the block before it printed.
    """

    language: str
    text: str
    line: int
    file: str | None = None
    needs: str | None = None
    output: bool = False


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    lines = text.splitlines()
    notes: dict[str, str | None] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if note := _NOTE.match(line):
            notes[note["word"]] = note["value"]
            continue
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip():
                notes = {}
            continue
        start = at
        closing = re.compile(rf"^ *`{{{len(fence['ticks'])},}}\s*$")
        while at < len(lines) and not closing.match(lines[at]):
            at += 1
        if at == len(lines):
            raise ValueError(f"line {start}: the block is never closed")
        body = dedent("\n".join(lines[start:at])) + "\n"
        at += 1
        language = fence["language"].lower()
        file = notes.get("file")
        if file is None and (named := _NAMED.match(body.partition("\n")[0])):
            file = named["name"]
        yield Block(language, body, start + 1, file, notes.get("needs"), "output" in notes)
        notes = {}


@dataclass(frozen=True)
class Command:
    """A command of a console or bash block, and what is shown below it."""

    text: str
    output: str
    exit_code: int


def commands(block: Block) -> Iterator[Command]:
    """Commands of a ``console`` block (after ``$``); every line where there is no ``$``."""
    prompt = block.language == "console" and "$ " in block.text
    found: list[tuple[str, list[str]]] = []
    joining = False
    for line in block.text.splitlines():
        if joining:
            found[-1] = (f"{found[-1][0]} {line.removeprefix('>').strip()}", [])
        elif prompt and line.startswith("$ "):
            found.append((line[2:].strip(), []))
        elif prompt and found:
            found[-1][1].append(line)
        elif prompt:
            raise ValueError(f"line {block.line}: output comes before the first $")
        elif line.strip() and not line.startswith("#"):
            found.append((line.strip(), []))
        else:
            continue
        joining = not found[-1][1] and found[-1][0].endswith("\\")
        if joining:
            found[-1] = (found[-1][0][:-1].strip(), [])
    for text, output in found:
        code = re.search(r"\s+#\s*exit (\d+)$", text)
        bare = re.sub(r"\s+#.*$", "", text)
        yield Command(bare, "\n".join(output).strip("\n"), int(code[1]) if code else 0)


def matches(shown: str, printed: str) -> bool:
    """Whether what is shown is what was printed: ``...`` stands for anything, blanks for blanks."""
    # Blanks beside "..." belong to it.
    first, *others = (" ".join(part.split()) for part in shown.split("..."))
    text = " ".join(printed.split())
    if not others:
        return text == first
    if not text.startswith(first):
        return False
    at = len(first)
    for part in others[:-1]:
        # The first place will do: what comes later finds no less after it.
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(others[-1]) >= at and text.endswith(others[-1])


def make_targets(makefile: Path) -> set[str]:
    """Targets that a Makefile names."""
    rule = re.compile(r"^([\w.-]+)\s*:(?!=)", re.M)
    return set(rule.findall(makefile.read_text()))
