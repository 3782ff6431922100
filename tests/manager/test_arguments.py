"""Arguments of any kind: what is taken, and what is said of what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CacheConfig,
    CapacityError,
    Config,
    ConfigError,
    GroupConfig,
    KVCacheManager,
    NeverFitsError,
    PolicyError,
    Request,
    UsageError,
)
from kvframe.blocks import BlockPool
from kvframe.flat import TierPolicy
from kvframe.policies import BatchedPrefix
from kvframe.retention import Keep, Retention, TokenRange

from .gates import serve
from .helpers import cached, manager, state
from .matchers import matched

PIECES: dict[str, Callable[[KVCacheManager, int, Any], object]] = {
    "out must be contiguous: 4 bytes": lambda kv, seq, half: kv.blocks.take(out=half(np.int32)),
    "out must be contiguous: 8 bytes": lambda kv, seq, half: kv.slot_mapping(
        [seq], [0], [2], half(np.int64)
    ),
    "out must be contiguous": lambda kv, seq, half: kv.block_tables(
        [seq], half(np.int32), indptr=np.zeros(2, np.int32)
    ),
    "slots must be contiguous": lambda kv, seq, half: kv.step(
        append=[seq], tokens=[1], slots=half(np.int64)
    ),
}


@pytest.mark.scenario("I13")
@pytest.mark.parametrize("message", PIECES)
def test_an_array_to_write_into_is_one_piece(message: str) -> None:
    kv = manager()
    seq = kv.allocate([2, 3]).seq
    before = state(kv, [seq])
    for view in (slice(None, None, 2), slice(None, None, -1)):
        with pytest.raises(UsageError, match=message):
            PIECES[message](kv, seq, lambda dtype, view=view: np.zeros(8, dtype)[view])
    assert state(kv, [seq]) == before


@pytest.mark.scenario("I13")
def test_tables_without_a_column_hold_tables_without_a_block() -> None:
    kv = manager()
    empty = [kv.allocate([]).seq, kv.allocate([]).seq]
    for out in (np.zeros((2, 0), np.int32), np.zeros((0, 0), np.int32)):
        kv.block_tables(empty[: len(out)], out)
        kv.step(append=empty[: len(out)], counts=[0] * len(out), tokens=[], tables=out)
    with pytest.raises(UsageError, match="grows to 1 tokens, but tables has 0 columns"):
        kv.step(append=empty[:1], tokens=[1], tables=np.zeros((1, 0), np.int32))


@pytest.mark.scenario("I13", "I3")
def test_rows_that_lie_in_one_place_are_refused() -> None:
    kv = manager()
    seqs = [kv.allocate([number] * 5).seq for number in range(2)]
    before = state(kv, seqs)
    flat = np.full(8, 9, np.int32)
    for strides in ((0, 4), (4, 4), (8, 4)):
        rows = np.lib.stride_tricks.as_strided(flat, (2, 3), strides)
        with pytest.raises(UsageError, match="with shared entries"):
            kv.block_tables(seqs, rows)
        with pytest.raises(UsageError, match="with shared entries"):
            kv.step(append=seqs, tokens=[1, 2], tables=rows)
    assert (flat == 9).all()
    assert state(kv, seqs) == before
    wide = np.zeros((4, 6), np.int32)
    for rows in (wide[::2], wide[:, :3], wide[::-1, ::-1], wide.T, wide[:1]):
        kv.block_tables(seqs[: len(rows)], rows)


@pytest.mark.scenario("V10", "I13")
def test_a_block_pools_numbers() -> None:
    kv = manager()
    pool = kv.blocks
    for count in (-1, 1.5, None):
        with pytest.raises(UsageError, match="count"):
            pool.take(count)  # type: ignore[arg-type]
    for count in (9, 2**31, 2**62):
        with pytest.raises(CapacityError, match=f"needs {count} blocks"):
            pool.take(count)
    for ask in (pool.holds, pool.generations, pool.unowned):
        with pytest.raises(UsageError, match="block = 8: the pool has no such block"):
            ask([0, 8])
    with pytest.raises(UsageError, match=r"a manager has one, KVCacheManager\.blocks"):
        BlockPool(5, kv)  # type: ignore[arg-type]
    assert kv.counts().free == 8
    kv.check_integrity()


@pytest.mark.scenario("V10", "I13")
def test_a_block_that_there_is_not_is_said_to_be_none() -> None:
    kv = manager()
    pool = kv.blocks
    seq = kv.allocate([2, 3]).seq
    before = state(kv, [seq])
    asks: list[Callable[[int], object]] = [
        kv.blocks.owners,
        kv.pins.block_priority,
        lambda block: pool.free([block]),
        lambda block: pool.free([block], [0]),
        lambda block: pool.touch([block]),
        lambda block: pool.touch([block], [5]),
    ]
    for ask in asks:
        with pytest.raises(UsageError, match=r"= 8: the pool has no such block"):
            ask(8)
        ask(7) if ask in (kv.blocks.owners, kv.pins.block_priority) else None
    # Nobody frees a block that a sequence has.
    with pytest.raises(UsageError, match="free = 0: it is not in hand: others own it"):
        pool.free(kv.block_table(seq))
    assert state(kv, [seq]) == before


@pytest.mark.scenario("V33", "V3")
def test_numbers_of_numpy_are_numbers() -> None:
    """Engines and tokenizers count with them."""
    config = Config(cache=CacheConfig(capacity=np.int64(8), block_size=np.int32(4)))  # type: ignore[arg-type]
    kv = KVCacheManager(config)
    assert (kv.counts().total, kv.block_size) == (8, 4)
    keep = Keep(np.uint8(80), np.int64(3))  # type: ignore[arg-type]
    ranges = [TokenRange(np.int64(0), np.int32(4), keep)]  # type: ignore[arg-type]
    cached(kv, range(8), retention=Retention(ranges))
    first = kv.lookup(list(range(9))).blocks[0]
    assert [kv.pins.block_priority(int(block)).priority for block in first] == [80, 35]
    with pytest.raises(UsageError, match="priority = "):
        Keep(np.float64(80))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"block_size = 4\.0: must be a whole number"):
        Config(cache=CacheConfig(block_size=np.float32(4))).resolve()  # type: ignore[arg-type]


@pytest.mark.scenario("IL-B10", "CB-B15")
def test_a_huge_pool_costs_what_is_used_of_it() -> None:
    kv = manager(2**32 - 1, policy="w-tinylfu")
    cached(kv, [1] * 9)
    assert kv.lookup([1] * 9).tokens == 8
    kv = manager(4, policy="w-tinylfu")
    kv.resize(2**32 - 1)
    kv.check_integrity()


@pytest.mark.parametrize("tokens", [2**31, 2**32 - 1])
@pytest.mark.parametrize("partial", [False, True])
def test_another_input_of_any_length_is_counted_first(tokens: int, partial: bool) -> None:
    """Two groups together want more blocks than 32 bits can count."""
    groups = [GroupConfig(name="a")]
    groups += [GroupConfig(name=name, kind="cross") for name in ("b", "c")]
    kv = manager(8, 1, groups=groups)
    before = state(kv)
    request = Request([1, 2], encoder=b"e", encoder_tokens=tokens, partial=partial)
    with pytest.raises((NeverFitsError, CapacityError)):
        kv.allocate(request)
    kv.can_allocate(request)
    assert state(kv) == before
    kv.check_integrity()


class ByClass(BatchedPrefix):
    """Class 0 has no name: the matcher fails."""

    def namespace(self, prompts: Any) -> list[str]:
        names = {1: "b", 2: "a\0b", 3: "b\0c"}
        return [names[number] for number in prompts.request_classes.tolist()]


@pytest.mark.scenario("S15", "ST8", "V16")
def test_no_salt_looks_like_a_namespace() -> None:
    kv = matched(ByClass(), on_error="fallback", name="by-class")
    prompt = [1, 2, 3, 4, 5]
    spaces = [(1, "a\0"), (2, ""), (3, "a"), (1, ""), (1, "b"), (2, "c"), (3, "b\0")]
    for number, salt in spaces:
        assert serve(kv, prompt, request_class=number, cache_salt=salt) == 0
    for number, salt in spaces:
        assert serve(kv, prompt, request_class=number, cache_salt=salt) == 4
    crafted = ["", "a\0b", "1:b", "\x001:ba\0", "0:", "3:b\0ca"]
    with pytest.warns(RuntimeWarning, match="KeyError: 0"):
        hits = [serve(kv, prompt, request_class=0, cache_salt=salt) for salt in crafted]
    assert not any(hits)


@pytest.mark.scenario("S15", "S16")
def test_a_namespace_needs_the_tokens() -> None:
    kv = matched(ByClass())
    prompt = [1, 2, 3, 4, 5]
    keys = manager().blocks.hash_blocks(prompt)
    assert serve(kv, prompt, request_class=1, keys=keys) == 0
    assert serve(kv, prompt, request_class=2, keys=keys) == 0
    with pytest.raises(UsageError, match="keys alone cannot say it"):
        kv.allocate(None, keys=keys, num_tokens=5, request_class=1)
    kv.check_integrity()


def test_no_prompt_and_no_keys_is_no_request() -> None:
    kv = manager()
    with pytest.raises(UsageError, match="prompt = None: give token ids, or keys and num_tokens"):
        kv.allocate(None)
    kv.release(kv.allocate([]).seq)


def test_an_empty_prompt_begins_a_sequence_that_grows() -> None:
    kv = manager()
    grant = kv.allocate([])
    assert (grant.granted_tokens, grant.cached_tokens, grant.prompt_tokens) == (0, 0, 0)
    assert kv.counts().referenced == 0
    kv.append(grant.seq, [5, 6])
    kv.commit(grant.seq, 2)
    assert kv.lengths(grant.seq).committed == 2
    assert kv.counts().referenced == 1
    kv.release(grant.seq)
    kv.check_integrity()


def test_a_policys_message_is_told_on_one_line() -> None:
    class Talks(BatchedPrefix):
        def namespace(self, prompts: Any) -> list[str]:
            raise ValueError("first\nsecond")

    with pytest.raises(PolicyError, match=r"ValueError: first second \(test_arguments\.py:\d+\)$"):
        matched(Talks()).allocate([1])


def test_an_error_that_cannot_be_told_is_named() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("says nothing")

    class Talks(BatchedPrefix):
        def namespace(self, prompts: Any) -> list[str]:
            raise MuteError

    with pytest.raises(PolicyError, match=r": MuteError \(test_arguments\.py:\d+\)$"):
        matched(Talks()).allocate([1])


@pytest.mark.scenario("I13", "IL-B10")
def test_flags_and_numbers_of_numpy_are_taken() -> None:
    kv = manager()
    options: dict[str, Any] = {
        "read_cache": np.True_,
        "partial": np.False_,
        "priority": np.int16(-3),
    }
    grant = kv.allocate([1, 2, 3], **options)
    kv.commit(grant.seq, np.int64(3))  # type: ignore[arg-type]
    fork = kv.fork(grant.seq, upto=np.uint8(3), copy=np.True_)  # type: ignore[call-overload]
    assert kv.lengths(fork).slots == 3
    asked = Keep(np.int64(80), np.uint32(5), np.int8(1))  # type: ignore[arg-type]
    ranges = [TokenRange(np.int64(0), np.uint16(2), asked)]  # type: ignore[arg-type]
    kv.release(kv.allocate([7] * 5, retention=Retention(ranges)).seq)
    assert "block 0" in kv.inspect.explain_block(np.int32(0))  # type: ignore[arg-type]
    assert "block 1" in kv.inspect.explain_block(True)
    assert kv.blocks.take(True).size == 1
    kv.check_integrity()


@pytest.mark.scenario("I13", "MK-B11")
def test_a_length_beside_the_tokens_is_theirs() -> None:
    kv = manager()
    for number in (1, 4, 2**32 - 1):
        with pytest.raises(UsageError, match=f"num_tokens = {number}: the prompt has 3 tokens"):
            kv.allocate([1, 2, 3], num_tokens=number)
    assert kv.allocate([1, 2, 3], num_tokens=3).prompt_tokens == 3


@pytest.mark.scenario("ST28", "I10")
def test_what_is_asked_for_once_serves_many_requests() -> None:
    """A generator of ranges used to be empty for the second request."""
    asked = Retention(TokenRange(0, None, Keep(priority)) for priority in (60, 90))
    kv = manager()
    for first in (1, 2):
        grant = kv.allocate([first] * 5, retention=asked)
        kv.commit(grant.seq, 5)
        block = int(kv.block_table(grant.seq)[0])
        kv.release(grant.seq)
        assert kv.pins.block_priority(block).priority == 90
    kv.check_integrity()


@pytest.mark.scenario("I13")
def test_a_key_that_is_no_text_is_a_key() -> None:
    tier: TierPolicy[str] = TierPolicy.named("arc", 2)
    for key in ("\ud800", "\udfff"):
        tier.insert(key)
        tier.release([key])
    assert tier.victims(1) == ["\ud800"]
    tier.check_integrity()
