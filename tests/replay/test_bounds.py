"""What must hold between cells, whatever their numbers: bounds, determinism, tidy counts."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from kvframe import EventKind, _core
from kvframe.policies.builtin import BUILTIN

from ..amounts import amount
from .reference import AGENT, CONVERSATION, SYNTHETIC
from .traces import head, replay, trace

CAPACITIES = {"conversation": CONVERSATION, "synthetic": SYNTHETIC, "agent": AGENT}
ONLINE = tuple(policy.name for policy in BUILTIN if not policy.replay_only)
CELLS = [
    *product(("synthetic",), ("trace", "engine")),
    pytest.param("agent", "engine", marks=pytest.mark.slow),
    *(pytest.param("conversation", mode, marks=pytest.mark.slow) for mode in ("trace", "engine")),
]


@pytest.mark.parametrize(("name", "mode"), CELLS)
def test_nothing_beats_the_optimum(name: str, mode: str) -> None:
    everything = replay(name, "infinite", None, mode)["hit_tokens"]
    for capacity in CAPACITIES[name]:
        best = replay(name, "opt", capacity, mode)["hit_tokens"]
        assert best <= everything
        assert replay(name, "opt-forced", capacity, mode)["hit_tokens"] <= best
    for capacity in CAPACITIES[name][1 :: amount(len(CAPACITIES[name]), 2)]:
        best = replay(name, "opt", capacity, mode)["hit_tokens"]
        for policy in ONLINE:
            assert replay(name, policy, capacity, mode)["hit_tokens"] <= best, (policy, capacity)


@pytest.mark.parametrize(("name", "mode"), CELLS)
@pytest.mark.parametrize("policy", ["lru", "opt"])
def test_more_room_never_hurts_a_stack_policy(name: str, mode: str, policy: str) -> None:
    hits = [replay(name, policy, n, mode)["hit_tokens"] for n in CAPACITIES[name]]
    assert hits == sorted(hits)


@pytest.mark.parametrize(("name", "mode"), CELLS)
@pytest.mark.parametrize("policy", [*ONLINE, "opt", "opt-forced"])
def test_the_counts_of_a_cell_agree(name: str, mode: str, policy: str) -> None:
    cell = replay(name, policy, CAPACITIES[name][1], mode)
    assert 0 <= cell["hit_tokens_last_half"] <= cell["hit_tokens"] <= cell["input_tokens"]
    assert cell["input_tokens_last_half"] < cell["input_tokens"]
    assert cell["block_hits"] <= cell["block_accesses"]
    if mode == "engine":
        assert cell["hit_tokens"] == cell["block_hits"] * 512
    # Leaf first means no gap: nothing is resident behind what is missing.
    assert cell["after_gap_hit_tokens"] == 0
    assert 0 <= cell["mean_request_hit_rate"] <= 1
    assert cell["seconds"] > 0
    assert cell["policy_failures"] == 0


@pytest.mark.scenario("I10", "CB-B10")
@pytest.mark.parametrize("policy", [*ONLINE, "opt", "opt-forced", "infinite"])
@pytest.mark.parametrize("mode", ["trace", "engine"])
def test_two_runs_keep_the_same_log(policy: str, mode: str) -> None:
    some = head("synthetic", amount(400, 3_993))
    one, two = (_core.replay(some, policy, 500, mode, log=True)["events"] for _ in range(2))
    assert EventKind.EVICT in one["kind"] or policy == "infinite"
    for name in one:
        assert np.array_equal(one[name], two[name]), name


def test_the_log_accounts_for_every_block() -> None:
    """Replay the log by hand: allocated, stored, evicted, released, and never too many."""
    capacity = 500
    got = _core.replay(trace("synthetic"), "slru", capacity, "engine", log=True)
    events, kinds = got["events"], got["events"]["kind"].tolist()
    owned: set[int] = set()
    cached: set[int] = set()
    evictions = hits = 0
    for kind, block in zip(kinds, events["block"].tolist(), strict=True):
        match kind:
            case 1:  # hit
                hits += 1
                assert (block in cached) != (block in owned)
                cached.discard(block)
                owned.add(block)
            case 2:  # allocate
                assert block not in owned | cached
                owned.add(block)
            case 5:  # evict
                evictions += 1
                assert block in cached
                cached.discard(block)
            case 6:  # release
                owned.remove(block)
                cached.add(block)
        assert len(owned) + len(cached) <= capacity
    assert (evictions, hits) == (got["evictions"], got["block_hits"])
    assert owned == set()


@pytest.mark.parametrize(("uses", "like"), [(1, "lru"), (2**32 - 1, "lru")])
def test_slru_without_a_protected_part_is_lru(uses: int, like: str) -> None:
    """Protected after the first use, or never: recency alone is left."""
    got = _core.replay(trace("synthetic"), "slru", 2_000, "engine", {"protected_uses": uses})
    assert got["hit_tokens"] == replay("synthetic", like, 2_000, "engine")["hit_tokens"]


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("capacity", [4, None])
def test_an_answer_that_no_memory_holds_is_told_not_tried(
    block_size: int, capacity: int | None
) -> None:
    """Nobody makes room for 2^32 - 1 tokens where they cannot fit, nor where all things do."""
    row = {"timestamp": 0, "input_length": 2 * block_size, "block_size": block_size}
    rows = [row | {"output_length": n, "hash_ids": [1, 2]} for n in (1, 2**32 - 1, 1)]
    text = "".join(json.dumps(each) + "\n" for each in rows).encode()
    got = _core.replay(_core.Trace.parse(text, "t", None), "lru", capacity, "timed")
    assert got["rejected"] == (capacity == 4)
    assert got["hit_tokens"] == (1 if capacity == 4 else 2) * block_size
    # One that is rejected asked for its blocks all the same.
    assert (got["block_hits"], got["block_accesses"]) == (1 if capacity == 4 else 2, 6)
