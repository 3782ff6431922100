"""Pages between tiers: who waits for them, under which name they go, where they may stay."""

from __future__ import annotations

from typing import Any

import pytest

from kvframe import BusyError, Request
from kvframe.tiers import SwapCost, Swapped

from .helpers import Engine, Shelf, below, host, text


@pytest.mark.scenario("S25", "T9")
def test_who_gives_up_takes_nothing_from_who_waits_for_the_same() -> None:
    made = Engine([host(), below()], stores=[Shelf()])
    one = text(1, 18)
    made.run(one)
    made.only_below()
    ahead = made.tiers.prefetch(one)
    grant, other = made.start(one), made.tiers.prefetch(text(2, 18))
    made.tiers.cancel(ahead)
    made.tiers.cancel(other)
    assert made.tiers.drain().landed == [grant.seq]
    assert made.compute(grant.seq) == 2
    made.kv.release(grant.seq)
    made.only_below()
    ahead, again = made.tiers.prefetch(one), made.start(one)
    made.tiers.cancel(again.seq)
    made.tiers.cancel(ahead)  # nobody waits now
    assert made.tiers.drain().landed == []
    assert made.tiers.host.index.counts() == (16, 0, 0, 0)
    made.tiers.check_integrity()


@pytest.mark.scenario("S25", "T14")
def test_what_has_ended_does_not_land() -> None:
    made = Engine([host(), below()], stores=[Shelf()])
    made.run(text(1, 18))
    made.only_below()
    ended, other = made.start(text(1, 18)), made.start(text(1, 18))
    made.kv.release(ended.seq)
    assert made.tiers.drain().landed == [other.seq]
    made.kv.release(other.seq)
    made.tiers.check_integrity()


@pytest.mark.scenario("V29", "T19")
def test_pages_of_new_weights_are_found_by_who_starts_with_them() -> None:
    shelf = Shelf()
    first = Engine([host(), below()], stores=[shelf], options={"weight_version": "one"})
    grant = first.start(text(1, 17))
    first.compute(grant.seq)
    first.tiers.offload(grant.seq)
    first.tiers.poll()  # to host memory, and then on its way down
    assert first.tiers.set_weight_version("two") == 0
    first.settle()
    assert shelf.objects == {}
    first.kv.release(grant.seq)
    first.run(text(2, 17))
    for weights, found in (("one", 0), ("two", 16)):
        again = Engine([host(), below()], stores=[shelf], options={"weight_version": weights})
        assert again.tiers.lookup(text(2, 17)).best == found


@pytest.mark.scenario("T25", "U-10")
def test_a_page_that_only_the_last_tier_has_is_not_backed_by_the_one_between() -> None:
    stores = [Shelf(), Shelf()]
    engine = Engine([host(8, high=0.75, low=0.5), below(), below(name="last")], stores=stores)
    engine.run(text(1, 17))
    engine.only_below()
    _, between, last = engine.tiers.levels
    engine.tiers._levels.left(between, between.index.clear())
    assert engine.run(text(1, 17)).external_tokens == 16
    index = engine.tiers.host.index
    assert len(index.unbacked([page for _, page in index.stored()])) == 4
    # The last one forgets; host memory has the only copy, which goes down as others push it out.
    engine.tiers._levels.left(last, last.index.clear())
    engine.run(text(2, 17))
    found = engine.tiers.lookup(text(1, 17)).tiers
    assert (found["below"], found["last"]) == (16, 16)


@pytest.mark.scenario("T24", "T25")
@pytest.mark.parametrize("pages", [1, 3, 10])
def test_a_prefix_longer_than_a_tier_is_not_written_again_and_again(pages: int) -> None:
    shelf = Shelf()
    small = below(pages, high=0.95, low=0.9)
    engine = Engine([host(32), small], stores=[shelf], blocks=32)
    engine.run(text(1, 4 * 20 + 1))
    for _ in range(10):
        engine.tiers.poll()
    assert shelf.calls.count("put") == 1
    assert engine.tiers.lookup(text(1, 81)).tiers["below"] == 4 * pages
    # Nor does the tail of a prompt that host memory cannot keep go there again with every step.
    engine = Engine([host(pages, high=0.95, low=0.9)], blocks=32)
    seq = engine.start(text(1, 81)).seq
    engine.compute(seq)
    assert engine.tiers.offload(seq) > 0
    engine.settle()
    assert engine.tiers.offload(seq) == 0


