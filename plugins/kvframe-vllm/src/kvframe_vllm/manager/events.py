"""kvframe's ordered log as the KV events that vLLM publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved
from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys, maybe_convert_block_hash

from kvframe.errors import KVFrameError
from kvframe.events import EventKind
from kvframe.stats.log import Event

if TYPE_CHECKING:
    from kvframe_vllm.manager.whole import WholeManager

_READ = (EventKind.STORE, EventKind.EVICT, EventKind.FORGET, EventKind.FINISH, EventKind.COMMIT)


class Events:
    """Reads the log, and appends to the queue of vLLM's own pool.

    Args:
        manager: Whose log it is.
    """

    def __init__(self, manager: WholeManager) -> None:
        self._log, self._pool = manager.kv.log, manager.stock.block_pool
        self._groups = len(manager.stock.coordinator.single_type_managers)
        # Since 0.33 events may name tokens behind a block.
        looks_ahead = hasattr(self._pool, "num_hash_lookahead_tokens")
        self._ahead = {"lookahead_token_ids": None} if looks_ahead else {}
        self._requests: dict[int, Any] = {}
        # The hash under which each block is findable, and its group.
        self._names: dict[int, tuple[Any, int]] = {}

    def begun(self, seq: int, request: Any) -> None:
        """A sequence computes that request."""
        self._requests[seq] = request

    def reused(self, request: Any, blocks: int) -> None:
        """A request found so many blocks; told only where it asks for that."""
        if getattr(request, "kv_cache_report_mode", "incremental") == "full":
            self.gather()
            for group in range(self._groups):
                told = request, blocks, self._pool.hash_block_size, group
                self._pool.emit_cached_block_events(*told)

    def gather(self) -> None:
        """What happened since the last call."""
        stored: list[Event] = []
        for event in self._log.take().of_kinds(_READ):
            if event.kind is EventKind.STORE:
                if stored and stored[0].group != event.group:
                    self._tell(stored)
                    stored = []
                stored.append(event)
                continue
            self._tell(stored)
            stored = []
            if event.kind is EventKind.FINISH:
                self._requests.pop(event.seq, None)
            elif event.block in self._names:
                self._removed(*self._names.pop(event.block))
        self._tell(stored)

    def _removed(self, name: Any, group: int) -> None:
        hashes = [maybe_convert_block_hash(name)]
        told = BlockRemoved(block_hashes=hashes, medium=self._pool.medium, group_idx=group)
        self._pool.kv_event_queue.append(told)

    def _tell(self, stored: Sequence[Event]) -> None:
        """One commit of a sequence in one group: blocks in a row, but for those left out."""
        if not stored:
            return
        pool, request = self._pool, self._requests[stored[0].seq]
        size, places = pool.hash_block_size, [event.other for event in stored]
        extra, item = [], 0
        for at in places:
            keys, item = generate_block_hash_extra_keys(request, at * size, (at + 1) * size, item)
            extra.append(keys)
        group = stored[0].group
        for event in stored:
            self._names[event.block] = request.block_hashes[event.other], group
        first, end = places[0], places[-1] + 1
        before = maybe_convert_block_hash(request.block_hashes[first - 1]) if first else None
        pool.kv_event_queue.append(
            pool._build_block_stored_event(
                request,
                block_hashes=[maybe_convert_block_hash(request.block_hashes[at]) for at in places],
                parent_block_hash=before,
                start_token_idx=first * size,
                end_token_idx=end * size,
                block_size=size,
                kv_cache_group_id=group,
                extra_keys_list=extra,
                **self._ahead,
            )
        )

    def cleared(self) -> None:
        """The prefix cache was reset."""
        self._log.take()
        self._names.clear()
        self._pool.kv_event_queue.append(AllBlocksCleared())

    def lost(self, kept: Iterable[list[int]]) -> None:
        """No block is findable any more but those in ``kept``. Never raises."""
        # Where that fails, what it has told is all that others know.
        with contextlib.suppress(KVFrameError):
            self.gather()
        for block in self._names.keys() - {block for table in kept for block in table}:
            self._removed(*self._names[block])
        self._names.clear()
