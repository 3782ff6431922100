"""Pages between an engine's pool and host memory: copied by the worker, or queued on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvframe.arguments import is_int, shown
from kvframe.config import Resolved
from kvframe.errors import ConfigError, UsageError
from kvframe.manager import KVCacheManager
from kvframe.pages.layout import Layout
from kvframe.pages.numpy import NumpyPool
from kvframe.pages.pool import PagePool
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
    """Copies that are queued and not waited for: `kvframe.pages.swap.Swap` is one."""

    def out(self, pages: Pages, host_pages: Pages) -> Event: ...

    def bring(self, host_pages: Pages, pages: Pages) -> Event: ...


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
        device's copy counts until a poll sees it done.
        """
        if self._movers is None:

            def copy() -> int:
                started = time.perf_counter()
                self.out_now(pages, slots)
                _tell(took, started)
                return after()

            self._worker.submit(copy, then)
            return
        pairs = zip(self._movers, pages, strict=True)
        starts = [partial(mover.out, some, slots) for mover, some in pairs]
        started = time.perf_counter()

        def copied() -> None:
            _tell(took, started)
            self._worker.submit(after, then)

        self._queue(starts, copied, then)

    def bring(
        self,
        slots: Pages,
        pages: Sequence[Pages],
        before: Callable[[], int],
        then: Callable[[int | Exception], None],
        took: Took | None = None,
    ) -> None:
        """Do ``before`` in the worker: so many of the pages are good, and copied to the device.

        ``took``: as for `out`, where all are good.
        """
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
            pairs = zip(movers, pages, strict=True)
            starts = [partial(mover.bring, slots[:good], some[:good]) for mover, some in pairs]
            started = time.perf_counter()

            def copied() -> None:
                _tell(took if good == len(slots) else None, started)
                then(good)

            self._queue(starts, copied, then)

        self._worker.submit(before, launch)

    def _queue(
        self,
        starts: Sequence[Callable[[], Event]],
        go_on: Callable[[], None],
        then: Callable[[int | Exception], None],
    ) -> None:
        """Start copies. One that cannot be has failed for all, once those before it are done."""
        events: list[Event] = []
        try:
            for start in starts:
                events.append(start())
        except Exception as error:
            go_on = partial(then, error)
        self._queued.append((events, go_on))

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
            raise UsageError(f"pools: {shown(part.pool)} is no pool of pages")
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


def dtype_of(parts: Sequence[Part], resolved: Resolved) -> str:
    """Type of the keys and values: the model's, or what the pools say of their bytes."""
    if resolved.config.model is not None:
        return resolved.config.model.dtype
    told = (str(getattr(part.pool, "dtype", "")) for part in parts)
    return "+".join(dict.fromkeys(told))


def _tell(took: Took | None, started: float) -> None:
    if took is not None:
        took(time.perf_counter() - started)
