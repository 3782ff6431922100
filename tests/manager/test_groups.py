"""Layer groups of every kind, from the configuration to block tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    Config,
    GroupConfig,
    HandleError,
    KVCacheManager,
    ModelConfig,
    NeverFitsError,
    UsageError,
)

FULL = GroupConfig(name="f")
WIDE = GroupConfig(name="wide", block_size=8)
DRAFT = GroupConfig(name="d", lag=1)


def manager(groups: list[GroupConfig], blocks: int = 64, **cache: Any) -> KVCacheManager:
    return KVCacheManager(
        Config(cache=CacheConfig(capacity=blocks, block_size=4, **cache), groups=groups)
    )


@pytest.mark.scenario("V25", "V33")
def test_the_reusable_unit_is_told() -> None:
    assert manager([FULL]).inspect.reusable_unit == 4
    kv = manager([FULL, WIDE, GroupConfig(name="w3", block_size=12)])
    assert kv.inspect.reusable_unit == kv.inspect.options()["reusable_unit"] == 24
    seq = kv.allocate(list(range(60))).seq
    kv.commit(seq, 60)
    assert kv.lookup([*range(60), 1]).tokens == 48


@pytest.mark.parametrize("groups", [[WIDE], [WIDE, FULL], [FULL, WIDE]])
def test_a_handle_is_attached_behind_wide_blocks(groups: list[GroupConfig]) -> None:
    """To exactly these tokens, also where the first group's last block ends before them."""
    kv = manager(groups)
    prompt = list(range(16))
    seq = kv.allocate(prompt).seq
    kv.commit(seq, 16)
    assert kv.blocks.attach(seq, 77) is None
    assert kv.blocks.attach(seq, 78) == 77
    assert kv.lookup(prompt).attached == 78
    assert kv.lookup([*prompt, 99]).attached is None
    assert kv.lookup(prompt[:8]).attached is None
    kv.release(seq)
    assert kv.allocate(prompt).attached == 78
    kv.reset_prefix_cache()
    assert 78 in kv.blocks.take_detached()
    kv.check_integrity()


@pytest.mark.scenario("VT33")
def test_what_has_no_key_is_told_for_each_group() -> None:
    local = GroupConfig(name="w", kind="sliding_window", window=6)
    kv = manager([FULL, local, WIDE])
    prompt = list(range(26))
    seq = kv.allocate(prompt).seq

    def unkeyed() -> list[list[int]]:
        return [blocks.tolist() for blocks in kv.blocks.unhashed_blocks(seq)]

    tables = [kv.block_table(seq, group).tolist() for group in range(3)]
    assert unkeyed() == tables
    kv.commit(seq, 17)
    # The window has given up what lies before token 12; block 3 serves no hit of whole units.
    assert kv.block_table(seq, 1).tolist()[:3] == [-1] * 3
    found = [4, 4, 2]
    assert unkeyed() == [table[n:] for table, n in zip(tables, found, strict=True)]
    kv.commit(seq, 26)
    assert unkeyed() == [tables[0][6:], tables[1][6:], tables[2][3:]]
    twin = kv.allocate([*prompt[:24], 99, 98]).seq
    assert kv.lengths(twin).cached == 24
    assert [len(blocks) for blocks in kv.blocks.unhashed_blocks(twin)] == [1, 1, 1]
    kv.reset_prefix_cache()
    assert unkeyed()[0] == tables[0]
    kv.release(twin)
    with pytest.raises(HandleError):
        kv.blocks.unhashed_blocks(twin)
    kv.check_integrity()


def test_pages_of_a_range_are_those_of_the_group() -> None:
    kv = manager([FULL, WIDE, GroupConfig(name="x", kind="cross", block_size=8), DRAFT])
    seq = kv.allocate(list(range(22)), encoder=b"audio", encoder_tokens=19).seq
    kv.commit(seq, 21)
    tables = [kv.block_table(seq, group).tolist() for group in range(4)]
    for group, (blocks, offset, last) in {
        0: (tables[0][1:5], 1, 2),
        1: (tables[1][0:3], 5, 2),
        2: (tables[2][0:3], 5, 2),
        3: (tables[3][1:5], 1, 2),
    }.items():
        told = kv.inspect.pages(seq, 5, 18, group)
        assert (told.blocks.tolist(), told.offset, told.last) == (blocks, offset, last), group
    for group, computed in enumerate((21, 21, 19, 20)):
        kv.inspect.pages(seq, 0, computed, group)
        with pytest.raises(UsageError, match=f"the first {computed} tokens are computed"):
            kv.inspect.pages(seq, 0, computed + 1, group)


