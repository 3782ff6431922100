"""Policies that break their contract: the engine stays up, the policy is named."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, NeverFitsError, PolicyError
from kvframe.policies import BatchedEviction

from .helpers import VERSION, cached, manager, registry, state

numbers = count()
Body = Callable[..., object]


def raises(candidates: Any, out: Any) -> None:
    raise ZeroDivisionError("no idea")


def answers(candidates: Any, out: Any) -> Any:
    out[:] = 0
    return out


def sets_nan(candidates: Any, out: Any) -> None:
    out[:] = 0
    out[-1] = np.nan


def leaves_unset(candidates: Any, out: Any) -> None:
    out[:-1] = 0


def wrong_shape(candidates: Any, out: Any) -> None:
    out[:] = np.zeros((len(out) + 1,))


def resizes(candidates: Any, out: Any) -> None:
    out.resize(1, refcheck=False)


def retypes(candidates: Any, out: Any) -> None:
    out[:] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out.dtype = np.float32


def writes_input(candidates: Any, out: Any) -> None:
    out[:] = 0
    candidates["last_use"][:] = 0


def unfreezes_input(candidates: Any, out: Any) -> None:
    candidates["last_use"].setflags(write=True)


def wants_more(candidates: Any, out: Any) -> None:
    out[:] = candidates["depth"]


def complex_scores(candidates: Any, out: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out[:] = np.full(len(out), 1j)


SCORES: dict[str, tuple[Body, str]] = {
    "raises": (raises, "ZeroDivisionError: no idea"),
    "answers": (answers, "score must fill out and return None"),
    "sets nan": (sets_nan, r"score 3 of 4 \(block \d+\) is NaN or unset"),
    "leaves unset": (leaves_unset, r"score 3 of 4 \(block \d+\) is NaN or unset"),
    "wrong shape": (wrong_shape, "ValueError: could not broadcast"),
    "resizes": (resizes, "ValueError: cannot resize"),
    "retypes": (retypes, "PolicyError: "),
    "writes input": (writes_input, "read-only"),
    "unfreezes input": (unfreezes_input, "cannot set WRITEABLE"),
    "wants a column not asked for": (
        wants_more,
        "KeyError: 'depth'; the policy's columns name only ",
    ),
    "complex": (complex_scores, "Complex"),
}


def not_offered(n: int, offer: Any, out: Any) -> None:
    out[:] = 77


def negative(n: int, offer: Any, out: Any) -> None:
    out[:] = -5


def huge(n: int, offer: Any, out: Any) -> None:
    out[:] = 2**40


def twice(n: int, offer: Any, out: Any) -> None:
    out[:] = offer["block"][0]


def parent_first(n: int, offer: Any, out: Any) -> None:
    out[:] = offer["block"][::-1][:n]


def too_few(n: int, offer: Any, out: Any) -> None:
    out[0] = offer["block"][0]


def none_at_all(n: int, offer: Any, out: Any) -> None:
    pass


def gap(n: int, offer: Any, out: Any) -> None:
    out[1] = offer["block"][0]


def answers_victims(n: int, offer: Any, out: Any) -> Any:
    return offer["block"][:n]


VICTIMS: dict[str, tuple[Body, str]] = {
    "raises": (lambda n, offer, out: 1 // 0, "ZeroDivisionError"),
    "not offered": (not_offered, "block 77 was not offered"),
    "negative": (negative, "victim -5 is not a block id"),
    "huge": (huge, "victim 1099511627776 is not a block id"),
    "twice": (twice, r"block \d+ is named twice"),
    "parent first": (parent_first, r"block \d+ is named before a block that follows it"),
    "too few": (too_few, "named 1 of 2 victims"),
    "none": (none_at_all, "named 0 of 2 victims"),
    "gap": (gap, "named 0 of 2 victims"),
    "answers": (answers_victims, "victims must fill out and return None"),
}


def holds(
    way: str, body: Body, on_error: str, name: str | None = None
) -> tuple[KVCacheManager, str]:
    """A full pool of two prefixes of two blocks, under a policy of its own name."""

    class Policy(BatchedEviction):
        pass

    setattr(Policy, way, lambda self, *args: body(*args))
    name = name or f"bad{next(numbers)}"
    known = registry(name, lambda _: Policy())
    kv = manager(4, policy=name, known=known, on_error=on_error)
    cached(kv, [1] * 4 + [2] * 4)
    cached(kv, [3] * 4 + [4] * 4)
    return kv, name


CASES = [("score", name, *SCORES[name]) for name in SCORES] + [
    ("victims", name, *VICTIMS[name]) for name in VICTIMS
]


@pytest.mark.parametrize(("way", "name", "body", "message"), CASES)
def test_a_strict_policy_that_fails_is_raised_and_nothing_has_moved(
    way: str, name: str, body: Body, message: str
) -> None:
    kv, called = holds(way, body, "raise")
    before = state(kv)
    for failures in (1, 2):
        with pytest.raises(PolicyError, match=message) as caught:
            kv.allocate([9] * 8)
        assert str(caught.value).startswith(f"{called} (kvframe-test {VERSION}): ")
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None
        assert kv.stats.counters()["policy_failures"] == failures
    assert state(kv) == before
    kv.check_integrity()
    with pytest.raises(PolicyError):
        kv.blocks.take(out=np.zeros(2, np.int32))
    assert state(kv) == before
    with pytest.raises(NeverFitsError):
        kv.allocate([9] * 16 + [1])
    assert kv.stats.counters()["policy_failures"] == 3, "asked although the request never fits"


def test_a_warning_turned_into_an_error_breaks_no_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kv, called = holds("score", raises, "fallback")
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: told.append(info.exc_value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            grant = kv.allocate([9] * 8)
            kv.release(grant.seq)
    assert [type(error) for error in told] == [RuntimeWarning]
    assert str(told[0]).startswith(f"{called} (kvframe-test {VERSION}): ZeroDivisionError")
    assert kv.stats.counters()["policy_failures"] == 1
    kv.check_integrity()


class Hoards(BatchedEviction):
    """Keeps what it is lent in some way, or spoils it, and scores by the block's last use."""

    columns = ("last_use", "block")

    def __init__(self, way: str) -> None:
        self.way = way
        self.kept: list[tuple[Any, Any]] = []

    def score(self, candidates: Any, out: Any) -> None:
        block = candidates["block"]
        keep = {
            "offer": candidates,
            "column": block,
            "view": block[1:],
            "strided": block[::2],
            "memory": memoryview(block),
            "out": out,
        }
        out[:] = candidates["last_use"]
        if self.way in keep:
            kept = keep[self.way]
            array = kept["block"] if self.way == "offer" else kept
            self.kept.append((array, np.array(array)))
        elif self.way == "read-only":
            out.setflags(write=False)
        elif self.way == "reshaped":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                block.shape = (2, -1)


