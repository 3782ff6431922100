"""What SGLang's caches and allocators are tested for, under both indexes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvframe import CapacityError

from .helpers import cached, manager, state


@pytest.mark.scenario("ST17")
def test_an_unaligned_tail_is_freed_and_the_rest_matches() -> None:
    kv = manager(8)
    cached(kv, range(10))
    assert kv.counts() == (6, 2, 0, 8)
    assert kv.lookup([*range(10), 99]).tokens == 8


@pytest.mark.scenario("ST20")
def test_what_a_chunk_computed_is_shared_while_its_sequence_goes_on() -> None:
    kv = manager(8)
    prompt = list(range(11))
    grant = kv.allocate(prompt, chunk=6)
    kv.commit(grant.seq, 6)
    assert kv.lookup(prompt).tokens == 4, "the tail of a chunk is nobody else's"
    other = kv.allocate(prompt)
    assert other.cached_tokens == 4
    kv.evict_until(8)
    kv.extend(grant.seq, 11)
    kv.commit(grant.seq, 11)
    kv.commit(other.seq, 11)
    kv.release(grant.seq)
    # The one that goes on protects what it has, and of what the other left nothing twice.
    kv.evict_until(8)
    assert kv.lookup([*prompt, 99]).tokens == 8
    kv.release(other.seq)
    assert kv.counts() == (6, 2, 0, 8)
    kv.check_integrity()


@pytest.mark.scenario("ST21")
def test_thoughts_that_are_not_committed_are_not_kept() -> None:
    kv = manager(8)
    prompt, thoughts = list(range(8)), list(range(100, 110))
    grant = kv.allocate(prompt)
    kv.commit(grant.seq, 8)
    for token in thoughts:
        kv.append(grant.seq, [token])
    assert kv.lengths(grant.seq).slots == 18
    kv.release(grant.seq)
    assert kv.lookup([*prompt, *thoughts, 99]).tokens == 8, "nothing past the prompt is reachable"
    assert kv.counts() == (6, 2, 0, 8), "only the prompt's blocks are kept"


@pytest.mark.scenario("S5")
def test_two_cuts_in_one_block_free_it_once() -> None:
    kv = manager(4, 512)
    seq = kv.allocate(list(range(700))).seq
    for length, free in ((576, 2), (513, 2), (512, 3), (0, 4)):
        kv.truncate(seq, length)
        assert kv.counts().free == free
        kv.check_integrity()
    kv.release(seq)
    assert kv.counts().free == 4


@pytest.mark.scenario("ST32", "ST34")
def test_all_of_a_pool_can_be_had_and_not_one_block_more() -> None:
    kv = manager(9, null_block=True)
    lent = np.zeros(8, np.int32)
    kv.blocks.take(out=lent)
    assert sorted(lent.tolist()) == list(range(1, 9)), "never the null block"
    before = state(kv)
    with pytest.raises(CapacityError):
        kv.blocks.take(out=np.zeros(1, np.int32))
    kv.blocks.take(out=np.zeros(0, np.int32))
    assert state(kv) == before
    kv.blocks.free(lent)
    with pytest.raises(CapacityError):
        kv.blocks.take(out=np.zeros(9, np.int32))
    assert kv.counts().free == 8


@pytest.mark.scenario("ST33")
def test_what_is_freed_can_be_had_again_and_a_group_of_frees_at_its_end() -> None:
    kv = manager(4)
    lent = np.zeros(4, np.int32)
    kv.blocks.take(out=lent)
    kv.blocks.free(lent[:0])
    assert kv.counts().free == 0
    kv.blocks.free(lent[1:3])
    again = np.zeros(2, np.int32)
    kv.blocks.take(out=again)
    assert sorted(again.tolist()) == sorted(lent[1:3].tolist())
    kv.blocks.free(lent)
    # What steps in flight may still touch comes back together, once they have passed.
    seqs = [kv.allocate([word] * 8).seq for word in (1, 2)]
    for seq in seqs:
        kv.release(seq, fence=5)
        assert kv.counts().free == 0
    kv.step(passed=4)
    assert kv.counts().free == 0
    kv.step(passed=5)
    assert kv.counts().free == 4


@pytest.mark.scenario("ST36")
def test_what_is_taken_for_drafts_can_be_undone() -> None:
    kv = manager(8)
    seq = kv.allocate(list(range(6))).seq
    kv.commit(seq, 6)
    counts, table = kv.counts(), kv.block_table(seq)
    kept = kv.inspect.snapshot()
    kv.append(seq, list(range(50, 60)))
    assert kv.counts() != counts
    assert kept.counts == counts, "a snapshot is no reference"
    assert kept.sequences[seq].tables[0].tolist() == table.tolist()
    kv.truncate(seq, 6)
    assert (kv.counts(), kv.block_table(seq).tolist()) == (counts, table.tolist())
    kv.append(seq, list(range(50, 60)))
    kv.check_integrity()


@pytest.mark.scenario("ST37")
def test_once_all_is_taken_whoever_comes_evicts() -> None:
    kv = manager(6)
    for word in range(20):
        lent = np.zeros(1 + word % 3, np.int32)
        kv.blocks.take(out=lent)
        seq = kv.allocate([word] * 8).seq
        assert not set(kv.block_table(seq).tolist()) & set(lent.tolist())
        kv.commit(seq, 8)
        kv.release(seq)
        kv.blocks.free(lent)
        counts = kv.counts()
        assert counts.free + counts.cached == 6
        kv.check_integrity()
    assert kv.stats.counters()["evictions"] > 20


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.scenario("S23")
def test_what_is_handed_out_keeps_no_more_than_itself() -> None:
    kv = manager(20_000, 1)
    seq = kv.allocate(np.arange(20_000, dtype=np.uint32)).seq
    before = resident()
    held = [kv.block_table(seq, start=19_990) for _ in range(5_000)]
    assert sum(table.size for table in held) == 50_000
    # Views of the whole table would keep 400 MB.
    assert resident() - before < 20 << 20
