"""What a trace can reuse at best, how soon and by which class; and when policies cannot matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.errors import UsageError
from kvframe.traces.forms.objects import Whole
from kvframe.traces.remarks import UNIT, RequestTotals, remarks
from kvframe.traces.source import OpenTrace, ReadOptions, open_trace

SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Capacities of lru's curve, as shares of the distinct blocks."""

PREFIXES = 5
"""How many shared prefixes are named, by what they save and by how many requests have them."""

REPEATED = (
    "{repeated:,} of {requests:,} prompts are, as far as blocks tell, ones that came before: such "
    "traffic measures a cache of answers, and says little of policies"
)

_EVERY = 2**63
"""A capacity that holds everything."""

ENOUGH = 0.99
"""With this share of the ceiling, what a policy does hardly changes a hit rate."""


class Spread(msgspec.Struct, frozen=True):
    """A quantity over requests or sessions: mean, median, 90th, 95th, 99th percentile, most."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    most: int

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Spread:
        """Of at least one value; percentiles by nearest rank."""
        ranks = np.percentile(values, (50, 90, 95, 99), method="inverted_cdf")
        p50, p90, p95, p99 = map(float, ranks)
        return cls(float(values.mean()), p50, p90, p95, p99, int(values.max()))


class Reuse(msgspec.Struct, frozen=True):
    """Requests of a class: their prompt tokens, and those that a cache without a limit has."""

    name: str
    requests: int
    input_tokens: int
    hit_tokens: int


class Point(msgspec.Struct, frozen=True):
    """lru with one capacity; ``hit_tokens`` is exact from the longest prompt on. The last half are
    the requests with index n / 2 and above: the others then only fill the cache.
    """

    blocks: int
    hit_tokens: int
    hit_tokens_last_half: int


class Prefix(msgspec.Struct, frozen=True):
    """A prefix that several requests have, as far as all of them have it.

    ``reuse_tokens`` need not be computed if it is kept: its tokens times all requests but the
    first.
    """

    tokens: int
    requests: int
    reuse_tokens: int


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a trace. Tokens are prompt tokens where nothing else is said.

    Attributes:
        name: As it was asked for.
        form: As it was recognised.
        mode: What counts as a hit: "engine" (full blocks, never the last token) or "trace".
        requests: Requests.
        span_seconds: From the first arrival to the last.
        sessions: Sessions that rows name.
        in_sessions: Requests with a session.
        per_session: Requests a session; None without sessions.
        top_sessions: Share of the tokens that the tenth of sessions with the most tokens have.
        input_tokens: Their sum.
        output_tokens: Tokens generated.
        input_length: Tokens a prompt.
        output_length: Tokens an answer.
        block_size: Tokens a block.
        block_accesses: Blocks asked for.
        unique_blocks: Distinct ones: the working set.
        longest_prompt: In blocks.
        ceiling_hit_tokens: Tokens that a cache without a limit has.
        repeated_prompts: Requests whose blocks are those of an earlier request and no others.
        same_session_tokens: Of these, tokens of blocks that the same session used last.
        ages: Seconds, and the share of reused tokens whose block was used within them.
        classes: By class, requests without one under "".
        prefixes_by_tokens: Shared prefixes by what they save, a few; None where the trace has more
            than 2^24 distinct blocks. One may be the start of another.
        prefixes_by_requests: The same by how many requests have them.
        input_tokens_last_half: Prompt tokens of the last half of the requests.
        ceiling_hit_tokens_last_half: Of those, what a cache without a limit has.
        lru: lru at some capacities.
        enough_blocks: Capacity with which lru has 99 % of the ceiling; more room or another policy
            can gain no more than the rest.
        all_blocks: Capacity with which lru has the whole ceiling.
        bytes: Read, unpacked.
        seconds: That reading took.
        remarks: What these figures depend on.
    """

    name: str
    form: str
    mode: str
    requests: int
    span_seconds: float
    sessions: int
    in_sessions: int
    per_session: Spread | None
    top_sessions: float | None
    input_tokens: int
    output_tokens: int
    input_length: Spread
    output_length: Spread
    block_size: int
    block_accesses: int
    unique_blocks: int
    longest_prompt: int
    ceiling_hit_tokens: int
    repeated_prompts: int
    same_session_tokens: int
    ages: Sequence[tuple[float, float]]
    classes: Sequence[Reuse]
    prefixes_by_tokens: Sequence[Prefix] | None
    prefixes_by_requests: Sequence[Prefix] | None
    input_tokens_last_half: int
    ceiling_hit_tokens_last_half: int
    lru: Sequence[Point]
    enough_blocks: int
    all_blocks: int
    bytes: int
    seconds: float
    remarks: Sequence[str]

    @property
    def ceiling(self) -> float:
        """The token hit rate of a cache without a limit."""
        return self.ceiling_hit_tokens / max(self.input_tokens, 1)


