"""cbtop's paged cache: its tests (CB) and what it got wrong (CB-B)."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    KVCacheManager,
    KVFrameError,
    ModelConfig,
    NeverFitsError,
    Request,
    UnknownSequenceError,
)

from .helpers import available, cached, evicted, found, manager, owners, state, words

# --- CB: blocks and sequences ---------------------------------------------------------------------


@pytest.mark.scenario("CB-1", "CB-12", "FE-B20")
def test_an_empty_cache_of_known_bytes() -> None:
    model = ModelConfig(layers=1, kv_heads=32, head_dim=128, dtype="float16")
    config = Config(cache=CacheConfig(capacity=1024, block_size=16), model=model).resolve()
    kv = KVCacheManager(config)
    assert (kv.counts(), kv.usage()) == ((1024, 0, 0, 1024), 0.0)
    assert config.block_bytes == 262144
    hundred = Config(cache=CacheConfig(capacity="26214400 B"), model=model)
    assert KVCacheManager(hundred).counts().total == 100
    one_less = Config(cache=CacheConfig(capacity="26214399 B"), model=model)
    assert KVCacheManager(one_less).counts().total == 99


@pytest.mark.scenario("CB-9")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_the_least_recently_used_of_three_goes_first(index: str) -> None:
    kv = manager(3, 16, index=index)
    for word in (1, 2, 3):
        cached(kv, words(word))
    kv.collect(1)
    assert [found(kv, words(word)) for word in (1, 2, 3)] == [0, 16, 16]


@pytest.mark.scenario("CB-10", "CB-B10")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_the_longest_of_three_goes_first(index: str) -> None:
    kv = manager(7, 16, index=index, policy="longest-first")
    prompts = [words(1), words(2, 3, 4, 5), words(6, 7)]
    for prompt in prompts:
        cached(kv, prompt)
    for left in ([16, 48, 32], [16, 32, 32], [16, 16, 32]):
        kv.collect(kv.counts().free + 1)
        assert [found(kv, prompt) for prompt in prompts] == left


@pytest.mark.scenario("CB-11")
@pytest.mark.parametrize("index", ["hash", "radix"])
def test_just_as_many_give_way_as_bring_use_down_to_a_threshold(index: str) -> None:
    kv = manager(10, 16, index=index)
    seqs = [kv.admit(words(word)).seq for word in range(8)]
    assert kv.usage() == 0.8
    victims = kv.preemption_order(seqs, usage=0.5)
    assert len(victims) == 3
    for victim in victims:
        kv.preempt(victim.seq)
    assert kv.usage() == 0.5


@pytest.mark.scenario("CB-2", "CB-4", "CB-5", "CB-16", "FE-7")
@pytest.mark.parametrize(
    ("tokens", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3), (48, 3)]
)
def test_tokens_take_whole_blocks_and_a_fork_takes_none(tokens: int, blocks: int) -> None:
    kv = manager(100, 16)
    seq = kv.admit([5] * tokens).seq
    assert (kv.counts().referenced, kv.lengths(seq).slots) == (blocks, tokens)
    child = kv.fork(seq)
    assert (kv.counts().referenced, kv.lengths(child).slots) == (blocks, tokens)
    assert np.array_equal(kv.block_table(seq), kv.block_table(child))
    assert all(owners(kv, block) == 2 for block in kv.block_table(seq).tolist())
    kv.release(seq)
    assert kv.counts().referenced == blocks
    kv.release(child)
    assert kv.counts() == (100, 0, 0, 100)


@pytest.mark.scenario("CB-3", "VT3")
def test_growth_takes_a_block_once_one_is_full() -> None:
    kv = manager(100, 16)
    seq = kv.admit([5] * 8).seq
    used = [kv.counts().referenced]
    for more in (4, 8):
        kv.append(seq, [6] * more)
        used.append(kv.counts().referenced)
    assert used == [1, 1, 2]


@pytest.mark.scenario("CB-6")
def test_want_of_room_names_what_is_needed_and_what_there_is() -> None:
    kv = manager(10, 16)
    with pytest.raises(NeverFitsError, match="needs 13 blocks, but the whole pool has 10"):
        kv.admit([5] * 200)
    kv.admit([6] * 16)
    with pytest.raises(CapacityError, match="needs 10 blocks, but only 9"):
        kv.admit([5] * 160)
    assert kv.counts() == (9, 0, 1, 10)


@pytest.mark.scenario("CB-7")
def test_the_end_of_a_sequence_that_never_was() -> None:
    with pytest.raises(UnknownSequenceError):
        manager(10, 16).release(99)


@pytest.mark.scenario("CB-8")
def test_use_is_the_share_of_blocks_owned() -> None:
    kv = manager(100, 16)
    kv.admit([5] * 160)
    assert kv.usage() == pytest.approx(0.10)
    kv.admit([6] * 480)
    assert kv.usage() == pytest.approx(0.40)


@pytest.mark.scenario("CB-15", "MK-3", "FE-B16")
def test_a_request_admitted_twice_is_two_sequences() -> None:
    """Handles come from the manager, so that no caller's id can name two sequences."""
    kv = manager(10, 16)
    request = Request(words(1, 2), session=1, turn=1)
    one, two = kv.admit(request).seq, kv.admit(request).seq
    assert one != two
    assert not set(kv.block_table(one).tolist()) & set(kv.block_table(two).tolist())
    kv.append(one, [5])
    assert (kv.lengths(one).slots, kv.lengths(two).slots) == (33, 32)
    kv.release(one)
    assert (kv.counts().referenced, kv.lengths(two).slots) == (2, 32)
    kv.release(two)
    assert kv.counts() == (10, 0, 0, 10)


