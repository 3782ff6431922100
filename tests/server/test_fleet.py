"""Several servers and a router: what each routing sends where, and what the router knows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kvframe import _core
from kvframe.bench.policies import choose
from kvframe.bench.traces import load
from kvframe.errors import UsageError
from kvframe.registry import Registry

from .test_steps import assert_same
from .traffic import BLOCK, roofline, rows, serve, small

ROUTER = (
    "routing",
    "queue",
    "max_load_ratio",
    "load",
    "prefill",
    "decode",
    "delay",
    "loss",
    "seed",
    "counts_copies",
)


def fleet(trace: _core.Trace, policies: list[object], capacity: int, **how: Any) -> dict[str, Any]:
    router = {"routing": "round-robin", **{name: how.pop(name) for name in ROUTER if name in how}}
    engines = [{"policy": policy} for policy in policies]
    profile = how.pop("profile", None) or roofline()
    got: dict[str, Any] = _core.serve(trace, engines, capacity, profile, router=router, **how)
    return got


def reused(raw: dict[str, Any]) -> int:
    return int(raw["cached_tokens"].sum())


def test_round_robin_gives_each_server_every_nth_row() -> None:
    lines = rows().splitlines(keepends=True)
    raw = fleet(small(), ["lru"] * 3, 80, load=1.0, cache_generated=False)
    assert (raw["engine_of"] == np.arange(120) % 3).all()
    for first in range(3):
        part = _core.Trace.parse("".join(lines[first::3]).encode(), "part", BLOCK)
        alone = serve(part, "lru", 80, cache_generated=False)
        for name in ("arrival", "start", "first_token", "end", "cached_tokens", "preemptions"):
            assert raw[name][first::3].tobytes() == alone[name].tobytes(), name
        assert raw["engines"][first]["evictions"] == alone["evictions"]


def test_a_session_stays_where_it_was_first_sent() -> None:
    turns = [
        row | {"session_id": f"s{i * 7 % 9}"}
        for i, row in enumerate(map(json.loads, rows().splitlines()))
    ]
    text = "".join(json.dumps(turn) + "\n" for turn in turns)
    trace = _core.Trace.parse(text.encode(), "sessions", BLOCK)
    raw = fleet(trace, ["lru"] * 4, 80, routing="session")
    session = trace.columns()["session"]
    for one in range(9):
        assert len(set(raw["engine_of"][session == one].tolist())) == 1
    assert len(set(raw["engine_of"].tolist())) == 4


def test_prefixes_reuse_most_and_late_or_lost_events_reuse_less() -> None:
    trace = load("synthetic").trace
    how = {"load": 0.5, "routing": "prefix"}
    known = fleet(trace, ["lru"] * 4, 1000, **how)
    late = fleet(trace, ["lru"] * 4, 1000, delay=60.0, **how)
    lost = fleet(trace, ["lru"] * 4, 1000, loss=0.5, **how)
    spread = fleet(trace, ["lru"] * 4, 1000, load=0.5)
    assert reused(spread) < min(reused(late), reused(lost))
    assert max(reused(late), reused(lost)) < reused(known)
    assert (known["messages_lost"], late["messages_lost"]) == (0, 0)
    assert 0.4 < lost["messages_lost"] / lost["messages"] < 0.6
    # A request that starts when it arrives finds what the router was told.
    at_once = known["start"] == known["arrival"]
    assert at_once.sum() > 100
    assert (known["promised_tokens"] == known["cached_tokens"])[at_once].all()


def test_a_bound_on_requests_spreads_what_prefixes_gather() -> None:
    """All prompts begin alike: without a bound they follow the first one."""
    how = {"routing": "prefix", "queue": 0.0}
    gathered = fleet(small(), ["lru"] * 4, 200, **how)
    assert np.bincount(gathered["engine_of"]).tolist() == [120]
    spread = fleet(small(), ["lru"] * 4, 200, max_load_ratio=1.5, **how)
    assert np.bincount(spread["engine_of"], minlength=4).min() > 10
    loose = fleet(small(), ["lru"] * 4, 200, max_load_ratio=4.0, **how)
    assert_same(loose, gathered)


def test_less_goes_over_the_link_where_prompts_go_on_by_what_is_there() -> None:
    trace = load("synthetic").trace
    how: dict[str, Any] = {"load": 0.25, "prefill": (1, 50e9, 2e-5, 1e5)}
    fewest = fleet(trace, ["lru"] * 4, 1000, **how)
    alike = fleet(trace, ["lru"] * 4, 1000, decode=("least-loaded", 1.0, None, 64.0), **how)
    assert_same(fewest, alike)
    aware = fleet(trace, ["lru"] * 4, 1000, decode=("kv-aware", 1.0, None, 64.0), **how)
    assert aware["handed_tokens"] < 0.9 * fewest["handed_tokens"]


def test_the_same_twice_and_another_seed_loses_others() -> None:
    how: dict[str, Any] = {"routing": "prefix", "loss": 0.3, "delay": 0.01}
    one = fleet(small(), ["lru"] * 3, 60, seed=1, **how)
    assert_same(one, fleet(small(), ["lru"] * 3, 60, seed=1, **how))
    other = fleet(small(), ["lru"] * 3, 60, seed=2, **how)
    assert one["engine_of"].tobytes() != other["engine_of"].tobytes()


def test_policies_see_how_many_others_hold_a_block() -> None:
    policy = choose("tests/server/last_copy.py:LastCopy", Registry())
    made = [policy.engine_policy(BLOCK).policy for _ in range(4)]
    told = fleet(small(), made, 150, counts_copies=True)
    blind = fleet(small(), [policy.engine_policy(BLOCK).policy for _ in range(4)], 150)
    lru = fleet(small(), ["lru"] * 4, 150)
    # Not told of any copies, it is lru.
    assert blind["cached_tokens"].tobytes() == lru["cached_tokens"].tobytes()
    assert told["cached_tokens"].tobytes() != lru["cached_tokens"].tobytes()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"routing": "random"},
            'routing = "random": must be one of round-robin, least-loaded, prefix, session',
        ),
        ({"max_load_ratio": 0.0}, "max_load_ratio = 0: must be above 0"),
        ({"load": -1.0}, "load = -1: must be 0 or more"),
        (
            {"prefill": (1, 1e9, 0.0, 8.0), "decode": ("any", 1.0, None, 64.0)},
            'decode routing = "any": must be one of round-robin',
        ),
        ({"loss": 1.5}, "loss = 1.5: must be 0 to 1"),
        ({"delay": -1.0}, "delay = -1: must be 0 or more"),
        ({"max_num_seqs": 0}, "max_num_seqs = 0: must be at least 1"),
    ],
)
def test_impossible_fleets_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fleet(small(), ["lru"] * 2, 80, **how)


def test_no_servers_and_fixed_rates_are_refused() -> None:
    with pytest.raises(UsageError, match="0 engines: must be 1, or up to 64 behind a router"):
        fleet(small(), [], 80)
    with pytest.raises(UsageError, match="2 engines: must be 1, or up to 64 behind a router"):
        _core.serve(small(), [{"policy": "lru"}] * 2, 80, roofline())
    fixed = _core.StepProfile.fixed(prefill=20_000.0, decode=0.005)
    with pytest.raises(UsageError, match="at fixed rates there are no steps, and no router"):
        fleet(small(), ["lru"] * 2, 80, profile=fixed)


def test_a_flood_brings_other_prompts_of_one_class() -> None:
    lines = [json.loads(line) | {"type": "ab"[i % 2]} for i, line in enumerate(rows().splitlines())]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    trace = _core.Trace.parse(text.encode(), "classes", BLOCK)
    flooded = trace.flooded("a", 3)
    number = flooded.class_numbers()
    assert (flooded.requests, int((number == 1).sum()), int((number == 2).sum())) == (240, 180, 60)
    # With room for all, copies find what the originals find, and nothing of one another.
    plain, more = serve(trace, "infinite", 1), serve(flooded, "infinite", 1)
    others = number == 2
    mine = plain["cached_tokens"][trace.class_numbers() == 1].sum()
    assert more["cached_tokens"][~others].sum() <= 3 * mine
    with pytest.raises(UsageError, match="no class c"):
        trace.flooded("c", 2)
