"""Pages between an engine's pool and host memory: copied by the worker, or queued on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.config import Resolved
from kvframe.errors import ConfigError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.pages.layout import Layout
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.pool import PagePool
from kvframe.tiers.cost import Rate
from kvframe.tiers.health import Trouble
from kvframe.tiers.quantise import FLOATS
from kvframe.tiers.worker import Worker

Pages = npt.NDArray[np.integer[Any]]
Took = Callable[[float], None]
"""Called with the seconds that a move took."""


class Part(NamedTuple):
    """A pool that holds some of each page: a layer group, keys apart from values, a rank.

    Attributes:
        pool: The engine's pages.
        group: The layer group whose block table has their numbers.
    """

    pool: PagePool
    group: int = 0


class Event(Protocol):
    """What a GPU's copies answer: `cupy.cuda.Event` is one."""

    @property
    def done(self) -> bool: ...


class Mover(Protocol):
    """Copies that are queued and not waited for: `kvframe.pages.swap.Swap` is one.

    An event that has ``seconds`` says how long its copy took; else it counts until a poll sees it.
    """

    def out(self, pages: Pages, host_pages: Pages) -> Event: ...

    def bring(self, host_pages: Pages, pages: Pages) -> Event: ...


class LayerMover(Mover, Protocol):
    """One that can also bring pages layer by layer, each with its event."""

    def onboard(self, host_pages: Pages, pages: Pages) -> Sequence[Event]: ...


Queued = Callable[[int, list[Sequence[Event]]], None]
"""Called with the pages that are on their way, and the events of each layer, one list a mover."""