def info(name: str, options: ReadOptions, mode: str = "engine") -> Info:
    """The figures of a trace, in one pass that keeps its distinct blocks and no request's list.

    Raises:
        TraceError: It cannot be read; names file and line.
        ConfigError: An option has an impossible value.
        UsageError: ``mode`` is neither "engine" nor "trace".
    """
    if mode not in ("engine", "trace"):
        raise UsageError(f"mode = {mode!r}: must be engine or trace")
    with open_trace(name, options) as found:
        if found.reader.name in ("oracle-general", "libcachesim-csv"):
            mode = "trace"  # of a prompt of one block, an engine computes the last token
        profile = _core.TraceProfile.read(
            found.file,
            found.label,
            mode,
            found.block_size,
            found.time_unit,
            found.core_form,
            sort=found.sort,
        )
    return _info(found, mode, profile, options)


def _info(found: OpenTrace, mode: str, profile: _core.TraceProfile, options: ReadOptions) -> Info:
    unit_is_given = options.time_unit is not None or isinstance(found.reader, Whole)
    source, facts = profile.source(), profile.facts()
    sizes = sorted({max(1, round(share * facts["unique_blocks"])) for share in SHARES})
    hits, late = profile.lru_hits(sizes), profile.lru_hits_last_half([*sizes, _EVERY])
    prefixes = profile.shared_prefixes(PREFIXES)
    by_tokens, by_requests = (None, None) if prefixes is None else map(_prefixes, prefixes)
    # One column at a time: those of a large trace are large.
    outputs = _column(profile, "output_tokens")
    answers, output_tokens = Spread.of(outputs), int(outputs.sum())
    del outputs
    times = _column(profile, "timestamp_ms")
    ends, requests = (int(times[0]), int(times[-1])), len(times)
    del times
    inputs = _column(profile, "input_tokens")
    per_session, top, in_sessions, sessions = _sessions(_column(profile, "session"), inputs)
    totals = RequestTotals.of(inputs, ends, source["block_size"])
    told = [
        *found.remarks,
        *remarks(totals, source["ids_repeat"], unit_is_given, options.block_size),
    ]
    if source["unit_in_doubt"] and source["time_unit"] in UNIT:
        told.append(UNIT[source["time_unit"]])
    if 2 * facts["repeated"] > requests:
        told.append(REPEATED.format(repeated=facts["repeated"], requests=requests))
    names = ["", *source["classes"]]
    return Info(
        name=found.label,
        form=found.reader.name,
        mode=mode,
        requests=requests,
        span_seconds=(ends[1] - ends[0]) / 1_000,
        sessions=sessions,
        in_sessions=in_sessions,
        per_session=per_session,
        top_sessions=top,
        input_tokens=totals.tokens,
        output_tokens=output_tokens,
        input_length=Spread.of(inputs),
        output_length=answers,
        block_size=source["block_size"],
        block_accesses=facts["block_accesses"],
        unique_blocks=facts["unique_blocks"],
        longest_prompt=facts["longest"],
        ceiling_hit_tokens=facts["hit_tokens"],
        repeated_prompts=facts["repeated"],
        same_session_tokens=facts["same_session_tokens"],
        ages=_ages(facts["ages"]),
        classes=[
            Reuse(names[at], *counts) for at, counts in enumerate(facts["classes"]) if counts[0]
        ],
        prefixes_by_tokens=by_tokens,
        prefixes_by_requests=by_requests,
        input_tokens_last_half=int(inputs[len(inputs) // 2 :].sum(dtype="i8")),
        ceiling_hit_tokens_last_half=late[-1],
        lru=[Point(*point) for point in zip(sizes, hits, late[:-1], strict=True)],
        enough_blocks=profile.capacity_for(ENOUGH),
        all_blocks=profile.capacity_for(1.0),
        bytes=source["bytes"],
        seconds=source["seconds"],
        remarks=told,
    )


def _prefixes(found: Sequence[tuple[int, int]]) -> list[Prefix]:
    return [Prefix(tokens, many, tokens * (many - 1)) for tokens, many in found]


def _column(profile: _core.TraceProfile, name: str) -> npt.NDArray[Any]:
    column: npt.NDArray[Any] | None = profile.column(name)
    assert column is not None
    return column


def _sessions(
    session: npt.NDArray[np.int64], inputs: npt.NDArray[np.uint32]
) -> tuple[Spread | None, float | None, int, int]:
    """Requests a session, the share of the largest tenth, how many requests are of any, and how
    many sessions there are.
    """
    inside = session >= 0
    if not inside.any():
        return None, None, 0, 0
    requests = np.bincount(session[inside])
    tokens = np.bincount(session[inside], weights=inputs[inside].astype(np.float64))
    largest = np.sort(tokens)[::-1][: max(1, -(-len(tokens) // 10))]
    top = float(largest.sum() / max(tokens.sum(), 1.0))
    return Spread.of(requests), top, int(inside.sum()), int(session.max()) + 1


def _ages(counts: Sequence[int]) -> list[tuple[float, float]]:
    """Seconds within which some shares of the reused tokens come again: powers of two of 1 ms."""
    total = sum(counts)
    if not total:
        return []
    shares = np.cumsum(counts) / total
    found: list[tuple[float, float]] = []
    for wanted in (0.25, 0.5, 0.75, 0.9, 0.99, 1.0):
        at = int(np.searchsorted(shares, wanted - 1e-12))
        point = (float(1 << at) / 1_000 if at else 0.0, float(shares[at]))
        if point not in found:
            found.append(point)
    return found