@pytest.mark.parametrize(
    "way",
    ["nothing", "offer", "column", "view", "strided", "memory", "out", "read-only", "reshaped"],
)
def test_what_a_policy_keeps_of_a_decision_stays_as_it_was(way: str) -> None:
    policy, name = Hoards(way), f"hoards{next(numbers)}"
    kv = manager(8, policy=name, known=registry(name, lambda _: policy))
    twin = manager(8, policy="lru")
    for prompt in range(20):
        for one in (kv, twin):
            cached(one, [prompt * 10 + i // 4 for i in range(8)])
        assert kv.counts() == twin.counts()
    for array, before in policy.kept:
        assert np.array_equal(array, before)
    assert [kv.lookup([p * 10] * 4 + [p * 10 + 1] * 5).tokens for p in range(20)] == [
        twin.lookup([p * 10] * 4 + [p * 10 + 1] * 5).tokens for p in range(20)
    ]
    kv.check_integrity()


@pytest.mark.parametrize(("way", "name", "body", "message"), CASES)
def test_the_built_in_order_stands_in_and_says_so_once(
    way: str, name: str, body: Body, message: str
) -> None:
    kv, called = holds(way, body, "fallback")
    with pytest.warns(RuntimeWarning, match=message) as told:
        kv.allocate([9] * 8)
    assert len(told) == 1
    text = str(told[0].message)
    assert text.startswith(f"{called} (kvframe-test {VERSION}): ")
    assert text.endswith("the built-in order takes this decision")
    # Least recently used, its tail first.
    assert [kv.lookup(p).tokens for p in ([1] * 4 + [2] * 5, [3] * 4 + [4] * 5)] == [0, 8]
    kv.check_integrity()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kv.allocate([8] * 8)
    assert kv.stats.counters()["policy_failures"] == 2
    assert kv.stats.counters()["evictions"] == 4
    kv.check_integrity()


def test_each_manager_warns_where_it_was_called() -> None:
    for body, message in ((raises, "no idea"), (sets_nan, "is NaN or unset")):
        kv, _ = holds("score", body, "fallback", "one-name")
        with pytest.warns(RuntimeWarning, match=message) as told:
            kv.allocate([9] * 8)
        assert [one.filename for one in told] == [__file__]


@pytest.mark.parametrize("on_error", ["raise", "fallback"])
def test_an_interrupt_is_not_a_failure(on_error: str) -> None:
    def body(candidates: Any, out: Any) -> None:
        raise KeyboardInterrupt

    kv, _ = holds("score", body, on_error)
    before = state(kv)
    with pytest.raises(KeyboardInterrupt):
        kv.allocate([9] * 4)
    assert state(kv) == before
    assert kv.stats.counters()["policy_failures"] == 0
    kv.check_integrity()


def test_a_policy_that_sleeps_only_takes_its_time() -> None:
    def body(candidates: Any, out: Any) -> None:
        time.sleep(0.05)
        out[:] = -candidates["last_use"].astype(float)

    kv, _ = holds("score", body, "raise")
    kv.allocate([9] * 4)
    assert kv.lookup([1] * 4 + [2] * 5).tokens == 8
    assert kv.stats.counters()["policy_failures"] == 0
    kv.check_integrity()


def test_infinite_scores_are_scores() -> None:
    def body(candidates: Any, out: Any) -> None:
        out[:] = np.inf
        out[-1] = -np.inf

    kv, _ = holds("score", body, "raise")
    kv.allocate([9] * 4)
    assert kv.stats.counters()["evictions"] == 1
    kv.check_integrity()


@pytest.mark.scenario("I14")
def test_a_policy_may_call_its_manager() -> None:
    seen: list[Any] = []

    def body(candidates: Any, out: Any) -> None:
        seen.append(kv.counts())
        kv.check_integrity()
        kv.lookup([1] * 9)
        if len(seen) == 1:
            kv.allocate([1] * 4 + [2] * 4 + [5], until=8)
        out[:] = candidates["last_use"]

    kv, _ = holds("score", body, "raise")
    kv.allocate([9] * 4)
    assert seen[0] == (0, 4, 0, 4)
    assert kv.counts() == (0, 1, 3, 4)
    assert kv.lookup([3] * 4 + [4] * 5).tokens == 4
    kv.check_integrity()


def test_a_policy_that_asks_for_room_for_ever_is_stopped() -> None:
    def body(candidates: Any, out: Any) -> None:
        kv.allocate([9] * 8)

    kv, name = holds("score", body, "raise")
    before = state(kv)
    with pytest.raises(PolicyError, match=f"{name} "):
        kv.allocate([9] * 8)
    assert state(kv) == before
    kv.check_integrity()


def test_an_event_method_that_raises_is_a_failure_too() -> None:
    class Policy(BatchedEviction):
        def insert(self, blocks: Any, now: int) -> None:
            raise LookupError("lost my books")

        def score(self, candidates: Any, out: Any) -> None:
            out[:] = 0

    kv = manager(2, policy="books", known=registry("books", lambda _: Policy()))
    cached(kv, [1] * 8)
    with pytest.raises(PolicyError, match="LookupError: lost my books"):
        kv.allocate([9] * 4)
    assert kv.counts() == (0, 2, 0, 2)
    kv.check_integrity()


def fails(options: Any) -> object:
    raise OSError("no model file")


def leaves(options: Any) -> object:
    sys.exit(3)


class Columns(BatchedEviction):
    columns = ("last_use", "colour")


class Near(BatchedEviction):
    columns = ("last_used",)


class Text(BatchedEviction):
    columns = "depth"  # type: ignore[assignment]


class Unnamed(BatchedEviction):
    columns = None  # type: ignore[assignment]


class Nested(BatchedEviction):
    columns = (["depth"],)  # type: ignore[assignment]


class Yes(BatchedEviction):
    floats = "yes"  # type: ignore[assignment]


class Below(BatchedEviction):
    window = -1


class Every(BatchedEviction):
    window = "all"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (fails, "cannot be made: OSError: no model file"),
        (leaves, "cannot be made: SystemExit: 3"),
        (lambda _: object(), "make\\(\\) gave a object, not a kvframe.policies.BatchedEviction"),
        (lambda _: None, "make\\(\\) gave a NoneType"),
        (lambda _: Columns(), "no column is called 'colour'; there are block, "),
        (lambda _: Near(), "no column is called 'last_used'; did you mean last_use\\? There are b"),
        (lambda _: Text(), 'columns = "depth" is a string: write \\("depth",\\)'),
        (lambda _: Unnamed(), "columns = None: must be a tuple of names"),
        (lambda _: Nested(), "no column is called \\['depth'\\]; did you mean depth"),
        (lambda _: Yes(), "floats = 'yes': must be True or False"),
        (lambda _: Below(), "window = -1: must be a whole number of candidates, 0 for all"),
        (lambda _: Every(), "window = 'all': must be a whole number of candidates, 0 for all"),
    ],
)
def test_a_policy_that_cannot_be_made_is_named(make: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message) as caught:
        manager(policy="unmade", known=registry("unmade", make))
    assert str(caught.value).startswith(f"unmade (kvframe-test {VERSION}): ")


