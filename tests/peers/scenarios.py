"""The suite: each scenario tells what it saw, a value a name, of whichever manager it is given.

Ids are rows of tests/conformance/rows.toml or of vLLM's own tests, in our words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Seen = dict[str, Any]
SIZE = 16


class Side(Protocol):
    """A manager behind the suite's operations."""

    def call(self, op: str, **args: Any) -> Any: ...


def text(*blocks: int, extra: int = 0) -> list[int]:
    """A prompt of whole blocks, each named by a number, and ``extra`` tokens more."""
    tokens = [block * 100 + i for block in blocks for i in range(SIZE)]
    return tokens + [9_000 + i for i in range(extra)]


def prefill(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    first = side.call("alloc", name="a", tokens=text(1, 2, 3, extra=7))
    second = side.call("alloc", name="b", tokens=[*text(1, 2, 3), *[8_000 + i for i in range(5)]])
    seen = {"first": first, "second": second}
    seen["refs"] = [side.call("refs", block=b) for b in first["table"][0]]
    seen["cached"] = [side.call("cached", block=b) for b in first["table"][0]]
    side.call("free", name="a")
    side.call("free", name="b")
    seen["room"] = side.call("room")
    seen["queue_order"] = side.call("take", count=10)
    return seen


def unread(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1, 2, 3, extra=7))
    second = side.call("alloc", name="b", tokens=text(1, 2, 3, extra=7), read=False)
    refs = [side.call("refs", block=b) for b in second["table"][0]]
    cached = [side.call("cached", block=b) for b in second["table"][0]]
    return {"second": second, "refs": refs, "cached": cached}


def decode(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1, 2, 3, extra=7))
    seen = {"inside": side.call("append", name="a", tokens=[1, 2, 3, 4])}
    last = seen["inside"][0][-1]
    seen["cached before it is full"] = side.call("cached", block=last)
    seen["across"] = side.call("append", name="a", tokens=[5] * 15)
    seen["cached once full"] = side.call("cached", block=last)
    return seen


def reuse(side: Side) -> Seen:
    side.call("make", blocks=3, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1, 2))
    side.call("free", name="a")
    side.call("alloc", name="b", tokens=text(3, extra=1))
    return {
        "old": side.call("hit", tokens=text(1, 2, 9)),
        "new": side.call("hit", tokens=text(3, 9)),
    }


def keeps_hits(side: Side) -> Seen:
    side.call("make", blocks=5, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1))
    side.call("free", name="a")
    side.call("alloc", name="b", tokens=text(2))
    side.call("free", name="b")
    return {"third": side.call("alloc", name="c", tokens=text(1, 3, 4, 5))}


def no_caching(side: Side) -> Seen:
    side.call("make", blocks=5, block_size=SIZE, caching=False)
    seen = {"first": side.call("alloc", name="a", tokens=text(1, 2, 3))}
    side.call("free", name="a")
    seen["again"] = side.call("alloc", name="b", tokens=text(1, 2, 3))
    seen["full"] = side.call("alloc", name="c", tokens=text(4, 5))
    return seen


def full_blocks_only(side: Side) -> Seen:
    side.call("make", blocks=6, block_size=SIZE)
    given = side.call("alloc", name="a", tokens=text(1, 2, extra=3))
    return {"cached": [side.call("cached", block=b) for b in given["table"][0]]}


def images(side: Side) -> Seen:
    side.call("make", blocks=20, block_size=SIZE)
    tokens = text(1, 2, 3, extra=2)
    side.call("alloc", name="a", tokens=tokens, image=[20, 10, "cat"])
    same = side.call("hit", tokens=tokens, image=[20, 10, "cat"])
    return {"same": same, "other": side.call("hit", tokens=tokens, image=[20, 10, "dog"])}


def salts(side: Side) -> Seen:
    side.call("make", blocks=20, block_size=SIZE)
    tokens = text(1, 2, 3, extra=2)
    side.call("alloc", name="a", tokens=tokens, salt="x")
    return {salt: side.call("hit", tokens=tokens, salt=salt) for salt in ("x", "y", "")}


def refusal(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    first = side.call("alloc", name="a", tokens=text(1, 2, 3))
    side.call("alloc", name="b", tokens=text(11, 12, 13, 14))
    side.call("free", name="a")
    seen = {"refused": side.call("alloc", name="c", tokens=text(1, 2, 3, 4, 5, 6, 7, 8))}
    seen["refs"] = [side.call("refs", block=b) for b in first["table"][0]]
    seen["room"] = side.call("room")
    seen["hit"] = side.call("hit", tokens=text(1, 2, 3, 9))
    return seen


def reset(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1, 2, 3, extra=1))
    seen = {"while used": side.call("reset"), "then": side.call("hit", tokens=text(1, 2, 3, 4))}
    side.call("free", name="a")
    side.call("alloc", name="b", tokens=text(1, 2, 3, extra=1))
    side.call("free", name="b")
    seen["unused"] = side.call("reset")
    seen["after"] = side.call("hit", tokens=text(1, 2, 3, 4))
    return seen


