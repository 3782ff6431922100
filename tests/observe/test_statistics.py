"""Each admission is counted once, with the reason why it found no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import GroupConfig, KVCacheManager, NeverFitsError, ObserveConfig, Request
from kvframe.config import CacheConfig, Config
from kvframe.stats import HitRates, Misses, MissReason, Rebuild
from tests.manager.helpers import cached, manager


def rates(kv: KVCacheManager) -> HitRates:
    told = kv.stats.hit_rates()
    assert told is not None
    return told


def misses(kv: KVCacheManager) -> Misses:
    told = kv.stats.miss_reasons()
    assert told is not None
    return told


def why(kv: KVCacheManager, tokens: Any, **options: Any) -> MissReason:
    """The reason of one more admission, which is ended."""
    before = misses(kv).requests
    seq = kv.allocate(tokens, **options).seq
    miss = kv.stats.miss_reason(seq)
    assert miss is not None
    kv.release(seq)
    after = misses(kv).requests
    assert {r: after[r] - before[r] for r in after if after[r] > before[r]} == {miss.reason: 1}
    return miss.reason


def observed(**observe: Any) -> KVCacheManager:
    return KVCacheManager(
        Config(cache=CacheConfig(capacity=8, block_size=4), observe=ObserveConfig(**observe))
    )


@pytest.mark.scenario("V25")
def test_every_reason_is_told() -> None:
    kv = manager(6, hash="sha256")
    assert misses(kv).unit == 4
    assert why(kv, [1, 2, 3]) is MissReason.BELOW_UNIT
    assert why(kv, range(12)) is MissReason.NEVER_SEEN
    cached(kv, range(12))
    assert why(kv, range(12)) is MissReason.LAST_TOKEN
    assert why(kv, range(10)) is MissReason.BELOW_UNIT
    assert why(kv, range(12), read_cache=False) is MissReason.READ_SKIPPED
    assert why(kv, range(12), cache_salt="tenant") is MissReason.OTHER_SPACE
    assert why(kv, range(12), lora_name="lora") is MissReason.OTHER_SPACE
    cached(kv, [50] * 24)
    seq = kv.allocate(range(12)).seq
    miss = kv.stats.miss_reason(seq)
    assert miss is not None
    assert (miss.reason, miss.group, miss.wanted) == (MissReason.EVICTED, None, 2)
    assert miss.ago is not None
    assert miss.ago > 0
    kv.commit(seq, 12)
    kv.release(seq)
    kv.reset_prefix_cache()
    assert why(kv, range(12)) is MissReason.CLEARED
    assert why(manager(6, prefix_caching=False), range(12)) is MissReason.CACHING_OFF


@pytest.mark.scenario("V25")
def test_new_weights_are_another_space() -> None:
    kv = manager(8)
    cached(kv, range(8))
    kv.set_weight_version("v2")
    assert why(kv, range(8)) is MissReason.OTHER_SPACE


@pytest.mark.scenario("V25")
def test_the_group_that_cannot_go_on_is_named() -> None:
    kv = manager(16, groups=[GroupConfig(name="a"), GroupConfig(name="b")])
    cached(kv, range(9))
    assert kv.evict_until(13) == 1, "one group loses a block, the other keeps its own"
    seq = kv.allocate(range(9)).seq
    miss = kv.stats.miss_reason(seq)
    assert miss is not None
    assert (miss.reason, miss.wanted) == (MissReason.GROUP, 2)
    assert miss.group is not None
    tables = [kv.block_table(seq, group)[0] for group in (0, 1)]
    assert kv.lengths(seq).cached == 4
    assert (np.array(tables) >= 0).all()
    assert misses(kv).groups == tuple(int(group == miss.group) for group in (0, 1))
    assert f"layer group {miss.group} could not go on" in kv.inspect.explain_sequence(seq)


def test_a_window_that_ends_the_prefix_is_named() -> None:
    groups = [GroupConfig(name="a"), GroupConfig(name="w", kind="sliding_window", window=9)]
    kv = manager(16, groups=groups)
    seq = kv.allocate(range(16)).seq
    kv.commit(seq, 16)
    kv.release(seq)
    # The blocks that left the window are the oldest; without them it serves nothing so short.
    assert kv.evict_until(10) == 2
    assert why(kv, [*range(8), 90]) is MissReason.GROUP
    assert misses(kv).groups == (0, 1)


def test_ghosts_are_bounded_and_may_be_off() -> None:
    kv = observed(ghosts=0)
    cached(kv, range(32))
    cached(kv, range(100, 132))
    assert why(kv, range(32)) is MissReason.NEVER_SEEN
    kv = observed()
    cached(kv, range(32))
    cached(kv, range(100, 132))
    assert why(kv, range(32)) is MissReason.EVICTED


@pytest.mark.scenario("VT14")
def test_statistics_off_stay_none() -> None:
    kv = observed(statistics=False)
    cached(kv, range(9))
    seq = kv.allocate(range(9)).seq
    assert (kv.stats.hit_rates(), kv.stats.miss_reasons(), kv.stats.miss_reason(seq)) == (
        None,
        None,
        None,
    )
    assert kv.inspect.snapshot().sequences[seq].miss is None
    assert kv.stats.counters()["hit_tokens"] == 8


@pytest.mark.scenario("F25")
@pytest.mark.parametrize("asks", [{"read_cache": False}, {"read_cache": False, "cache_salt": "t"}])
def test_who_asked_not_to_read_is_in_no_rate(asks: dict[str, Any]) -> None:
    kv = manager(16, event_log=True)
    cached(kv, range(8))
    kv.release(kv.allocate([*range(8), 5]).seq)
    before = rates(kv)
    assert before.total == before.recent == (2, 8 / 17, 1 / 2)
    for tokens in ([*range(8), 5], range(3), range(50, 60)):
        seq = kv.allocate(tokens, **asks).seq
        back = kv.preempt(seq)
        kv.release(kv.allocate(back).seq)
        assert rates(kv) == before
    stats = kv.stats.counters()
    told = ("requests", "unread", "unread_tokens", "resumed", "resumed_unread_tokens")
    assert [stats[name] for name in told] == [5, 3, 22, 3, 22]
    assert misses(kv).requests[MissReason.READ_SKIPPED] == 3
    twin = Rebuild(16, block_size=4)
    twin.feed(kv.log.take())
    assert twin.hit_rates() == before
    assert twin.stats()["unread_tokens"] == 22


@pytest.mark.scenario("F25")
def test_an_input_without_a_name_is_in_no_rate_either() -> None:
    kv = manager(32, groups=[GroupConfig(name="a"), GroupConfig(name="x", kind="cross")])
    kv.release(kv.allocate(range(9), encoder_tokens=4).seq)
    assert rates(kv).total.requests == 0
    kv.release(kv.allocate(range(9), encoder_tokens=4, encoder=b"input").seq)
    assert rates(kv).total.requests == 1


@pytest.mark.scenario("FE-B21", "IL-B6", "MK-B8", "S20")
def test_the_hit_rate_is_hits_over_lookups_whatever_is_tried_before() -> None:
    kv = manager(8)
    cached(kv, range(8))
    for _ in range(9):
        kv.lookup(range(8))
        with pytest.raises(NeverFitsError):
            kv.allocate(range(64))
    for _ in range(9):
        kv.release(kv.allocate([77]).seq)
    kv.release(kv.allocate([*range(8), 5]).seq)
    told = rates(kv).total
    assert (told.requests, told.with_hit) == (11, 1 / 11)
    assert told.tokens == 8 / (8 + 9 + 9)
    assert rates(kv).blocks == 2 / (1 + 2)
    assert rates(kv).mean == pytest.approx(8 / 9 / 11, abs=1e-6)


@pytest.mark.scenario("V20")
def test_what_was_preempted_is_counted_apart() -> None:
    kv = manager(8)
    seq = kv.allocate(range(9)).seq
    kv.commit(seq, 9)
    before = rates(kv)
    kv.release(kv.allocate(kv.preempt(seq)).seq)
    after = rates(kv)
    assert (after.total, after.recent, after.blocks) == (before.total, before.recent, before.blocks)
    assert after.resumed == 8 / 9
    assert sum(misses(kv).requests.values()) == 1


@pytest.mark.scenario("VT48")
def test_the_window_is_of_the_last_thousand_requests() -> None:
    kv = manager(8)
    cached(kv, range(8))
    for _ in range(999):
        kv.release(kv.allocate([*range(8), 1]).seq)
    assert rates(kv).recent.requests == 1000
    assert rates(kv).recent.with_hit == 0.999
    kv.release(kv.allocate([*range(8), 1]).seq)
    assert rates(kv).recent == (1000, 8 / 9, 1.0)
    assert rates(kv).total.requests == 1001
    for _ in range(1000):
        kv.release(kv.allocate([77]).seq)
    assert rates(kv).recent == (1000, 0.0, 0.0)


def test_before_the_first_request_rates_are_zero() -> None:
    assert rates(manager(4)).total == (0, 0.0, 0.0)


@pytest.mark.scenario("CB-13", "T41")
def test_each_direction_has_its_counter() -> None:
    kv = manager(16)
    seq = kv.allocate(range(10), num_external_tokens=4).seq
    load = kv.inspect.snapshot().tickets[0].ticket
    kv.loaded(load, 1)
    kv.commit(seq, 10)
    kv.done(kv.pins.lease(seq, 8))
    kv.append(kv.fork(seq), [1])
    plan = kv.take_plan()
    assert plan
    kv.done(plan.ticket)
    out = np.zeros(2, np.int32)
    kv.blocks.take(out=out)
    kv.blocks.free(out[:1])
    stats = kv.stats.counters()
    expected = {
        "loads": 1, "loaded_tokens": 4, "leases": 1, "leased_tokens": 8, "copies": 1,
        "copied_tokens": 2, "forks": 1, "taken": 2, "returned": 1, "failed_copies": 0,
        "allocated": 4, "freed": 1,
    }  # fmt: skip
    assert {name: stats[name] for name in expected} == expected


def test_sampled_lives_are_timed() -> None:
    kv = observed(sample=1)
    cached(kv, range(32))
    kv.release(kv.allocate([*range(8), 99]).seq)
    cached(kv, range(100, 132))
    told = kv.stats.block_lifetimes()
    assert told is not None
    assert (told.lifetime.sum(), told.idle.sum(), told.gap.sum()) == (8, 8, 2)
    assert told.lifetime.shape == (65,)
    assert observed().stats.block_lifetimes() is None
    few = observed(sample=1000)
    cached(few, range(32))
    cached(few, range(100, 132))
    sampled = few.stats.block_lifetimes()
    assert sampled is not None
    assert sampled.lifetime.sum() < 8


@pytest.mark.scenario("F37")
def test_the_peak_is_of_blocks_in_use_since_it_was_reset() -> None:
    kv = manager(8)
    assert kv.stats.counters()["peak_blocks"] == 0
    first = kv.allocate(range(10)).seq
    second = kv.allocate(range(100, 106)).seq
    kv.commit(first, 10)
    kv.release(first)
    assert (kv.stats.counters()["peak_blocks"], kv.inspect.snapshot().stats["peak_blocks"]) == (
        5,
        5,
    )
    cached(kv, range(200, 204))
    assert kv.stats.counters()["peak_blocks"] == 5
    assert kv.stats.reset_peak() == 5
    assert kv.stats.counters()["peak_blocks"] == 2  # what still runs
    kv.step(release=[second], allocate=[Request(range(300, 317))])
    assert kv.stats.counters()["peak_blocks"] == 5


@pytest.mark.scenario("F37")
def test_bytes_are_told_where_the_model_is_known() -> None:
    assert "bytes_used" not in manager(8).stats.counters()
    for null in (False, True):
        kv = KVCacheManager.from_toml(
            cache={"block_size": 4, "capacity": 9, "null_block": null},
            model={"layers": 2, "kv_heads": 3, "head_dim": 5, "dtype": "float16"},
        )
        block = 2 * 2 * 3 * 5 * 2 * 4
        assert kv.inspect.resolved.block_bytes == block
        kv.allocate(range(10))
        cached(kv, range(100, 105))
        stats = kv.stats.counters()
        # Cached blocks are not in use.
        assert (stats["bytes_used"], stats["bytes_total"]) == (3 * block, (9 - null) * block)
        assert stats["bytes_used"] == round(kv.pressure.usage() * stats["bytes_total"])