# --- CB-B: what it got wrong ----------------------------------------------------------------------


@pytest.mark.scenario("CB-B1", "FE-B7", "FE-B8")
def test_two_that_write_on_do_not_share_the_tail() -> None:
    kv = manager(10, 16)
    one = kv.admit([5] * 24).seq
    kv.commit(one, 24)
    two = kv.fork(one)
    kv.append(one, [6])
    kv.append(two, [7])
    tables = [kv.block_table(seq).tolist() for seq in (one, two)]
    assert tables[0][0] == tables[1][0] == 0
    assert tables[0][1] != tables[1][1]
    slots = np.zeros(2, np.int64)
    kv.slot_mapping([one, two], [24, 24], [1, 1], slots)
    assert slots[0] != slots[1]
    plan = kv.take_plan()
    assert plan is not None
    # One copies, the other has the page to itself: 8 tokens of it are the prefix.
    assert plan.copies.tolist() == [[1, 2, 8, 0]]
    kv.done(plan.ticket)
    kv.append(one, [6])
    kv.append(two, [7])
    assert kv.take_plan() is None
    assert kv.counts() == (7, 0, 3, 10)
    kv.check_integrity()


@pytest.mark.scenario("CB-B2", "CB-B16")
@pytest.mark.parametrize(
    ("tokens", "more", "needed"), [(24, 1, 1), (24, 8, 1), (24, 9, 2), (32, 1, 1), (32, 17, 2)]
)
def test_the_copy_is_counted_before_anything_moves(tokens: int, more: int, needed: int) -> None:
    for spare in range(needed + 1):
        kv = manager(2 + spare, 16)
        one = kv.admit([5] * tokens).seq
        kv.commit(one, tokens)
        two = kv.fork(one)
        before = state(kv, [one, two])
        if spare == needed:
            kv.append(two, [7] * more)
            assert kv.counts().free == 0
        else:
            with pytest.raises(KVFrameError, match=f"needs {needed} blocks|never fit"):
                kv.append(two, [7] * more)
            assert state(kv, [one, two]) == before
            assert kv.take_plan() is None
        kv.check_integrity()


@pytest.mark.scenario("CB-B6", "CB-B13")
def test_sharers_stay_where_their_end_frees_nothing() -> None:
    kv = manager(10, 16)
    one = kv.admit(words(1, 2, 3, 4, 5, 6)).seq
    kv.commit(one, 96)
    sharers = [one, *(kv.fork(one) for _ in range(4)), kv.admit([]).seq]
    alone = kv.admit(words(7, 8, 9)).seq
    assert kv.usage() == 0.9
    running, ended = [*sharers, alone], []
    while kv.usage() > 0.5 and (order := kv.preemption_order(running)):
        ended.append(order[0].seq)
        running.remove(order[0].seq)
        kv.preempt(order[0].seq)
    assert ended == [alone]
    assert kv.usage() == 0.6
    assert [kv.lengths(seq).slots for seq in sharers] == [96] * 5 + [0]


