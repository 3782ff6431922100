"""Rows in columns, for terminals and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns lined up; the first is left-aligned, the rest right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return " | ".join([first[0].ljust(first[1]), *(cell.rjust(w) for cell, w in rest)])

    rule = "-|-".join("-" * width for width in widths)
    return "\n".join(f"| {text} |" for text in [line(head), rule, *map(line, rows)])


def short(value: float | None) -> str:
    """Three significant digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
