"""Tiers below host memory: stores that fail, forget, fill up, answer late or wrongly."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from kvframe import BusyError
from kvframe.pages import PageShape
from kvframe.tiers.quantise import Fp8

from .helpers import BLOCK, Engine, Shelf, below, host, text


def engine(shelf: Shelf, *, pages: int = 16, **more: Any) -> Engine:
    tier, first = below(**more.pop("tier", {})), host(pages, **more.pop("host", {}))
    return Engine([first, tier], stores=[shelf], **more)


@pytest.mark.scenario("T40", "S28")
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("compression", ["none", "zlib", "zstd"])
def test_what_is_below_comes_back_through_host_memory(parts: int, compression: str) -> None:
    made = engine(Shelf(), parts=parts, tier={"compression": compression}, verify=True, poison=True)
    one = text(1, 15)
    made.run(one)
    made.only_below()
    assert made.tiers.lookup(one).tiers == {"host": 0, "below": 12}
    grant = made.run(one)
    assert (grant.cached_tokens, grant.external_tokens) == (0, 12)
    assert made.tiers.lookup(one).tiers == {"host": 12, "below": 12}
    moved = made.tiers.stats()["moved"]
    assert (moved["demoted"], moved["promoted"], moved["onboarded"]) == (3, 3, 3)


@pytest.mark.scenario("T20", "T1", "T2", "T3")
@pytest.mark.parametrize("at", [0, 5, 40, 70, 90, -1])
def test_a_changed_byte_anywhere_in_an_object_is_a_miss(at: int) -> None:
    shelf = Shelf()
    made = engine(shelf)
    one = text(1, 17)
    made.run(one)
    made.only_below()
    below_tier = made.tiers.below[0]
    keys = made.kv.blocks.hash_blocks(one)
    shelf.flip(below_tier.codec.name((int(keys[1][0]), int(keys[1][1])), 0), at)
    grant = made.start(one)
    assert grant.external_tokens == 16
    polled = made.tiers.drain()
    assert polled.rewound == [grant.seq]
    assert made.compute(grant.seq) == 17 - BLOCK
    assert below_tier.corrupt == 1
    assert made.tiers.lookup(one).tiers["below"] == BLOCK
    # The objects that follow it are gone, too; a later backup puts them anew.
    assert len(shelf.objects) == 1
    made.tiers.offload(grant.seq)
    made.settle()
    assert made.tiers.lookup(one).tiers["below"] == 16
    made.tiers.check_integrity()


@pytest.mark.scenario("T1", "T3")
def test_a_store_that_is_away_is_a_miss_and_left_alone_for_a_while() -> None:
    shelf = Shelf()
    made = engine(shelf)
    one = text(1, 13)
    made.run(one)
    made.only_below()
    shelf.fails = 1
    grant = made.start(one)
    assert made.tiers.drain().rewound == [grant.seq]
    assert made.compute(grant.seq) == 13
    made.kv.release(grant.seq)
    made.only_below()
    calls = len(shelf.calls)
    assert made.tiers.lookup(one).tiers == {"host": 0}
    assert made.run(one).external_tokens == 0
    assert shelf.calls[calls:] == []
    made.only_below()
    made.now += 100
    assert made.run(one).external_tokens == 12


@pytest.mark.scenario("VT63")
def test_a_store_that_cannot_keep_leaves_nothing_behind() -> None:
    shelf = Shelf()
    made = engine(shelf)
    shelf.room = 2
    made.run(text(1, 17))
    stats = made.tiers.stats()["below"]
    assert (stats["stored"], stats["failed_stores"]) == (2, 2)
    assert made.tiers.lookup(text(1, 17)).tiers == {"host": 16, "below": 8}
    assert len(shelf.objects) == 2
    shelf.fails = 1
    shelf.room = 1 << 30
    made.run(text(2, 13))
    assert made.tiers.lookup(text(2, 13)).tiers == {"host": 12}
    made.now += 100
    assert made.tiers.lookup(text(2, 13)).tiers == {"host": 12, "below": 0}
    assert len(shelf.objects) == 2
    made.tiers.check_integrity()


@pytest.mark.scenario("T23")
def test_a_part_that_is_gone_takes_the_others_along() -> None:
    shelf = Shelf()
    made = engine(shelf, parts=2)
    one = text(1, 13)
    made.run(one)
    made.only_below()
    keys = made.kv.blocks.hash_blocks(one)
    name = made.tiers.below[0].codec.name((int(keys[1][0]), int(keys[1][1])), 1)
    del shelf.objects[name]
    grant = made.start(one)
    made.tiers.drain()
    assert made.compute(grant.seq) == 13 - BLOCK
    assert made.tiers.lookup(one).tiers["below"] == BLOCK
    assert len(shelf.objects) == 2


@pytest.mark.scenario("T12")
def test_room_is_made_before_a_promotion() -> None:
    made = engine(Shelf(), pages=4, blocks=32)
    made.run(text(1, 17))
    made.run(text(2, 17))
    made.forget()
    assert made.tiers.lookup(text(1, 17)).tiers == {"host": 0, "below": 16}
    loading = made.tiers.prefetch(text(1, 17))
    made.settle()
    assert (loading.state, loading.loaded) == ("done", 4)
    assert made.tiers.lookup(text(1, 17)).tiers["host"] == 16
    assert made.run(text(1, 17)).external_tokens == 16


@pytest.mark.scenario("S32", "S25")
def test_prefetches_past_the_limit_queue_and_say_so() -> None:
    made = engine(Shelf(), pages=32, blocks=64, prefetch_tokens=8 * BLOCK)
    for seed in range(4):
        made.run(text(seed, 17))
    made.only_below()
    loads = [made.tiers.prefetch(text(seed, 17)) for seed in range(4)]
    assert [one.state for one in loads] == ["promoting", "promoting", "queued", "queued"]
    made.tiers.cancel(loads[1])
    made.tiers.cancel(loads[2])
    assert [one.state for one in loads] == ["promoting", "cancelled", "cancelled", "queued"]
    made.settle()
    assert [(one.state, one.loaded) for one in loads] == [
        ("done", 4),
        ("cancelled", 0),
        ("cancelled", 0),
        ("done", 4),
    ]
    free, cached, owned, moving = made.tiers.host.index.counts()
    assert (free, cached, owned, moving) == (24, 8, 0, 0)
    made.tiers.check_integrity()


@pytest.mark.scenario("U-9")
def test_several_blocks_are_promoted_and_a_joiner_sees_them_coming() -> None:
    made = engine(Shelf(), pages=32, blocks=64)
    one, more = text(1, 65), [*text(1, 65), 7, 8, 9, 10]
    made.run(one)
    made.only_below()
    leader = made.start(one)
    assert leader.external_tokens == 64
    hit = made.tiers.lookup(more)
    assert (hit.tiers["host"], hit.in_flight, hit.leader) == (0, 64, leader.seq)
    joiner = made.start(more)
    assert joiner.external_tokens == 64
    made.settle()
    hit = made.tiers.lookup(more)
    assert (hit.pool, hit.in_flight, hit.leader) == (64, 0, None)
    # One copy came from the store for both.
    assert made.tiers.stats()["moved"]["promoted"] == 16
    assert made.compute(leader.seq) == 1
    assert made.compute(joiner.seq) == 5


@pytest.mark.scenario("T25")
def test_a_full_tier_says_so_and_goes_on() -> None:
    shelf = Shelf()
    made = engine(shelf, pages=4, host={"when_full": "refuse"}, tier={"in_flight": 4})
    grants = [made.start(text(seed, 13)) for seed in range(2)]
    for grant in grants:
        made.compute(grant.seq)
    assert made.tiers.offload(grants[0].seq) == 3
    made.tiers.poll()
    made.tiers.poll()
    shelf.fails = 1
    made.tiers.below[0].index.forget(made.kv.blocks.hash_blocks(text(0, 13)))
    made.tiers.host.index.set_backed(made.kv.blocks.hash_blocks(text(0, 13)), False)
    with pytest.raises(BusyError, match="try again after poll"):
        made.tiers.offload(grants[1].seq)
    assert made.kv.inspect.tickets() == []
    made.settle()
    made.now += 100
    with pytest.raises(BusyError):
        made.tiers.offload(grants[1].seq)
    made.settle()
    assert made.tiers.offload(grants[1].seq) == 3
    made.settle()
    assert made.tiers.lookup(text(0, 13)).tiers["below"] == 12
    assert made.tiers.lookup(text(1, 13)).tiers == {"host": 12, "below": 12}
    made.tiers.check_integrity()


def test_with_drop_room_is_made_and_what_was_lost_is_counted() -> None:
    made = engine(Shelf(), pages=4, tier={"admission": "write-back"})
    made.run(text(1, 17))
    assert made.tiers.lookup(text(1, 17)).tiers == {"host": 16, "below": 0}
    made.run(text(2, 9))
    assert made.tiers.stats()["moved"]["dropped"] == 2


@pytest.mark.scenario("U-8", "U-10")
def test_a_tier_that_is_nearly_full_writes_back_and_then_lets_go() -> None:
    first = {"high": 0.75, "low": 0.5}
    made = engine(Shelf(), pages=8, host=first, tier={"admission": "write-back"}, blocks=32)
    made.run(text(1, 13))
    assert made.tiers.lookup(text(1, 13)).tiers == {"host": 12, "below": 0}
    made.run(text(2, 17))
    made.settle()
    assert made.tiers.host.index.counts()[0] == 4
    assert made.tiers.lookup(text(1, 13)).tiers["below"] == 12
    assert made.tiers.stats()["moved"].get("dropped", 0) == 0
    assert made.run(text(1, 13)).cached_tokens == 12


@pytest.mark.scenario("T1", "V26")
def test_a_late_answer_is_a_miss_and_its_places_wait_for_it() -> None:
    made = engine(Shelf(), tier={"timeout_ms": 50})
    one = text(1, 13)
    made.run(one)
    made.only_below()
    made.tiers.workers[1]._at_once = 0  # type: ignore[attr-defined]
    grant = made.start(one)
    made.now += 49
    assert made.tiers.poll().rewound == []
    made.now += 1
    assert made.tiers.poll().rewound == [grant.seq]
    assert made.compute(grant.seq) == 13
    assert made.tiers.host.index.counts() == (13, 0, 3, 3)
    made.tiers.workers[1]._at_once = None  # type: ignore[attr-defined]
    made.settle()
    assert made.tiers.host.index.counts() == (16, 0, 0, 0)
    assert made.tiers.stats()["below"]["late"] == 1
    # It was late, not wrong: it may be tried again.
    assert made.tiers.lookup(one).tiers["below"] == 12
    made.tiers.check_integrity()


@pytest.mark.scenario("T19")
def test_what_a_store_had_before_is_found_prefix_by_prefix() -> None:
    shelf = Shelf()
    made = engine(shelf, parts=2)
    for seed in (1, 2):
        made.run(text(seed, 17))
    keys = made.kv.blocks.hash_blocks(text(2, 17))
    codec = made.tiers.below[0].codec
    del shelf.objects[codec.name((int(keys[1][0]), int(keys[1][1])), 1)]
    shelf.objects["README"] = b"not a page"
    foreign = engine(Shelf(), parts=2, model="another")
    foreign.run(text(3, 9))
    others = foreign.tiers.below[0].store.objects  # type: ignore[attr-defined]
    shelf.objects.update(others)
    again = engine(Shelf(objects=shelf.objects), parts=2)
    assert again.tiers.lookup(text(1, 17)).tiers == {"host": 0, "below": 16}
    assert again.tiers.lookup(text(2, 17)).tiers["below"] == BLOCK
    assert again.tiers.lookup(text(3, 9)).tiers["below"] == 0
    assert again.tiers.below[0].foreign == 1 + len(others)
    again.settle()
    assert again.run(text(1, 17)).external_tokens == 16
    assert again.run(text(2, 17)).external_tokens == BLOCK
    # What is not ours stays.
    assert {"README", *others} <= set(shelf.objects)


@pytest.mark.scenario("T40")
def test_what_others_wrote_to_a_shared_store_is_found_by_a_prefetch() -> None:
    objects: dict[str, bytes] = {}
    makers = [
        Engine([host(), below(store="shared")], stores=[Shelf(objects=objects)]) for _ in range(2)
    ]
    makers[0].run(text(1, 17))
    assert makers[1].tiers.lookup(text(1, 17)).best == 0
    loading = makers[1].tiers.prefetch(text(1, 17))
    assert loading.state == "looking"
    makers[1].settle()
    assert (loading.state, loading.loaded) == ("done", 4)
    assert makers[1].run(text(1, 17)).external_tokens == 16


@pytest.mark.scenario("FE-B30")
def test_fp8_is_named_near_and_never_mixed_with_what_is_exact() -> None:
    objects: dict[str, bytes] = {}
    exact = engine(Shelf(objects=objects))
    exact.run(text(1, 9))
    lossy = engine(Shelf(objects=objects), tier={"quantise": "fp8", "compression": "zstd"})
    assert lossy.tiers.lookup(text(1, 9)).best == 0
    lossy.run(text(1, 9))
    assert {name.split("-")[2] for name in objects} == {"raw", "fp8+zstd"}
    codec = lossy.tiers.below[0].codec
    page = np.random.default_rng(1).normal(0, 3, 128).astype(np.float16)
    data = codec.encode(page.view(np.uint8), (1, 2), 0, None, 0)
    again = codec.decode(data, (1, 2), 0).view(np.float16).astype(np.float32)
    assert np.abs(again - page).max() <= np.abs(page).max() / 16
    assert len(data) < 256
    with pytest.raises(Exception, match="not written whole"):
        codec.encode(np.full(256, 0xFF, np.uint8), (1, 2), 0, None, 0)


@pytest.mark.scenario("FE-B30", "T25")
def test_a_page_that_has_no_fp8_is_no_fault_of_the_store() -> None:
    """An infinity, as half precision makes them: what stands before it is put, nothing is down."""
    shelf = Shelf()
    made = engine(shelf, tier={"quantise": "fp8"})
    for seed in range(3):
        grant = made.start(text(seed, 17))
        made.compute(grant.seq)
        page = made.pools[0].get(made.kv.block_table(grant.seq)[2:3])
        page.view(np.float16)[0, 5] = np.inf
        made.pools[0].put(made.kv.block_table(grant.seq)[2:3], page)
        made.tiers.offload(grant.seq)
        made.settle()
        made.kv.release(grant.seq)
    told = made.tiers.stats()["below"]
    assert (told["errors"], told["failed_stores"], told["evicted"]) == (0, 6, 0)
    for seed in range(3):
        assert made.tiers.lookup(text(seed, 17)).tiers == {"host": 16, "below": 8}
    made.tiers.check_integrity()


def test_the_least_numbers_come_back_from_fp8() -> None:
    codec = Fp8(PageShape(layers=1, parts=1, block_size=2, heads=1, row_bytes=8), "float32")
    page = np.array([1e-42, 0, -3e-43, 1e-45], np.float32)
    again = codec.decode(codec.encode(page.view(np.uint8))).view(np.float32)
    assert np.abs(again - page).max() < np.finfo(np.float32).tiny


@pytest.mark.scenario("T7", "T5", "T8")
@pytest.mark.parametrize("seed", range(3))
def test_random_failures_over_three_tiers_never_give_wrong_bytes(seed: int) -> None:
    dice = Random(seed)
    stores = [Shelf(), Shelf()]
    made = Engine(
        [
            host(9, backed_first=seed == 1, high=0.9, low=0.6),
            below(
                20,
                admission=["write-through", "write-back", "selective"][seed],
                low=0.7,
                timeout_ms=30,
            ),
            below(40, name="last", admission="write-back"),
        ],
        stores=stores,
        blocks=14,
        dice=Random(seed),
        poison=True,
    )
    for _ in range(150):
        made.now += dice.randrange(20)
        for shelf in stores:
            shelf.fails = dice.randrange(10) == 0
            if shelf.objects and dice.random() < 0.2:
                shelf.flip(dice.choice(sorted(shelf.objects)), dice.randrange(200))
        if dice.random() < 0.3:
            made.forget()
        made.run(text(dice.randrange(6), 5 + 4 * dice.randrange(5)))
        made.tiers.check_integrity()
    for shelf in stores:
        shelf.fails = 0
    made.settle()
    made.tiers.verify()
    assert made.tiers.verify() == []
    assert made.tiers.stats()["moved"]["promoted"] > 5
