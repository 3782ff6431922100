"""``python -m perf.facts``: what a policy loses with each fact that engines do not tell.

Traces are served through a `TierPolicy`, one request at a time: what a policy is at the plug points
of other engines, where a block knows neither parent nor children. Facts of requests and places are
told there, and then each is taken away. Sessions are those of `perf.sessions`. No shipped trace has
classes. The table stands in docs/how-to/other-engines.md; a change with a * is real: its paired
bootstrap interval over sessions, which holds for all changes of a cell at once, leaves out zero.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import _core
from kvframe.bench.bootstrap import drawn_rates, simultaneous
from kvframe.bench.traces import load
from kvframe.flat import Access, TierPolicy, resolve
from perf.cells import small
from perf.pages import write_page
from perf.sessions import Turns, turns_of
from perf.table import table

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "other-engines.md"

GOES_BY = {
    "foresight": ("turns that built the prefix", "place"),
    "workload": ("turns that built the prefix",),
    "session": ("session", "turn"),
    "ttl": ("session",),
    "gdsf": ("place",),
    "marconi": ("place",),
    "longest-first": ("place",),
}
"""The policies that go by a fact which some plug point does not tell, and those facts."""
PREFIX = "turns that built the prefix"
"""Lost at every plug point: known to a manager alone."""

Hits = npt.NDArray[np.int64]


def told_trace(trace: _core.Trace, turns: Turns) -> _core.Trace:
    """The trace with its sessions as names of its rows."""

    def row(at: int) -> bytes:
        time, tokens, answer, _, nodes = trace.request(at)
        told = {"timestamp": time, "input_length": tokens, "output_length": answer}
        session = int(turns.session[at]) + 1
        return json.dumps({**told, "hash_ids": nodes, "session_id": session}).encode() + b"\n"

    rows = b"".join(row(at) for at in range(trace.requests))
    return _core.Trace.parse(rows, trace.name, trace.block_size)


def in_manager(trace: _core.Trace, policy: str, capacity: int) -> Hits:
    """Hit tokens of each request with every fact."""
    got = _core.replay(trace, policy, capacity, "engine", per_request=True)
    hits: Hits = got["request_hit_tokens"].astype(np.int64)
    return hits


def at_plug_point(
    trace: _core.Trace, turns: Turns, policy: str, capacity: int, without: str = ""
) -> Hits:
    """Hit tokens of each request where ``without`` is not told."""
    size = trace.block_size
    tier: TierPolicy[int] = TierPolicy(
        resolve(policy), capacity, name=lambda node: node.to_bytes(8, "little"), block_size=size
    )
    hits = np.zeros(trace.requests, np.int64)
    for at in range(trace.requests):
        _, tokens, _, _, nodes = trace.request(at)
        nodes = nodes[: tokens // size]
        if len(nodes) > capacity:
            continue
        session = 0 if without == "session" else int(turns.session[at]) + 1
        turn = 0 if without == "turn" else int(turns.turn[at])
        use = Access(tokens=tokens, session=session, turn=turn)
        here = [node for node in nodes if node in tier]
        missing = [(place, node) for place, node in enumerate(nodes) if node not in tier]
        found = missing[0][0] if missing else len(nodes)
        hits[at] = min(found, (tokens - 1) // size) * size
        tier.hit(here, use)
        tier.acquire(here)
        tier.on_miss([node for _, node in missing])
        over = len(tier) + len(missing) - capacity
        if over > 0:
            tier.victims(over)
        for place, node in missing:
            tier.insert(node, depth=0 if without == "place" else place, use=use)
        tier.release(nodes)
    return hits


def cell(name: str, capacity: int) -> dict[tuple[str, str], str]:
    """For each policy and fact, the gain over lru with it and without it, in points."""
    trace = load(name).trace
    turns = turns_of(trace)
    tokens = trace.columns()["input_tokens"]
    whole = told_trace(trace, turns)
    above = in_manager(whole, "lru", capacity)
    plain = at_plug_point(trace, turns, "lru", capacity)
    gains: dict[tuple[str, str], tuple[Hits, Hits]] = {}
    for policy, facts in GOES_BY.items():
        told = at_plug_point(trace, turns, policy, capacity) - plain
        for fact in facts:
            if fact == PREFIX:
                gains[policy, fact] = in_manager(whole, policy, capacity) - above, told
            else:
                less = at_plug_point(trace, turns, policy, capacity, fact) - plain
                gains[policy, fact] = told, less
    return _told(gains, tokens, turns)


def _told(
    gains: Mapping[tuple[str, str], tuple[Hits, Hits]], tokens: npt.NDArray[Any], turns: Turns
) -> dict[tuple[str, str], str]:
    changes = [after - before for before, after in gains.values()]
    total = tokens.sum()
    estimate = np.array([change.sum() / total for change in changes])
    real = simultaneous(estimate, drawn_rates(changes, tokens, turns.session)).real
    told = {}
    for at, (key, pair) in enumerate(gains.items()):
        before, after = (f"{100 * one.sum() / total:+.1f}" for one in pair)
        told[key] = f"{before} → {after}{' *' if real[at] else ''}"
    return told


def measured(only: str | None) -> str:
    """The table, of one trace or of all."""
    columns = {}
    for name in ("conversation", "synthetic", "agent"):
        if only not in (None, name):
            continue
        for capacity in small(name)[-2:]:
            columns[f"{name}, {capacity:,}"] = cell(name, capacity)
            print(f"{name}, {capacity:,} blocks: done", file=sys.stderr)
    keys = [(policy, fact) for policy, facts in GOES_BY.items() for fact in facts]
    lines = [[*key, *(found[key] for found in columns.values())] for key in keys]
    return table(["policy", "without", *columns], lines)


if __name__ == "__main__":
    write_page(PAGE, "perf.facts", __doc__, measured)
