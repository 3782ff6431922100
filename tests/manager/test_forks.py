"""`fork(seq, n, tokens=…)`: all forks get their slots, or none is made."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from kvframe import (
    CapacityError,
    GroupConfig,
    HandleError,
    KVCacheManager,
    Request,
    UsageError,
)
from kvframe.policies import BatchedEviction
from kvframe.stats import redrive

from .helpers import cached, manager, registry, state

FULL = GroupConfig(name="full")
WINDOW = GroupConfig(name="window", kind="sliding_window", window=5)
STATE = GroupConfig(name="state", kind="state")
SINK = GroupConfig(name="sink", kind="sink_window", window=5, sink=2)
CROSS = GroupConfig(name="cross", kind="cross")
CHUNKED = GroupConfig(name="chunked", kind="chunked", chunk=8)
WIDE = GroupConfig(name="wide", block_size=8)
WIDE_WINDOW = GroupConfig(name="wide", kind="sliding_window", window=6, block_size=8)

LAYOUTS = {
    "full": [FULL],
    "window": [FULL, WINDOW],
    "state": [FULL, STATE],
    "sink": [FULL, SINK],
    "cross": [FULL, CROSS],
    "chunked": [FULL, CHUNKED],
    "wide": [FULL, WIDE],
    "wide window": [FULL, WIDE_WINDOW],
    "many": [FULL, WINDOW, STATE, CROSS],
}
NEEDS_COMPUTED = {"state", "sink", "many"}
"""Their groups fork what is computed alone."""

names = count()


def running(kv: KVCacheManager, tokens: int, computed: int | None = None) -> int:
    asked: dict[str, Any] = {}
    if "cross" in {group.kind for group in kv.inspect.resolved.config.groups}:
        asked = {"encoder": b"image", "encoder_tokens": 5}
    seq = kv.allocate(range(tokens), **asked).seq
    kv.commit(seq, tokens if computed is None else computed)
    return seq


@pytest.mark.parametrize("tokens", [6, 8, 11, 14])
@pytest.mark.parametrize(
    ("layout", "computed"),
    [
        (layout, computed)
        for layout in LAYOUTS
        for computed in ([None] if layout in NEEDS_COMPUTED else [0, 3, None])
    ],
)
def test_without_room_for_all_forks_nothing_has_changed(
    layout: str, tokens: int, computed: int | None
) -> None:
    groups = LAYOUTS[layout]
    free = manager(128, groups=groups)
    seq = running(free, tokens, computed)
    before = free.counts().available
    free.fork(seq, 3, tokens=[7, 8, 9])
    needed = before - free.counts().available
    assert needed > 0
    kv = manager(128, groups=groups, event_log=True)
    seq = running(kv, tokens, computed)
    kv.blocks.take(kv.counts().available - needed + 1)
    kv.log.take()
    was = state(kv, kv.inspect.running().tolist())
    with pytest.raises(CapacityError, match=rf"needs {needed} blocks, but only {needed - 1}"):
        kv.fork(seq, 3, tokens=[7, 8, 9])
    assert state(kv, kv.inspect.running().tolist()) == was
    assert [event.kind.name for event in kv.log.take()] == ["REFUSE"]
    assert kv.inspect.running().tolist() == [seq]
    kv.release(seq)
    kv.check_integrity()


def test_exactly_enough_room_is_enough_and_evicts_what_is_cached() -> None:
    kv = manager(8)
    cached(kv, range(100, 116))
    seq = running(kv, 6)
    kv.blocks.take(2)
    assert kv.counts()[:2] == (0, 4)
    forks = kv.fork(seq, 4, tokens=[1, 2, 3, 4])
    assert kv.counts()[:2] == (0, 0)
    assert len({kv.block_table(fork)[1] for fork in forks}) == 4
    kv.check_integrity()


def test_the_copies_of_all_forks_are_in_the_next_plan() -> None:
    kv = manager(16)
    seq = running(kv, 6)
    forks = kv.fork(seq, 3, tokens=[7, 8, 9])
    first, last = kv.block_table(seq)
    copied = [kv.block_table(fork)[1] for fork in forks]
    assert [row.tolist() for row in kv.take_plan().copies] == [[last, to, 2, 0] for to in copied]
    assert {int(kv.block_table(fork)[0]) for fork in forks} == {int(first)}
    assert [kv.lengths(fork)[:3] for fork in forks] == [(7, 7, 6)] * 3
    assert kv.lengths(seq)[:3] == (6, 6, 6), "the source has not grown"
    assert kv.stats.counters()["forks"] == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_forks_are_redriven_and_end_as_any_sequence(layout: str) -> None:
    made: dict[str, Any] = {"blocks": 64, "groups": LAYOUTS[layout], "event_log": True}
    kv = manager(**made)
    seq = running(kv, 11)
    for at, fork in enumerate(kv.fork(seq, 3, tokens=[100, 101, 102])):
        kv.commit(fork, 12)
        (kv.abort if at else kv.release)(fork)
    if plan := kv.take_plan():
        kv.done(plan.ticket)
    kv.release(seq)
    kv.check_integrity()
    fresh = manager(**made)
    redrive(kv.log.take(), fresh)
    assert state(fresh) == state(kv)


class Oldest(BatchedEviction):
    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["last_use"]


class Wrong(BatchedEviction):
    def score(self, candidates: Any, out: Any) -> None:
        raise ZeroDivisionError("no idea")


def outside(policy: type, **options: Any) -> KVCacheManager:
    name = f"of-forks-{next(names)}"
    kv = manager(8, policy=name, known=registry(name, lambda _: policy()), **options)
    cached(kv, range(100, 116))
    return kv


def test_a_policy_in_python_is_asked_for_all_victims_at_once() -> None:
    kv = outside(Oldest)
    seq = running(kv, 6)
    forks = kv.fork(seq, 5, tokens=[1, 2, 3, 4, 5])
    assert (len(forks), kv.counts().cached, kv.stats.counters()["evictions"]) == (5, 1, 3)
    was = state(kv, [seq, *forks])
    with pytest.raises(CapacityError):
        kv.fork(seq, 2, tokens=[1, 2])
    assert state(kv, [seq, *forks]) == was
    kv.check_integrity()


def test_where_a_policy_in_python_fails_no_fork_is_made() -> None:
    kv = outside(Wrong, on_error="raise")
    seq = running(kv, 6)
    was = state(kv, [seq])
    with pytest.raises(Exception, match="no idea"):
        kv.fork(seq, 5, tokens=[1, 2, 3, 4, 5])
    assert (state(kv, [seq]), kv.inspect.running().tolist()) == (was, [seq])
    kv.check_integrity()


def test_forks_without_tokens_cost_no_block() -> None:
    kv = manager(2)
    seq = running(kv, 6)
    forks = kv.fork(seq, 5)
    assert kv.counts()[:3] == (0, 0, 2)
    assert [kv.lengths(fork) for fork in forks] == [kv.lengths(seq)] * 5
    kv.check_integrity()


def test_no_fork_is_none() -> None:
    kv = manager()
    seq = running(kv, 6)
    was = state(kv, [seq])
    assert kv.fork(seq, 0) == kv.fork(seq, 0, tokens=[]) == []
    assert state(kv, [seq]) == was
    with pytest.raises(HandleError):
        kv.fork(99, 0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"n": 2, "tokens": []}, "tokens = 0: must be one token for each of the 2 forks"),
        ({"n": 2, "tokens": [1, 2, 3]}, "tokens = 3: must be one token for each of the 2 forks"),
        ({"n": 0, "tokens": [1]}, "tokens = 1: must be one token for each of the 0 forks"),
        ({"n": 1, "tokens": ["a"]}, "tokens must be a 1-d array of token ids"),
        ({"n": -1}, "n = -1: must be an integer"),
        ({"n": 1.5}, "n = 1.5: must be an integer"),
        ({"n": 2**16 + 1}, "n = 65537: must be at most 65536"),
        ({"n": 2**32}, "n = 4294967296: must be an integer"),
        ({"tokens": [1]}, "tokens: needs n"),
        ({"n": 2, "upto": 4}, "upto and copy: not with n"),
        ({"n": 2, "copy": True}, "upto and copy: not with n"),
        ({"copy": 1}, "copy = 1: must be True or False"),
    ],
)
def test_what_does_not_go_together_is_told(asked: dict[str, Any], message: str) -> None:
    kv = manager()
    seq = running(kv, 6)
    was = state(kv, [seq])
    with pytest.raises(UsageError, match=message):
        kv.fork(seq, **asked)
    assert (state(kv, [seq]), kv.inspect.running().tolist()) == (was, [seq])


@pytest.mark.parametrize(
    ("prompt", "placeholders", "message"),
    [
        (Request(range(6)), 1, "ids of 1 tokens before are not known yet"),
        (Request(range(6), max_seq_len=6), 0, "max_seq_len = 6"),
        (Request(range(10), chunk=6), 0, "4 known tokens have no slots yet"),
        (Request(None, keys=np.zeros((1, 2), np.uint64), num_tokens=6), 0, "came as keys"),
    ],
)
def test_a_sequence_that_cannot_grow_has_no_forks_that_do(
    prompt: Request, placeholders: int, message: str
) -> None:
    kv = manager()
    seq = kv.allocate(prompt).seq
    kv.commit(seq, 6)
    if placeholders:
        kv.append_placeholders(seq, placeholders)
    was = state(kv, [seq])
    with pytest.raises(UsageError, match=message):
        kv.fork(seq, 2, tokens=[7, 8])
    assert (state(kv, [seq]), kv.inspect.running().tolist()) == (was, [seq])
    assert len(kv.fork(seq, 2)) == 2, "without tokens it may be forked"
    kv.check_integrity()


def test_a_found_partial_block_is_copied_once_a_fork() -> None:
    kv = manager(partial_hits=True)
    cached(kv, range(6))
    grant = kv.allocate(range(7))
    assert grant.cached_tokens == 6
    kv.commit(grant.seq, 7)
    assert len(kv.take_plan().copies) == 1, "the sequence's own"
    forks = kv.fork(grant.seq, 2, tokens=[8, 9])
    own = kv.block_table(grant.seq)[1]
    copies = kv.take_plan().copies
    assert [row.tolist() for row in copies] == [
        [own, kv.block_table(fork)[1], 3, 0] for fork in forks
    ]
    kv.check_integrity()
