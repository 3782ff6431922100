"""Hybrids where room is short: what is evicted first serves no whole prompt."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import GroupConfig, KVCacheManager
from tests.manager.helpers import manager

SIZE = 16
FULL = {"name": "full"}
WINDOW = {"name": "w", "kind": "sliding_window", "window": 32}
HYBRIDS: dict[str, list[dict[str, Any]]] = {
    "window": [FULL, WINDOW],
    "window first": [WINDOW, FULL],
    "chunked": [FULL, {"name": "c", "kind": "chunked", "chunk": 64}],
    "sinks": [FULL, {"name": "s", "kind": "sink_window", "sink": 4, "window": 28}],
    "state": [FULL, {"name": "s", "kind": "state"}],
    "large states": [FULL, {"name": "s", "kind": "state", "block_size": 64}],
    "two": [FULL, WINDOW, {"name": "s", "kind": "state"}],
    "window alone": [WINDOW],
}


def hybrid(kinds: str, blocks: int, interval: int | None, policy: str = "lru") -> KVCacheManager:
    groups = [
        GroupConfig(**kind, interval=interval if kind["name"] != "full" else None)
        for kind in HYBRIDS[kinds]
    ]
    return manager(blocks, SIZE, groups=groups, policy=policy)


def serve(kv: KVCacheManager, tokens: list[int], chunk: int) -> int:
    """One request, computed in chunks and ended; the tokens that it found."""
    grant = kv.allocate(tokens, chunk=chunk)
    kv.commit(grant.seq, grant.granted_tokens)
    for until in range(grant.granted_tokens + chunk, len(tokens) + chunk, chunk):
        until = min(until, len(tokens))
        kv.extend(grant.seq, until)
        kv.commit(grant.seq, until)
    kv.release(grant.seq)
    return grant.cached_tokens


def rounds(kv: KVCacheManager, sessions: int = 2, length: int = 512, chunk: int = 64) -> list[int]:
    """Tokens found in each of four rounds of sessions that take turns."""
    prompts = [[session] * length for session in range(1, sessions + 1)]
    return [sum(serve(kv, prompt, chunk) for prompt in prompts) for _ in range(4)]


@pytest.mark.scenario("F26")
def test_sessions_in_turn_are_found_from_the_second_round_on() -> None:
    told = [rounds(hybrid("window", 80, interval)) for interval in (None, 0)]
    assert told == [[0, 992, 992, 992]] * 2


def falls_short(kinds: str, policy: str, rooms: range) -> bool:
    """Whether the default finds less than prompts' ends alone do; some room gives hits."""
    most = 0
    for blocks in rooms:
        default, ends = (
            sum(rounds(hybrid(kinds, blocks, interval, policy))) for interval in (None, 0)
        )
        # A block more or less a round decides little.
        if default < ends - 4 * SIZE:
            return True
        most = max(most, ends)
    assert most > 0
    return False


@pytest.mark.scenario("F26")
@pytest.mark.parametrize("kinds", HYBRIDS)
def test_the_default_hits_where_the_prompts_ends_alone_do(kinds: str) -> None:
    assert not falls_short(kinds, "lru", range(70, 120, 16))


@pytest.mark.scenario("F26")
@pytest.mark.parametrize("policy", ["s3-fifo", "lfu", "foresight", "arc", "mq"])
def test_so_it_does_under_every_policy(policy: str) -> None:
    assert not falls_short("two", policy, range(80, 120, 20))


@pytest.mark.scenario("F26")
def test_a_shared_beginning_is_found_while_there_is_room_and_keeps_its_blocks_then() -> None:
    kv = hybrid("window", 400, None)
    head = list(range(1_000, 1_128))
    serve(kv, [*head, *[1] * 128], 64)
    assert serve(kv, [*head, *[2] * 128], 64) == len(head)
    # What was found is no longer first to go.
    window = kv.lookup([*head, 3]).tokens
    assert window == len(head)
    for session in range(3, 20):
        serve(kv, [session] * 256, 64)
        serve(kv, [*head, session], 64)
    assert kv.lookup([*head, 3]).tokens == len(head)


@pytest.mark.scenario("F26")
def test_an_interval_keeps_its_boundaries_like_any_block() -> None:
    kv = hybrid("window", 400, 64)
    serve(kv, [1] * 512, 64)
    assert set(kv.inspect.snapshot().blocks.priority[kv.inspect.eviction_order()]) == {35}
    kv = hybrid("window", 400, None)
    serve(kv, [1] * 512, 64)
    priorities = kv.inspect.snapshot().blocks.priority[kv.inspect.eviction_order()].tolist()
    assert (priorities.count(34), priorities[0]) == (29, 34)


@pytest.mark.scenario("F26")
@pytest.mark.parametrize("ends", ["release", "abort"])
@pytest.mark.parametrize("computes", [True, False], ids=["computed twice", "shared"])
@pytest.mark.parametrize("before", [False, True], ids=["new", "served before"])
def test_what_another_sequence_used_is_no_inner_block(
    ends: str, computes: bool, before: bool
) -> None:
    """Two compute the same, or one finds the other's: the copy that stays was used by both."""
    kv = hybrid("window", 400, None)
    if before:
        serve(kv, [9] * 256, 64)
    prompt = [1] * 256
    first = kv.allocate(prompt, chunk=32)
    second = kv.allocate(prompt, chunk=32) if computes else None
    kv.commit(first.seq, 32)
    second = second or kv.allocate(prompt, chunk=32)
    if computes:
        kv.commit(second.seq, 32)
    own = kv.block_table(first.seq, 1).tolist()
    assert (kv.block_table(second.seq, 1).tolist()[:2] == own) is not computes
    getattr(kv, ends)(second.seq)
    kv.extend(first.seq, 128)
    row = kv.block_table(first.seq, 1).tolist()
    kv.commit(first.seq, 128)
    priorities = [kv.pins.block_priority(block).priority for block in row]
    assert priorities == [35] * 2 + [34] * 4 + [35] * 2