@pytest.mark.scenario("T25")
def test_room_is_made_as_far_as_the_tier_below_keeps_up() -> None:
    tiers = [host(4, admission="write-back", when_full="refuse"), below()]
    engine = Engine(tiers, stores=[Shelf()], blocks=16)
    for seed in (1, 2):
        engine.run(text(seed, 17))
    assert engine.tiers.make_room(12) == 4  # the second prompt would push the first one out
    assert engine.kv.counts().free == 12
    engine.settle()
    assert engine.tiers.make_room(16) == 4
    assert engine.kv.counts().free == 16


@pytest.mark.scenario("T24", "T25")
@pytest.mark.parametrize("policy", ["lru", "lfu", "mru", "fifo"])
@pytest.mark.parametrize("pages", [(8, 6), (6, 8), (12, 4)])
def test_what_the_tier_below_will_not_keep_is_not_sent_for_ever(
    pages: tuple[int, int], policy: str
) -> None:
    stores = [Shelf(), Shelf()]
    marks: dict[str, Any] = {"eviction": policy, "high": 0.75, "low": 0.5}
    tiers = [host(8, **marks), below(pages[0], **marks), below(pages[1], name="last", **marks)]
    engine = Engine(tiers, stores=stores, blocks=16)
    for seed in range(6):
        grant = engine.start(text(seed, 17))
        engine.compute(grant.seq)
        engine.tiers.offload(grant.seq)
        engine.kv.release(grant.seq)
        for _ in range(20):
            engine.tiers.poll()
        assert not any(worker.busy for worker in engine.tiers.workers)
        engine.tiers.check_integrity()
    assert max(shelf.calls.count("put") for shelf in stores) < 30
    assert [level.index.counts()[1] > 0 for level in engine.tiers.levels] == [True] * 3


@pytest.mark.scenario("T41")
def test_what_moved_and_what_was_lost_add_up() -> None:
    engine = Engine([host(8), below(24)], stores=[Shelf()], blocks=16)
    for seed in range(4):
        engine.run(text(seed, 17))
    told = engine.tiers.stats()
    # Host memory evicted half of it, which lies below.
    assert (told["host"]["evicted"], told["moved"]["dropped"]) == (8, 0)
    for seed in range(20):
        engine.run(text(seed % 7, 5 + 4 * (seed % 5)))
    told = engine.tiers.stats()
    moved = told["moved"]
    assert told["host"]["stored"] == moved["offloaded"] + moved["promoted"]
    assert told["below"]["stored"] == moved["demoted"]
    assert told["host"]["unbacked"] == moved["dropped"]
    for tier in ("host", "below"):
        of = told[tier]
        assert of["stored"] - of["evicted"] == of["cached"], tier


@pytest.mark.scenario("T25", "T12")
@pytest.mark.parametrize("policy", ["lru", "arc"])
def test_to_be_written_down_is_no_use(policy: str) -> None:
    """Pages that were about to be evicted go once they are below, and none that were used since."""
    first = host(20, eviction=policy, high=0.8, low=0.6)
    engine = Engine([first, below(admission="write-back")], stores=[Shelf()], blocks=24)
    for seed in (1, 2, 3):
        engine.run(text(seed, 17))
    engine.run(text(1, 17))
    assert engine.tiers.stats()["below"]["stored"] == 0
    for seed in (4, 5):
        engine.run(text(seed, 17))
    kept = [engine.tiers.lookup(text(seed, 17)).tiers["host"] for seed in (1, 2, 3, 4, 5)]
    assert kept[0] == kept[4] == 16
    assert kept[1] == 0
    if policy == "lru":  # arc's order names the ends of prefixes alone
        assert engine.tiers.stats()["below"]["stored"] == 8  # what made room, and nothing more


@pytest.mark.scenario("T24", "T25")
def test_a_store_smaller_than_its_tier_keeps_what_came_last() -> None:
    shelf = Shelf()
    shelf.room = 8
    engine = Engine([host(32), below(64)], stores=[shelf], blocks=32)
    for seed in range(6):
        engine.run(text(seed, 17))
    engine.settle()
    found = [engine.tiers.lookup(text(seed, 17)).tiers["below"] for seed in range(6)]
    assert sum(found) == 4 * 8
    assert found[:2] == [0, 0]
    # One that keeps nothing at all is not emptied for it.
    shelf.room = 0
    for seed in range(6, 12):
        engine.run(text(seed, 17))
        engine.settle()
    assert len(shelf.objects) >= 4
    engine.tiers.check_integrity()


