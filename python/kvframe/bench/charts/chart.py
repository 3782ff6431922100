"""What a chart is, before a page or matplotlib draws it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Format = Literal[
    "share", "points", "gap", "seconds", "milliseconds", "number", "count", "blocks", "percent",
    "factor", "change",
]  # fmt: skip
"""How a number is written: ``points`` and ``change`` have a sign, ``gap`` has none; all three are
shares times 100.
"""


class Axis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An axis.

    Attributes:
        label: What its numbers are, with their unit.
        format: How they are written.
        log: Whether it is logarithmic.
        round: Whether ticks stand at round numbers, not at every x.
        lead: What is written before a number in a sentence.
        unit: What is written behind it.
    """

    label: str
    format: Format
    log: bool = False
    round: bool = False
    lead: str = ""
    unit: str = ""


class Series(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy's line, or a part of every bar.

    Attributes:
        name: Of the policy, or of the part.
        y: A value at each x; None where there is none.
        low: Where the interval of each begins; empty where there is none.
        high: Where it ends.
    """

    name: str
    y: Sequence[float | None]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


class Chart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A chart.

    Attributes:
        family: What it shows: a key of `FAMILIES`.
        choice: What tells it apart from others of its family, as a reader chooses it.
        traffic: Number of the traffic that it is of; None where its choice says it.
        block_size: Tokens a block, where x is sizes in blocks.
        title: One line.
        x: Shared by all series; names of bars.
        series: What is drawn.
        x_axis: Of x.
        y_axis: Of all series.
        form: Lines, or bars of which each series is a part.
        note: What its reader should know besides.
        said: What a run itself says of it, a sentence each.
    """

    family: str
    choice: dict[str, str]
    traffic: int | None = None
    block_size: int = 0
    title: str
    x: Sequence[float] | Sequence[str]
    series: Sequence[Series]
    x_axis: Axis
    y_axis: Axis
    form: Literal["lines", "bars"] = "lines"
    note: str = ""
    said: Sequence[str] = ()


class Family(msgspec.Struct, frozen=True):
    """Charts of one kind.

    Attributes:
        link: Two words or so, for a list of contents.
        heading: Above them.
        note: What they show, and how to read it.
    """

    link: str
    heading: str
    note: str


FAMILIES = {
    "hits": Family(
        "Hit rate",
        "Hit rate by cache size",
        "The share of prompt tokens that the cache saves, over the whole trace. A shade is "
        "what other draws of as many sessions would have given (95 %). Policies move together in "
        "these draws: what lies apart is told by the comparison below, not by the shades.",
    ),
    "curves": Family(
        "Curves",
        "Hit rate at many sizes",
        "lru's curve is exact at every size, from one pass over the trace. Other policies were "
        "replayed at every size too; of a large trace at some, and the note says how far off what "
        "lies between may be.",
    ),
    "lead": Family(
        "Ahead of lru",
        "Points ahead of lru",
        "Each policy's hit rate less that of lru. Where a shade leaves out zero the "
        "difference is real: the intervals hold for all pairs and sizes at once.",
    ),
    "gap": Family(
        "Gap to the bound",
        "What is left to win",
        "Points that the optimum, which knows the future, hits more than each policy. At zero "
        "there is no better policy, only a larger cache.",
    ),
    "misses": Family(
        "Why tokens missed",
        "Where prompt tokens went",
        "Of all prompt tokens: hit; missed since the policy evicted them; since running "
        "requests held the blocks; since even the optimum cannot keep them at this size; "
        "since blocks are whole; since they were new.",
    ),
    "load": Family(
        "Latency by load",
        "What users feel, by load",
        "A simulated server. Load: the trace's requests a second times this. Where requests "
        "come faster than they are served, latency says how long the trace is, not how good "
        "the server is.",
    ),
    "tiers": Family(
        "Tiers",
        "What tiers below the pool bring",
        "A simulated server, without and with tiers. A tier pays where its part of the bar is "
        "wide and the line with it runs below the line without.",
    ),
    "over-time": Family(
        "Over time",
        "Hit rate over time",
        "The share of prompt tokens hit in each stretch of the trace, of as many requests each.",
    ),
    "content": Family(
        "Cache content",
        "What the cache holds over time",
        "Blocks that a later request finds before they are evicted, as a share of the cache. "
        "The rest of it is empty, or of no use until it is evicted.",
    ),
    "requests": Family(
        "By request",
        "From request to request",
        "Requests in the order of what they got, so that the middle of the axis is the median "
        "request.",
    ),
}


def rounded(values: Iterable[float | None], digits: int = 6) -> list[float | None]:
    """Values with as many digits as are worth their room in a file."""
    return [None if value is None else round(value, digits) for value in values]
