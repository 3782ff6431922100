"""Whether promises (``--sla``) decide which server is better, or the mean time to the first token.

Where hardly any request keeps the promise, those few say nothing of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvframe.bench.server.cells import ServerCell
from kvframe.bench.server.summary import short

LEAST = 0.05
"""Of the requests that the best finished: where fewer keep the promise, it does not decide."""

Rows = Sequence[Sequence[ServerCell]]
"""What is compared: of each, one cell or several draws of the same."""


def decides(rows: Rows) -> bool:
    """Whether enough requests keep what was promised, where that was kept most often."""
    kept, finished = _most(rows)
    return kept > 0 and kept >= LEAST * finished


def cost(cell: ServerCell, by_goodput: bool) -> float:
    """What is compared; less is better."""
    return -(cell.goodput or 0.0) if by_goodput else cell.ttft_mean or 0.0


def hardly_kept(rows: Rows) -> str:
    """That a promise does not decide, and what does; empty where none was made, or it decides."""
    if all(cell.goodput is None for row in rows for cell in row) or decides(rows):
        return ""
    kept, finished = _most(rows)
    told = f"almost no request keeps the promise ({short(kept)} of {short(finished)} a second)"
    return f"{told if kept else 'no request keeps the promise'}; judged by mean TTFT, "


def _most(rows: Rows) -> tuple[float, float]:
    """Requests a second, on the mean of the draws, that kept the promise, and that finished: of
    the row that kept it most often.
    """
    return max(
        (
            sum(cell.goodput or 0.0 for cell in row) / len(row),
            sum(cell.requests_per_second for cell in row) / len(row),
        )
        for row in rows
    )