def copies(side: Side) -> Seen:
    side.call("make", blocks=5, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1), read=False)
    side.call("alloc", name="b", tokens=text(1), read=False)
    side.call("free", name="a")
    side.call("free", name="b")
    seen = {"hit": [side.call("hit", tokens=text(1, 2))]}
    for _ in range(4):
        side.call("take", count=1)
        seen["hit"].append(side.call("hit", tokens=text(1, 2)))
    return seen


def events(side: Side) -> Seen:
    seen: Seen = {}
    for blocks in (2, 3, 10):
        side.call("make", blocks=blocks + 1, block_size=SIZE)
        side.call("alloc", name="a", tokens=text(*range(blocks)))
        stored = side.call("events")
        side.call("free", name="a")
        side.call("alloc", name="b", tokens=text(*range(20, 20 + blocks)))
        replaced = side.call("events")
        side.call("free", name="b")
        side.call("reset")
        seen[f"{blocks} stored"] = stored
        seen[f"{blocks} replaced"] = [
            sum(n for word, n in replaced if word == kind) for kind in ("removed", "stored")
        ]
        seen[f"{blocks} reset"] = [side.call("events"), side.call("events")]
    return seen


def external(side: Side) -> Seen:
    side.call("make", blocks=11, block_size=SIZE)
    given = side.call("alloc", name="a", tokens=text(1, 2, 3, 4, extra=1), external=3 * SIZE)
    seen = {"given": given, "room": side.call("room")}
    side.call("free", name="a")
    seen["after"] = [side.call("room"), side.call("hit", tokens=text(1, 2, 3, 4, 5))]
    return seen


def blocks_taken(side: Side) -> Seen:
    side.call("make", blocks=31, block_size=SIZE)
    seen: Seen = {}
    for i, prompt in enumerate((text(1, 2), text(1, 2, 3), text(1, 2, 3, extra=1), text(7))):
        before = side.call("room")
        side.call("alloc", name=str(i), tokens=prompt)
        seen[f"prompt {i}"] = before - side.call("room")
    return seen


def queue(side: Side) -> Seen:
    side.call("make", blocks=9, block_size=SIZE)
    seen = {"first": side.call("take", count=3), "none": side.call("take", count=0)}
    side.call("give", blocks=[1, 2, 3])
    seen["given back, taken"] = side.call("take", count=5)
    seen["too many"] = side.call("take", count=4)
    seen["the rest"] = side.call("take", count=3)
    seen["left"] = side.call("room")
    return seen


def chained(side: Side) -> Seen:
    side.call("make", blocks=9, block_size=SIZE)
    short, long = (side.call("keys", tokens=text(1, 2, *more, extra=3)) for more in ((), (3,)))
    other = side.call("keys", tokens=text(9, 2, 3))
    kept = [a == b for a, b in zip(short, long, strict=False)]
    same = [a == b for a, b in zip(long, other, strict=True)]
    return {"full blocks": [len(short), len(long)], "kept": kept, "after another first": same}


def lookahead(side: Side) -> Seen:
    seen: Seen = {}
    for ahead in (0, 1, 5, 17):
        side.call("make", blocks=9, block_size=SIZE)
        given = side.call("alloc", name="a", tokens=text(1, extra=15), lookahead=ahead)
        cached = [side.call("cached", block=b) for b in given["table"][0]]
        seen[f"{ahead} ahead"] = [side.call("room"), cached]
        seen[f"{ahead} table"] = len(side.call("table", name="a")[0])
    return seen


def deferred(side: Side) -> Seen:
    side.call("make", blocks=9, block_size=SIZE)
    side.call("alloc", name="a", tokens=text(1, 2))
    side.call("alloc", name="b", tokens=text(3, 4))
    for name in ("b", "a"):
        side.call("defer", name=name)
    seen = {"waiting": side.call("room")}
    side.call("drain")
    seen["drained"] = side.call("room")
    seen["queue_order"] = side.call("take", count=8)
    return seen


SCENARIOS: dict[str, Callable[[Side], Seen]] = {
    "VT1": prefill,
    "VT2": unread,
    "VT3": decode,
    "VT5": reuse,
    "VT6": keeps_hits,
    "VT7": no_caching,
    "VT8": full_blocks_only,
    "VT10": images,
    "VT11": salts,
    "VT12": refusal,
    "VT13": reset,
    "VT15-VT27": copies,
    "VT16": events,
    "VT34": external,
    "VT38": blocks_taken,
    "VT44": queue,
    "VT47": chained,
    "VT49": lookahead,
    "VT57": deferred,
}
