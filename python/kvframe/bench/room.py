"""Sizes that are tried where none is asked for, and requests that are larger than a size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from kvframe.bench.capacity import parse_blocks
from kvframe.bench.cells import Plan
from kvframe.bench.traces import Source, shipped


def sizes_by_default(
    source: Source, mode: str, blocks: Sequence[str], shares: Sequence[str]
) -> list[int]:
    """``blocks`` of a shipped trace. Of any other ``shares`` of its distinct blocks, none below its
    largest request, as `kvframe.bench.curve.spaced` begins there.
    """
    known = source.name in shipped()
    distinct = 0 if known else source.trace.prepare(mode)["unique_blocks"]
    least = 1 if known else _largest(source, mode)
    found = (
        size.blocks(source.trace.block_size, distinct)
        for size in parse_blocks(blocks if known else shares)
    )
    return list(dict.fromkeys(max(size, least) for size in found))


def told_shares(source: Source, mode: str, shares: Sequence[str]) -> list[str]:
    """A remark that the shares were chosen; none of a shipped trace."""
    if source.name in shipped():
        return []
    distinct, least = source.trace.prepare(mode)["unique_blocks"], _largest(source, mode)
    (smallest, *_) = parse_blocks(shares[:1])
    raised = f", but at least the {least:,} of its largest request"
    return [
        f"{source.name}: no --capacity, so {', '.join(shares)} of its {distinct:,} distinct blocks"
        f"{raised if smallest.blocks(source.trace.block_size, distinct) < least else ''}."
    ]


def larger(plans: Iterable[Plan]) -> list[str]:
    """Where requests are larger than sizes, a sentence a trace and mode: how many, by size."""
    asked: dict[tuple[object, ...], list[Plan]] = {}
    for plan in plans:
        if plan.capacity is not None:
            asked.setdefault((*plan.group, plan.source.arrival_seed), []).append(plan)
    told: dict[str, None] = {}
    for group in asked.values():
        source, mode = group[0].source, group[0].mode
        taken = taken_blocks(source, mode)
        counts = {
            size: int((taken > size).sum())
            for size in sorted({plan.capacity for plan in group if plan.capacity is not None})
        }
        words = ", ".join(
            f"{count:,} request{' is' if count == 1 else 's are'} larger than {size:,} blocks"
            for size, count in counts.items()
            if count
        )
        fate = "rejected" if mode == "timed" else "cached as far as there is room"
        if words:
            where = f"{source.name}, {mode} mode"
            told[f"{where}: {words}, the largest {taken.max():,}; they are {fate}."] = None
    return list(told)


def _largest(source: Source, mode: str) -> int:
    return int(taken_blocks(source, mode).max(initial=1))


def taken_blocks(source: Source, mode: str) -> npt.NDArray[np.int64]:
    """Blocks that each request takes for itself: of its prompt; by the clock of its answer too."""
    columns, size = source.trace.columns(), source.trace.block_size
    tokens: npt.NDArray[np.int64] = columns["input_tokens"].astype(np.int64)
    if mode == "timed":
        tokens += columns["output_tokens"]
    if mode != "engine":  # there a partial block is none
        tokens += size - 1
    tokens //= size
    return tokens
