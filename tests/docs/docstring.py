"""Docstrings in Google's form, as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises):$")
WIDTH = 118
TITLES = {"Args": "Arguments", "Raises": "Errors"}
RISKY = re.compile(r"^\s*(?:[-+*>#]|\d+[.)])\s")
"""A line that Markdown would take for the beginning of something."""


def markdown(text: str) -> str:
    """The double backquotes of reStructuredText as the single ones of Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", text, flags=re.S)


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of at most `WIDTH` characters; later ones are indented."""
    line = " ".join(text.split())
    lines = textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return line if any(RISKY.match(later) for later in lines[1:]) else "\n".join(lines)


@dataclass(frozen=True)
class Docstring:
    """A docstring in parts.

    Attributes:
        text: What stands outside the sections.
        sections: Entries (name, text) by section, in order.
    """

    text: str
    sections: dict[str, list[tuple[str, str]]]

    @classmethod
    def of(cls, thing: object) -> Docstring:
        text: list[str] = []
        sections: dict[str, list[tuple[str, str]]] = {}
        inside: list[tuple[str, str]] | None = None
        for line in (inspect.getdoc(thing) or "").splitlines():
            if heading := SECTION.match(line):
                inside = sections.setdefault(heading[1], [])
            elif line and not line.startswith(" "):
                inside = None
                text.append(line)
            elif inside is None:
                text.append(line)
            elif entry := re.match(r"^ {4}(\*{0,2}\w[\w.*, ]*): (.*)$", line):
                inside.append((entry[1], entry[2]))
            elif line.strip():
                name, told = inside.pop() if inside else ("", "")
                inside.append((name, f"{told} {line.strip()}"))
        return cls("\n".join(text).strip(), sections)

    def first(self) -> str:
        """The first sentence."""
        paragraph = " ".join(markdown(self.text).split("\n\n")[0].split())
        return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]

    def body(self) -> Iterator[str]:
        """What stands outside the sections."""
        lines = self.text.splitlines()
        at = 0
        while at < len(lines):
            if lines[at].startswith(".. code-block::"):
                end = at + 1
                while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
                    end += 1
                shown = textwrap.dedent("\n".join(lines[at + 1 : end])).strip("\n")
                yield f"```text\n{shown}\n```\n"
            else:
                end = at
                while end < len(lines) and lines[end]:
                    end += 1
                yield from self._paragraph(lines[at:end])
                end += 1
            at = end

    def _paragraph(self, lines: list[str]) -> Iterator[str]:
        if not lines:
            return
        items = re.split(r"\n(?=- )", markdown("\n".join(lines)))
        for at, item in enumerate(items):
            if at == 1 and not items[0].startswith("- "):
                yield ""
            yield wrapped(item, "  " if item.startswith("- ") else "")
        yield ""

    def shown(self) -> Iterator[str]:
        """All of it."""
        yield from self.body()
        for heading, entries in self.sections.items():
            yield f"{TITLES.get(heading, heading)}:\n"
            for name, told in entries:
                text = markdown(told).strip()
                yield wrapped(f"- `{name}`: {text}" if name else f"- {text}", "  ")
            yield ""
