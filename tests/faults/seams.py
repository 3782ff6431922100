"""The points at which something may fail, counted as an engine passes them.

A history is run once without a fault, to count the points; then once for each point and each way
in which it may fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import kvframe
from kvframe import AdmissionPolicy, EvictionPolicy
from kvframe.pages import NumpyPool
from kvframe.policies import BatchedAdmission, BatchedEviction
from kvframe.policies.admission import Arrivals
from kvframe.policies.batched import Candidates
from kvframe.tiers import Inline

from ..tiers.helpers import Known, Plugin, Shelf

KINDS = 3
"""Ways in which a point may fail; a seam that has fewer repeats itself."""


class InjectedError(Exception):
    """What a seam raises."""


class Faults:
    """Fails at one point, in one way.

    Attributes:
        at: The point's number; None for no fault.
        kind: The way, below `KINDS`.
        passed: Points passed so far, by seam.
        failed: The seam that failed.
    """

    now: ClassVar[Faults]

    def __init__(self, at: int | None = None, kind: int = 0) -> None:
        self.at, self.kind, self.passed, self.failed = at, kind, Counter[str](), ""
        Faults.now = self

    def here(self, seam: str) -> int | None:
        """Pass a point; the way in which it fails, None if it does not."""
        place = self.passed.total()
        self.passed[seam] += 1
        if place != self.at:
            return None
        self.failed = seam
        return self.kind

    def raises(self, seam: str) -> None:
        """Pass a point that fails by raising.

        Raises:
            InjectedError: It fails.
        """
        kind = self.here(seam)
        if kind == 0:
            raise InjectedError(seam)
        if kind == 1:
            raise MemoryError(seam)
        if kind == 2:
            raise SystemExit(seam)


class Copies(NumpyPool):
    """Memory whose copies fail: before any page, or behind the first."""

    def copy_to(self, other: NumpyPool, src: Any, dst: Any, tokens: Any = None) -> None:
        between = isinstance(other, Copies)  # the pool and host memory: what an engine reads is not
        kind = Faults.now.here("copy") if between else None
        if kind == 1:
            super().copy_to(other, src[:1], dst[:1], tokens)
        if kind is not None:
            raise InjectedError("copy")
        super().copy_to(other, src, dst, tokens)


class Store(Shelf):
    """A store whose calls raise, are refused, or do something else than they say."""

    def put(self, objects: Sequence[tuple[str, bytes]]) -> Sequence[bool]:
        kind = Faults.now.here("put")
        if kind == 0:
            super().put(objects[:1])
            raise InjectedError("put")
        if kind == 1:
            return [False] * len(objects)
        if kind == 2:
            return [True] * len(objects)  # and keeps nothing
        return super().put(objects)

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        kind = Faults.now.here("get")
        if kind == 0:
            raise InjectedError("get")
        found = super().get(names)
        if kind == 1:
            return [None] * len(names)
        if kind == 2:
            return [data and data[:-1] + bytes([data[-1] ^ 1]) for data in found]
        return found

    def remove(self, names: Sequence[str]) -> None:
        Faults.now.raises("remove")
        super().remove(names)

    def contains(self, names: Sequence[str]) -> Sequence[bool]:
        kind = Faults.now.here("contains")
        if kind == 0:
            raise InjectedError("contains")
        there = [name in self.objects for name in names]
        return there if kind is None else [not one for one in there][kind - 1 :]

    def keep(self, names: Sequence[str]) -> None:
        Faults.now.raises("keep")


class Jobs(Inline):
    """A tier's thread, which fails before a job, after it, or in its middle for a while."""

    def submit(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def run() -> Any:
            kind = Faults.now.here("thread")
            if kind == 0:
                raise InjectedError("thread")
            done = job()
            if kind is not None:
                raise InjectedError("thread")
            return done

        super().submit(run, then)


class Eviction(BatchedEviction):
    """An eviction policy whose calls raise, or answer nonsense."""

    columns = ("last_use",)

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        kind = Faults.now.here("score")
        if kind == 0:
            raise InjectedError("score")
        out[:] = candidates["last_use"] if kind is None else (np.nan, -np.inf)[kind - 1]

    def insert(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        Faults.now.raises("insert")

    def hit(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        Faults.now.raises("hit")

    def release(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        Faults.now.raises("release")

    def remove(self, blocks: npt.NDArray[np.uint32], why: str, now: int) -> None:
        Faults.now.raises("remove from policy")


class Admission(BatchedAdmission):
    """An admission policy likewise."""

    def admit(self, blocks: Arrivals, tier: str, out: npt.NDArray[np.uint8]) -> None:
        kind = Faults.now.here("admit")
        if kind == 0:
            raise InjectedError("admit")
        out[:] = 1 if kind is None else (0, 200)[kind - 1]


class Policies:
    """Both, as a plugin."""

    @kvframe.hookimpl
    def kvframe_eviction(self) -> list[EvictionPolicy]:
        made = EvictionPolicy(
            name="failing", way="batched", summary="fails", make=lambda _: Eviction()
        )
        return [made]

    @kvframe.hookimpl
    def kvframe_admission(self) -> list[AdmissionPolicy]:
        made = AdmissionPolicy(
            name="failing", way="batched", summary="fails", make=lambda _: Admission()
        )
        return [made]


REGISTRY = Known()
REGISTRY.register(Plugin(), "shelf")
REGISTRY.register(Policies(), "failing")
