"""What a policy raises is its failure; what it does to the caller's arrays harms nothing."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from kvframe import KVCacheManager, PolicyError, Request, UsageError
from kvframe.policies import BatchedAdmission, BatchedEviction, BatchedIndex, BatchedPrefix

from .gates import gated, gates
from .helpers import cached, manager, registry
from .matchers import matched

pytestmark = pytest.mark.scenario("F20")

numbers = count()
Hook = Callable[..., Any]


class Own(BaseException):
    """No `Exception`."""


RAISED = [SystemExit, GeneratorExit, asyncio.CancelledError, Own]


def a_policy(base: type, **hooks: Hook) -> type:
    """A policy class with these methods, each without its ``self``."""
    return type("Made", (base,), {name: _method(hook) for name, hook in hooks.items()})


def _method(hook: Hook) -> Hook:
    return lambda self, *given: hook(*given)


def evicting(on_error: str, **hooks: Hook) -> KVCacheManager:
    name = f"made-{next(numbers)}"
    made = a_policy(BatchedEviction, **hooks)
    made.columns = ("block", "last_use")  # type: ignore[attr-defined]
    known = registry(name, lambda _: made())
    return manager(4, policy=name, known=known, on_error=on_error)


def admitting(on_error: str, **hooks: Hook) -> KVCacheManager:
    name = f"made-{next(numbers)}"
    made = a_policy(BatchedAdmission, **hooks)
    return gated(name, 4, known=gates(name, lambda _: made()), on_error=on_error)


def matching(base: type, on_error: str, **hooks: Hook) -> KVCacheManager:
    name = f"made-{next(numbers)}"
    made = a_policy(base, **hooks)
    return matched(made(), 4, on_error=on_error, name=name)


def zeros(*given: Any) -> None:
    given[-1][:] = 0


def keeps(*given: Any) -> None:
    given[-1][:] = 1


HOOKS: dict[str, Callable[[str, Hook], KVCacheManager]] = {
    "score": lambda on_error, hook: evicting(on_error, score=hook),
    "victims": lambda on_error, hook: evicting(on_error, victims=hook),
    "insert": lambda on_error, hook: evicting(on_error, score=zeros, insert=hook),
    "hit": lambda on_error, hook: evicting(on_error, score=zeros, hit=hook),
    "acquire": lambda on_error, hook: evicting(on_error, score=zeros, acquire=hook),
    "release": lambda on_error, hook: evicting(on_error, score=zeros, release=hook),
    "remove": lambda on_error, hook: evicting(on_error, score=zeros, remove=hook),
    "admit": lambda on_error, hook: admitting(on_error, admit=hook),
    "seen": lambda on_error, hook: admitting(on_error, admit=keeps, seen=hook),
    "start": lambda on_error, hook: admitting(on_error, admit=keeps, start=hook),
    "take": lambda on_error, hook: matching(BatchedPrefix, on_error, take=hook),
    "namespace": lambda on_error, hook: matching(BatchedPrefix, on_error, namespace=hook),
    "normalise": lambda on_error, hook: matching(BatchedPrefix, on_error, normalise=hook),
    "match": lambda on_error, hook: matching(
        BatchedIndex, on_error, match=hook, insert=zeros_of_index, remove=zeros_of_index
    ),
}


def zeros_of_index(*_: Any) -> None:
    pass


def traffic(kv: KVCacheManager) -> None:
    """Admissions, hits, commits, appends and steps enough for every hook to be called."""
    for start in (0, 0, 100, 200, 0, 300):
        prompt = np.arange(start, start + 9, dtype=np.uint32)
        grant = kv.allocate(Request(prompt))
        kv.commit(grant.seq, 9)
        kv.append(grant.seq, np.array([7], np.uint32))
        kv.release(grant.seq)


def refusal(kv: KVCacheManager) -> str:
    """What the traffic is refused with; empty if all of it is served."""
    try:
        traffic(kv)
    except PolicyError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("raised", RAISED, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_what_is_no_exception_is_a_failure_too(hook: str, raised: type[BaseException]) -> None:
    called: list[int] = []

    def body(*_: Any) -> None:
        called.append(1)
        raise raised("gone")

    kv = HOOKS[hook]("fallback", body)
    with pytest.warns(RuntimeWarning, match=f"{raised.__name__}: gone"):
        traffic(kv)
    assert called
    kv.check_integrity()
    strict = HOOKS[hook]("raise", body)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what fails outside a decision is told, and not raised
        said = refusal(strict)
    assert not said or f"{raised.__name__}: gone" in said
    strict.check_integrity()


@pytest.mark.parametrize("hook", HOOKS)
def test_an_interrupt_leaves_every_hook(hook: str) -> None:
    def body(*_: Any) -> None:
        raise KeyboardInterrupt

    kv = HOOKS[hook]("fallback", body)
    with pytest.raises(KeyboardInterrupt):
        traffic(kv)
    kv.check_integrity()


# --- arrays ---------------------------------------------------------------------------------------


def retype(array: Any) -> None:
    array.dtype = np.uint8


def reshape(array: Any) -> None:
    array.shape = (array.size, 1) if array.ndim == 1 else (array.size,)


def restride(array: Any) -> None:
    array.strides = (0,) * array.ndim


def freeze(array: Any) -> None:
    array.setflags(write=False)


def move(array: Any) -> None:
    array.resize(4 * array.size + 4096, refcheck=False)


CHANGES: dict[str, Callable[[Any], None]] = {
    "dtype": retype,
    "shape": reshape,
    "strides": restride,
    "flags": freeze,
    "memory": move,
}


def changing(change: Callable[[Any], None], arrays: list[Any]) -> KVCacheManager:
    """A manager whose policy changes the arrays at its next decision."""

    def score(offer: Any, out: Any) -> None:
        out[:] = 0
        while arrays:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                change(arrays.pop())

    kv = evicting("raise", score=score)
    cached(kv, range(8))
    cached(kv, range(100, 108))
    return kv


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("verb", ["append", "admit", "step"])
def test_tokens_that_a_policy_changes(verb: str, change: str) -> None:
    arrays: list[Any] = []
    kv = changing(CHANGES[change], arrays)
    tokens = np.arange(500, 508, dtype=np.uint32)
    if verb == "admit":
        arrays.append(tokens)
        seq = kv.allocate(tokens).seq
    else:
        seq = kv.allocate(np.array([1, 2], np.uint32)).seq
        arrays.append(tokens)
        if verb == "append":
            kv.append(seq, tokens)
        else:
            kv.step(append=[seq], counts=[8], tokens=tokens)
    assert not arrays
    kv.commit(seq, kv.lengths(seq).slots)
    held = [*([] if verb == "admit" else [1, 2]), *range(500, 508)]
    found = kv.lookup(np.array([*held, 9], np.uint32)).tokens
    assert found == len(held) // 4 * 4
    kv.check_integrity()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("which", ["tables", "slots"])
def test_outputs_of_a_step_that_a_policy_changes(which: str, change: str) -> None:
    """What the step did is told with the error; an array that moved is not written."""
    arrays: list[Any] = []
    kv = changing(CHANGES[change], arrays)
    tables, slots = np.full((2, 8), -7, np.int32), np.full(8, -7, np.int64)
    if change == "memory":  # it must own its memory
        tables, slots = tables.copy(), slots.copy()
    seq = kv.allocate(np.array([1, 2], np.uint32)).seq
    arrays.append({"tables": tables, "slots": slots}[which])
    with pytest.raises(UsageError, match="tables or slots: given another") as caught:
        kv.step(append=[seq], counts=[8], tokens=np.arange(8), tables=[tables], slots=[slots])
    stepped = caught.value.__dict__["stepped"]
    assert stepped.refused == []
    assert kv.lengths(seq).slots == 10
    kv.check_integrity()


@pytest.mark.parametrize("change", CHANGES)
def test_an_array_for_raw_blocks_that_a_policy_changes(change: str) -> None:
    arrays: list[Any] = []
    kv = changing(CHANGES[change], arrays)
    out = np.zeros(3, np.int32)
    arrays.append(out)
    with pytest.raises(UsageError, match="out: given another"):
        kv.blocks.take(out=out)
    kv.check_integrity()
    assert kv.counts().referenced == 0


def test_outputs_that_share_memory_are_refused() -> None:
    kv = manager(4)
    seq = kv.allocate([1]).seq
    memory = np.zeros(16, np.int64)
    with pytest.raises(UsageError, match="share memory"):
        kv.step(
            append=[seq],
            tokens=[1],
            tables=[memory.view(np.int32).reshape(2, 16)],
            slots=[memory],
        )
    indptr = np.zeros(4, np.int32)
    with pytest.raises(UsageError, match="indptr and out share memory"):
        kv.block_tables([seq], indptr, indptr=indptr)


# --- a policy that calls back ---------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
def test_a_policy_that_calls_its_manager_from_any_hook(hook: str) -> None:
    """Each question, and each verb that asks no policy, from inside each hook."""
    at_work: list[KVCacheManager] = []
    depth = [0]

    def body(*given: Any) -> Any:
        if at_work and depth[0] < 2:
            depth[0] += 1
            kv = at_work[0]
            kv.check_integrity()
            assert kv.stats.counters()["live_sequences"] == len(kv.inspect.running())
            other = kv.allocate(np.arange(900, 902, dtype=np.uint32), until=0).seq
            kv.lengths(other)
            kv.release(other)
            depth[0] -= 1
        if hook in ("namespace", "normalise"):
            return [None if hook == "normalise" else ""] * len(given[0])
        if hook == "match":
            return [np.zeros(0, np.int64)] * len(given[0])
        if hook == "victims":
            given[-1][:] = given[1]["block"][: given[0]]
        elif hook == "take":
            given[-1][:] = given[1]
        elif hook in ("score", "start"):
            given[-1][:] = 0
        elif hook == "admit":
            given[-1][:] = 1
        return None

    kv = HOOKS[hook]("raise", body)
    at_work.append(kv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traffic(kv)
    kv.check_integrity()