def test_another_input_is_found_by_its_id() -> None:
    kv = manager([FULL, GroupConfig(name="x", kind="cross")])
    first = kv.allocate([1] * 5, encoder=b"audio", encoder_tokens=10)
    kv.commit(first.seq, 5)
    same = kv.allocate([1] * 5, encoder=b"audio", encoder_tokens=10)
    other = kv.allocate([1] * 5, encoder=b"other", encoder_tokens=10)
    assert [same.encoder_cached, same.cached_tokens] == [True, 4]
    assert [other.encoder_cached, other.cached_tokens] == [False, 0]
    assert kv.block_table(same.seq, 1).tolist() == kv.block_table(first.seq, 1).tolist()
    request = kv.preempt(same.seq)
    assert kv.allocate(request).encoder_cached
    with pytest.raises(UsageError, match="encoder_tokens = 3"):
        manager([FULL]).allocate([1], encoder_tokens=3)
    with pytest.raises(NeverFitsError):
        kv.allocate([1], encoder_tokens=400)


def test_a_prompt_over_another_input_is_pinned_by_its_id() -> None:
    kv = manager([FULL, GroupConfig(name="x", kind="cross")])
    grant = kv.allocate([1] * 9, encoder=b"audio", encoder_tokens=10)
    kv.commit(grant.seq, 9)
    kv.release(grant.seq)
    assert kv.pins.pin([1] * 8) is None
    pin = kv.pins.pin([1] * 8, encoder=b"audio")
    assert pin is not None
    kv.evict_until(kv.counts().total)
    again = kv.allocate([1] * 9, encoder=b"audio", encoder_tokens=10)
    assert (again.cached_tokens, again.encoder_cached) == (8, False)
    kv.pins.unpin(pin)
    kv.check_integrity()


def test_another_input_is_not_found_by_what_a_load_brought() -> None:
    """Tokens that came from elsewhere were not computed over the blocks that are here."""
    kv = manager([FULL, GroupConfig(name="x", kind="cross")])
    grant = kv.allocate([1] * 9, encoder=b"audio", encoder_tokens=10, num_external_tokens=8)
    assert grant.load is not None
    kv.done(grant.load)
    assert kv.lengths(grant.seq).committed == 8
    fork = kv.fork(grant.seq)
    kv.commit(fork, 8)
    assert not kv.allocate([2] * 5, encoder=b"audio", encoder_tokens=10).encoder_cached
    with pytest.raises(UsageError, match="the first 0 tokens are computed"):
        kv.inspect.pages(grant.seq, 0, 10, 1)
    kv.commit(grant.seq, 9)
    assert kv.inspect.pages(grant.seq, 0, 10, 1).last == 2
    assert kv.allocate([3] * 5, encoder=b"audio", encoder_tokens=10).encoder_cached
    kv.check_integrity()


def test_appended_tokens_have_no_slots_in_another_inputs_blocks() -> None:
    kv = manager([FULL, GroupConfig(name="x", kind="cross")])
    seq = kv.allocate([1] * 5, encoder=b"audio", encoder_tokens=10).seq
    tables = [np.full((1, 4), -7, np.int32) for _ in range(2)]
    slots = [np.full(2, -7, np.int64) for _ in range(2)]
    kv.step(append=[seq], counts=[2], tokens=[2, 3], tables=tables, slots=slots)
    block = int(kv.block_table(seq)[1])
    assert [s.tolist() for s in slots] == [[4 * block + 1, 4 * block + 2], [-1, -1]]


def test_unequal_pages_are_padded_and_told() -> None:
    model = ModelConfig(layers=4, kv_heads=1, head_dim=8)
    groups = [
        GroupConfig(name="full", layers=3),
        GroupConfig(name="local", kind="chunked", chunk=64, layers=1, block_size=32),
        GroupConfig(name="state", kind="state", page_bytes=1000, layers=1),
    ]
    config = Config(model=model, groups=groups)
    with pytest.raises(Exception, match="leaves -1 layers"):
        config.resolve()
    model = ModelConfig(layers=5, kv_heads=1, head_dim=8)
    kv = KVCacheManager(Config(model=model, groups=groups))
    assert kv.inspect.resolved.block_bytes == 3 * 16 * 32
    assert kv.inspect.options()["padding"] == {"full": 0, "local": 512, "state": 536}
