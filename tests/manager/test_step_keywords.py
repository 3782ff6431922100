"""Every keyword of a step: told in its documentation, and refused by name where it is wrong."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest

from kvframe import (
    Allocation,
    HandleError,
    KVCacheManager,
    KVFrameError,
    Request,
    StaleHandleError,
    UnknownSequenceError,
    UsageError,
)

from .helpers import manager, state

NUMBERS = [[1.5], ["x"], 5, [[1]], [-1], [2**64], np.array([1.0]), "ab", {1}, object()]
"""What no list of handles, lengths or counts is."""
NUMBER = [-1, 2**64, 1.5, "x", [1], object()]
UNKNOWN, TICKET = 99, 10**9


class World(NamedTuple):
    """A manager with everything that a step may name."""

    kv: KVCacheManager
    seq: int
    chunked: int
    load: Allocation
    ended: int

    @property
    def seqs(self) -> list[int]:
        return [self.seq, self.chunked, self.load.seq]


def world() -> World:
    kv = manager(32)
    ended = kv.allocate([7]).seq
    kv.release(ended)
    seq, chunked = kv.allocate([1] * 6).seq, kv.allocate([2] * 12, chunk=4).seq
    kv.append_placeholders(seq, 2)
    return World(kv, seq, chunked, kv.allocate([3] * 12, num_external_tokens=8), ended)


def tables(dtype: Any = np.int32, shape: tuple[int, ...] = (1, 8)) -> np.ndarray[Any, Any]:
    return np.full(shape, 7, dtype)


def pairs(w: World, name: str, far: int) -> list[tuple[dict[str, Any], type[KVFrameError], str]]:
    """What is wrong with (sequences, lengths), of which ``far`` is too long."""
    wrong: list[Any] = [1, (), ([1],), ([1], [1], [1], [1]), "ab", [[w.seq], "x"], ([w.seq], [1.5])]
    wrong += [([w.seq], [-1]), ([w.seq], [2**32]), ([w.seq], [1, 1]), ([w.seq], [far])]
    cases: list[tuple[dict[str, Any], type[KVFrameError], str]]
    cases = [({name: value}, UsageError, name) for value in wrong]
    return [
        *cases,
        ({name: ([UNKNOWN], [1])}, UnknownSequenceError, "sequence 99 is"),
        ({name: ([w.ended], [1])}, StaleHandleError, f"{w.ended}"),
    ]


def handles(w: World, name: str) -> list[tuple[dict[str, Any], type[KVFrameError], str]]:
    return [
        *[({name: value}, UsageError, name) for value in NUMBERS],
        ({name: [UNKNOWN]}, UnknownSequenceError, "sequence 99 is"),
        ({name: [w.ended]}, StaleHandleError, f"{w.ended}"),
    ]


def tickets(w: World, name: str) -> list[tuple[dict[str, Any], type[KVFrameError], str]]:
    return [
        *[({name: value}, UsageError, name) for value in NUMBERS],
        ({name: [TICKET]}, HandleError, f"ticket {TICKET}"),
        ({name: [w.load.load] * 2}, HandleError, f"ticket {w.load.load} is named twice"),
    ]


def buffers(
    w: World, name: str, good: Any, *wrong: Any
) -> list[tuple[dict[str, Any], type[KVFrameError], str]]:
    """What no buffer is; ``wrong`` is an array and does not do either."""
    read_only = good.copy()
    read_only.flags.writeable = False
    others = [5, "ab", object(), [5], [None], {1: 2}, [good, good.copy()], read_only, *wrong]
    grows = {"append": [w.load.seq], "tokens": [1]}
    return [({**grows, name: value}, UsageError, name) for value in others]


def cases(w: World) -> dict[str, list[tuple[dict[str, Any], type[KVFrameError], str]]]:
    seq, load = w.seq, w.load.load
    grows = {"append": [w.load.seq]}
    return {
        "done": tickets(w, "done"),
        "failed": tickets(w, "failed"),
        "loaded": [
            *[({"loaded": v}, UsageError, "loaded") for v in (1, ([1],), ([load], [1.5]))],
            ({"loaded": ([load], [3])}, UsageError, "loaded = 3: .* 2 blocks"),
            ({"loaded": ([load], [1, 1])}, UsageError, "loaded: 1 tickets, 2 blocks"),
            ({"loaded": ([TICKET], [0])}, HandleError, f"ticket {TICKET}"),
            (
                {"loaded": ([load], [2]), "done": [load]},
                HandleError,
                f"ticket {load} is named twice",
            ),
        ],
        "truncate": pairs(w, "truncate", 9),
        "fill": [
            *[({"fill": v}, UsageError, "fill") for v in (1, ([1],), ([seq], [1], [1], [1]))],
            ({"fill": ([seq], [1, 1])}, UsageError, "fill: 1 sequences"),
            ({"fill": ([seq], [3], [1, 1])}, UsageError, "fill: 1 sequences"),
            ({"fill": ([seq], [3], [1, 1, 1])}, UsageError, "fill"),
            ({"fill": ([seq], ["x"])}, UsageError, "tokens"),
            ({"fill": ([seq], [2**32])}, UsageError, "tokens"),
            ({"fill": ([seq], [-1], [1])}, UsageError, "counts"),
            ({"fill": ([1.5], [1])}, UsageError, "fill"),
            ({"fill": ([UNKNOWN], [1])}, UnknownSequenceError, "sequence 99 is"),
            ({"fill": ([w.ended], [1])}, StaleHandleError, f"{w.ended}"),
        ],
        "commit": pairs(w, "commit", 9),
        "fork": handles(w, "fork"),
        "release": [
            *handles(w, "release"),
            ({"release": [seq, seq]}, StaleHandleError, f"release = {seq}: it is named twice"),
            ({"release": [seq, seq], "commit": ([seq], [99])}, StaleHandleError, "named twice"),
        ],
        "preempt": [
            *handles(w, "preempt"),
            ({"preempt": [seq], "release": [seq]}, StaleHandleError, f"preempt = {seq}: .* twice"),
        ],
        "fence": [({"fence": value}, UsageError, "fence") for value in NUMBER],
        "passed": [({"passed": value}, UsageError, "passed") for value in NUMBER],
        "append": [
            *handles(w, "append"),
            ({"append": [seq], "release": [seq]}, StaleHandleError, f"append = {seq}: .* ends it"),
            ({"append": [seq, seq]}, UsageError, f"append = {seq}"),
            ({"append": [w.chunked]}, UsageError, "append = 1: .*extend"),
        ],
        "counts": [
            *[({**grows, "counts": value}, UsageError, "counts") for value in NUMBERS],
            ({**grows, "counts": [2**32]}, UsageError, "counts"),
            ({**grows, "counts": [1, 1]}, UsageError, "append: 1 sequences, 2 counts"),
            ({"counts": [1]}, UsageError, "append: 0 sequences, 1 counts"),
        ],
        "tokens": [
            *[({**grows, "tokens": v}, UsageError, "tokens") for v in NUMBERS if v != {1}],
            ({**grows, "tokens": [2**32]}, UsageError, "tokens"),
            ({**grows, "tokens": [1, 1]}, UsageError, "append: 1 sequences, .* 2 ids"),
            ({"append": [seq], "tokens": [1]}, UsageError, "ids"),
        ],
        "extend": pairs(w, "extend", 13),
        "allocate": [
            *[({"allocate": value}, UsageError, "allocate") for value in (5, "ab", b"ab", [None])],
            ({"allocate": np.array([1, 2])}, UsageError, "allocate"),
            *[({"allocate": value}, UsageError, "prompt") for value in ([5], ["ab"], [[1.5]])],
        ],
        "token_budget": [({"token_budget": v}, UsageError, "token_budget") for v in NUMBER],
        "batch_tokens": [({"batch_tokens": v}, UsageError, "batch_tokens") for v in NUMBER],
        "skip_refused": [
            ({"skip_refused": value}, UsageError, "skip_refused = .*: must be True or False")
            for value in (2, "yes", [True], object())
        ],
        "tables": [
            *buffers(w, "tables", tables(), tables(np.int64), tables(shape=(8,))),
            ({**grows, "tables": tables(shape=(0, 8))}, UsageError, "tables has 0 rows"),
            ({**grows, "tables": tables(shape=(1, 3))}, UsageError, "tables has 3 columns"),
        ],
        "slots": [
            *buffers(w, "slots", tables(np.int64, (4,)), tables(shape=(4,)), tables(np.int64)),
            ({**grows, "slots": tables(np.int64, (0,))}, UsageError, "slots holds 0"),
        ],
        "rows": [
            *[({**grows, "rows": value}, UsageError, "rows") for value in NUMBERS],
            ({**grows, "rows": [0, 1]}, UsageError, "1 sequences grow, but rows has 2"),
            ({**grows, "rows": [1], "tables": tables()}, UsageError, "rows has 1, but tables has"),
        ],
    }


KEYWORDS = [
    name
    for name, one in inspect.signature(KVCacheManager.step).parameters.items()
    if one.kind is one.KEYWORD_ONLY
]


def test_every_keyword_is_here() -> None:
    assert [*cases(world())] == KEYWORDS


def test_every_keyword_is_documented() -> None:
    told, _, raised = (inspect.getdoc(KVCacheManager.step) or "").partition("Raises:")
    assert [name for name in KEYWORDS if f"\n    {name}: " not in told] == []
    assert all(error in raised for error in ("HandleError", "UsageError"))


@pytest.mark.scenario("I13", "I3", "MK-B11")
@pytest.mark.parametrize("name", KEYWORDS)
def test_what_is_wrong_with_a_keyword_is_told_by_its_name(name: str) -> None:
    """Beside parts that are right: none of them is done."""
    w = world()
    before = state(w.kv, w.seqs)
    right = {"commit": ([w.seq], [3]), "fork": [w.load.seq], "passed": 7}
    for step, error, match in cases(w)[name]:
        with pytest.raises(error, match=match) as caught:
            w.kv.step(**{**right, **step})
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250
        buffer = step.get("tables", step.get("slots"))
        assert not isinstance(buffer, np.ndarray) or (buffer == 7).all()
    assert state(w.kv, w.seqs) == before
    w.kv.check_integrity()


def test_none_is_nothing_of_a_keyword() -> None:
    w = world()
    before = state(w.kv, w.seqs)
    nothing: dict[str, Any] = dict.fromkeys(KEYWORDS)
    w.kv.step(**nothing)
    assert state(w.kv, w.seqs) == before


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_handles_of_any_integer_dtype(dtype: Any) -> None:
    kv = manager()
    seq = kv.allocate([1] * 4).seq
    kv.step(commit=(np.array([seq], np.uint64), np.array([4], dtype)))
    kv.step(append=[seq], counts=np.array([2], dtype), tokens=np.array([5, 6], dtype))
    assert kv.lengths(seq).slots == 6
    out = kv.step(allocate=(Request([9]), np.array([8, 8], np.uint32)))
    assert [grant and grant.prompt_tokens for grant in out.allocations] == [1, 2]


def test_a_misspelt_keyword_is_named() -> None:
    w = world()
    before = state(w.kv)
    with pytest.raises(UsageError, match=r"comit: a step has no .*; did you mean commit\?"):
        w.kv.step(comit=([w.seq], [1]))  # type: ignore[arg-type]
    assert state(w.kv) == before