@pytest.mark.scenario("CB-B8", "V2")
def test_what_is_read_often_stays_and_what_was_read_long_ago_does_not() -> None:
    def left(policy: str, scans: int) -> bool:
        kv = manager(2, 16, policy=policy)
        cached(kv, words(1))
        for _ in range(10):
            kv.release(kv.admit([*words(1), 0], until=16).seq)
        for scan in range(100, 100 + scans):
            cached(kv, words(scan))
        return found(kv, words(1)) == 16

    # A read counts as a use: what was read ten times outlives what was used once, but for lru.
    assert (left("lfu", 3), left("lru", 3)) == (True, False)
    # Frequency ages: what nobody reads any more goes in the end.
    assert (left("lfuda", 3), left("lfuda", 30)) == (True, False)


@pytest.mark.scenario("CB-B8")
def test_a_look_is_no_use() -> None:
    kv = manager(2, 16)
    cached(kv, words(1))
    cached(kv, words(2))
    for _ in range(10):
        assert found(kv, words(1)) == 16
    kv.admit(words(3))
    assert (found(kv, words(1)), found(kv, words(2))) == (0, 16)


@pytest.mark.scenario("CB-B9")
def test_a_priority_is_set_and_counts() -> None:
    kv = manager(100, 16)
    seqs = [kv.admit(words(n), priority=p).seq for n, p in enumerate((5, 0, 5, 9))]
    order = [victim.seq for victim in kv.preemption_order(seqs, "lowest-priority")]
    assert order == [seqs[1], seqs[2], seqs[0], seqs[3]]


@pytest.mark.scenario("CB-B10", "I10")
def test_equal_sequences_go_in_the_same_order_each_time() -> None:
    def run() -> tuple[list[int], list[int], dict[str, list[int]]]:
        kv = manager(8, 16, event_log=True)
        seqs = [kv.admit(words(n)).seq for n in range(8)]
        order = [victim.seq for victim in kv.preemption_order(seqs)]
        for seq in order:
            kv.commit(seq, 16)
            kv.release(seq)
        kv.collect(3)
        events = {name: column.tolist() for name, column in kv.take_events().items()}
        return order, kv.eviction_order().tolist(), events

    first = run()
    assert len(set(first[0])) == 8
    for _ in range(10):
        assert run() == first


@pytest.mark.scenario("CB-B15", "V33")
def test_sizes_that_cannot_be_are_refused_up_front() -> None:
    for size in (0, -1, 65537):
        with pytest.raises(ConfigError, match="block_size"):
            Config.load(env={}, cache={"block_size": size})
    for blocks in (0, 2**32, -5):
        with pytest.raises(ConfigError, match="capacity"):
            Config.load(env={}, cache={"capacity": blocks}).resolve()
    for size in (1, 8):
        kv = manager(16, size)
        cached(kv, range(16))
        assert kv.lookup(list(range(17))).tokens == 16
        kv.check_integrity()


@pytest.mark.scenario("CB-B15")
def test_lengths_do_not_overflow() -> None:
    kv = manager(10, 16)
    seq = kv.admit([5] * 8).seq
    before = state(kv, [seq])
    for call in (
        lambda: kv.append_unknown(seq, 2**32 - 1),
        lambda: kv.append_unknown(seq, 2**32 - 8),
        lambda: kv.admit(None, num_tokens=2**32 - 1),
        lambda: kv.admit([5], max_seq_len=2**32 - 1),
    ):
        with pytest.raises(KVFrameError):
            call()
    assert state(kv, [seq]) == before
    assert available(kv) == 9


@pytest.mark.scenario("CB-B18")
def test_a_run_is_replayable_tick_by_tick() -> None:
    kv = manager(3, 16, event_log=True)
    cached(kv, words(1, 2))
    kv.admit([*words(1, 2), 3])
    again = manager(3, 16, event_log=True)
    cached(again, words(1, 2))
    again.admit([*words(1, 2), 3])
    one, two = kv.take_events(), again.take_events()
    assert {name: column.tolist() for name, column in one.items()} == {
        name: column.tolist() for name, column in two.items()
    }
    ticks = one["tick"].tolist()
    assert ticks == sorted(ticks)
    assert ticks[-1] < 10, "a logical clock, not the wall's"
    assert evicted(kv) == 0
