"""Ctrl-C in a policy in Python: nothing is lost, neither what was done nor what it was to hear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kvframe import KVCacheManager, Request
from kvframe.config import Resolved
from kvframe.flat import TierPolicy
from kvframe.policies import BatchedEviction

from .helpers import cached, manager, registry, state

# So many events that the next call hands them over, whether the policy is asked or not.
PROMPT = np.arange(33_000, dtype=np.uint32)
BLOCKS = len(PROMPT) + 16


class Books(BatchedEviction):
    """Knows what is findable and owned; interrupted once where it hears of that."""

    columns = ("block",)

    def __init__(self) -> None:
        self.owned = np.zeros(BLOCKS, bool)
        self.interrupt = False

    def insert(self, blocks: Any, now: int) -> None:
        self.owned[blocks] = True
        if self.interrupt:
            self.interrupt = False
            raise KeyboardInterrupt

    def acquire(self, blocks: Any, now: int) -> None:
        self.owned[blocks] = True

    def release(self, blocks: Any, now: int) -> None:
        self.owned[blocks] = False

    def score(self, candidates: Any, out: Any) -> None:
        assert not self.owned[candidates["block"]].any()
        out[:] = candidates["block"]


def with_books() -> tuple[KVCacheManager, Books]:
    books = Books()
    return manager(BLOCKS, 1, policy="books", known=registry("books", lambda _: books)), books


CALLS: dict[str, Callable[[KVCacheManager, int], object]] = {
    "admit": lambda kv, seq: kv.allocate([7] * 8),
    "append": lambda kv, seq: kv.append(seq, [7] * 5),
    "append_unknown": lambda kv, seq: kv.append_placeholders(seq, 5),
    "reserve": lambda kv, seq: kv.extend(seq, 0, lookahead=9),
    "fork": lambda kv, seq: kv.fork(seq, upto=2),
    "lend": lambda kv, seq: kv.blocks.take(out=np.zeros(2, np.int32)),
    "collect": lambda kv, seq: kv.evict_until(32),
}


@pytest.mark.scenario("I14")
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupt_while_it_hears_comes_before_anything_is_done(call: str) -> None:
    kv, books = with_books()
    seq = kv.allocate([1 << 20] * 3).seq
    kv.commit(seq, 3)
    cached(kv, PROMPT)
    before = state(kv, [seq])
    books.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        CALLS[call](kv, seq)
    assert state(kv, [seq]) == before
    CALLS[call](kv, seq)
    kv.check_integrity()
    # What came behind the interrupted event was told with the next ones: nothing seems owned.
    kv.evict_until(64)
    assert not books.owned[kv.inspect.eviction_order()].any()
    assert kv.stats.counters()["policy_failures"] == 0


@pytest.mark.scenario("I14")
def test_an_interrupt_over_a_tier_comes_before_anything_is_done() -> None:
    books = Books()
    known = registry("books", lambda _: books)
    eviction = {"policy": "books", "on_error": "raise"}
    tier: TierPolicy[str] = TierPolicy(
        Resolved.load("/dev/null", env={}, registry=known, eviction=eviction), BLOCKS
    )
    keys = [str(token) for token in PROMPT]
    for key in keys:
        tier.insert(key)
    tier.release(keys)
    books.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        tier.acquire(["0"])
    assert tier.evictable == len(tier)
    tier.acquire(["1"])
    assert tier.evictable == len(tier) - 1
    tier.check_integrity()


class Once:
    """Token ids whose first reading is interrupted."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error: type[BaseException] | None = error

    def __array__(self, *_: Any, **__: Any) -> npt.NDArray[np.uint32]:
        error, self.error = self.error, None
        if error is not None:
            raise error
        return np.arange(9, dtype=np.uint32)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_a_prompt_is_read_is_no_wrong_prompt(error: type[BaseException]) -> None:
    kv = manager()
    for call in (kv.allocate, kv.lookup, kv.blocks.hash_blocks):
        with pytest.raises(error):
            call(Once(error))  # type: ignore[arg-type]
    assert kv.counts().referenced == 0


@pytest.mark.parametrize("others", [[], [1 << 70], [1] * 70], ids=["alone", "huge", "many"])
def test_an_interrupt_in_one_of_many_integers_is_the_callers(others: list[int]) -> None:
    """Once only: what reads them another way would find nothing wrong."""

    class Interrupted:
        told = False

        def __index__(self) -> int:
            if not self.told:
                self.told = True
                raise KeyboardInterrupt
            return 1

    kv = manager(16, 4)
    calls: list[Callable[[Any], object]] = [
        kv.lookup,
        Request,
        kv.allocate,
        lambda handles: kv.step(release=handles),
    ]
    for call in calls:
        with pytest.raises(KeyboardInterrupt):
            call([Interrupted(), *others])
    kv.check_integrity()