@pytest.mark.scenario("T25", "T12", "ST38")
@pytest.mark.parametrize("who", ["swap", "preempt", "prefetch", "admit"])
def test_who_wants_room_pushes_out_nothing_that_the_tier_below_lacks(who: str) -> None:
    tiers = [host(5, when_full="refuse"), below(admission="write-back")]
    engine = Engine(tiers, stores=[Shelf()], blocks=24)
    one, other = text(1, 17), text(2, 9)
    engine.run(other)
    index = engine.tiers.host.index
    engine.tiers._demotion.write(0, index.prefix(index.stored()[-1][1]))
    engine.settle()
    engine.only_below()
    engine.run(one)
    engine.kv.reset_prefix_cache()
    found = {name: engine.tiers.lookup(one).tiers[name] for name in ("host", "below")}
    assert found == {"host": 16, "below": 0}
    for refused in (True, False):  # by then the tier below has what has to go
        if who in ("swap", "preempt"):
            seq = engine.start(text(3, 9)).seq
            engine.compute(seq)
            if who == "preempt":
                cost = SwapCost(parameters=1e9, flops=1e6, bandwidth_out=1e9, bandwidth_in=1e9)
                assert isinstance(engine.tiers.preempt(seq, cost), Request if refused else Swapped)
            elif refused:
                with pytest.raises(BusyError, match=r"that below lacks: try again after poll"):
                    engine.tiers.swap_out(seq)
            else:
                assert len(engine.tiers.swap_out(seq)) == 3
        elif who == "prefetch":
            ahead = engine.tiers.prefetch(other)
            engine.settle()
            assert ahead.loaded == (1 if refused else 2)  # one place was free
        else:
            grant = engine.start(other)
            engine.settle()
            assert engine.compute(grant.seq) == (5 if refused else 1)
            engine.kv.release(grant.seq)
            engine.kv.reset_prefix_cache()
        engine.settle()
        assert engine.tiers.lookup(one).tiers["below"] == 16
        assert engine.tiers.stats()["moved"].get("dropped", 0) == 0
    engine.tiers.check_integrity()


@pytest.mark.scenario("T20", "T25")
def test_a_page_that_changed_in_host_memory_is_not_sent_down_for_ever() -> None:
    first = host(8, high=0.75, low=0.25)
    engine = Engine([first, below(admission="write-back")], stores=[Shelf()], blocks=24)
    engine.run(text(1, 17))
    pages = dict(engine.tiers.host.index.stored())
    low, high = engine.kv.blocks.hash_blocks(text(1, 17))[2].tolist()
    pool = engine.tiers.host.pools[0]
    wrong = pool.get([pages[low, high]])
    wrong[0, 5] ^= 1
    pool.put([pages[low, high]], wrong)
    engine.run(text(2, 13))  # past the high mark
    for _ in range(20):
        engine.tiers.poll()
    told = engine.tiers.stats()["host"]
    assert (told["corrupt"], told["cached"] <= 6) == (1, True)
    assert engine.tiers.lookup(text(1, 17)).tiers["below"] == 8
    assert not engine.tiers.workers[1].busy
    engine.tiers.check_integrity()


@pytest.mark.scenario("T25", "T41")
def test_polls_while_a_store_is_away_count_and_cost_nothing() -> None:
    shelf = Shelf()
    first = host(64, high=0.5, low=0.25)
    engine = Engine([first, below(admission="write-back")], stores=[shelf], blocks=80)
    shelf.fails = 1 << 30
    for seed in range(12):
        engine.run(text(seed, 17))
    before = engine.tiers.stats()
    assert before["below"]["errors"] > 0
    assert before["host"]["cached"] == 48
    for _ in range(50):
        engine.tiers.poll()
    assert engine.tiers.stats() == before
    # It comes back: what was over the mark goes down, and nothing is lost.
    shelf.fails = 0
    engine.now += 10_000
    for _ in range(20):
        engine.tiers.poll()
    assert engine.tiers.host.index.counts()[1] <= 32
    for seed in range(12):
        found = engine.tiers.lookup(text(seed, 17)).tiers
        assert max(found.values()) == 16
    assert engine.tiers.stats()["moved"].get("dropped", 0) == 0
    engine.tiers.check_integrity()