class Moves:
    """Copies of whole pages, all parts together.

    Args:
        parts: The engine's pools.
        host: The host pool of each.
        worker: Runs what blocks.
        movers: For each part, the object that queues copies on its device; None where the worker
            copies host memory.
        sums: Noted checksums of host pages, [parts][pages], to compare after every copy; None
            compares none.

    Attributes:
        out_rate: Bytes a second from the pool to host memory, as measured.
        in_rate: Bytes a second back.
        check_rate: Bytes a second that are checked before they come back.
        leaving: Pages on their way from the pool to host memory.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        host: Sequence[NumpyPool],
        worker: Worker,
        movers: Sequence[Mover] | None = None,
        sums: Callable[[Pages], npt.NDArray[np.uint64]] | None = None,
    ) -> None:
        self.parts = parts
        self._host, self._worker, self._movers, self._sums = host, worker, movers, sums
        self._queued: list[tuple[list[Event], Callable[[], None]]] = []
        self.out_rate, self.in_rate, self.check_rate = Rate(), Rate(), Rate()
        self._failing = Trouble()
        self.leaving = 0

    def _watched(
        self, then: Callable[[int | Exception], None]
    ) -> Callable[[int | Exception], None]:
        """The same, and the log has copies that begin to fail, and that work again."""

        def ended(outcome: int | Exception) -> None:
            if isinstance(outcome, Exception):
                told = f"pages are not copied between the pool and host memory: {outcome!r}"
                self._failing.begins(told, time.monotonic_ns() // 1_000_000)
            else:
                self._failing.ends("pages are copied between the pool and host memory again")
            then(outcome)

        return ended

    def out(
        self,
        pages: Sequence[Pages],
        slots: Pages,
        after: Callable[[], int],
        then: Callable[[int | Exception], None],
        took: Took | None = None,
    ) -> None:
        """Copy pages to the host, do ``after`` in the worker, then pass its answer on.

        ``took``: receives the seconds of the copy, without its wait for a turn or a poll. A
        device's copy counts by its event's ``seconds``, or until a poll sees it done.
        """
        self.leaving += len(slots)
        watched = self._watched(then)

        def left(outcome: int | Exception) -> None:
            self.leaving -= len(slots)
            watched(outcome)

        if self._movers is None:

            def copy() -> int:
                started = time.perf_counter()
                self.out_now(pages, slots)
                _tell(took, started)
                return after()

            self._worker.submit(copy, left)
            return
        pairs = zip(self._movers, pages, strict=True)
        starts = [partial(mover.out, some, slots) for mover, some in pairs]

        def copied() -> None:
            self._worker.submit(after, left)

        self._queue(starts, copied, left, took)

    def bring(
        self,
        slots: Pages,
        pages: Sequence[Pages],
        before: Callable[[], int],
        then: Callable[[int | Exception], None],
        took: Took | None = None,
        queued: Queued | None = None,
    ) -> None:
        """Do ``before`` in the worker: so many of the pages are good, and copied to the device.

        ``took``: as for `out`, where all are good. ``queued``: the movers bring layer by layer, and
        this hears of the copies as soon as they are queued.
        """
        then = self._watched(then)
        if self._movers is None:

            def copy() -> int:
                good = before()
                started = time.perf_counter()
                self.bring_now(slots[:good], [some[:good] for some in pages])
                _tell(took if good == len(slots) else None, started)
                return good

            self._worker.submit(copy, then)
            return
        movers = self._movers

        def launch(good: int | Exception) -> None:
            if isinstance(good, Exception) or good == 0:
                then(good)
                return
            layers: list[Sequence[Event]] = []
            starts = [
                partial(_brought, mover, slots[:good], some[:good], layers if queued else None)
                for mover, some in zip(movers, pages, strict=True)
            ]
            whole = good == len(slots)
            started = self._queue(starts, partial(then, good), then, took if whole else None)
            if queued is not None and started:
                queued(good, layers)

        self._worker.submit(before, launch)

    def _queue(
        self,
        starts: Sequence[Callable[[], Event]],
        go_on: Callable[[], None],
        then: Callable[[int | Exception], None],
        took: Took | None,
    ) -> bool:
        """Start copies; whether all were. One that cannot be has failed for all, once those before
        it are done.
        """
        events: list[Event] = []
        started = time.perf_counter()

        def ended() -> None:
            if took is not None:
                took(_seconds(events, started))
            go_on()

        try:
            for start in starts:
                events.append(start())
        except Exception as error:
            self._queued.append((events, partial(then, error)))
            return False
        self._queued.append((events, ended))
        return True

    def poll(self) -> int:
        """Goes on with copies whose events are done; how many."""
        ready = [entry for entry in self._queued if all(event.done for event in entry[0])]
        for entry in ready:
            self._queued.remove(entry)  # one by one: what follows may raise
            entry[1]()
        return len(ready)

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, all parts together."""
        return sum(part.pool.layout.shape.page_bytes for part in self.parts)

    def pages(
        self, kv: KVCacheManager, seq: int, start: int = 0, stop: int | None = None
    ) -> list[Pages]:
        """A sequence's pages in each part, from a row of its block table to another."""
        groups = {part.group for part in self.parts}
        tables = {group: kv.block_table(seq, group)[start:stop] for group in groups}
        return [tables[part.group] for part in self.parts]

    def alike(self, pages: Sequence[Pages], slots: Pages, good: int) -> int:
        """Pages at the front that are in the pool as on the host, where that is compared."""
        if self._sums is None:
            return good
        for part, some, sums in zip(self.parts, pages, self._sums(slots), strict=True):
            for page in part.pool.verify(some[:good], sums[:good]):
                good = min(good, int(np.flatnonzero(some == page)[0]))
        return good

    @property
    def busy(self) -> int:
        """Copies that are queued."""
        return len(self._queued)

    def out_now(self, pages: Sequence[Pages], slots: Pages) -> None:
        """Copy pages to the host, and wait for it."""
        for part, host, some in zip(self.parts, self._host, pages, strict=True):
            if isinstance(part.pool, NumpyPool):
                part.pool.copy_to(host, some, slots)
            else:
                host.put(slots, part.pool.get(some))

    def taken_out_now(self, pages: Sequence[Pages], slots: Pages) -> bool:
        """As `out_now`; whether it could be done."""
        return self._could(partial(self.out_now, pages, slots))

    def brought_now(self, slots: Pages, pages: Sequence[Pages]) -> bool:
        """As `bring_now`; whether it could be done."""
        return self._could(partial(self.bring_now, slots, pages))

    def _could(self, copy: Callable[[], None]) -> bool:
        outcome: list[int | Exception] = [0]
        try:
            copy()
        except Exception as error:
            outcome[0] = error
        self._watched(outcome.append)(outcome[0])
        return not isinstance(outcome[0], Exception)

    def bring_now(self, slots: Pages, pages: Sequence[Pages]) -> None:
        """Copy pages from the host, and wait for it."""
        for part, host, some in zip(self.parts, self._host, pages, strict=True):
            if isinstance(part.pool, NumpyPool):
                host.copy_to(part.pool, slots, some)
            else:
                part.pool.put(some, host.get(slots))


