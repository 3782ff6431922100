"""The text that bare ``kvframe bench`` prints: question, compared policies, answer, and its doubt.

At most `LINES` lines of `COLUMNS` columns, whatever the terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from kvframe.bench.cells import Cell, Plan
from kvframe.bench.field import Rows
from kvframe.bench.policies import BOUND, OPTIMUM
from kvframe.bench.render import aligned
from kvframe.bench.report import Table
from kvframe.bench.verdict import Verdict

LINES, COLUMNS = 25, 100
SHOWN = 7
"""Policies in the table, besides lru and the bounds."""
_LABEL = 10


def text(rows: Rows, verdict: Verdict, remarks: Sequence[str] = ()) -> str:
    """The screen of one trace in one mode; of several ``remarks`` the first that fit."""
    plan, cell = next(iter(rows.items()))
    lines = [*_labelled("asked", _asked(plan, cell, verdict)), *_labelled("field", _tried(verdict))]
    lines += ["", *(line[:COLUMNS] for line in aligned(_table(rows, verdict))), ""]
    end = [*_labelled("answer", f"{verdict.said}."), *_labelled("doubt", f"{verdict.doubt}.")]
    end += _labelled(
        "next", "kvframe bench run --trace FILE replays your own traffic; --help says what else"
    )
    notes = [line for remark in remarks for line in _labelled("note", remark)]
    room = max(0, LINES - len(lines) - len(end))
    return "\n".join([*lines, *end[:-1], *notes[:room], end[-1]]) + "\n"


def _asked(plan: Plan, cell: Cell, verdict: Verdict) -> str:
    return (
        f"which policy would have served {plan.source.name} best? {cell.requests:,} requests, "
        f"{cell.input_tokens / 1e6:,.1f} M prompt tokens, blocks of {cell.block_size}; "
        f"{verdict.mode} mode"
    )


def _tried(verdict: Verdict) -> str:
    sizes = ", ".join(f"{size:,}" for size in verdict.sizes)
    return f"{len(verdict.field)} policies at {sizes} blocks; {OPTIMUM} and {BOUND} are bounds"


def _table(rows: Rows, verdict: Verdict) -> Table:
    """Token hit rates in per cent: the best few of the field, lru, the bounds."""
    by_label: dict[str, dict[int | None, float]] = {}
    for plan, cell in rows.items():
        by_label.setdefault(plan.label, {})[plan.capacity] = cell.token_hit_rate
    shares = {
        label: sum(found.get(size, 0) for size in verdict.sizes)
        for label, found in by_label.items()
        if label in verdict.field
    }
    best = sorted(shares, key=lambda label: -shares[label])
    named = [label for at, label in enumerate(best) if at < SHOWN or label == "lru"]
    bounds = [label for label in (OPTIMUM, BOUND) if label in by_label]
    table = Table("", ["token hit, %", *(f"{size:,}" for size in verdict.sizes)])
    for label in [*named, *bounds]:
        found = by_label[label]
        rates = [found.get(size, found.get(None)) for size in verdict.sizes]
        cells = ["-" if rate is None else f"{100 * rate:.1f}" for rate in rates]
        table.rows.append([textwrap.shorten(label, 30, placeholder="…"), *cells])
    return table


def _labelled(label: str, told: str) -> Iterator[str]:
    width = COLUMNS - _LABEL
    for at, line in enumerate(textwrap.wrap(told, width, break_on_hyphens=False)):
        yield f"{label if at == 0 else '':<{_LABEL}}{line}"
