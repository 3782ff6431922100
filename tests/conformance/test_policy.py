"""Scenarios of the policies: who dies next, by each rule, through the public face."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, PluginError, Request, UsageError
from kvframe.config import Resolved
from kvframe.flat import TierPolicy

from ..policies.drive import follow, traffic
from ..policies.twins import TWINS
from ..policies.twins.lists import Arc
from .helpers import cached, evicted, found, manager, words


def under(policy: str, blocks: int, **options: Any) -> KVCacheManager:
    """A manager of blocks of 16 tokens under a policy with these options."""
    cache = {"capacity": blocks, "block_size": 16}
    table = {"policy": policy, "options": options}
    return KVCacheManager(Resolved.load("/dev/null", env={}, cache=cache, eviction=table))


def deaths(kv: KVCacheManager, *names: int) -> list[int]:
    """Which of these one-block prompts die first, as blocks are asked for one by one."""
    order = []
    for _ in names:
        loan = np.zeros(1, np.int32)
        kv.blocks.take(out=loan)
        order += [name for name in names if name not in order and not found(kv, words(name))]
    return order


@pytest.mark.scenario("FE-13")
@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("lru", [2, 3, 1]),  # 1 was used last
        ("fifo", [1, 2, 3]),  # 1 came first
        ("clock", [2, 3, 1]),  # 1 was used, and gets a second chance
    ],
)
def test_the_order_of_lru_fifo_and_clock(policy: str, order: list[int]) -> None:
    kv = under(policy, 3)
    for name in (1, 2, 3):
        cached(kv, words(name))
    kv.release(kv.allocate([*words(1), 7], until=16).seq)
    assert deaths(kv, 1, 2, 3) == order


@pytest.mark.scenario("VT62")
def test_arc_promotes_what_is_used_again_and_its_target_follows_the_ghosts() -> None:
    arc: TierPolicy[str] = TierPolicy.named("arc", 2)

    def store(key: str) -> list[str]:
        gone = [] if len(arc) < 2 else arc.victims(1)
        assert gone is not None
        arc.on_miss([key])
        arc.insert(key)
        arc.release([key])
        return gone

    store("a")
    arc.hit(["a"])  # to those used often
    store("b")
    assert store("c") == ["b"], "what was used once dies, though a is older"
    arc.on_miss(["b"])  # a ghost of one used once: more room for such
    assert store("d") == ["a"], "c, used once, is kept for it"
    arc.on_miss(["a"])  # a ghost of one used often: less room
    assert store("e") == ["c"]


@pytest.mark.scenario("VT62")
def test_arc_remembers_no_more_than_it_could_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin's ghosts, counted: the core dies in the twin's order."""
    most: list[float] = []
    grown = Arc.evicted

    def counted(twin: Arc, block: Any) -> None:
        grown(twin, block)
        once = len(twin.of("once")) + len(twin.ghosts["once"])
        everything = once + len(twin.of("often")) + len(twin.ghosts["often"])
        most.append(max(once / twin.capacity, everything / twin.capacity / 2))

    monkeypatch.setattr(Arc, "evicted", counted)
    assert TWINS["arc"] is Arc
    assert sum(follow("arc", traffic(seed, 60)) for seed in range(40)) > 1_000
    assert 0.5 < max(most) <= 1


@pytest.mark.scenario("S21")
def test_a_burst_does_not_make_a_zombie() -> None:
    """50 uses at once and then silence: that is no protection, nor for ever."""
    for policy, survives in (("slru", 16), ("slru-decay", 0)):
        options = {} if policy == "slru" else {"debounce_ticks": 1_000, "decay_ticks": 5_000}
        kv = under(policy, 4, **options)
        for _ in range(50):
            cached(kv, [*words(1), 7])
        for scan in range(100, 120):
            cached(kv, words(scan))
        assert found(kv, words(1)) == survives, policy
    # Uses that lie apart do protect, until the block was idle for long.
    kv = under("slru-decay", 4, debounce_ticks=10, decay_ticks=200)
    for scan in range(100, 110):
        cached(kv, [*words(1), 7])
        cached(kv, words(scan))
    assert found(kv, words(1)) == 16
    for scan in range(110, 300):
        cached(kv, words(scan))
    assert found(kv, words(1)) == 0


@pytest.mark.scenario("ST27")
def test_slru_keeps_what_was_used_twice() -> None:
    kv = under("slru", 4)
    cached(kv, words(2))
    for _ in range(3):
        cached(kv, [*words(1), 7])
    for scan in range(100, 110):
        cached(kv, words(scan))
        assert found(kv, words(1)) == 16
    assert found(kv, words(2)) == 0


@pytest.mark.scenario("ST28")
def test_the_stronger_priority_stays_with_a_block_and_one_without_use_decays() -> None:
    kv = under("priority", 4)
    cached(kv, words(1), priority=5)
    cached(kv, [*words(1), 7], priority=-9)  # a weaker one takes nothing away
    cached(kv, words(2), priority=2**31 - 1)  # the most there is
    for scan in range(100, 110):
        cached(kv, words(scan), priority=4)
    assert (found(kv, words(1)), found(kv, words(2))) == (16, 16)
    with pytest.raises(UsageError, match="between -2147483648 and 2147483647"):
        kv.allocate(words(3), priority=2**31)
    # Retention that ends: of one session until it is over, of a one-shot request not at all.
    kv = under("ttl", 4, session_ticks=60, one_shot_ticks=1)
    cached(kv, words(1), session=1)
    for scan in range(100, 105):
        cached(kv, words(scan))
    assert found(kv, words(1)) == 16
    for scan in range(105, 140):
        cached(kv, words(scan), session=2)
    assert found(kv, words(1)) == 0


@pytest.mark.scenario("ST40")
def test_a_scheduler_orders_requests_by_their_longest_prefix() -> None:
    """What the engine asks before it decides: lookups are pure, and without a cache all are 0."""
    waiting = [words(9), words(1, 5), words(1, 2, 6), words(8)]

    def longest_prefix(kv: KVCacheManager) -> list[int]:
        hits = np.array([kv.lookup(prompt).tokens for prompt in waiting])
        order: list[int] = np.argsort(-hits, kind="stable").tolist()
        return order

    def served(kv: KVCacheManager, order: list[int]) -> int:
        """Prompt tokens found, one request after the other."""
        tokens = 0
        for i in order:
            grant = kv.allocate(Request(waiting[i]))
            kv.commit(grant.seq, len(waiting[i]))
            kv.release(grant.seq)
            tokens += grant.cached_tokens
        return tokens

    def filled(**cache: Any) -> KVCacheManager:
        kv = manager(3, 16, **cache)
        cached(kv, words(1, 2))
        return kv

    kv = filled()
    assert longest_prefix(kv) == [2, 1, 0, 3]
    assert evicted(kv) == 0
    assert served(kv, longest_prefix(kv)) > served(filled(), [0, 1, 2, 3])
    off = filled(prefix_caching=False)
    assert longest_prefix(off) == [0, 1, 2, 3], "first come, first served"
    with pytest.raises(PluginError, match="no eviction policy lpm"):
        under("lpm", 3)
