"""What a user must know about a trace before reading its figures, judged by its requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy.typing as npt

UNIT = {
    "ms": "times with fractions are read as milliseconds; if they are seconds, say --time-unit s",
    "s": "whole numbers are read as seconds, as rows with chat_id have them; if they are "
    "milliseconds, say --time-unit ms",
}
_CHAINED = (
    "ids are of single blocks, for one stands behind different ids: they were chained, so that an "
    "id counts together with all before it"
)
_EPOCH_S = 10**9
"""September 2001 in seconds since 1970."""
_TOKENS_A_SECOND = 1_000_000
"""More prompt tokens than this in each second are seldom traffic; a wrong unit of time is."""


class RequestTotals(NamedTuple):
    """Requests in numbers.

    Attributes:
        requests: How many.
        tokens: Of their prompts.
        short: Prompts that fill no block.
        start_ms: First arrival.
        end_ms: Last arrival.
        block_size: Tokens a block.
    """

    requests: int
    tokens: int
    short: int
    start_ms: int
    end_ms: int
    block_size: int

    @classmethod
    def of(
        cls, inputs: npt.NDArray[Any], times_ms: tuple[int, int], block_size: int
    ) -> RequestTotals:
        """Of prompts with these lengths; the times are those of the first and the last."""
        short = int((inputs < block_size).sum())
        return cls(len(inputs), int(inputs.sum(dtype="i8")), short, *times_ms, block_size)


def remarks(
    totals: RequestTotals, ids_repeat: bool, unit_is_given: bool, asked_block_size: int | None
) -> Iterator[str]:
    """A sentence for each thing that is unusual.

    Args:
        totals: Of the requests.
        ids_repeat: Whether reading has chained the ids.
        unit_is_given: Whether the caller has said what times are in.
        asked_block_size: Tokens a block, as the caller has said; None if they have not.
    """
    requests, tokens, short, start, end, block_size = totals
    span = end - start
    if asked_block_size not in (None, block_size):
        yield f"--block-size {asked_block_size} is ignored: the trace has blocks of {block_size}"
    if not unit_is_given and _EPOCH_S <= start < end < _EPOCH_S * 4:
        yield (
            f"times such as {start:,} look like seconds since 1970, and are read as milliseconds: "
            "--time-unit s"
        )
    elif requests > 1 and not unit_is_given:
        if span == 0:
            yield f"all {requests:,} requests come at the same time"
        elif tokens / span * 1_000 > _TOKENS_A_SECOND:
            yield (
                f"{requests:,} requests with {tokens:,} prompt tokens come within {span / 1000:,g} "
                "s; if the times are not milliseconds, say --time-unit s"
            )
    if short == requests:
        yield f"no prompt fills a block of {block_size} tokens: nothing can hit in engine mode"
    elif short * 2 > requests:
        yield f"{short:,} of {requests:,} prompts fill no block of {block_size} tokens"
    if ids_repeat:
        yield _CHAINED