def test_one_that_overrides_neither_says_so() -> None:
    kv = manager(1, policy="idle", known=registry("idle", lambda _: BatchedEviction()))
    cached(kv, [1] * 4)
    with pytest.raises(PolicyError, match="BatchedEviction must override score or victims"):
        kv.allocate([2])


def test_a_policy_of_this_process_is_named_without_a_stray_space() -> None:
    from kvframe import Registry

    from .helpers import Holder

    known = Registry()
    known.register(Holder("local", lambda _: BatchedEviction()), "local")
    kv = manager(1, policy="local", known=known)
    cached(kv, [1] * 4)
    with pytest.raises(PolicyError, match=r"^local \(this process\): "):
        kv.allocate([2])


@pytest.mark.scenario("U-4", "U-5", "I8")
@pytest.mark.parametrize("way", ["score", "victims"])
def test_a_policy_chooses_among_what_may_die_for_this_request(way: str) -> None:
    """Blocks that the request itself is about to use are no candidates: choosing them must not
    hand the decision to the built-in order.
    """

    class Newest(BatchedEviction):
        columns = ("last_use",)

    def score(self: Any, offer: Any, out: Any) -> None:
        out[:] = -offer["last_use"].astype(float)

    def victims(self: Any, n: int, offer: Any, out: Any) -> None:
        out[:n] = offer["block"][np.argsort(-offer["last_use"].astype(float))][:n]

    setattr(Newest, way, {"score": score, "victims": victims}[way])
    kv = manager(3, policy="newest", known=registry("newest", lambda _: Newest()))
    for token in (1, 2, 3):
        cached(kv, [token] * 4)
    grant = kv.allocate([3] * 4 + [4])
    assert grant.cached_tokens == 4
    assert [kv.lookup([token] * 5).tokens for token in (1, 2, 3)] == [4, 0, 4]
    kv.check_integrity()
