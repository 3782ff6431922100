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
from kvframe.errors import BusyError, HandleError, UsageError
from kvframe.request import Request
from kvframe.results import Allocation
from kvframe.tiers.base import Levels
from kvframe.tiers.cost import Rate, SwapCost
from kvframe.tiers.moves import Pages


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
    _weights: bytes | None = None
    _slots: npt.NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))

    def __len__(self) -> int:
        """Pages that it has in host memory."""
        return len(self._slots)


class Swapping(Levels):
    """Whole sequences, in pages of host memory that no prefix index contains."""

    _out_rate: Rate
    _in_rate: Rate
    _swapped: WeakSet[Swapped]
    _landed: list[int]
    _rewound: list[int]

    def preempt(self, seq: int, cost: SwapCost) -> Swapped | Request:
        """End a running sequence for now, the cheaper way: swapped out, or to be computed again.

        Measured bandwidths stand in for the stated ones as soon as there are some. Where host
        memory has no room, or none now, it is computed again.

        Returns:
            A `Swapped` for `swap_in`, or the request for `allocate`.
        """
        self._check_open()
        if not isinstance(cost, SwapCost):
            raise UsageError(f"cost = {shown(cost)}: must be a SwapCost")
        tokens = self.kv.inspect.num_readable_tokens(seq)
        cost = cost.measured(self._out_rate.value, self._in_rate.value)
        nbytes = -(-tokens // self.block_size) * self._page_bytes()
        free, cached, *_ = self.host.index.counts()
        room = -(-tokens // self.block_size) <= free + cached
        fresh = self.kv._core.fingerprint(seq) is not None  # of the present weights
        if tokens and room and fresh and cost.prefers_swap(tokens, nbytes):
            with suppress(BusyError):
                return self.swap_out(seq)
        self.counters["recomputed"] += 1
        return self.kv.preempt(seq)

    def swap_out(self, seq: int) -> Swapped:
        """Preempt a sequence and keep all that it has computed in host memory.

        Its handle is stale at once; its blocks are held until they are copied.

        Raises:
            BusyError: With ``when_full = "refuse"``: the tier below lacks what would have to go.
            CapacityError: Host memory has no room; nothing has changed.
            UsageError: A window has given blocks up: they cannot come back.
        """
        self._check_open()
        tokens = self.kv.inspect.num_readable_tokens(seq)
        rows = -(-tokens // self.block_size)
        pages = [self.kv.block_table(seq, part.group)[:rows] for part in self.parts]
        for part, some in zip(self.parts, pages, strict=True):
            if (some < self._least).any():
                raise UsageError(
                    f"group {part.group} of {seq:#x} has given blocks up: recompute it"
                )
        weights = self.kv._core.fingerprint(seq)
        self._refuse_loss(rows)
        slots, evicted = self.host.index.lend(rows)
        try:
            lease = self.kv.pins.lease(seq, tokens) if tokens else None
            request = self.kv.preempt(seq)
        except Exception:
            self.host.index.give_back(slots)
            raise
        self._evicted(self.host, evicted)
        swapped = Swapped(request, tokens, _weights=weights, _slots=slots)
        self._swapped.add(swapped)
        self.counters["swapped_out"] += rows
        if lease is None:
            swapped.state = "out"
            return swapped

        def copied(outcome: int | Exception) -> None:
            self.kv.done(lease)
            if swapped.state == "dropped":
                self._give_back(swapped)
                return
            swapped.state = "failed" if isinstance(outcome, Exception) else "out"
            if swapped.state == "failed":
                self.counters["failed_swaps"] += 1
                self._give_back(swapped)

        took = partial(self._out_rate.add, rows * self._page_bytes())
        self.moves.out(pages, slots, lambda: self.host.seal(slots), copied, took)
        return swapped

    def swap_in(self, swapped: Swapped) -> Allocation:
        """Admit a swapped sequence and bring its pages back, as they were.

        `poll` says when it has landed: it is then as long as it was. If pages are not as they went
        out, it is rewound to what is good. What other weights computed does not come back.

        Raises:
            BusyError: It is still on its way out.
            HandleError: It is back already, or was dropped.
            CapacityError: The pool has no room now; it stays swapped.
        """
        self._check_open()
        _check_swapped(swapped)
        if swapped.state == "leaving":
            raise BusyError("the sequence is still on its way out: try again after poll()")
        if swapped.state in ("back", "dropped"):
            raise HandleError(f"the swapped sequence is {swapped.state}: it is taken once")
        request = swapped.request
        if swapped._weights != self.kv._core.fingerprint():
            swapped.state = "failed"
            self._give_back(swapped)
        if swapped.state == "failed":
            grant = self.kv.allocate(request)
            swapped.state = "back"
            return grant
        size = self.block_size
        whole = min(swapped.tokens, max(len(request) - 1, 0)) // size
        # Never 0: a hit inside a block would be copied over its page after `_tail` has filled it.
        grant = self.kv.allocate(request.replace(external_until=max(whole * size, 1)))
        swapped.state = "back"
        start = grant.cached_tokens // size
        self._tail(swapped, grant, max(whole, start))
        if grant.load is None:
            self._back(swapped, grant)
        else:
            self._bring_back(swapped, grant, start, whole)
        return grant

    def drop_swapped(self, swapped: Swapped) -> None:
        """A swapped request has ended: its pages in host memory are free.

        Raises:
            HandleError: It is back already, or was dropped.
        """
        _check_swapped(swapped)
        if swapped.state in ("back", "dropped"):
            raise HandleError(f"the swapped sequence is {swapped.state}: it is taken once")
        leaving = swapped.state == "leaving"
        swapped.state = "dropped"
        if not leaving:
            self._give_back(swapped)

    # --- inside ---------------------------------------------------------------------------------

    def _tail(self, swapped: Swapped, grant: Allocation, first: int) -> None:
        """Bring the end that no load brings: a partial block, or the last of a full prompt.

        The copy is synchronous: the sequence is the only owner of that page, so the page must not
        be in flight.
        """
        slots = swapped._slots[first:]
        good = self.host.check(slots)
        if good < len(slots):
            swapped.tokens = (first + good) * self.block_size
        slots = slots[:good]
        for part, pool in zip(self.parts, self.host.pools, strict=True):
            pages = self.kv.block_table(grant.seq, part.group)[first : first + good]
            part.pool.put(pages, pool.get(slots))

    def _bring_back(self, swapped: Swapped, grant: Allocation, start: int, whole: int) -> None:
        slots = swapped._slots[start:whole]
        pages: list[Pages] = [
            self.kv.block_table(grant.seq, part.group)[start:whole] for part in self.parts
        ]
        ticket = grant.load
        assert ticket is not None

        def landed(outcome: int | Exception) -> None:
            good = 0 if isinstance(outcome, Exception) else outcome
            try:
                cut = self.kv.loaded(ticket, good)
            except HandleError:  # the engine has settled it, or its deadline has come
                self._give_back(swapped)
                return
            if good < len(slots):
                self.counters["failed_swaps"] += 1
                self._rewound += cut
                self._give_back(swapped)
            else:
                self._back(swapped, grant)

        took = partial(self._in_rate.add, len(slots) * self._page_bytes())
        self.moves.bring(slots, pages, lambda: self.host.check(slots), landed, took)

    def _back(self, swapped: Swapped, grant: Allocation) -> None:
        self._give_back(swapped)
        if not self._lives(grant.seq):
            return
        before = self.kv.lengths(grant.seq)
        if before.committed < swapped.tokens <= before.slots:
            self.kv.commit(grant.seq, swapped.tokens)
        self.counters["swapped_in"] += -(-swapped.tokens // self.block_size)
        self._landed.append(grant.seq)

    def _give_back(self, swapped: Swapped) -> None:
        slots, swapped._slots = swapped._slots, np.empty(0, np.uint32)
        self.host.left([((0, 0), int(slot)) for slot in slots])
        self.host.index.give_back(slots)

    def _page_bytes(self) -> int:
        return sum(part.pool.layout.shape.page_bytes for part in self.parts)


def _check_swapped(swapped: object) -> None:
    if not isinstance(swapped, Swapped):
        raise UsageError(f"swapped = {shown(swapped)}: must be a Swapped")
