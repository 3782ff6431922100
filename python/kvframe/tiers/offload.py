"""The way down: from the pool to host memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from kvframe.arguments import is_int, shown
from kvframe.errors import BusyError, UsageError
from kvframe.flat import Access
from kvframe.manager import KVCacheManager
from kvframe.tiers.base import Levels
from kvframe.tiers.demote import Demotion
from kvframe.tiers.gate import EVICTED
from kvframe.tiers.moves import Moves, Pages
from kvframe.tiers.origins import Origins
from kvframe.tiers.tier_index import Keys


class Held(NamedTuple):
    """A prefix in the pool that may be wanted below when its last block is evicted."""

    keys: Keys
    table: Pages
    generation: int


class Offload:
    """Backups of sequences, and of blocks that are about to be evicted from the pool."""

    def __init__(
        self,
        kv: KVCacheManager,
        levels: Levels,
        demotion: Demotion,
        moves: Moves,
        origins: Origins,
    ) -> None:
        self._kv, self._levels, self._demotion = kv, levels, demotion
        self._moves, self._origins = moves, origins
        config = kv.inspect.resolved.config
        self._least = int(config.cache.null_block)
        self._alone = len(config.groups) == 1
        # Blocks of a radix index have no keys by which to name them when they are evicted.
        self._remembers = self._alone and config.cache.index == "radix"
        self._held: dict[int, Held] = {}

    def back_up(self, seq: int) -> int:
        """Back up what a sequence has computed; see `Tiers.offload`."""
        kv, levels, host = self._kv, self._levels, self._levels.host
        rows, pages = self._rows(seq)
        origin = kv.inspect.origin(seq)
        keys = self._origins.named(kv.blocks.sequence_keys(seq, rows * kv.block_size), origin)
        self._origins.note(keys, origin)
        use = msgspec.structs.replace(levels.uses.of(seq), tokens=kv.lengths(seq).known)
        wanted = levels.wanted(host, keys, use=use)
        if len(wanted) < len(keys) and self._remembers:
            self._remember(keys, pages[0])  # it may be wanted when it is about to be evicted
        keys, present = levels.lasting(host, wanted), host.index.present(wanted)
        if present == len(keys):
            return 0
        self._demotion.refuse_loss(len(keys) - present)
        lease = kv.pins.lease(seq, len(keys) * kv.block_size)
        moving = self._copy(keys, pages, lambda: kv.done(lease), use)
        if not moving:
            kv.done(lease)
        return moving

    def backed(self, seq: int) -> int:
        """Pages at a sequence's front that host memory has, or that are on their way there."""
        rows, _ = self._rows(seq)
        keys = self._kv.blocks.sequence_keys(seq, rows * self._kv.block_size)
        named = self._origins.named(keys, self._kv.inspect.origin(seq))
        return self._levels.host.index.present(named)

    def make_room(self, free: int) -> int:
        """Evict from the pool without a loss; see `Tiers.make_room`."""
        if not is_int(free):
            raise UsageError(f"free = {shown(free)}: must be an integer")
        kv, levels, host = self._kv, self._levels, self._levels.host
        counts = kv.counts()
        short = min(max(free - counts.free, 0), counts.cached)
        doomed = kv.inspect.eviction_order(short).tolist() if short else []
        clean = moved = 0
        seen: set[int] = set()  # those before a block that was backed up have gone with it
        for block in doomed:
            held = None if block in seen else self._prefix_in_pool(block)
            if held is not None:
                wanted = levels.wanted(host, held.keys, EVICTED)
                try:
                    moved += self._copy_now(held._replace(keys=wanted))
                except BusyError:  # it would evict pages that the tier below lacks
                    break
                if host.index.present(wanted) < len(wanted):
                    break  # no room for it now
                seen.update(held.table.tolist())
            clean += 1
        kv.evict_until(counts.free + clean)
        return moved

    def _rows(self, seq: int) -> tuple[int, list[Pages]]:
        """Blocks at the front of a sequence that are computed and here, and their pages by part."""
        rows = self._kv.inspect.num_readable_tokens(seq) // self._kv.block_size
        tables = self._moves.pages(self._kv, seq)
        for table in tables:
            gone = np.flatnonzero(table[:rows] < self._least)
            rows = min(rows, len(table), int(gone[0]) if len(gone) else rows)
        return rows, [table[:rows] for table in tables]

    def _prefix_in_pool(self, block: int) -> Held | None:
        """What a cached block is the end of; None where that is not known."""
        if not self._alone:
            return None
        if self._remembers:
            held = self._held.get(block)
            same = held and held.generation == int(self._kv.blocks.generations([block])[0])
            return held if same else None
        blocks, keys = self._kv.blocks.prefix_of(block)
        return Held(keys, blocks, 0) if len(blocks) else None

    def _remember(self, keys: Keys, table: Pages) -> None:
        blocks = table[: len(keys)]
        generations = self._kv.blocks.generations(blocks).tolist()
        for at, (block, generation) in enumerate(zip(blocks.tolist(), generations, strict=True)):
            self._held[block] = Held(keys[: at + 1], blocks[: at + 1], generation)

    def _copy_now(self, held: Held) -> int:
        levels, host, moves = self._levels, self._levels.host, self._moves
        self._demotion.refuse_loss(len(held.keys) - host.index.present(held.keys))
        reserved = levels.reserve(host, held.keys)
        if reserved is None or not reserved[0].ticket:
            return 0
        stored, keys = reserved
        pages = [held.table[stored.present : len(keys)]] * len(moves.parts)
        copied = moves.taken_out_now(pages, stored.slots)
        good = moves.alike(pages, stored.slots, host.seal(stored.slots)) if copied else 0
        good = levels.settle(host, stored.ticket, good)
        levels.counters["offloaded"] += good
        self._demotion.offer(0, keys[: stored.present + good])
        return good

    def _copy(
        self, keys: Keys, pages: list[Pages], release: Callable[[], object], use: Access
    ) -> int:
        levels, host, moves = self._levels, self._levels.host, self._moves
        # A backup would starve a load that waits for what is on its way in host memory.
        reserved = None if levels.starved else levels.reserve(host, keys, use)
        if reserved is None:
            levels.counters["deferred"] += 1
            return 0
        stored, keys = reserved
        if not stored.ticket:
            return 0
        levels.set_deadline(host, stored.ticket)
        slots = stored.slots
        some = [one[stored.present : len(keys)] for one in pages]

        def copied(outcome: int | Exception) -> None:
            good = 0 if isinstance(outcome, Exception) else moves.alike(some, slots, outcome)
            good = levels.settle(host, stored.ticket, good)
            release()
            levels.counters["offloaded"] += good
            self._demotion.offer(0, keys[: stored.present + good], use)

        moves.out(some, slots, lambda: host.seal(slots), copied)
        return len(slots)
