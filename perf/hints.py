"""``python -m perf.hints``: what hints about sessions would buy.

Hints are taken from the trace itself: that a session is over, when it returns (with noise), how
long a tool call takes. Each replay serves the whole trace through a `KVCacheManager`, one request
at a time, and tells it after each request what the hint says of that session. The table is of the
share of the gap from lru to opt that is closed, with a paired bootstrap interval over sessions, and
stands in docs/how-to/retention.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kvframe import Keep, KVCacheManager, Request, _core
from kvframe.bench.bootstrap import drawn_rates
from kvframe.bench.traces import load
from kvframe.policies import NO_NEXT_USE
from kvframe.retention import DEFAULT_PRIORITY
from perf.pages import write_page
from perf.sessions import NONE, Turns, turns_of
from perf.table import table
from perf.workloads import SIZE, made, rows

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "retention.md"
CAPACITIES = {
    "conversation": (2_000, 8_000),
    "synthetic": (1_000, 4_000),
    "agent": (2_000, 4_000, 8_000),
}
CHAT_SHARES = (0.03, 0.1)
"""Capacities of made-up chat, by its blocks that differ."""
TOOL_MS = 60_000
"""A pause up to this long counts as a tool call."""
LEVELS = (2.5, 97.5)
SEED = 22

Hits = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Hints:
    """What is told, and under which policy.

    Attributes:
        label: Of the table.
        policy: Eviction policy.
        ended: The session's last request says so: `kv.pins.hint(session, "release")`.
        returns: Every request says when the session returns: the deviation of the logarithm of the
            pause that is told, by that of the true one. ``next-use`` is told in
            ``Request(next_use=)``, others by ``"retain"``, the more the sooner; None tells nothing.
        longest: Only pauses of so many milliseconds are told: what a tool call takes.
    """

    label: str
    policy: str = "lru"
    ended: bool = False
    returns: float | None = None
    longest: float = math.inf


CHOICES = (
    Hints("lru, session ended", ended=True),
    Hints("lru, pauses up to a minute", returns=0.0, longest=TOOL_MS),
    Hints("lru, pauses up to a minute, noise 0.5", returns=0.5, longest=TOOL_MS),
    Hints("lru, return", returns=0.0),
    Hints("lru, return, noise 0.1", returns=0.1),
    Hints("lru, return, noise 0.5", returns=0.5),
    Hints("lru, return, noise 1.0", returns=1.0),
    Hints("lru, session ended, return, noise 0.5", returns=0.5, ended=True),
    Hints("next-use, return", "next-use", returns=0.0),
    Hints("next-use, return, noise 0.5", "next-use", returns=0.5),
    Hints("next-use, return, noise 1.0", "next-use", returns=1.0),
    Hints("foresight", "foresight"),
    Hints("foresight, session ended", "foresight", ended=True),
    Hints("foresight, session ended, return, noise 0.5", "foresight", returns=0.5, ended=True),
)


def cells() -> Iterator[tuple[str, _core.Trace, int]]:
    """Name, trace and capacity."""
    for name, capacities in CAPACITIES.items():
        trace = load(name).trace
        yield from ((name, trace, capacity) for capacity in capacities)
    prompts = made("chat", 0)
    trace = _core.Trace.parse(b"".join(rows(prompts)), "made-up chat", SIZE)
    unique = len({block for prompt in prompts for block in prompt})
    yield from (("made-up chat", trace, int(unique * share)) for share in CHAT_SHARES)


def replay(trace: _core.Trace, turns: Turns, capacity: int, hints: Hints) -> Hits:
    """Hit tokens of each request."""
    kv = KVCacheManager.from_toml(
        cache={"block_size": trace.block_size, "capacity": capacity},
        eviction={"policy": hints.policy},
        retention={"sessions": hints.ended or hints.returns is not None},
    )
    wrong = np.random.default_rng(SEED).standard_normal(trace.requests)
    hits = np.zeros(trace.requests, np.int64)
    for at in range(trace.requests):
        now, tokens, _, _, nodes = trace.request(at)
        kv.expire_until(max(now, 0))
        count = tokens // trace.block_size
        if count > capacity or tokens == 0:
            continue
        pause, session = _told(hints, int(turns.pause[at]), wrong[at]), int(turns.session[at]) + 1
        asked = Request(
            None,
            keys=np.array([(node + 1, 1) for node in nodes[:count]], np.uint64).reshape(-1, 2),
            num_tokens=tokens,
            session=session,
            turn=int(turns.turn[at]),
            next_use=_next_use(hints, now, pause, count),
        )
        # A partial block takes no room, as in a replay in engine mode.
        given = kv.allocate(asked, until=count * trace.block_size)
        hits[at] = given.cached_tokens
        kv.commit(given.seq, count * trace.block_size)
        kv.release(given.seq)
        if hints.ended and turns.pause[at] == NONE:
            kv.pins.hint(session, "release")
        if hints.policy != "next-use" and pause != NONE:
            kv.pins.hint(session, "retain", keep=kept(pause))
    return hits


def kept(pause: int) -> Keep:
    """The sooner a session returns, the more its blocks are worth, until it is overdue by half."""
    octaves = round(2 * math.log2(1 + pause / 1_000))
    return Keep(max(DEFAULT_PRIORITY + 1, 60 - octaves), duration=pause + pause // 2 + 1)


def _told(hints: Hints, pause: int, wrong: float) -> int:
    if hints.returns is None or pause == NONE or pause > hints.longest:
        return NONE
    return int(pause * math.exp(hints.returns * wrong))


def _next_use(hints: Hints, now: int, pause: int, count: int) -> npt.NDArray[np.uint32] | None:
    if hints.policy != "next-use":
        return None
    return np.full(count, NO_NEXT_USE if pause == NONE else now + pause, np.uint32)


def closed(trace: _core.Trace, capacity: int) -> dict[str, str]:
    """Of each choice, the share of the gap that it closes, in percent, and its interval."""
    turns, tokens = turns_of(trace), trace.columns()["input_tokens"]
    columns = {}
    for policy in ("lru", "opt"):
        got = _core.replay(trace, policy, capacity, "engine", per_request=True)
        columns[policy] = got["request_hit_tokens"].astype(np.int64)
    plain = replay(trace, turns, capacity, Hints("lru"))
    if not np.array_equal(plain, columns["lru"]):
        raise AssertionError(f"{trace.name}, {capacity}: the two ways to serve a trace differ")
    columns |= {hints.label: replay(trace, turns, capacity, hints) for hints in CHOICES}
    drawn = drawn_rates(list(columns.values()), tokens, turns.session)
    rates = np.array([hits.sum() for hits in columns.values()]) / tokens.sum()
    told = {}
    for at, name in enumerate(columns):
        low, high = np.percentile(
            100 * (drawn[:, at] - drawn[:, 0]) / (drawn[:, 1] - drawn[:, 0]), LEVELS
        )
        share = 100 * (rates[at] - rates[0]) / (rates[1] - rates[0])
        told[name] = f"{share:.0f} [{low:.0f}, {high:.0f}]"
    return told | {name: f"{100 * rates[at]:.1f} %" for at, name in enumerate(("lru", "opt"))}


def measured(only: str | None) -> str:
    """The table, of one trace or of all."""
    columns = {}
    for name, trace, capacity in cells():
        if only in (None, name):
            columns[f"{name}, {capacity:,}"] = closed(trace, capacity)
            print(f"{name}, {capacity:,} blocks: done", file=sys.stderr)
    lines = [
        [what, *(found[what] for found in columns.values())]
        for what in columns[next(iter(columns))]
    ]
    return table(["hits, or % of the gap closed", *columns], lines)


if __name__ == "__main__":
    write_page(PAGE, "perf.hints", __doc__, measured)
