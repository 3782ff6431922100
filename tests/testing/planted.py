"""Policies that each break one promise, and what the kit is to say of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from kvframe import EvictionPolicy
from kvframe.policies import BatchedEviction, Candidates
from kvframe.policies.batched import NO_NEXT_USE


class Lru(BatchedEviction):
    """A good one, to be spoilt."""

    columns: ClassVar[tuple[str, ...]] = ("last_use",)

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["last_use"]


def policy(
    make: Callable[[Any], object], options: type[msgspec.Struct] | None = None, summary: str = "bad"
) -> EvictionPolicy:
    return EvictionPolicy(
        name="planted", way="batched", summary=summary, options=options, make=make
    )


class NoDefault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    age: Annotated[int, msgspec.Meta(description="Ticks.")]


class NoDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    age: Annotated[int, msgspec.Meta(ge=0)] = 1


class TakesAnything(msgspec.Struct, frozen=True):
    age: Annotated[int, msgspec.Meta(description="Ticks.")] = 1


class Changeable(msgspec.Struct, forbid_unknown_fields=True):
    age: Annotated[int, msgspec.Meta(description="Ticks.")] = 1


class FromZero(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    half_life: Annotated[int, msgspec.Meta(ge=0, description="Ticks.")] = 100


class Divides(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        age = (candidates.now - candidates["last_use"]).astype(float)
        out[:] = -age / self.options.half_life


class Fails(Lru):
    def __init__(self, options: Any) -> None:
        raise OSError("no model file")


class NoClock(Lru):
    columns = ("last_use", "last_use_time", "inserted_time")

    def score(self, candidates: Candidates, out: Any) -> None:
        if candidates["last_use_time"].max() > candidates["inserted_time"].min() > 0:
            raise OverflowError(f"it is {candidates.time:,}")
        super().score(candidates, out)


class NoHints(Lru):
    columns = ("last_use", "next_use")

    def score(self, candidates: Candidates, out: Any) -> None:
        if (candidates["next_use"] != NO_NEXT_USE).any():
            raise LookupError("hints")
        super().score(candidates, out)


class OneString(Lru):
    columns = "depth"  # type: ignore[assignment]


class Unknown(Lru):
    columns = ("last_use", "colour")


class Twice(Lru):
    columns = ("last_use", "last_use")


class Undeclared(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["depth"]


class Raises(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        raise ZeroDivisionError("no idea")


class SetsNan(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["last_use"]
        out[-1] = np.nan


class Returns(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        return candidates["last_use"]  # type: ignore[return-value]


class Warns(Lru):
    """0 / 0 where all ages are 0, hidden from NaN."""

    def score(self, candidates: Candidates, out: Any) -> None:
        age = (candidates["last_use"] - candidates["last_use"].min()).astype(float)
        out[:] = np.nan_to_num(age / age.max())


class EventRaises(Lru):
    def hit(self, blocks: Any, now: int) -> None:
        raise LookupError("lost my books")


class Names(BatchedEviction):
    """A good one that names its victims."""

    columns: ClassVar[tuple[str, ...]] = ("block",)

    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        out[:] = eligible["block"][: len(out)]


class TooFew(Names):
    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        out[:-1] = eligible["block"][: len(out) - 1]


class NamesTwice(Names):
    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        out[:] = eligible["block"][0]


class Pinned(Names):
    """Takes what an admission has just found: its owner is running."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    def acquire(self, blocks: Any, now: int) -> None:
        self.taken = blocks.tolist()

    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        super().victims(n, eligible, out)
        if self.taken:
            out[0] = self.taken[0]


class ParentFirst(Names):
    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        out[:] = eligible["block"][::-1][: len(out)]


