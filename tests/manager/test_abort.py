"""`abort` ends a sequence as `release` does, and leaves nothing more of it to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvframe import GroupConfig, HandleError, KVCacheManager, UsageError
from kvframe.stats import redrive
from kvframe.stats.rebuild import Rebuild

from .helpers import manager, state

PROMPT = list(range(1, 10))


def ended(verb: str, kv: KVCacheManager, seq: int, **options: Any) -> int:
    """Tokens that a prompt of the same tokens and one more finds afterwards."""
    known = kv.lengths(seq).known
    getattr(kv, verb)(seq, **options)
    return kv.lookup([*range(1, known + 1), 99]).tokens


@pytest.mark.parametrize(("verb", "found"), [("release", 6), ("abort", 4)])
def test_a_partial_last_block_does_not_become_findable(verb: str, found: int) -> None:
    kv = manager(partial_hits=True)
    seq = kv.allocate(PROMPT[:6]).seq
    kv.commit(seq, 6)
    assert ended(verb, kv, seq) == found
    kv.check_integrity()


@pytest.mark.parametrize(("verb", "found", "free"), [("release", 8, 6), ("abort", 0, 8)])
def test_what_a_load_brings_does_not_become_findable(verb: str, found: int, free: int) -> None:
    kv = manager()
    grant = kv.allocate(PROMPT, external_until=8)
    assert grant.load is not None
    getattr(kv, verb)(grant.seq)
    kv.loaded(grant.load, 2)
    assert kv.lookup(PROMPT).tokens == found
    assert kv.counts().free == free
    kv.check_integrity()


def test_another_sequence_still_gets_the_load_that_it_joined() -> None:
    kv = manager()
    grant = kv.allocate(PROMPT, external_until=8)
    joined = kv.allocate([*PROMPT, 10], join=True)
    assert (grant.external_tokens, joined.joined_tokens) == (8, 8)
    assert grant.load is not None
    kv.abort(grant.seq)
    assert kv.loaded(grant.load, 2) == []
    assert kv.lengths(joined.seq).committed == 8
    kv.check_integrity()


@pytest.mark.parametrize("verb", ["release", "abort"])
def test_a_sequence_that_joined_its_computation_is_cut(verb: str) -> None:
    kv = manager()
    first = kv.allocate(PROMPT).seq
    joined = kv.allocate([*PROMPT, 10], join=True).seq
    kv.commit(first, 4)
    getattr(kv, verb)(first)
    assert kv.log.take_changes().rewound == [joined]
    assert kv.lengths(joined)[:3] == (10, 4, 4)
    kv.extend(joined, 10)
    kv.commit(joined, 10)
    assert kv.lookup([*PROMPT, 10, 11]).tokens == 8, "its own computation may be found"
    kv.check_integrity()


@pytest.mark.parametrize(("verb", "found"), [("release", 8), ("abort", 4)])
def test_what_waited_for_a_copy_does_not_become_findable(verb: str, found: int) -> None:
    kv = manager()
    first = kv.allocate(PROMPT[:6]).seq
    kv.commit(first, 6)
    (fork,) = kv.fork(first, 1, tokens=[7])
    plan = kv.take_plan()
    kv.append(fork, [8])
    kv.commit(fork, 8)
    kv.done(plan.ticket)
    assert ended(verb, kv, fork) == found
    kv.check_integrity()


def test_blocks_that_others_hold_stay() -> None:
    kv = manager()
    first = kv.allocate(PROMPT).seq
    kv.commit(first, 9)
    fork = kv.fork(first)
    kv.abort(first)
    assert kv.lengths(fork).committed == 9
    assert kv.lookup([*PROMPT, 10]).tokens == 8
    kv.append(fork, [10])
    kv.commit(fork, 10)
    kv.check_integrity()


def test_blocks_wait_for_the_fence() -> None:
    kv = manager(4)
    seq = kv.allocate(PROMPT).seq
    kv.abort(seq, fence=7)
    assert kv.counts().available == 1
    kv.step(passed=6)
    assert kv.counts().available == 1
    kv.step(passed=7)
    assert kv.counts()[:3] == (4, 0, 0)
    seq = kv.allocate(PROMPT).seq
    kv.abort(seq, fence=7)
    assert kv.counts().free == 4, "step 7 has run"
    kv.check_integrity()


def test_a_handle_ends_once_and_a_wrong_fence_ends_nothing() -> None:
    kv = manager()
    seq = kv.allocate(PROMPT).seq
    for fence in (-1, "x", 2**64):
        with pytest.raises(UsageError, match="fence = "):
            kv.abort(seq, fence=fence)  # type: ignore[arg-type]
    assert kv.lengths(seq).known == 9
    kv.abort(seq)
    for stale in (seq, 77):
        with pytest.raises(HandleError):
            kv.abort(stale)
        with pytest.raises(HandleError):
            kv.abort(stale, fence=3)


def _tail(kv: KVCacheManager) -> None:
    seq = kv.allocate(PROMPT).seq
    kv.commit(seq, 9)
    kv.abort(seq)


def _load(kv: KVCacheManager) -> None:
    grant = kv.allocate(PROMPT, external_until=8)
    assert grant.load is not None
    kv.abort(grant.seq, fence=3)
    kv.loaded(grant.load, 2)
    kv.step(passed=3)


def _failed_load(kv: KVCacheManager) -> None:
    grant = kv.allocate(PROMPT, external_until=8)
    assert grant.load is not None
    kv.abort(grant.seq)
    kv.failed(grant.load)


def _joined(kv: KVCacheManager) -> None:
    first = kv.allocate(PROMPT).seq
    kv.allocate([*PROMPT, 10], join=True)
    kv.commit(first, 4)
    kv.abort(first, fence=2)
    kv.step(passed=2)


def _forks(kv: KVCacheManager) -> None:
    first = kv.allocate(PROMPT[:6]).seq
    kv.commit(first, 6)
    for at, fork in enumerate(kv.fork(first, 3, tokens=[7, 8, 9])):
        kv.abort(fork, fence=at)
    kv.abort(first)
    kv.done(kv.take_plan().ticket)
    kv.step(passed=1)


@pytest.mark.parametrize(("groups", "partial_hits"), [(1, False), (1, True), (2, False)])
@pytest.mark.parametrize("run", [_tail, _load, _failed_load, _joined, _forks])
def test_the_log_redrives_and_rebuilds_it(
    run: Callable[[KVCacheManager], None], groups: int, partial_hits: bool
) -> None:
    window = GroupConfig(name="window", kind="sliding_window", window=5)
    made: dict[str, Any] = {
        "blocks": 32,
        "event_log": True,
        "partial_hits": partial_hits,
        "groups": [GroupConfig(name="full"), window][:groups],
    }
    kv, fresh, rebuilt = manager(**made), manager(**made), Rebuild(32, 4)
    run(kv)
    kv.check_integrity()
    log = kv.log.take()
    redrive(log, fresh)
    rebuilt.feed(log)
    running = kv.inspect.running().tolist()
    assert state(fresh, running) == state(kv, running)
    assert rebuilt.counts() == kv.counts()
    assert rebuilt.lengths == {seq: kv.lengths(seq).slots for seq in running}
