"""Preemption by swap: whole sequences to host memory and back, or computed again if faster."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from kvframe.arguments import shown
from kvframe.errors import BusyError, CapacityError, HandleError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.request import Request
from kvframe.results import Allocation
from kvframe.tiers.base import Levels, is_running
from kvframe.tiers.cost import SwapCost
from kvframe.tiers.demote import Demotion
from kvframe.tiers.moves import Moves
from kvframe.tiers.names import Scope


@dataclass(eq=False)
class Swapped:
    """A sequence that was swapped out; `Tiers.swap_in` takes it back, once.

    Attributes:
        request: What brings it back: `KVCacheManager.preempt`'s.
        tokens: Computed tokens that are kept, those of a partial last block too.
        state: ``leaving`` (its pages are being copied), ``out``, ``failed`` (they could not be, or
            are of other weights: it is computed again), ``back`` or ``dropped``.
    """

    request: Request
    tokens: int
    state: Literal["leaving", "out", "failed", "back", "dropped"] = "leaving"
    _weights: str | None = None
    _slots: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    def __len__(self) -> int:
        """Pages that it has in host memory."""
        return len(self._slots)


class Swap:
    """Whole sequences, in pages of host memory that no prefix index contains.

    Attributes:
        out_rate: Bytes a second from the pool to host memory, as measured.
        in_rate: Bytes a second back.
    """

    def __init__(
        self, kv: KVCacheManager, levels: Levels, demotion: Demotion, moves: Moves
    ) -> None:
        self._kv, self._levels, self._demotion, self._moves = kv, levels, demotion, moves
        self._least = int(kv.inspect.resolved.config.cache.null_block)
        self._out: WeakSet[Swapped] = WeakSet()
        self.out_rate, self.in_rate = moves.out_rate, moves.in_rate

    def preempt(self, seq: int, cost: SwapCost, backed: int) -> Swapped | Request:
        """Swap a sequence out, or preempt it to be computed again; see `Tiers.preempt`.

        ``backed``: pages at its front that host memory has anyway.
        """
        if not isinstance(cost, SwapCost):
            raise UsageError(f"cost = {shown(cost)}: must be a SwapCost")
        kv = self._kv
        tokens = kv.inspect.num_readable_tokens(seq)
        cost = cost.measured(self.out_rate.value, self.in_rate.value)
        rows = self._rows(tokens)
        free, cached, *_ = self._levels.host.index.counts()
        fits = rows <= free + cached
        size, there = self._moves.page_bytes, min(backed * kv.block_size, tokens)
        again = cost.recompute_seconds(tokens - there, there)
        again += cost.load_seconds(backed * size) if there else 0.0
        faster = cost.swap_seconds(rows * size) < again
        if tokens and fits and kv.inspect.is_current(seq) and faster:
            with suppress(BusyError):
                return self.swap_out(seq)
        self._levels.counters["recomputed"] += 1
        return kv.preempt(seq)

    def swap_out(self, seq: int) -> Swapped:
        """Copy all that a sequence has computed to host memory; see `Tiers.swap_out`."""
        kv, levels, host, moves = self._kv, self._levels, self._levels.host, self._moves
        tokens = kv.inspect.num_readable_tokens(seq)
        rows = self._rows(tokens)
        pages = moves.pages(kv, seq, 0, rows)
        for part, some in zip(moves.parts, pages, strict=True):
            if (some < self._least).any():
                raise UsageError(f"group {part.group} of {seq} has given blocks up: recompute it")
        weights = kv.inspect.weight_version if kv.inspect.is_current(seq) else None
        self._demotion.refuse_loss(rows)
        tenant = levels.number(kv.inspect.origin(seq).tenant)
        try:
            slots, evicted = host.index.take(rows, tenant)
        except CapacityError as error:
            raise CapacityError(self._lacking(rows, error)) from error
        try:
            lease = kv.pins.lease(seq, tokens) if tokens else None
            request = kv.preempt(seq)
        except Exception:
            host.index.free(slots)
            raise
        levels.evicted(host, evicted)
        swapped = Swapped(request, tokens, _weights=weights, _slots=slots)
        self._out.add(swapped)
        levels.counters["swapped_out"] += rows
        if lease is None:
            swapped.state = "out"
            return swapped

        def copied(outcome: int | Exception) -> None:
            kv.done(lease)
            if swapped.state == "dropped":
                self._free(swapped)
                return
            swapped.state = "failed" if isinstance(outcome, Exception) else "out"
            if swapped.state == "failed":
                levels.counters["failed_swaps"] += 1
                self._free(swapped)

        took = partial(self.out_rate.add, rows * moves.page_bytes)
        moves.out(pages, slots, lambda: host.seal(slots), copied, took)
        return swapped

    def swap_in(self, swapped: Swapped) -> Allocation:
        """Allocate a swapped sequence and bring its pages back; see `Tiers.swap_in`."""
        _check_not_taken(swapped)
        if swapped.state == "leaving":
            raise BusyError("the sequence is still on its way out: try again after poll()")
        kv, request, size = self._kv, swapped.request, self._kv.block_size
        if swapped._weights != kv.inspect.weight_version:
            swapped.state = "failed"
            self._free(swapped)
        if swapped.state == "failed":
            given = kv.allocate(request)
            swapped.state = "back"
            return given
        whole = min(swapped.tokens, max(len(request) - 1, 0)) // size
        # Never 0: with 0, a hit inside a block would overwrite the page that `_tail` fills.
        given = kv.allocate(request, external_until=max(whole * size, 1))
        swapped.state = "back"
        start = given.cached_tokens // size
        self._tail(swapped, given.seq, max(whole, start))
        if given.load is None:
            self._back(swapped, given.seq)
        else:
            self._bring_back(swapped, given.seq, given.load, (start, whole))
        return given

    def drop(self, swapped: Swapped) -> None:
        """Free the pages of a swapped request that has ended; see `Tiers.drop_swapped`."""
        _check_not_taken(swapped)
        leaving = swapped.state == "leaving"
        swapped.state = "dropped"
        if not leaving:
            self._free(swapped)

    def forget(self, scope: Scope) -> int:
        """Sequences that a reset covers do not come back as they were: they are computed again.

        Returns:
            How many.
        """
        covered = 0
        for swapped in self._out:
            origin = self._kv.inspect.origin(swapped.request)
            is_covered = scope.covers(origin) or (
                origin.public > 0 and scope.covers(origin.of_public())
            )
            if is_covered and scope.session in (None, origin.session):
                swapped._weights = None
                covered += 1
        return covered

    def _lacking(self, pages: int, error: CapacityError) -> str:
        """That host memory has no room, and what on its way may be the cause."""
        moving = {level.name: level.index.counts().moving for level in self._levels.all}
        told = ", ".join(f"{count} of {name}" for name, count in moving.items() if count)
        way = f"; pages in flight: {told}" if told else ""
        return f"tier {self._levels.host.name} has no room for {pages} pages: {error}{way}"

    def _rows(self, tokens: int) -> int:
        return -(-tokens // self._kv.block_size)

    def _tail(self, swapped: Swapped, seq: int, first: int) -> None:
        """Bring the end that no load brings: a partial block, or the last of a full prompt.

        The copy is synchronous: the sequence is the only owner of that page, so the page must not
        be in flight.
        """
        host = self._levels.host
        slots = swapped._slots[first:]
        good = host.check(slots)
        pages = self._moves.pages(self._kv, seq, first, first + good)
        if not self._moves.brought_now(slots[:good], pages):
            self._levels.counters["failed_swaps"] += 1
            good = 0
        if good < len(slots):
            swapped.tokens = (first + good) * self._kv.block_size

    def _bring_back(self, swapped: Swapped, seq: int, ticket: int, rows: tuple[int, int]) -> None:
        kv, levels, host, moves = self._kv, self._levels, self._levels.host, self._moves
        slots = swapped._slots[slice(*rows)]

        def landed(outcome: int | Exception) -> None:
            good = 0 if isinstance(outcome, Exception) else outcome
            try:
                cut = kv.loaded(ticket, good)
            except HandleError:  # the engine has settled it, or its deadline has come
                self._free(swapped)
                return
            if good < len(slots):
                levels.counters["failed_swaps"] += 1
                levels.arrived.rewound.extend(cut)
                self._free(swapped)
            else:
                self._back(swapped, seq)

        took = partial(self.in_rate.add, len(slots) * moves.page_bytes)
        pages = moves.pages(kv, seq, *rows)
        moves.bring(slots, pages, lambda: host.check(slots), landed, took)

    def _back(self, swapped: Swapped, seq: int) -> None:
        self._free(swapped)
        if not is_running(self._kv, seq):
            return
        before = self._kv.lengths(seq)
        if before.committed < swapped.tokens <= before.slots:
            self._kv.commit(seq, swapped.tokens)
        self._levels.counters["swapped_in"] += self._rows(swapped.tokens)
        self._levels.arrived.landed.append(seq)

    def _free(self, swapped: Swapped) -> None:
        host = self._levels.host
        slots, swapped._slots = swapped._slots, np.empty(0, np.uint32)
        host.left([((0, 0), int(slot)) for slot in slots])
        host.index.free(slots)


def _check_not_taken(swapped: object) -> None:
    if not isinstance(swapped, Swapped):
        raise UsageError(f"swapped = {shown(swapped)}: must be a Swapped")
    if swapped.state in ("back", "dropped"):
        raise HandleError(f"the swapped sequence is {swapped.state}: it is taken once")
