"""`SlotCache` from Python: what it gives and refuses, policies in Python, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import (
    CapacityError,
    Config,
    HandleError,
    NeverFitsError,
    PluginError,
    PolicyConfig,
    SlotCache,
    StaleHandleError,
    UsageError,
)
from kvframe.policies import BatchedEviction, Candidates

from ..manager.helpers import registry


def served(kv: SlotCache, prompt: list[int], **space: Any) -> tuple[int, int, int | None]:
    """A prompt from admission to its end: its slot, what was cached, what it was copied from."""
    grant = kv.admit(prompt, **space)
    plan = kv.take_plan()
    if plan is not None:
        kv.done(plan.ticket)
    kv.commit(grant.seq, len(prompt))
    kv.release(grant.seq)
    kv.check_integrity()
    return grant.slot, grant.cached_tokens, grant.copied_from


@pytest.mark.scenario("SA-1", "SA-2")
def test_slots_come_in_order_and_each_sequence_is_a_version() -> None:
    kv = SlotCache(4, 64)
    grants = [kv.admit([word]) for word in range(4)]
    assert [(g.slot, g.version) for g in grants] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    with pytest.raises(CapacityError, match="all 4 slots are in use"):
        kv.admit([9])
    kv.release(grants[2].seq)
    again = kv.admit([9])
    assert (again.slot, again.version) == (2, 2)
    with pytest.raises(StaleHandleError):
        kv.release(grants[2].seq)
    with pytest.raises(HandleError):
        kv.commit(99, 1)


@pytest.mark.scenario("SA-3", "SA-5", "SA-B6", "SA-B7")
def test_in_place_where_nothing_is_lost_else_by_a_copy() -> None:
    kv = SlotCache(2, 64)
    assert served(kv, [1, 2, 3, 4, 5, 6]) == (0, 0, None)
    assert kv.lookup([1, 2, 3, 4, 5, 6, 7]) == 6
    assert kv.lookup([1, 2, 9]) == 2
    assert kv.lookup([9, 1]) == 0
    assert served(kv, [1, 2, 3, 40, 50, 60]) == (1, 3, 0)
    # Both are found, the older one too.
    assert served(kv, [1, 2, 3, 4, 5, 6, 7]) == (0, 6, None)
    assert served(kv, [1, 2, 3, 40, 50, 60, 70]) == (1, 6, None)
    # With no slot left, the one that is given up goes on behind what it shares.
    assert served(kv, [1, 2, 3, 4, 0]) == (0, 4, None)
    assert kv.lookup([1, 2, 3, 4, 5, 6, 7, 8]) == 4, "what was overwritten is not found"
    stats = kv.stats()
    assert (stats["copies"], stats["copied_tokens"], stats["overwritten_tokens"]) == (1, 3, 3)


@pytest.mark.scenario("SA-B12")
def test_a_plan_names_slots_and_a_failed_one_who_starts_anew() -> None:
    kv = SlotCache(2, 64)
    served(kv, [1, 2, 3, 4])
    grant = kv.admit([1, 2, 9])
    plan = kv.take_plan()
    assert plan is not None
    assert plan.copies.tolist() == [[0, 1, 2, 0]]
    with pytest.raises(CapacityError):
        kv.admit([7])
    assert kv.failed(plan.ticket) == [grant.seq]
    with pytest.raises(HandleError):
        kv.done(plan.ticket)
    assert [(slot.state, slot.committed, slot.found) for slot in kv.slots()] == [
        ("cached", 4, 4),
        ("live", 0, 0),
    ]


def test_a_decode_step_and_a_cut() -> None:
    kv = SlotCache(2, 4)
    seqs = np.array([kv.admit([1, 2]).seq, kv.admit([3]).seq])
    kv.advance(seqs, np.array([5, 6]))
    assert [(slot.known, slot.found) for slot in kv.slots()] == [(3, 2), (2, 1)]
    for wrong in ([seqs[0], seqs[0]], [seqs[0]]):
        with pytest.raises(UsageError):
            kv.advance(wrong, [7, 8])
    kv.append(int(seqs[0]), [8])
    with pytest.raises(NeverFitsError, match="needs 5 tokens, but a slot holds 4"):
        kv.advance(seqs, [9, 9])
    kv.truncate(int(seqs[0]), 1)
    assert kv.lookup([1, 2, 5]) == 1
    kv.check_integrity()


def test_namespaces_and_weights_share_nothing() -> None:
    kv = SlotCache(4, 64)
    served(kv, [1, 2, 3], salt="a", adapter="bc")
    assert kv.lookup([1, 2, 3, 4], salt="ab", adapter="c") == 0
    assert kv.lookup([1, 2, 3, 4], salt="a", adapter="bc") == 3
    assert kv.set_fingerprint("others") == 1
    assert kv.lookup([1, 2, 3, 4], salt="a", adapter="bc") == 0
    assert kv.clear_cache() == 0


def test_wrong_values_are_named() -> None:
    with pytest.raises(UsageError, match="slots = 0"):
        SlotCache(0, 1)
    with pytest.raises(UsageError, match="length = 0"):
        SlotCache(1, 0)
    with pytest.raises(UsageError, match="least_copy = 0"):
        SlotCache(1, 1, least_copy=0)
    with pytest.raises(PluginError, match="lruu"):
        SlotCache(1, 1, policy="lruu")
    kv = SlotCache(1, 4)
    with pytest.raises(UsageError, match="prompt"):
        kv.admit([])
    with pytest.raises(NeverFitsError):
        kv.admit([0] * 5)
    with pytest.raises(UsageError, match=r"salt = 3"):
        kv.lookup([1], salt=3)  # type: ignore[arg-type]


class Shortest(BatchedEviction):
    """The slot with the fewest tokens when it was first found goes first."""

    columns = ("depth",)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        out[:] = candidates["depth"]


def test_a_policy_in_python_says_which_slot_is_given_up() -> None:
    known = registry("shortest", lambda _: Shortest())
    resolved = Config(policy=PolicyConfig(eviction="shortest")).resolve(known)
    kv = SlotCache(3, 64, policy=resolved)
    for prompt in ([1] * 9, [2] * 3, [3] * 6):
        served(kv, prompt)
    assert served(kv, [4, 4, 4, 4])[0] == 1
    assert served(kv, [5] * 20)[0] == 1
    assert kv.stats()["policy_failures"] == 0
    assert kv.lookup([1] * 10) == 9


@pytest.mark.scenario("SA-6", "SA-B13")
def test_threads_may_share_a_cache() -> None:
    kv = SlotCache(8, 32)

    def work(seed: int) -> int:
        dice = Random(seed)
        refused = 0
        for _ in range(300):
            prompt = [dice.randrange(2) for _ in range(dice.randint(1, 30))]
            try:
                grant = kv.admit(prompt)
            except CapacityError:
                refused += 1
                continue
            plan = kv.take_plan()
            if plan is not None:
                kv.done(plan.ticket)
            assert kv.lookup(prompt) < len(prompt)
            kv.commit(grant.seq, len(prompt))
            kv.release(grant.seq)
        return refused

    with ThreadPoolExecutor(6) as threads:
        refused = sum(threads.map(work, range(6)))
    kv.check_integrity()
    assert kv.stats()["admitted"] + refused == 1800
    assert all(slot.state in ("cached", "empty") for slot in kv.slots())
