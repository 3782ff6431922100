"""The forms of a result: a table for the terminal, Markdown, JSON, CSV."""

import csv
import io
from collections.abc import Sequence

import msgspec

from kvframe.bench.cells import Cell
from kvframe.bench.report import NOTES, Section, Table


def text(sections: Sequence[Section], remarks: Sequence[str] = ()) -> str:
    """Plain text, readable without colour; the last line is the last section's verdict.

    ``remarks`` are notes on this run, put before those on every run.
    """
    lines: list[str] = []
    for section in sections:
        lines += [section.heading, ""]
        for table in section.tables:
            lines += [table.title, *aligned(table), ""]
    lines += [*remarks, *NOTES, ""]
    lines += [section.verdict for section in sections]
    return "\n".join(lines) + "\n"


def markdown(sections: Sequence[Section], remarks: Sequence[str] = ()) -> str:
    """The same as `text`, as GitHub-flavoured Markdown."""
    lines: list[str] = []
    for section in sections:
        lines += [f"### {section.heading}", ""]
        for table in section.tables:
            rule = ["---", *("---:" for _ in table.header[1:])]
            rows = [table.header, rule, *table.rows]
            lines += [f"**{table.title}**", ""]
            lines += ["| " + " | ".join(map(_escape, row)) + " |" for row in rows]
            lines.append("")
    lines += [f"- {note}" for note in (*remarks, *NOTES)]
    for section in sections:
        lines += ["", section.verdict]
    return "\n".join(lines) + "\n"


def json(cells: Sequence[Cell]) -> str:
    """``{"cells": [...]}``, one object a cell."""
    return msgspec.json.format(msgspec.json.encode({"cells": cells})).decode() + "\n"


def comma_separated(cells: Sequence[Cell]) -> str:
    """A header line and a line a cell; an absent number is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Cell.__struct_fields__)
    for cell in cells:
        writer.writerow(msgspec.structs.astuple(cell))
    return out.getvalue()


def aligned(table: Table) -> list[str]:
    """Header and rows, the first column to the left and the others to the right."""
    rows = [table.header, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.header))]
    lines = []
    for row in rows:
        first, *rest = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join([first, *rest]).rstrip())
    return lines


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|")
