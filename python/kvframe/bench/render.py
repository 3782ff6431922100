"""The forms of a result: a table for the terminal, Markdown, JSON, CSV."""

import csv
import io
from collections.abc import Sequence

import msgspec

from kvframe.bench.cells import Cell
from kvframe.bench.report import NOTES, Section, Table
from kvframe.bench.verdict import Verdict


def text(sections: Sequence[Section], remarks: Sequence[str] = ()) -> str:
    """Plain text, readable without colour; the last line is the last section's verdict.

    ``remarks`` are notes on this run, put before those on every run.
    """
    lines: list[str] = []
    for section in sections:
        lines += [section.heading, ""]
        for table in section.tables:
            lines += [table.title, *aligned(table), ""]
    lines += [*remarks, *NOTES]
    lines += [f"{section.doubt}." for section in sections if section.doubt]
    lines.append("")
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
    doubts = [f"{section.doubt}." for section in sections if section.doubt]
    lines += [f"- {note}" for note in (*remarks, *NOTES, *doubts)]
    for section in sections:
        lines += ["", section.verdict]
    return "\n".join(lines) + "\n"


def json(cells: Sequence[Cell], verdicts: Sequence[Verdict] = ()) -> str:
    """``{"cells": [...], "verdicts": [...]}``, one object a cell and one a trace and mode."""
    told = {"cells": cells, "verdicts": [told_verdict(verdict) for verdict in verdicts]}
    return msgspec.json.format(msgspec.json.encode(told)).decode() + "\n"


def told_verdict(verdict: Verdict) -> dict[str, object]:
    """A verdict as JSON has it, with its sentence."""
    return {**msgspec.to_builtins(verdict), "sentence": verdict.sentence}


def comma_separated(cells: Sequence[Cell]) -> str:
    """A header line and a line a cell; an absent number is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    nested = {"metrics", "misses", "tier_hit_tokens"}
    fields = [name for name in Cell.__struct_fields__ if name not in nested]
    metrics = list(dict.fromkeys(name for cell in cells for name in cell.metrics))
    reasons = list(dict.fromkeys(name for cell in cells for name in cell.misses or ()))
    tiers = list(dict.fromkeys(name for cell in cells for name in cell.tier_hit_tokens))
    named = [*(f"miss_{name}" for name in reasons), *(f"hit_tokens_{name}" for name in tiers)]
    writer.writerow([*fields, *metrics, *named])
    for cell in cells:
        row = [getattr(cell, name) for name in fields]
        row += [cell.metrics.get(name) for name in metrics]
        row += [(cell.misses or {}).get(name) for name in reasons]
        writer.writerow([*row, *(cell.tier_hit_tokens.get(name) for name in tiers)])
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
