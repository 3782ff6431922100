"""What a user must know of a trace before its figures: seen in its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

UNIT = {
    "ms": "times with fractions are read as milliseconds; if they are seconds, say --time-unit s",
    "s": "whole numbers are read as seconds, as rows with chat_id have them; if they are "
    "milliseconds, say --time-unit ms",
}
_CHAINED = (
    "ids are of single blocks, for one stands behind different ids: they were chained, so that an "
    "id counts together with all before it"
)
_TOKENS_A_SECOND = 1_000_000
"""More prompt tokens than this in each second are seldom traffic; a wrong unit of time is."""


def remarks(
    columns: Mapping[str, Any], block_size: int, ids_repeat: bool, unit_is_given: bool
) -> Iterator[str]:
    """A sentence for each thing that is unusual.

    Args:
        columns: As `kvframe._core.Trace.columns` has them.
        block_size: Tokens a block.
        ids_repeat: Whether reading has chained the ids.
        unit_is_given: Whether the caller has said what times are in.
    """
    times, inputs = columns["timestamp_ms"], columns["input_tokens"]
    requests = len(times)
    span = int(times[-1]) - int(times[0])
    tokens = int(inputs.sum())
    if requests > 1 and not unit_is_given:
        if span == 0:
            yield f"all {requests:,} requests come at the same time"
        elif tokens / span * 1_000 > _TOKENS_A_SECOND:
            yield (
                f"{requests:,} requests with {tokens:,} prompt tokens come within {span / 1000:,g} "
                "s; if the times are not milliseconds, say --time-unit s"
            )
    short = int((inputs < block_size).sum())
    if short == requests:
        yield f"no prompt fills a block of {block_size} tokens: nothing can hit in engine mode"
    elif short * 2 > requests:
        yield f"{short:,} of {requests:,} prompts fill no block of {block_size} tokens"
    if ids_repeat:
        yield _CHAINED
