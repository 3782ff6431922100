"""The verbs by which a manager is looked into."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from kvframe._core import Manager as CoreManager
from kvframe.config import Resolved
from kvframe.observe.log import EventLog
from kvframe.observe.snapshot import SequenceState, Snapshot
from kvframe.observe.statistics import (
    HitRates,
    Miss,
    Misses,
    MissReason,
    Residency,
    hit_rates,
    miss_of,
)


class Observed:
    """What `KVCacheManager` tells of itself; nothing here changes what it decides."""

    _core: CoreManager
    resolved: Resolved
    block_size: int

    def stats(self) -> dict[str, int]:
        """Counters since the start; requests are counted once, at admission.

        Where ``[model]`` or ``page_bytes`` says what a block takes, ``bytes_used`` are the bytes of
        blocks in use (cached ones are not, as in `usage`), and ``bytes_total`` those of the pool.
        """
        stats: dict[str, int] = self._core.stats()
        if (each := self.resolved.block_bytes) is not None:
            free, cached, _, total = self._core.counts()
            usable = total - self.resolved.config.cache.null_block
            stats["bytes_used"] = (usable - free - cached) * each
            stats["bytes_total"] = usable * each
        return stats

    def reset_peak(self) -> int:
        """Count ``peak_blocks`` of `stats` from what is in use now; returns the peak so far."""
        return self._core.reset_peak()

    def hit_rates(self) -> HitRates | None:
        """Hit rates since the start and of the last 1,000 requests; None with statistics off."""
        kept = self._core.prefix_statistics()
        return None if kept is None else hit_rates(self._core.stats(), kept[2])

    def misses(self) -> Misses | None:
        """Why prefixes ended where they did, counted; None with statistics off."""
        kept = self._core.prefix_statistics()
        if kept is None:
            return None
        tally, groups, _ = kept
        rows = {MissReason[name.upper()]: counts for name, counts in tally.items()}
        return Misses(
            requests={reason: counts[0] for reason, counts in rows.items()},
            tokens={reason: counts[1] for reason, counts in rows.items()},
            groups=tuple(groups),
            unit=int(self._core.options()["reusable_unit"]),
        )

    def miss(self, seq: int) -> Miss | None:
        """Why the admission of a live sequence found no more; None with statistics off."""
        return miss_of(self._core.miss(seq))

    def residency(self) -> Residency | None:
        """How long sampled blocks live; None unless ``observe.sample`` is set."""
        kept = self._core.residency()
        return None if kept is None else Residency(*kept)

    def take_events(self) -> dict[str, npt.NDArray[Any]]:
        """The ordered log since it was taken last, as arrays (needs ``cache.event_log``).

        The token ids and requests that belong to it are dropped; `take_log` keeps them.
        """
        return self._core.take_events()

    def take_log(self) -> EventLog:
        """The ordered log since it was taken last, with token ids and requests."""
        events, ids, requests = self._core.take_log()
        asked = dict(requests)
        return EventLog(events, ids, asked, self.block_size)

    def snapshot(self) -> Snapshot:
        """Everything the manager holds at one instant, copied. O(blocks).

        Large pools are copied detached from the interpreter.
        """
        return Snapshot.of(self._core.snapshot(), self.block_size)

    def explain_sequence(self, seq: int) -> str:
        """A live sequence in words.

        Raises:
            HandleError: It is not live.
        """
        return SequenceState.of(self._core.sequence_snapshot(seq)).explain()

    def explain_block(self, block: int) -> str:
        """A block in words: its state, who holds it, when it may die.

        Raises:
            UsageError: The pool has no such block.
        """
        return self.snapshot().explain_block(block)
