"""What is said of a request before it is admitted holds until its end."""

from __future__ import annotations

from itertools import product
from random import Random

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

FULL = GroupConfig(name="f")
WINDOW = GroupConfig(name="w", kind="sliding_window", window=8)
CHUNKED = GroupConfig(name="c", kind="chunked", chunk=12)
SINK = GroupConfig(name="s", kind="sink_window", sink=4, window=6)
STATE = GroupConfig(name="r", kind="state")
CROSS = GroupConfig(name="x", kind="cross")
GROUPS = [
    [FULL],
    [WINDOW],
    [CHUNKED],
    [SINK],
    [STATE],
    [FULL, WINDOW],
    [FULL, CHUNKED],
    [FULL, SINK, STATE],
    [WINDOW, CHUNKED],
    [WINDOW, CROSS],
    [FULL, STATE, CROSS],
]


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


def refuse_more(kv: KVCacheManager, seq: int, most: int) -> None:
    """Past its full length nothing comes, by any verb."""
    before = state(kv, [seq])
    for more in (
        lambda: kv.append(seq, [1]),
        lambda: kv.append_placeholders(seq),
        lambda: kv.extend(seq, 0, lookahead=most + 1),
        lambda: kv.step(append=[seq], tokens=[1]),
    ):
        with pytest.raises(UsageError, match=f"max_seq_len = {most}"):
            more()
    assert state(kv, [seq]) == before


@pytest.mark.scenario("F6", "F7", "F10")
def test_an_admitted_request_alone_finishes_and_comes_back_from_anywhere() -> None:
    dice, seen = Random(6), {AllocStatus.OK: 0, AllocStatus.NEVER: 0}
    every = [*product(GROUPS, (2, 4), (None, 1, 3, 4, 8, 12, 16), (1, 9, 30, 60))]
    for groups, size, chunk, long in dice.sample(every, 400):
        kv = manager(dice.randint(1, 12) * len(groups), size, groups=groups, index="hash")
        prompt, most = list(range(long)), long + dice.randint(0, 20)
        crosses = {"encoder": b"e", "encoder_tokens": 5} if CROSS in groups else {}
        request = Request(prompt, max_seq_len=most, chunk=chunk, **crosses)
        said = kv.can_allocate(request)
        seq = admit(kv, request)
        seen[said] += 1
        where = f"{[g.kind for g in groups]}, {size}, {chunk}, {long} to {most}, {kv.counts()}"
        if seq is None:
            continue
        # It comes back with whatever it has, whether that is cached or not.
        finish(kv, seq, chunk or long, dice.randint(1, most))
        back = kv.preempt(seq)
        if dice.random() < 0.5:
            kv.reset_prefix_cache()
        assert kv.can_allocate(request) == AllocStatus.OK, where
        assert kv.can_allocate(back) == AllocStatus.OK, where
        seq = admit(kv, back)
        assert seq is not None
        step = kv.lengths(seq).slots or 1
        finish(kv, seq, min(step, chunk or step), most)
        refuse_more(kv, seq, most)
        kv.check_integrity()
    assert min(seen.values()) > 80, seen


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
def test_a_partial_request_with_a_full_length_is_refused_where_it_never_fits() -> None:
    """It takes as many slots as there are, and still has to be able to finish."""
    for groups in ([FULL], [WINDOW], [FULL, WINDOW]):
        kv = manager(5, groups=groups, index="hash")
        for prompt, most, chunk in ((100, 110, 16), (8, 400, 4)):
            request = Request(np.arange(prompt), max_seq_len=most, chunk=chunk, partial=True)
            can = groups == [WINDOW] and chunk == 4
            assert kv.can_allocate(request) == (AllocStatus.OK if can else AllocStatus.NEVER)
            seq = admit(kv, request)
            assert (seq is not None) == can
            if seq is not None:
                finish(kv, seq, chunk, most)
                kv.release(seq)
    # Without one, a partial request takes the head of whatever it is.
    kv = manager(5)
    assert kv.allocate(np.arange(100), partial=True).granted_tokens == 20


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


@pytest.mark.scenario("F6")
def test_never_does_not_depend_on_what_is_cached() -> None:
    prompt = np.arange(100)
    for blocks in range(27, 36):
        answers = set()
        for found in (0, 4, 48, 96):
            kv = manager(blocks, groups=[FULL, WINDOW], index="hash")
            before = kv.allocate(prompt[:found], chunk=4).seq
            finish(kv, before, 4, found)
            kv.release(before)
            assert kv.lookup(prompt).tokens == found
            answers.add(kv.can_allocate(Request(prompt, chunk=16)))
        assert len(answers) == 1, blocks


@pytest.mark.scenario("F7")
def test_what_was_preempted_keeps_its_chunk() -> None:
    """Without it, 340 tokens at once would need twice the pool."""
    kv = manager(120, groups=[FULL, WINDOW])
    request = Request(np.arange(340), max_seq_len=400, chunk=16)
    seq = admit(kv, request)
    assert seq is not None
    finish(kv, seq, 16, 372)
    back = kv.preempt(seq)
    kv.reset_prefix_cache()
    assert kv.can_allocate(back) == AllocStatus.OK
    assert kv.allocate(back).granted_tokens == 16


@pytest.mark.scenario("F7")
def test_what_was_decoded_comes_back_in_steps_that_the_pool_can_hold() -> None:
    kv = manager(5, groups=[WINDOW])
    seq = kv.allocate([1] * 8, max_seq_len=100).seq
    finish(kv, seq, 8, 60)
    back = kv.preempt(seq)
    kv.reset_prefix_cache()
    grant = kv.allocate(back)
    assert grant.granted_tokens == 12
    finish(kv, grant.seq, 12, 100)


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


@pytest.mark.scenario("F10")
def test_forks_and_what_comes_back_keep_the_full_length() -> None:
    kv = manager(16)
    seq = kv.allocate([1] * 6, max_seq_len=8).seq
    kv.commit(seq, 6)
    child = kv.fork(seq)
    kv.append(child, [2, 2])
    kv.append(seq, [3])
    for one, more in ((child, 1), (seq, 2)):
        with pytest.raises(UsageError, match="max_seq_len = 8"):
            kv.append_placeholders(one, more)
    kv.commit(child, 8)
    back = kv.preempt(child)
    assert len(back) == 8
    again = kv.allocate(back).seq
    with pytest.raises(UsageError, match="max_seq_len = 8"):
        kv.append(again, [1])
    # A step that names one length too many changes nothing.
    before = state(kv, [seq, again])
    with pytest.raises(UsageError, match="max_seq_len = 8"):
        kv.step(append=[seq, again], tokens=[4, 4])
    assert state(kv, [seq, again]) == before
    # Cut, it may grow again.
    kv.step(truncate=([seq], [6]), append=[seq], counts=[2], tokens=[4, 4])
