"""What is said of a request before it is admitted holds until its end."""

from __future__ import annotations

import numpy as np
import pytest

from kvframe import (
    AllocStatus,
    CapacityError,
    GroupConfig,
    KVCacheManager,
    NeverFitsError,
    Reason,
    Request,
    UsageError,
)

from .helpers import manager, state

WINDOW = GroupConfig(name="w", kind="sliding_window", window=8)


def admit(kv: KVCacheManager, request: Request) -> int | None:
    """`fits` and `admit` say the same; with nothing else in the pool, never "later"."""
    said = kv.can_allocate(request)
    assert said != AllocStatus.LATER
    try:
        seq = kv.allocate(request).seq
    except NeverFitsError:
        assert said == AllocStatus.NEVER
        return None
    assert said == AllocStatus.OK
    return seq


def finish(kv: KVCacheManager, seq: int, chunk: int, until: int) -> None:
    """The owner's loop, up to a length: steps of the prompt, then one token at a time."""
    while True:
        lengths = kv.lengths(seq)
        kv.commit(seq, lengths.slots)
        if lengths.slots >= until:
            return
        if lengths.slots < lengths.known:
            kv.extend(seq, min(lengths.slots + chunk, lengths.known))
        else:
            kv.append(seq, [7])


@pytest.mark.scenario("F6")
def test_a_window_and_a_chunk_are_counted_together() -> None:
    """The first of a prompt's chunks may fit where those behind it never do."""
    kv = manager(5, groups=[WINDOW])
    request = Request(np.arange(100), max_seq_len=110, chunk=16)
    assert kv.can_allocate(request) == AllocStatus.NEVER
    with pytest.raises(NeverFitsError, match="needs 6 blocks, but the whole pool has 5"):
        kv.allocate(request)
    stepped = kv.step(allocate=[request], batch_tokens=8)
    assert [Reason(why) for why in stepped.reasons] == [Reason.NEVER_FITS]
    for chunk in (4, 8, 12):
        seq = admit(kv, Request(np.arange(100), max_seq_len=110, chunk=chunk))
        assert seq is not None
        finish(kv, seq, chunk, 110)
        kv.release(seq)


@pytest.mark.scenario("F6")
def test_only_the_budget_of_a_step_shrinks_a_growth() -> None:
    kv = manager(5, groups=[WINDOW])
    seq = admit(kv, Request(np.arange(100), chunk=12))
    assert seq is not None
    kv.step(commit=([seq], [12]), extend=([seq], [22]), batch_tokens=10)
    kv.commit(seq, 22)
    # From here, its own step would need a block more than there is.
    with pytest.raises(NeverFitsError):
        kv.extend(seq, 34)
    stepped = kv.step(extend=([seq], [34]), batch_tokens=64)
    assert (list(stepped.extended), stepped.refused) == ([32], [])


@pytest.mark.scenario("F8")
def test_growth_past_a_window_pool_is_refused_for_ever() -> None:
    kv = manager(5, groups=[WINDOW])
    seq = kv.allocate(np.arange(100), chunk=8).seq
    before = state(kv, [seq])
    for until in (40, 100):
        with pytest.raises(NeverFitsError):
            kv.extend(seq, until)
        assert state(kv, [seq]) == before
    stepped = kv.step(extend=([seq], [100]))
    assert Reason(stepped.reasons[0]) == Reason.NEVER_FITS
    kv.commit(seq, 8)
    kv.extend(seq, 16)
    # Once what it has is committed, some of it is given up: that is later, not never.
    with pytest.raises(CapacityError):
        kv.extend(seq, 24)
    kv.commit(seq, 16)
    kv.extend(seq, 24)
    kv.release(seq)
    seq = kv.allocate([1] * 8).seq
    never = "needs 7 blocks, but the whole pool has 5"
    with pytest.raises(NeverFitsError, match=never):
        kv.append(seq, [1] * 20)
    with pytest.raises(NeverFitsError, match=never):
        kv.append_placeholders(seq, 20)
    with pytest.raises(NeverFitsError, match=never):
        kv.extend(seq, 0, lookahead=28)
    stepped = kv.step(append=[seq], counts=[20])
    assert Reason(stepped.reasons[0]) == Reason.NEVER_FITS


@pytest.mark.scenario("F10")
def test_a_full_length_below_the_prompt_is_refused() -> None:
    kv = manager(8)
    message = "max_seq_len = 7: counts prompt and answer together, and the prompt has 8 tokens"
    keys = kv.blocks.hash_blocks([1] * 8)
    before = state(kv)
    for call in (
        lambda: Request([1] * 8, max_seq_len=7),
        lambda: Request(None, keys=keys, num_tokens=8, max_seq_len=7),
        lambda: kv.allocate([1] * 8, max_seq_len=7),
        lambda: kv.can_allocate(Request([1] * 8, max_seq_len=7)),
        lambda: kv.lookup(Request([1] * 8, max_seq_len=7)),
        lambda: kv.step(allocate=[Request([1] * 8, max_seq_len=7)]),
    ):
        with pytest.raises(UsageError, match=message):
            call()
    assert state(kv) == before
    seq = kv.allocate([1] * 8, max_seq_len=8).seq
    kv.commit(seq, 8)
    assert len(kv.preempt(seq)) == 8