class Writes(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["last_use"]
        candidates["last_use"][:] = 0


class WritesEvents(Lru):
    def insert(self, blocks: Any, now: int) -> None:
        blocks.sort()
        blocks[:] = blocks[::-1]
        blocks[0] += 1


class Keeps(Lru):
    """Ranks by what it was offered the time before."""

    last: Any = None

    def score(self, candidates: Candidates, out: Any) -> None:
        before = self.last if self.last is not None else candidates["last_use"]
        out[:] = candidates["last_use"]
        out[: len(before)] -= before[: len(out)].astype(float) * 2
        self.last = candidates["last_use"]


class Retypes(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        out.resize(0, refcheck=False)


class Dice(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = [random.random() for _ in out]


class WallClock(Lru):
    """Ranks by a hash of the time."""

    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = (candidates["last_use"].astype(int) * time.perf_counter_ns()) % 97


class Shared(Lru):
    """Counts hits in the class, not in the object."""

    hits: ClassVar[dict[int, int]] = {}
    columns = ("last_use", "block")

    def __init__(self, options: Any) -> None:
        type(self).hits.clear()

    def hit(self, blocks: Any, now: int) -> None:
        for block in blocks.tolist():
            self.hits[block] = self.hits.get(block, 0) + 1

    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = [self.hits.get(block, 0) for block in candidates["block"].tolist()]


class Forgets(Lru):
    """Did not reckon with `invalidated`."""

    def remove(self, blocks: Any, why: str, now: int) -> None:
        if why != "evicted":
            raise ValueError(why)


class LongBlocks(Lru):
    """Did not reckon with blocks of one token."""

    columns = ("last_use", "depth")

    def score(self, candidates: Candidates, out: Any) -> None:
        out[:] = candidates["depth"] + 1 / (candidates.block_size - 1)


class FixedBooks(Lru):
    """Room for 64 blocks."""

    def __init__(self, options: Any) -> None:
        self.seen = np.zeros(64)

    def insert(self, blocks: Any, now: int) -> None:
        self.seen[blocks] = now


class TakesNamedForDead(Names):
    """Forgets what it has named, dead or not."""

    def __init__(self) -> None:
        self.mine: set[int] = set()

    def insert(self, blocks: Any, now: int) -> None:
        self.mine.update(blocks.tolist())

    def remove(self, blocks: Any, why: str, now: int) -> None:
        self.mine.difference_update(blocks.tolist())

    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        known = [block for block in eligible["block"].tolist() if block in self.mine][: len(out)]
        out[: len(known)] = known
        self.mine.difference_update(known)


class WantsAll(Lru):
    """Gives up where it is not shown all that is cached, time and again."""

    def __init__(self, options: Any) -> None:
        self.cached = self.short = 0

    def acquire(self, blocks: Any, now: int) -> None:
        self.cached -= len(blocks)

    def release(self, blocks: Any, now: int) -> None:
        self.cached += len(blocks)

    def remove(self, blocks: Any, why: str, now: int) -> None:
        self.cached -= len(blocks)

    def score(self, candidates: Candidates, out: Any) -> None:
        super().score(candidates, out)
        self.short = self.short + 1 if len(out) < self.cached else 0
        if self.short > 8:
            raise RuntimeError("where are the others?")


class ArgPartition(Names):
    """Wrong where all that is offered has to be evicted."""

    columns = ("block", "last_use")

    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        np.argpartition(eligible["last_use"], n)
        super().victims(n, eligible, out)


class NoTenants(Lru):
    """Takes all for one, until the column says otherwise."""

    columns = ("tenant", "last_use")

    def score(self, candidates: Candidates, out: Any) -> None:
        whose = candidates["tenant"].tolist()
        out[:] = [{0: last}[one] for one, last in zip(whose, candidates["last_use"], strict=True)]


class NoCopies(Lru):
    """Knows of no other engine."""

    columns = ("copies", "last_use")

    def score(self, candidates: Candidates, out: Any) -> None:
        copies = candidates["copies"].tolist()
        out[:] = [[last][one] for one, last in zip(copies, candidates["last_use"], strict=True)]


class Slow(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        for i in range(len(out)):
            out[i] = float(np.float64(candidates["last_use"][i]))
            time.sleep(0.000_001)


class Quadratic(Lru):
    def score(self, candidates: Candidates, out: Any) -> None:
        last = candidates["last_use"]
        out[:] = (last[None] < last[:, None]).sum(axis=1)


def cases() -> Iterator[tuple[str, EvictionPolicy, str, str]]:
    """Name, policy, promise that it breaks, and words of the finding."""

    def case(kind: type[Any], promise: str, words: str, options: Any = None) -> Any:
        names = issubclass(kind, Names)
        make = (lambda _: kind()) if names else kind
        return kind.__name__, policy(make, options), promise, words

    for schema, words in (
        (NoDefault, "NoDefault.age has no default"),
        (NoDescription, "NoDescription.age has no description"),
        (TakesAnything, "takes unknown options: add forbid_unknown_fields=True"),
        (Changeable, "can be changed after its check: add frozen=True"),
    ):
        yield schema.__name__, policy(Lru, schema), "options", words
    yield "NoSummary", policy(Lru, summary=""), "options", "summary is empty"
    yield case(Divides, "options", "with half_life = 0: score warned: divide by zero", FromZero)
    yield case(Fails, "options", "cannot be made: OSError: no model file")
    yield "NoPolicy", policy(lambda _: object()), "columns", "make() gave a object, not a kvframe"
    yield case(OneString, "columns", 'columns = "depth" is a string: write ("depth",)')
    yield case(Unknown, "columns", "no column is called 'colour'; there are block, ")
    yield case(Twice, "columns", "a column is named twice")
    yield case(Undeclared, "columns", "score reads 'depth', which it does not name")
    yield case(Raises, "answers", "score raised ZeroDivisionError: no idea")
    yield case(NoClock, "answers", "score raised OverflowError: it is 1,76")
    yield case(NoHints, "answers", "score raised LookupError: hints")
    yield case(SetsNan, "answers", "is NaN or was never written")
    yield case(Returns, "answers", "score answered with a ndarray, not in out")
    yield case(Warns, "answers", "score warned: invalid value")
    yield case(EventRaises, "answers", "hit raised LookupError: lost my books")
    yield case(ArgPartition, "answers", "victims raised ValueError: kth(=")
    yield case(NoTenants, "answers", "with tenants, and copies that others hold: score raised KeyE")
    yield case(NoCopies, "answers", "that others hold: score raised IndexError")
    yield case(TooFew, "answers", "victims named 0 of 1 blocks")
    yield case(NamesTwice, "answers", "twice")
    yield case(Pinned, "eligible", "which was not offered")
    yield case(ParentFirst, "eligible", "before one that follows it")
    yield case(Writes, "inputs", 'score wrote into candidates["last_use"]')
    yield case(WritesEvents, "inputs", "insert wrote into blocks")
    yield case(Keeps, "inputs", "it keeps an array after the call")
    yield case(Retypes, "inputs", "score changed the type or the shape of out")
    yield case(Dice, "deterministic", "the same calls gave another log")
    yield case(WallClock, "deterministic", "the same calls gave another log")
    yield case(Shared, "deterministic", "two objects of the policy share state")
    yield case(Forgets, "answers", "remove raised ValueError: invalidated")
    yield case(LongBlocks, "pools", "with 1 block: score raised ZeroDivisionError")
    yield case(FixedBooks, "answers", "insert raised IndexError")
    yield case(TakesNamedForDead, "refusals", "only `remove` is a death")
    yield case(WantsAll, "windows", "with window = 1: score raised RuntimeError")
    yield case(Slow, "cost", "a decision among 256 candidates takes")
    yield case(Quadratic, "cost", "among 4096: more than in proportion")
