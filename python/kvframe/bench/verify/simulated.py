"""A saved simulation beside what a server has counted."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvframe.bench.server.report import ServerResult
from kvframe.bench.verify.compare import Row
from kvframe.bench.verify.scrape import scraped
from kvframe.errors import UsageError


def beside(predicted: Path, metrics: Path) -> list[Row]:
    """A row for each simulation of a file, beside the text of a server.

    Raises:
        UsageError: One of the files is not what it should be.
    """
    try:
        result = msgspec.json.decode(predicted.read_bytes(), type=ServerResult)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{predicted}: not of `kvframe bench serve --format json`: {error}"
        ) from None
    told = scraped(metrics.read_text(encoding="utf-8", errors="replace"), str(metrics))
    cells = [cell for cell in result.cells if cell.time_factor == 1.0]
    for cell in cells:
        if cell.requests != told.requests:
            raise UsageError(
                f"{metrics}: counts {told.requests:,} requests, but {cell.trace} of {predicted} "
                f"has {cell.requests:,}: send these alone, to a server that has just started"
            )
    return [
        Row(
            where=f"{cell.trace}, {cell.capacity_blocks} blocks of {cell.block_size} tokens",
            policy=cell.policy,
            load=cell.load,
            requests=cell.requests,
            hit=told.hit,
            hit_predicted=cell.token_hit_rate,
            ttft_mean=told.ttft_mean,
            ttft_p50=told.ttft_p50,
            ttft_mean_predicted=cell.ttft_mean,
            ttft_p50_predicted=cell.ttft_p50,
            preemptions=cell.preemptions,
        )
        for cell in cells
    ]
