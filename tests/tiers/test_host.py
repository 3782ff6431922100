"""The host tier: backups, loads, room, and what never is a hit."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from random import Random
from typing import Any, cast

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    EvictionConfig,
    KVCacheManager,
    KVFrameError,
    Request,
    TierConfig,
    UsageError,
)
from kvframe.config import TierAdmissionConfig
from kvframe.metrics.samples import samples
from kvframe.pages import BLOCK_FIRST, LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Part, SwapCost, Thread, Tiers
from kvframe.tiers.base import MOVES

from .helpers import BLOCK, MODEL, REGISTRY, SHAPE, Engine, Shelf, below, host, text

WIDE = PageShape(layers=2, parts=2, block_size=BLOCK, heads=2, row_bytes=16)


@pytest.mark.scenario("S28", "T40", "T41")
@pytest.mark.parametrize("parts", [1, 2])
def test_what_left_the_pool_comes_back_as_it_was(parts: int) -> None:
    engine = Engine([host()], parts=parts, poison=True, verify=True)
    one = text(1, 15)
    assert engine.run(one).cached_tokens == 0
    engine.forget()
    hit = engine.tiers.lookup(one)
    # There is room in the pool, and what host memory has counts all the same.
    assert (hit.pool, hit.tiers, hit.best) == (0, {"host": 12}, 12)
    grant = engine.start(one)
    assert (grant.cached_tokens, grant.external_tokens) == (0, 12)
    engine.settle()
    assert engine.compute(grant.seq) == 3
    assert engine.kv.lookup(one).tokens == 12
    moved = engine.tiers.stats()["moved"]
    assert (moved["offloaded"], moved["onboarded"]) == (3, 3)
    engine.tiers.check_integrity()


@pytest.mark.scenario("FE-B24")
def test_no_tier_is_a_configuration() -> None:
    resolved = Config(tiers=[host(0), below(0)]).resolve(REGISTRY)
    assert resolved.tiers == ()
    KVCacheManager(resolved)
    engine = Engine([host(0), below(0)], poison=True)
    engine.run(text(1, 15))
    assert engine.run(text(1, 15)).cached_tokens == 12
    engine.forget()
    seq = engine.run(text(1, 15)).seq
    assert engine.tiers.lookup(text(1, 15)).tiers == {"host": 0}
    seq = engine.start(text(2, 9)).seq
    engine.compute(seq)
    assert engine.tiers.make_room(16) == 0
    with pytest.raises(CapacityError):
        engine.tiers.swap_out(seq)
    cost = SwapCost(parameters=1e9, flops=1e6, bandwidth_out=1e9, bandwidth_in=1e9)
    assert isinstance(engine.tiers.preempt(seq, cost), Request)
    assert engine.tiers.prefetch(text(1, 15)).state == "done"
    engine.settle()
    told = engine.tiers.stats()
    assert {key for key, count in told["host"].items() if count} == {"refused"}
    assert {key: count for key, count in told["moved"].items() if count} == {"recomputed": 1}
    engine.tiers.check_integrity()
    engine.tiers.close()


def test_every_direction_counts_from_zero() -> None:
    engine = Engine([host()])
    moved = engine.tiers.stats()["moved"]
    assert set(moved) == set(MOVES)
    assert not any(moved.values())
    assert set(engine.tiers.kinds()["moved"]) == set(MOVES)
    told = [one for one in samples(engine.kv, engine.tiers) if one.family.endswith("moved_total")]
    assert {one.labels[0]: one.value for one in told} == dict.fromkeys(MOVES, 0)


@pytest.mark.parametrize("way", ["allocate", "step"])
def test_tiers_that_nothing_keeps_are_told_once(way: str, caplog: pytest.LogCaptureFixture) -> None:
    kv = KVCacheManager(Config(tiers=[host(4)]).resolve(REGISTRY))
    assert not caplog.records
    for seed in range(2):
        if way == "step":
            kv.step(allocate=[text(seed, 5)])
        else:
            kv.allocate(text(seed, 5))
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("[[tiers]] (host) without effect")
    caplog.clear()
    engine = Engine([host()])
    engine.run(text(1, 5))
    KVCacheManager(Config(tiers=[host(0)]).resolve(REGISTRY)).allocate(text(1, 5))
    own = KVCacheManager(Config(tiers=[host(4)]).resolve(REGISTRY))
    assert [tier.pages for tier in own.inspect.take_tiers()] == [4]
    own.allocate(text(1, 5))
    assert not caplog.records


def test_without_its_checksum_a_tier_is_refused_and_not_left_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(ImportError, match=r"checksums need xxhash: pip install xxhash"):
        Engine([host()])
    engine = Engine([host(checksum="none")])
    engine.run(text(1, 15))
    assert engine.tiers.stats()["host"]["stored"] == 3


@pytest.mark.parametrize(
    ("tiers", "message"),
    [
        ([below()], "the first tier is host memory: leave store out here"),
        ([host(), below(name="host")], "another tier's name"),
        ([host(), below(name="moved")], "stands for the directions"),
        ([host(), below(store="shelv")], "did you mean shelf"),
        ([host(low=0.9, high=0.5)], "must be at most high"),
        ([host(timeout_ms=float("inf"))], "at most 1000000000000"),
        ([host(compression="zstd")], "as they are"),
        ([host(eviction="opt")], "ranks no pages"),
        ([host(eviction=EvictionConfig(options={"x": 1}))], "takes no options"),
        ([host(options={"x": 1})], "host memory takes no options"),
    ],
)
def test_tiers_that_cannot_be_are_told(tiers: list[TierConfig], message: str) -> None:
    with pytest.raises(KVFrameError, match=message):
        Config(tiers=tiers).resolve(REGISTRY)


@pytest.mark.parametrize("call", ["allocate", "lookup", "prefetch"])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chnk": 8}, "chnk: no option of a request; did you mean chunk?"),
        ({"session": 8}, "session: part of the Request; make another"),
    ],
)
def test_no_keyword_beside_a_request_is_dropped(
    call: str, wrong: dict[str, Any], message: str
) -> None:
    engine = Engine([host()])
    verb: Any = getattr(engine.tiers, call)
    with pytest.raises(UsageError, match=re.escape(message)):
        verb(Request(text(1, 15)), **wrong)


def test_what_applies_to_one_attempt_is_taken_beside_a_request() -> None:
    engine = Engine([host()])
    asked = Request(text(1, 15))
    alone = engine.kv.allocate(asked, chunk=BLOCK)
    engine.kv.abort(alone.seq)
    below = engine.tiers.allocate(asked, chunk=BLOCK)
    assert below.granted_tokens == alone.granted_tokens == BLOCK


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rank": 2, "ranks": 2}, "rank = 2: must be at least 0 and below ranks = 2"),
        ({"rank": -1}, "rank = -1"),
        ({"rank": 0.5}, "rank = 0.5: must be an integer"),
        ({"ranks": "2"}, "ranks = '2': must be an integer"),
        ({"prefetch_tokens": 1e9}, "prefetch_tokens = 1000000000.0: must be an integer"),
        ({"host": []}, "host: 0 pools for 1 parts"),
        ({"host": [None]}, "host: None is no NumpyPool"),
        ({"host": [NumpyPool(Layout.of(BLOCK_FIRST, WIDE, 16))]}, "must be BLPTH, dense, with 16"),
        ({"movers": [None, None]}, "movers: 2 of them for 1 parts"),
        ({"model": 5}, "model = 5: must be a string"),
        ({"salt": "\ud800"}, "salt = .*surrogates not allowed"),
    ],
)
def test_what_tiers_are_given_is_checked(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Engine([host()], **wrong)


def test_a_pool_of_other_numbers_than_the_models_is_refused() -> None:
    layout = Layout.of(LAYER_FIRST, SHAPE, 16)
    kv = KVCacheManager(
        Config(
            cache=CacheConfig(capacity=16, block_size=BLOCK), model=MODEL, tiers=[host()]
        ).resolve()
    )
    message = "model.dtype = float16: the pool's pages are of float32; make the pool with dtype="
    with pytest.raises(UsageError, match=message):
        Tiers(kv, NumpyPool(layout, dtype=np.float32))
    Tiers(kv, NumpyPool(layout, dtype=np.float16)).close()


def test_pages_that_are_not_the_models_are_refused() -> None:
    kv = KVCacheManager(
        Config(
            cache=CacheConfig(capacity=16, block_size=BLOCK), model=MODEL, tiers=[host()]
        ).resolve()
    )
    own = SHAPE.page_bytes
    other = replace(SHAPE, layers=3)
    pools = {shape: NumpyPool(Layout.of(LAYER_FIRST, shape, 16)) for shape in (SHAPE, other)}
    for shapes in ([other], [SHAPE, other]):
        found = sum(shape.page_bytes for shape in shapes)
        told = f"a page of group 'full' has {found} bytes in them, and {own} as [model] says"
        with pytest.raises(UsageError, match=re.escape(told)):
            Tiers(kv, [Part(pools[shape]) for shape in shapes])
    # Keys apart from values, ranks of one process, and a stage with a part of the layers.
    halves = NumpyPool(Layout.of(LAYER_FIRST, replace(SHAPE, parts=1), 16))
    Tiers(kv, [Part(halves), Part(halves)]).close()
    Tiers(kv, [Part(pools[SHAPE]), Part(pools[SHAPE])]).close()
    stage = NumpyPool(Layout.of(LAYER_FIRST, replace(SHAPE, layers=1), 16))
    Tiers(kv, stage, rank=1, ranks=2).close()


def test_what_calls_are_given_is_checked() -> None:
    engine = Engine([host(), below()], stores=[Shelf()])
    engine.run(text(1, 17))
    engine.only_below()
    ahead = engine.tiers.prefetch(text(1, 17))
    bare = Engine([host()])
    bare.tiers.close()
    wrong: Any = None
    seq = engine.start(text(2, 5)).seq
    for call, message in (
        # `None` is what a request without a prefetch has: nobody else's is given up for it.
        (lambda: engine.tiers.cancel(wrong), "loading = None: must be a Loading or a sequence"),
        (lambda: engine.tiers.make_room(wrong), "free = None: must be an integer"),
        (lambda: engine.tiers.swap_in(wrong), "swapped = None: must be a Swapped"),
        (lambda: engine.tiers.drop_swapped(wrong), "swapped = None: must be a Swapped"),
        (lambda: engine.tiers.preempt(seq, wrong), "cost = None: must be a SwapCost"),
        (lambda: Tiers(wrong, wrong), "kv = None: must be a KVCacheManager"),
        (lambda: Tiers(bare.kv, wrong), "pools: None is no pool of pages"),
        (
            lambda: Tiers(bare.kv, cast(Any, np.zeros((2, 2)))),
            "no pool of pages; NumpyPool.adopt makes one",
        ),
        (lambda: Tiers(bare.kv, [Part(bare.pools[0], wrong)]), "group = None: must be an int"),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    engine.settle()
    assert (ahead.state, ahead.loaded) == ("done", 4)
    engine.tiers.cancel(ahead)  # it is over
    engine.tiers.cancel(seq)
    engine.tiers.check_integrity()


def test_tiers_need_a_cryptographic_hash() -> None:
    with pytest.raises(ConfigError, match="cryptographic"):
        Config(cache=CacheConfig(hash="xxh3-128"), tiers=[host()]).resolve(REGISTRY)


@pytest.mark.scenario("T1", "T20")
def test_a_flipped_byte_in_host_memory_is_a_miss_and_the_rest_is_computed() -> None:
    engine = Engine([host()])
    one = text(1, 17)
    engine.run(one)
    engine.forget()
    pages = dict(engine.tiers.host.index.stored())
    keys = [tuple(key) for key in engine.kv.blocks.hash_blocks(one).tolist()]
    pool = engine.tiers.host.pools[0]
    wrong = pool.get([pages[keys[2]]])
    wrong[0, 77] ^= 1
    pool.put([pages[keys[2]]], wrong)
    grant = engine.start(one)
    assert grant.external_tokens == 16
    polled = engine.tiers.drain()
    assert polled.rewound == [grant.seq]
    assert engine.kv.lengths(grant.seq).committed == 2 * BLOCK
    assert engine.compute(grant.seq) == 17 - 2 * BLOCK
    stats = engine.tiers.stats()["host"]
    assert (stats["corrupt"], stats["failed_loads"]) == (1, 2)
    # What followed it is forgotten, too: it is not promised again.
    assert engine.tiers.lookup(one).tiers == {"host": 8}
    engine.tiers.check_integrity()


@pytest.mark.scenario("S26")
def test_pages_whose_blocks_are_in_the_pool_make_room_for_others() -> None:
    engine = Engine([host(8)], blocks=20)
    for seed in range(4):
        engine.run(text(seed, 17))
    assert [engine.tiers.lookup(text(seed, 17)).pool for seed in range(4)] == [16] * 4
    assert [engine.tiers.lookup(text(seed, 17)).tiers["host"] for seed in (2, 3)] == [16, 16]
    assert engine.tiers.stats()["host"]["evicted"] == 8


@pytest.mark.scenario("S27")
def test_a_long_prompt_in_chunks_is_backed_up_as_it_is_computed() -> None:
    engine = Engine([host(900)], blocks=900)
    kv, long = engine.kv, text(7, 3001)
    grant = engine.start(long, chunk=512)
    for upto in range(512, 3001 + 512, 512):
        upto = min(upto, 3001)
        kv.extend(grant.seq, upto)
        kv.commit(grant.seq, upto)
        engine.tiers.offload(grant.seq)
        engine.settle()
    kv.release(grant.seq)
    kv.reset_prefix_cache()
    assert engine.tiers.lookup(long).tiers == {"host": 3000}
    engine.tiers.check_integrity()


@pytest.mark.scenario("ST38", "VT63")
def test_what_cannot_be_backed_up_now_leaves_nothing_behind_and_is_tried_again() -> None:
    engine = Engine([host(6)], blocks=32)
    grants = [engine.start(text(seed, 17)) for seed in range(2)]
    for grant in grants:
        engine.compute(grant.seq)
    assert engine.tiers.offload(grants[0].seq) == 4
    before = engine.kv.counts()
    # Two places are left, and the others are being written: so much of the prefix goes, no more.
    assert engine.tiers.offload(grants[1].seq) == 2
    assert engine.tiers.offload(grants[1].seq) == 0
    assert engine.tiers.stats()["moved"]["deferred"] == 1
    assert engine.kv.counts() == before
    engine.settle()
    assert engine.kv.inspect.tickets() == []
    assert engine.tiers.lookup(text(1, 17)).tiers == {"host": 8}
    assert engine.tiers.offload(grants[1].seq) == 2
    engine.settle()
    engine.tiers.check_integrity()


@pytest.mark.scenario("T4", "V26")
def test_blocks_are_nobodys_until_they_are_copied() -> None:
    engine = Engine([host()], blocks=4)
    grant = engine.start(text(1, 13))
    engine.compute(grant.seq)
    engine.tiers.offload(grant.seq)
    engine.kv.release(grant.seq)
    # The backup still reads three of the four.
    assert engine.kv.counts() == (1, 0, 3, 4)
    engine.settle()
    assert engine.kv.counts() == (1, 3, 0, 4)
    engine.run(text(2, 13))
    engine.run(text(1, 13))
    engine.tiers.check_integrity()


@pytest.mark.scenario("U-8")
def test_selective_and_write_back_demotion() -> None:
    engine = Engine([host(admission=TierAdmissionConfig(policy="selective", options={"uses": 3}))])
    one = text(1, 9)
    engine.run(one)
    assert engine.tiers.lookup(one).tiers == {"host": 0}
    engine.run(one)
    assert engine.tiers.lookup(one).tiers == {"host": 0}
    engine.run(one)
    assert engine.tiers.lookup(one).tiers == {"host": 8}
    stored = engine.tiers.stats()["host"]["stored"]
    engine.run(one)
    assert engine.tiers.stats()["host"]["stored"] == stored == 2

    lazy = Engine([host(admission="write-back")], blocks=8)
    for seed in (1, 2):
        lazy.run(text(seed, 13))
    assert lazy.tiers.lookup(text(1, 13)).tiers == {"host": 0}
    assert lazy.kv.counts() == (2, 6, 0, 8)
    # The tail of the first prefix is evicted first; its front is backed up with it.
    assert lazy.tiers.make_room(4) == 3
    assert lazy.kv.counts() == (4, 4, 0, 8)
    assert lazy.tiers.lookup(text(1, 13)).tiers == {"host": 12}
    grant = lazy.run(text(1, 13))
    assert grant.cached_tokens + grant.external_tokens == 12
    # Where the tier cannot take it, it stays in the pool.
    small = Engine([host(2, admission="write-back")], blocks=8)
    small.run(text(1, 13))
    assert small.tiers.make_room(8) == 2
    assert small.kv.counts() == (5, 3, 0, 8)


@pytest.mark.scenario("S25", "V12")
def test_an_aborted_load_comes_back() -> None:
    engine = Engine([host()], blocks=8)
    engine.run(text(1, 17))
    engine.forget()
    grant = engine.start(text(1, 17))
    engine.tiers.cancel(grant.seq)
    engine.kv.release(grant.seq)
    engine.settle()
    assert (engine.kv.inspect.tickets(), engine.kv.counts().referenced) == ([], 0)
    _, cached, owned, moving = engine.tiers.host.index.counts()
    assert (cached, owned, moving) == (4, 0, 0)
    engine.tiers.check_integrity()


@pytest.mark.scenario("S17")
def test_prompts_of_other_tenants_and_adapters_are_other_pages() -> None:
    engine = Engine([host()])
    one = text(1, 13)
    engine.run(one, cache_salt="a")
    engine.forget()
    assert engine.tiers.lookup(one).best == 0
    assert engine.tiers.lookup(one, cache_salt="b").best == 0
    assert engine.tiers.lookup(one, lora_name="a").best == 0
    assert engine.tiers.lookup(one, cache_salt="a").best == 12


@pytest.mark.scenario("T7", "T5")
@pytest.mark.parametrize("policy", ["lru", "arc", "s3-fifo", "foresight"])
def test_churn_never_mixes_prompts(policy: str) -> None:
    dice = Random(7)
    engine = Engine([host(9, eviction=policy)], blocks=12, dice=Random(3), poison=True)
    for step in range(120):
        if dice.random() < 0.3:
            engine.forget()
        engine.run(text(dice.randrange(5), 5 + 4 * dice.randrange(5)))
        assert sum(engine.tiers.host.index.counts()[:3]) == 9, step
    moved = engine.tiers.stats()["moved"]
    assert moved["onboarded"] > 20
    assert engine.tiers.verify() == []


def test_new_weights_find_nothing_of_the_old() -> None:
    engine = Engine([host()])
    engine.run(text(1, 13))
    engine.tiers.set_weight_version("v2")
    assert engine.tiers.lookup(text(1, 13)).best == 0
    assert engine.tiers.host.index.counts() == (16, 0, 0, 0)
    engine.tiers.check_integrity()


def test_a_thread_does_the_same() -> None:
    engine = Engine([host()], worker=Thread)
    for seed in (1, 2, 1, 3):
        engine.forget()
        engine.run(text(seed, 13))
    assert engine.tiers.stats()["moved"]["onboarded"] == 3
    engine.tiers.close()


@pytest.mark.scenario("T11", "T3")
def test_backups_do_not_starve_a_load_that_is_larger_than_what_may_be_in_flight() -> None:
    engine = Engine([host(64, in_flight=4)], blocks=64)
    long = text(0, 33)
    engine.run(long)
    engine.forget()
    worker: Any = engine.tiers.workers[0]
    worker._at_once = 0

    def back_up(seed: int) -> None:
        seq = engine.start(text(seed, 9)).seq
        engine.compute(seq)
        engine.tiers.offload(seq)
        engine.kv.release(seq)

    back_up(1)
    back_up(2)
    grant = engine.start(long)
    assert engine.tiers.poll().landed == []
    worker._at_once = 1
    landed: list[int] = []
    for seed in range(3, 13):
        back_up(seed)  # in every step, one more
        landed += engine.tiers.poll().landed
    assert landed == [grant.seq]
    engine.check(grant.seq, 32)
    worker._at_once = None
    back_up(13)
    engine.settle()
    assert engine.tiers.lookup(text(13, 9)).tiers["host"] == 8
    engine.tiers.check_integrity()


@pytest.mark.scenario("T7")
@pytest.mark.parametrize("checksum", ["none", "xxh3"])
def test_copies_are_verified_whatever_checksums_a_tier_keeps(checksum: str) -> None:
    engine = Engine([host(checksum=checksum)], verify=True, poison=True)
    engine.run(text(1, 17))
    engine.forget()
    assert engine.run(text(1, 17)).external_tokens == 16
    told = engine.tiers.stats()
    assert (told["moved"]["onboarded"], told["host"]["failed_stores"]) == (4, 0)


@pytest.mark.parametrize("good", [True, False])
def test_forks_of_a_load_are_told_where_what_they_were_forked_from_has_ended(good: bool) -> None:
    engine = Engine([host()])
    one = text(1, 13)
    engine.run(one)
    engine.forget()
    grant = engine.start(one)
    first = engine.kv.fork(grant.seq)
    second = engine.kv.fork(grant.seq)
    other = engine.start(one, join=True)
    engine.kv.preempt(grant.seq)
    if not good:
        engine.tiers.host.pools[0].poison(range(16))
    polled = engine.tiers.drain()
    told = polled.landed if good else polled.rewound
    assert sorted(told) == sorted([first, second, other.seq])
    for seq in (first, second, other.seq):
        engine.texts[seq] = one
        assert engine.compute(seq) == (1 if good else 13)
    engine.tiers.check_integrity()
