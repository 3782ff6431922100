"""What vLLM's scheduler calls of its KV cache manager, answered by kvframe's.

vLLM makes a block findable when it gives it out, not when it is computed, so that a request of the
same step hits it; so does this. Slots are given in whole blocks: a step that neither outgrows them
nor fills one is answered without a call of kvframe.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from vllm.v1.request import RequestStatus

import kvframe
from kvframe.errors import CapacityError, NeverFitsError
from kvframe_vllm import choice
from kvframe_vllm.log import logger
from kvframe_vllm.manager.events import Events
from kvframe_vllm.manager.handover import hand_over
from kvframe_vllm.manager.pool import Pool
from kvframe_vllm.manager.requests import Asked, Held
from kvframe_vllm.manager.results import BlockIds

_COMES_IN = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


class WholeManager(KVCacheManager):  # type: ignore[misc]
    """kvframe's ``KVCacheManager`` behind the calls of vLLM's.

    Whatever kvframe raises but want of room ends it: vLLM's own manager takes over what requests
    have, answers the call and goes on.

    Args:
        scheduler: vLLM's, with its own manager, before its first request.
        text: The policy, as `kvframe_vllm.choice` takes it.

    Attributes:
        kv: kvframe's manager.
        held: What each request has that has blocks, by its name.

    Raises:
        KVFrameError: The policy cannot be had.
    """

    def __init__(self, scheduler: Any, text: str | None) -> None:
        stock = scheduler.kv_cache_manager
        # Its settings and statistics; what it knows of blocks stays as it is, and is not asked.
        self.__dict__.update(vars(stock))
        self.stock, self.scheduler = stock, scheduler
        self._size = stock.block_pool.hash_block_size
        resolved = choice.resolved(
            text,
            cache={
                "block_size": self._size,
                "capacity": stock.block_pool.num_gpu_blocks,
                "null_block": True,
                "event_log": stock.enable_kv_cache_events,
            },
            # vLLM counts.
            observe={"statistics": False},
        )
        self.policy = resolved.eviction.name
        self.kv = kvframe.KVCacheManager(resolved)
        self.block_pool = Pool(self)
        self.held: dict[str, Held] = {}
        self._asked: dict[str, Asked] = {}
        self._events = Events(self) if stock.enable_kv_cache_events else None

    # --- what a step calls ------------------------------------------------------------------------

    def new_step_starts(self) -> None:
        pass

    def get_computed_blocks(
        self, request: Any, max_cache_hit_length: int | None = None
    ) -> tuple[KVCacheBlocks, int, int]:
        if not self.prefix_cache_lookup_enabled(request):
            return self.empty_kv_cache_blocks, 0, 0
        try:
            asked = self._asked_of(request)
            found = asked.limited(max_cache_hit_length)
            hit = self.kv.lookup(found)
            asked.found = hit.tokens if found is asked.request else -1
            if not hit.tokens:
                return self.empty_kv_cache_blocks, 0, 0
            if self._events is not None:
                self._events.reused(request, hit.tokens // self._size)
            return BlockIds(hit.blocks[0].tolist(), self.block_pool), hit.tokens, 0
        except Exception as error:
            found_by_stock: tuple[KVCacheBlocks, int, int]
            stock, given = self._give_up(error), (request, max_cache_hit_length)
            found_by_stock = stock.get_computed_blocks(*given)
            return found_by_stock

    def _asked_of(self, request: Any) -> Asked:
        """The request as kvframe takes it, read once however often it is tried."""
        asked = self._asked.get(request.request_id)
        known = asked is not None and asked.asked is request
        if asked is None or not known or asked.request.num_tokens != request.num_tokens:
            asked = self._asked[request.request_id] = Asked(request, self._size)
        return asked

    def allocate_slots(
        self,
        request: Any,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: KVCacheBlocks | None = None,
        num_lookahead_tokens: int = 0,
        num_external_computed_tokens: int = 0,
        delay_cache_blocks: bool = False,
        num_encoder_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        reserved_blocks: int = 0,
        has_scheduled_reqs: bool = True,
        skip_zeroing_group_ids: tuple[int, ...] = (),
    ) -> KVCacheBlocks | None:
        held = self.held.get(request.request_id)
        end = request.num_computed_tokens + num_new_tokens
        if (
            held is not None
            and end + num_lookahead_tokens <= held.room
            and (end < held.due or request.num_tokens < held.due)
        ):
            return self.empty_kv_cache_blocks
        try:
            if num_external_computed_tokens or delay_cache_blocks or num_encoder_tokens:
                raise NotImplementedError("blocks of another origin are not served")
            hits = num_new_computed_tokens // self._size
            end += num_new_computed_tokens
            slots = min(end + num_lookahead_tokens, self.max_model_len)
            if held is None or request.status in _COMES_IN:
                whole = min(request.num_tokens, self.max_model_len) if full_sequence_must_fit else 0
                spared = reserved_blocks
                if has_scheduled_reqs and request.status in _COMES_IN:
                    spared += self.watermark_blocks
                has = hits if held is None else len(held.ids)
                wanted = max(-(-max(slots, whole) // self._size) - has, 0)
                left = self.block_pool.get_num_free_blocks() - wanted - spared
                # Of the blocks found, those without an owner are taken from what is available.
                if left < hits and left < self._unowned(request, new_computed_blocks, hits):
                    return None
            if held is None:
                return self._admit(request, hits, slots, end)
            return self._grow(held, slots, end)
        except (CapacityError, NeverFitsError):
            return None
        except Exception as error:
            return self._give_up(error).allocate_slots(
                request,
                *(num_new_tokens, num_new_computed_tokens, new_computed_blocks),
                *(num_lookahead_tokens, num_external_computed_tokens, delay_cache_blocks),
                *(num_encoder_tokens, full_sequence_must_fit, reserved_blocks, has_scheduled_reqs),
                skip_zeroing_group_ids,
            )

    def _unowned(self, request: Any, blocks: Any, hits: int) -> int:
        """How many of the blocks found have no owner."""
        if not hits:
            return 0
        if isinstance(blocks, BlockIds) and len(blocks.ids) == hits:
            return self.kv.blocks.unowned(blocks.ids)
        hit = self.kv.lookup(self._asked_of(request).limited(hits * self._size))
        return self.kv.blocks.unowned(hit.blocks[0])

    def _admit(self, request: Any, hits: int, slots: int, end: int) -> KVCacheBlocks:
        size, asked = self._size, self._asked_of(request)
        reads = self.prefix_cache_lookup_enabled(request)
        until = min(-(-slots // size) * size, request.num_tokens)
        given = self.kv.allocate(asked.finding(hits, reads=reads), until=until)
        held = Held(request, given.seq, asked.named(hits))
        self.held[request.request_id] = held
        del self._asked[request.request_id]
        if self._events is not None:
            self._events.begun(given.seq, request)
        held.ids = self.kv.block_table(given.seq).tolist()
        held.cached, held.room = hits, len(held.ids) * size
        self._grow(held, slots, end)
        if given.cached_tokens != hits * size:
            raise RuntimeError(f"{given.cached_tokens} tokens are cached, {hits} blocks were found")
        return BlockIds(held.ids[hits:], self.block_pool)

    def _grow(self, held: Held, slots: int, end: int) -> KVCacheBlocks:
        size, request = self._size, held.request
        full = min(min(end, request.num_tokens) // size, len(request.block_hashes))
        if full <= held.cached:
            full, keys = held.cached, None
        else:
            keys = request.block_hashes[held.named : full]
        [new] = self.kv.advance(held.seq, -(-slots // size) * size, upto=full * size, keys=keys)
        held.named = max(held.named, full)
        held.cached, held.due = full, (full + 1) * size
        if not new:
            return self.empty_kv_cache_blocks
        held.ids += new
        held.room = len(held.ids) * size
        return BlockIds(new, self.block_pool)

    def cache_blocks(self, request: Any, num_computed_tokens: int) -> None:
        held = self.held.get(request.request_id)
        if held is None or num_computed_tokens < held.due or request.num_tokens < held.due:
            return
        try:
            self._grow(held, 0, num_computed_tokens)
        except Exception as error:
            self._give_up(error).cache_blocks(request, num_computed_tokens)

    def free(self, request: Any) -> None:
        self._asked.pop(request.request_id, None)
        held = self.held.get(request.request_id)
        if held is None:
            return
        try:
            self.kv.release(held.seq)
            del self.held[request.request_id]
        except Exception as error:
            self._give_up(error).free(request)

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        held = self.held.get(request_id)
        return self.empty_kv_cache_blocks if held is None else BlockIds(held.ids, self.block_pool)

    def take_events(self) -> list[Any]:
        if self._events is None:
            return []
        try:
            self._events.gather()
        except Exception as error:
            return list(self._give_up(error).take_events())
        events: list[Any] = super().take_events()
        return events

    # --- what ends, begins anew, or has nothing to say here ---------------------------------------

    def estimate_cached_tokens(self, request: Any) -> int:
        held = self.held.get(request.request_id)
        return 0 if held is None else held.cached * self._size

    def pop_blocks_for_free(self, request: Any) -> list[Any]:
        self._asked.pop(request.request_id, None)
        held = self.held.pop(request.request_id, None)
        return [] if held is None else self.block_pool.defer(held)

    def reset_prefix_cache(self) -> bool:
        used = self.block_pool.num_gpu_blocks - self.block_pool.get_num_free_blocks() - 1
        if used:
            logger.warning("The prefix cache is not reset: %d blocks have owners", used)
            return False
        try:
            if self._events is not None:
                self._events.gather()
            self.kv.reset_prefix_cache()
            if self._events is not None:
                self._events.cleared()
        except Exception as error:
            return bool(self._give_up(error).reset_prefix_cache())
        if self.prefix_cache_stats is not None:
            self.prefix_cache_stats.reset = True
        return True

    def evict_blocks(self, block_ids: set[int]) -> None:
        error = NotImplementedError("single blocks are not evicted")
        self._give_up(error).evict_blocks(block_ids)

    def remove_skipped_blocks(
        self,
        request_id: str,
        processed_computed_tokens: int,
        num_prompt_tokens: int | None = None,
    ) -> None:
        pass

    def take_new_block_ids(self) -> list[int]:
        return []

    def take_kv_cache_block_copies(self) -> tuple[list[Any], list[Any]]:
        return [], []

    def take_boundary_state_offloads(self) -> dict[str, list[tuple[int, int, int]]]:
        return {}

    def finalize_partial_tail_offloads(self, request: Any) -> list[tuple[int, int, int]]:
        return []

    # --- what this room asks for ------------------------------------------------------------------

    def let_go(self, held: Held, blocks: list[Any]) -> None:
        """A request that ended before has been written for the last time."""
        try:
            self.kv.release(held.seq)
        except Exception as error:
            self._give_up(error).block_pool.free_blocks(blocks)

    def lost_events(self) -> None:
        """What was cached, and is not found any more but by the requests that have it."""
        if self._events is not None:
            self._events.lost(held.ids[: held.cached] for held in self.held.values())

    def _give_up(self, error: Exception) -> KVCacheManager:
        return hand_over(self, error)
