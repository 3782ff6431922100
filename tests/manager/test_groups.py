"""Layer groups of every kind, from the configuration to block tables."""

from __future__ import annotations

from typing import Any

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
STATE = GroupConfig(name="m", kind="state")
CHUNKED = GroupConfig(name="c", kind="chunked", chunk=10)
SINK = GroupConfig(name="k", kind="sink_window", sink=3, window=6)
WIDE = GroupConfig(name="wide", block_size=8)
DRAFT = GroupConfig(name="d", lag=1)


def manager(groups: list[GroupConfig], blocks: int = 64, **cache: Any) -> KVCacheManager:
    return KVCacheManager(
        Config(cache=CacheConfig(capacity=blocks, block_size=4, **cache), groups=groups)
    )


@pytest.mark.scenario("VT37")
@pytest.mark.parametrize(
    ("group", "kept"), [(STATE, [2]), (CHUNKED, [2]), (SINK, [0, 1, 2]), (FULL, [0, 1, 2])]
)
@pytest.mark.parametrize("null_block", [False, True])
def test_what_was_given_up_reads_as_nothing(
    group: GroupConfig, kept: list[int], null_block: bool
) -> None:
    kv = manager([group], null_block=null_block)
    seq = kv.admit(list(range(12))).seq
    before = kv.block_table(seq).tolist()
    kv.commit(seq, 12)
    nothing = 0 if null_block else -1
    assert kv.block_table(seq).tolist() == [
        block if place in kept else nothing for place, block in enumerate(before)
    ]
    kv.check_integrity()


@pytest.mark.scenario("CB-B4", "CB-B5")
def test_a_cut_is_told_in_tokens_and_in_blocks() -> None:
    kv = manager([SINK])
    seq = kv.admit(list(range(22))).seq
    assert kv.commit(seq, 22).freed == 3
    sight = kv.sight(seq)
    assert sight.visible == [(0, 3), (16, 22)]
    assert sight.masked == [(3, 4)]
    assert sight.blocks == 3
    with pytest.raises(UsageError, match="group = 3"):
        kv.sight(seq, 3)


@pytest.mark.scenario("V25", "V33")
def test_the_reusable_unit_is_told() -> None:
    assert manager([FULL]).reusable_unit == 4
    kv = manager([FULL, WIDE, GroupConfig(name="w3", block_size=12)])
    assert kv.reusable_unit == kv.options()["reusable_unit"] == 24
    seq = kv.admit(list(range(60))).seq
    kv.commit(seq, 60)
    assert kv.lookup([*range(60), 1]).tokens == 48


@pytest.mark.scenario("VT23")
def test_a_draft_model_drops_the_last_unit() -> None:
    kv = manager([FULL, DRAFT])
    seq = kv.admit(list(range(16))).seq
    kv.commit(seq, 16)
    assert kv.lookup([*range(16), 1]).tokens == 12


@pytest.mark.scenario("VT33")
def test_what_has_no_key_is_told_for_each_group() -> None:
    local = GroupConfig(name="w", kind="sliding_window", window=6)
    kv = manager([FULL, local, WIDE])
    prompt = list(range(26))
    seq = kv.admit(prompt).seq

    def unkeyed() -> list[list[int]]:
        return [blocks.tolist() for blocks in kv.unkeyed_blocks(seq)]

    tables = [kv.block_table(seq, group).tolist() for group in range(3)]
    assert unkeyed() == tables
    kv.commit(seq, 17)
    # The window has given up what lies before token 12; block 3 serves no hit of whole units.
    assert kv.block_table(seq, 1).tolist()[:3] == [-1] * 3
    found = [4, 4, 2]
    assert unkeyed() == [table[n:] for table, n in zip(tables, found, strict=True)]
    kv.commit(seq, 26)
    assert unkeyed() == [tables[0][6:], tables[1][6:], tables[2][3:]]
    twin = kv.admit([*prompt[:24], 99, 98]).seq
    assert kv.lengths(twin).cached == 24
    assert [len(blocks) for blocks in kv.unkeyed_blocks(twin)] == [1, 1, 1]
    kv.clear_cache()
    assert unkeyed()[0] == tables[0]
    kv.release(twin)
    with pytest.raises(HandleError):
        kv.unkeyed_blocks(twin)
    kv.check_integrity()


def test_pages_of_a_range_are_those_of_the_group() -> None:
    kv = manager([FULL, WIDE, GroupConfig(name="x", kind="cross", block_size=8), DRAFT])
    seq = kv.admit(list(range(22)), encoder=b"audio", encoder_tokens=19).seq
    kv.commit(seq, 21)
    tables = [kv.block_table(seq, group).tolist() for group in range(4)]
    for group, (blocks, offset, last) in {
        0: (tables[0][1:5], 1, 2),
        1: (tables[1][0:3], 5, 2),
        2: (tables[2][0:3], 5, 2),
        3: (tables[3][1:5], 1, 2),
    }.items():
        told = kv.pages(seq, 5, 18, group)
        assert (told.blocks.tolist(), told.offset, told.last) == (blocks, offset, last), group
    for group, computed in enumerate((21, 21, 19, 20)):
        kv.pages(seq, 0, computed, group)
        with pytest.raises(UsageError, match=f"the first {computed} tokens are computed"):
            kv.pages(seq, 0, computed + 1, group)


def test_another_input_is_found_by_its_id() -> None:
    kv = manager([FULL, GroupConfig(name="x", kind="cross")])
    first = kv.admit([1] * 5, encoder=b"audio", encoder_tokens=10)
    kv.commit(first.seq, 5)
    same = kv.admit([1] * 5, encoder=b"audio", encoder_tokens=10)
    other = kv.admit([1] * 5, encoder=b"other", encoder_tokens=10)
    assert [same.encoder_cached, same.cached_tokens] == [True, 4]
    assert [other.encoder_cached, other.cached_tokens] == [False, 0]
    assert kv.block_table(same.seq, 1).tolist() == kv.block_table(first.seq, 1).tolist()
    request = kv.preempt(same.seq)
    assert kv.admit(request).encoder_cached
    with pytest.raises(UsageError, match="encoder_tokens = 3"):
        manager([FULL]).admit([1], encoder_tokens=3)
    with pytest.raises(NeverFitsError):
        kv.admit([1], encoder_tokens=400)


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
    assert kv.resolved.block_bytes == 3 * 16 * 32
    assert kv.options()["padding"] == {"full": 0, "local": 512, "state": 536}
