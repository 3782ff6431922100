"""Copy-on-write with real pages: what a sequence reads is what it wrote, whoever else forks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import CopyPlan, KVCacheManager, StaleHandleError

from .helpers import cached, manager

POISON = -1
SIZE = 4


class Engine:
    """Writes each token's "KV" (a number made of its whole prefix) where the manager says."""

    def __init__(self, kv: KVCacheManager, blocks: int) -> None:
        self.kv = kv
        self.pages: npt.NDArray[np.int64] = np.full((blocks, SIZE), POISON, np.int64)
        self.texts: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}

    def admit(self, tokens: list[int], **more: Any) -> int:
        grant = self.kv.allocate(tokens, **more)
        self.texts[grant.seq] = list(tokens)
        self.computed[grant.seq] = grant.cached_tokens
        self.poison(grant.seq, grant.cached_tokens)
        return grant.seq

    def fork(self, seq: int) -> int:
        child = self.kv.fork(seq)
        self.texts[child], self.computed[child] = list(self.texts[seq]), self.computed[seq]
        return child

    def append(self, seq: int, tokens: list[int]) -> None:
        had = len(self.texts[seq])
        self.kv.append(seq, tokens)
        self.texts[seq] += tokens
        self.run(self.kv.take_plan())
        self.poison(seq, had)

    def run(self, plan: CopyPlan | None) -> None:
        """Copies in order, each only as far as it says, into pages that hold nothing."""
        if not plan:
            return
        for source, target, tokens, group in plan.copies.tolist():
            assert group == 0
            assert 0 < tokens < SIZE
            self.pages[target] = POISON
            self.pages[target, :tokens] = self.pages[source, :tokens]
        self.kv.done(plan.ticket)

    def poison(self, seq: int, start: int) -> None:
        """Pages got just now hold somebody's old bytes."""
        for at in self.slots(seq, -(-start // SIZE) * SIZE):
            self.pages.flat[at] = POISON

    def slots(self, seq: int, start: int) -> npt.NDArray[np.int64]:
        count = max(self.kv.lengths(seq).slots - start, 0)
        out = np.zeros(count, np.int64)
        if count:
            self.kv.slot_mapping([seq], [start], [count], out)
        return out

    def compute(self, seq: int) -> None:
        """Fills what is not computed, and commits it."""
        start, text = self.computed[seq], self.texts[seq]
        for place, slot in enumerate(self.slots(seq, start), start):
            self.pages.flat[slot] = meaning(text[: place + 1])
        self.computed[seq] = self.kv.lengths(seq).slots
        self.kv.commit(seq, self.computed[seq])

    def check(self) -> None:
        """Every live sequence reads its own words."""
        self.kv.check_integrity()
        for seq, text in self.texts.items():
            got = self.pages.flat[self.slots(seq, 0)[: self.computed[seq]]]
            expected = [meaning(text[: i + 1]) for i in range(self.computed[seq])]
            assert got.tolist() == expected, (seq, text)

    def release(self, seq: int) -> None:
        self.kv.release(seq)
        del self.texts[seq], self.computed[seq]


def meaning(prefix: list[int]) -> int:
    return hash(tuple(prefix)) >> 1


def engine(blocks: int = 12) -> Engine:
    return Engine(manager(blocks, SIZE), blocks)


@pytest.mark.scenario("CB-B1", "FE-B6", "FE-B8", "I4", "I5", "T35")
def test_two_writers_of_a_shared_tail_do_not_meet() -> None:
    e = engine()
    one = e.admit([1, 2, 3, 4, 5, 6])
    e.compute(one)
    two = e.fork(one)
    assert e.kv.counts().free == 10
    e.append(one, [7, 8])
    e.append(two, [70, 80])
    e.compute(two)
    e.compute(one)
    e.check()
    tables = [e.kv.block_table(s).tolist() for s in (one, two)]
    assert tables[0][0] == tables[1][0]
    assert tables[0][1] != tables[1][1]
    assert e.kv.stats.counters()["copies"] == 1


@pytest.mark.scenario("CB-B2", "FE-B7")
def test_a_fork_of_whole_blocks_copies_nothing() -> None:
    e = engine()
    one = e.admit([1, 2, 3, 4])
    e.compute(one)
    two = e.fork(one)
    e.append(two, [5])
    e.compute(two)
    e.append(one, [6])
    e.compute(one)
    e.check()
    assert e.kv.stats.counters()["copies"] == 0


@pytest.mark.scenario("CB-5", "CB-13", "FE-B9")
def test_a_fork_costs_nothing_and_each_ends_by_itself() -> None:
    e = engine()
    one = e.admit(list(range(48 - 2))[:11])
    e.compute(one)
    two = e.fork(one)
    assert e.kv.counts().referenced == 3
    e.release(one)
    assert e.kv.counts().referenced == 3
    e.check()
    e.append(two, [7])
    e.compute(two)
    e.check()
    assert e.kv.stats.counters()["copies"] == 0
    with pytest.raises(StaleHandleError):
        e.kv.fork(one)
    e.release(two)
    assert e.kv.counts() == (9, 3, 0, 12)


@pytest.mark.scenario("T1", "T2")
def test_a_failed_copy_goes_back_to_the_last_good_block() -> None:
    e = engine()
    one = e.admit([1, 2, 3, 4, 5, 6])
    e.compute(one)
    two = e.fork(one)
    e.kv.append(two, [7])
    plan = e.kv.take_plan()
    assert plan
    later = e.kv.fork(two)
    assert sorted(e.kv.failed(plan.ticket)) == sorted([two, later])
    assert e.kv.stats.counters()["failed_copies"] == 1
    for seq in (two, later):
        assert e.kv.lengths(seq) == (7, 4, 4, 0)
        e.texts[seq] = [1, 2, 3, 4, 5, 6, 7]
        e.computed[seq] = 4
        e.kv.extend(seq, 7)
        e.poison(seq, 4)
        e.compute(seq)
    e.check()
    assert e.kv.lookup([1, 2, 3, 4, 0]).tokens == 4


def test_what_waits_for_a_copy_is_not_found() -> None:
    kv = manager()
    one = kv.allocate([1, 2]).seq
    two = kv.fork(one)
    kv.append(two, [3, 4])
    kv.commit(two, 4)
    assert kv.lookup([1, 2, 3, 4, 0]).tokens == 0
    plan = kv.take_plan()
    assert plan
    kv.done(plan.ticket)
    kv.append(two, [5])
    kv.commit(two, 5)
    assert kv.lookup([1, 2, 3, 4, 0]).tokens == 4


@pytest.mark.scenario("I4", "I5", "I15", "T7")
@pytest.mark.parametrize("seed", range(6))
def test_random_beams_never_read_what_another_wrote(seed: int) -> None:
    dice = np.random.default_rng(seed)
    e = engine(14)
    for _ in range(500):
        live = list(e.texts)
        kind = dice.integers(7)
        pick = live[dice.integers(len(live))] if live else 0
        room = e.kv.counts().free + e.kv.counts().cached
        if kind <= 1 and room >= 3:
            e.admit([int(t) for t in dice.integers(0, 2, dice.integers(1, 12))])
        elif kind == 2 and live and len(live) < 6:
            e.compute(pick)
            e.fork(pick)
        elif kind == 3 and live and room >= 3:
            e.append(pick, [int(t) for t in dice.integers(0, 2, dice.integers(1, 5))])
        elif kind == 4 and live:
            e.compute(pick)
        elif kind == 5 and live:
            cut = int(dice.integers(e.kv.lengths(pick).slots + 1))
            e.kv.truncate(pick, cut)
            del e.texts[pick][cut:]
            e.computed[pick] = min(e.computed[pick], cut)
        elif live and (kind == 6 or room < 3):
            e.release(pick)
        e.check()
    assert e.kv.stats.counters()["hit_tokens"] > 0
    assert e.kv.stats.counters()["copies"] > 0


@pytest.mark.scenario("SA-B6", "FE-9")
def test_a_reused_page_is_not_taken_for_the_old_one() -> None:
    e = engine(2)
    first = e.admit([1, 2, 3, 4, 5, 6])
    e.compute(first)
    e.release(first)
    second = e.admit([1, 2, 3, 4, 50, 60])
    e.compute(second)
    e.check()
    e.release(second)
    third = e.admit([1, 2, 3, 4, 5, 6])
    e.compute(third)
    e.check()


def test_each_group_gets_its_own_copy() -> None:
    from kvframe import GroupConfig

    kv = manager(
        12,
        groups=[GroupConfig(name="a"), GroupConfig(name="b", kind="sliding_window", window=64)],
    )
    one = kv.allocate([1, 2]).seq
    two = kv.fork(one)
    kv.append(two, [3])
    plan = kv.take_plan()
    assert plan
    assert [(row[2], row[3]) for row in plan.copies.tolist()] == [(2, 0), (2, 1)]
    assert kv.block_table(one, 1).tolist() != kv.block_table(two, 1).tolist()
    kv.done(plan.ticket)
    kv.release(one)
    kv.release(two)
    cached(kv, [5] * 4)
    assert kv.counts() == (10, 2, 0, 12)
    kv.check_integrity()