def parts_of(
    pools: PagePool | Sequence[PagePool | Part], resolved: Resolved, blocks: int
) -> list[Part]:
    """The parts of a page; each layer group has one at least.

    Raises:
        ConfigError: A layer group cannot have pages below the pool.
        UsageError: The pools are not those of the groups, or too small.
    """
    groups, size = resolved.config.groups, resolved.config.cache.block_size
    for group in groups:
        if group.kind in ("state", "cross") or group.block_size not in (None, size):
            raise ConfigError(
                f"tiers serve groups that attend to tokens in blocks of {size}: {group.name!r} "
                "is none"
            )
    if not isinstance(pools, Sequence):
        pools = [pools] * len(groups) if len(groups) > 1 else [pools]
    alone = len(groups) == 1
    parts = [
        pool if isinstance(pool, Part) else Part(pool, 0 if alone else place)
        for place, pool in enumerate(pools)
    ]
    for part in parts:
        if not isinstance(getattr(part.pool, "layout", None), Layout):
            near = "; NumpyPool.adopt makes one" if hasattr(part.pool, "shape") else ""
            raise UsageError(f"pools: {shown(part.pool)} is no pool of pages{near}")
        if not is_int(part.group):
            raise UsageError(f"group = {shown(part.group)}: must be an integer")
    named = {part.group for part in parts}
    if named != set(range(len(groups))):
        raise UsageError(
            f"pools for groups {sorted(named)}: there are groups 0 to {len(groups) - 1}"
        )
    for part in parts:
        if part.pool.layout.shape.block_size != size:
            found = part.pool.layout.shape.block_size
            raise UsageError(f"a pool has pages of {found} tokens: blocks have {size}")
        if part.pool.layout.blocks < blocks:
            raise UsageError(
                f"a pool has {part.pool.layout.blocks} pages: there are {blocks} blocks"
            )
    return parts


def check_movers(movers: Sequence[Mover] | None, parts: Sequence[Part], *, layerwise: bool) -> None:
    """There is a mover for each part, and with ``layerwise`` each brings layer by layer.

    Raises:
        UsageError: It is not so.
    """
    if movers is not None and len(movers) != len(parts):
        raise UsageError(f"movers: {len(movers)} of them for {len(parts)} parts")
    if layerwise and not (movers and all(hasattr(mover, "onboard") for mover in movers)):
        raise UsageError("layerwise = True: needs movers that have an onboard()")


def dtype_of(parts: Sequence[Part], resolved: Resolved) -> str:
    """Type of the keys and values: the model's, or what the pools say of their bytes.

    Raises:
        UsageError: A pool's bytes are of another type of numbers than the model's.
    """
    told = dict.fromkeys(str(getattr(part.pool, "dtype", "")) for part in parts)
    if resolved.config.model is None:
        return "+".join(told)
    dtype = resolved.config.model.dtype
    for other in told:
        if other in FLOATS and other != dtype:
            raise UsageError(
                f"model.dtype = {dtype}: the pool's pages are of {other}; make the pool with "
                f"dtype={dtype!r}, or say {other} in [model]"
            )
    return dtype


def _brought(
    mover: Mover, slots: Pages, pages: Pages, layers: list[Sequence[Event]] | None
) -> Event:
    """Start to bring pages; into ``layers`` go the events of each layer, if it is given."""
    if layers is None:
        return mover.bring(slots, pages)
    each = cast(LayerMover, mover).onboard(slots, pages)
    layers.append(each)
    return each[-1]


def _seconds(events: Sequence[Event], started: float) -> float:
    """What the longest of some copies took."""
    told = [float(getattr(event, "seconds", None) or 0.0) for event in events]
    return max(told) if told and all(told) else time.perf_counter() - started


def _tell(took: Took | None, started: float) -> None:
    if took is not None:
        took(time.perf_counter() - started)
