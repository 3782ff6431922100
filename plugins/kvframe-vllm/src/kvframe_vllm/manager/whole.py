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
from kvframe.config import Resolved
from kvframe.errors import CapacityError, NeverFitsError
from kvframe_vllm import choice
from kvframe_vllm.log import logger
from kvframe_vllm.manager.events import Events
from kvframe_vllm.manager.handover import hand_over
from kvframe_vllm.manager.pool import Pool
from kvframe_vllm.manager.requests import Asked, Held
from kvframe_vllm.manager.results import BlockIds
from kvframe_vllm.manager.windows import Windows

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
        self._windows = Windows(stock.coordinator.single_type_managers, self._size)
        resolved = self._resolved(text)
        self.policy = resolved.eviction.name
        self.kv = kvframe.KVCacheManager(resolved)
        self.block_pool = Pool(self)
        self.held: dict[str, Held] = {}
        self._late = 0
        self._groups = len(stock.coordinator.single_type_managers)
        self._asked: dict[str, Asked] = {}
        self._events = Events(self) if stock.enable_kv_cache_events else None

    def _resolved(self, text: str | None) -> Resolved:
        pool = self.stock.block_pool
        cache: dict[str, Any] = {
            "block_size": self._size,
            "capacity": pool.num_gpu_blocks,
            "null_block": True,
            "event_log": self.stock.enable_kv_cache_events,
        }
        # vLLM counts.
        others: dict[str, Any] = {"observe": {"statistics": False}, "groups": [{"name": "full"}]}
        resolved = choice.resolved(text, cache=cache, **others)
        if not self._windows:
            return resolved
        # Where windows end hits, much is computed twice: lru keeps both copies, as vLLM does.
        like_stock = resolved.eviction.name == "lru"
        cache["keep_duplicates"] = like_stock
        others["groups"] = self._windows.described(like_stock=like_stock)
        return choice.resolved(text, cache=cache, **others)

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
            tables = [found.tolist() for found in hit.blocks]
            return BlockIds(tables, self.block_pool), hit.tokens, 0
        except Exception as error:
            found_by_stock: tuple[KVCacheBlocks, int, int]
            limit = () if max_cache_hit_length is None else (max_cache_hit_length,)
            found_by_stock = self._give_up(error).get_computed_blocks(request, *limit)
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
        if held is not None and request.num_computed_tokens >= held.leaves:
            self._leave(held, request.num_computed_tokens - request.num_in_flight_tokens)
            held = self.held.get(request.request_id)
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
            comes_in = held is None or request.status in _COMES_IN
            if comes_in and not self._fits(
                *(request, slots, hits, new_computed_blocks),
                whole=full_sequence_must_fit,
                reserved=reserved_blocks,
                first=not has_scheduled_reqs,
            ):
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
                # Releases before 0.32 have no such argument.
                **({"skip_zeroing_group_ids": of} if (of := skip_zeroing_group_ids) else {}),
            )

    def _fits(
        self,
        request: Any,
        slots: int,
        hits: int,
        blocks: KVCacheBlocks | None,
        *,
        whole: bool,
        reserved: int,
        first: bool,
    ) -> bool:
        """Whether a request that comes in has room: for its slots beside what is reserved, and for
        all of it if it must.
        """
        held = self.held.get(request.request_id)
        has = hits if held is None else len(held.tables[0])
        left = self.block_pool.get_num_free_blocks()
        if not first and request.status in _COMES_IN:
            left -= self.watermark_blocks
        wanted = self._windows.blocks(slots, has) + reserved
        if whole:
            tokens = min(request.num_tokens, self.max_model_len)
            wanted = max(wanted, self._windows.blocks(tokens, has, at_once=True))
        left -= wanted
        # Whose blocks they are is asked where that decides.
        found = hits * len(self.empty_kv_cache_blocks.blocks)
        return left >= found or (left >= 0 and left >= self._unowned(request, blocks, hits))

    def _unowned(self, request: Any, blocks: Any, hits: int) -> int:
        """How many of the blocks found have no owner: they are taken from what is available."""
        unowned = self.kv.blocks.unowned
        if isinstance(blocks, BlockIds) and len(blocks.tables[0]) == hits:
            return sum(map(unowned, blocks.tables))
        hit = self.kv.lookup(self._asked_of(request).limited(hits * self._size))
        return sum(map(unowned, hit.blocks))

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
        held.tables = [
            self.kv.block_table(given.seq, group=group).tolist() for group in range(self._groups)
        ]
        held.cached, held.room = hits, len(held.tables[0]) * size
        if self._windows:
            held.leaves = self._windows.leave(held.tables, hits * size)
        self._grow(held, slots, end)
        if given.cached_tokens != hits * size:
            raise RuntimeError(f"{given.cached_tokens} tokens are cached, {hits} blocks were found")
        return BlockIds([ids[hits:] for ids in held.tables], self.block_pool)

    def _grow(self, held: Held, slots: int, end: int) -> KVCacheBlocks:
        size, request = self._size, held.request
        full = min(min(end, request.num_tokens) // size, len(request.block_hashes))
        if full <= held.cached:
            full, keys = held.cached, None
        else:
            keys = request.block_hashes[held.named : full]
        until, upto = -(-slots // size) * size, full * size
        new = self.kv.advance(held.seq, until, upto=upto, keys=keys, computed=0)
        held.named = max(held.named, full)
        held.cached, held.due = full, (full + 1) * size
        if not new[0]:
            return self.empty_kv_cache_blocks
        for ids, more in zip(held.tables, new, strict=True):
            ids += more
        held.room = len(held.tables[0]) * size
        return BlockIds(new, self.block_pool)

    def _leave(self, held: Held, computed: int) -> None:
        """Blocks leave the windows of a request that is computed so far."""
        if computed < held.leaves:
            return
        try:
            self.kv.advance(held.seq, 0, computed=computed)
            held.leaves = self._windows.leave(held.tables, computed)
        except Exception as error:
            self._give_up(error).coordinator.remove_skipped_blocks(
                held.request.request_id, computed
            )

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
        if held is None:
            return self.empty_kv_cache_blocks
        return BlockIds(held.tables, self.block_pool)

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
        if (held := self.held.get(request_id)) is not None:
            self._leave(held, processed_computed_tokens)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        return [0] * self._groups

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
            self._late += 1
            # Behind a fence kvframe takes groups in the order in which vLLM frees late.
            self.kv.release(held.seq, fence=self._late)
            self.kv.step(passed=self._late)
        except Exception as error:
            self._give_up(error).block_pool.free_blocks(blocks)

    def lost_events(self) -> None:
        """What was cached, and is not found any more but by the requests that have it."""
        if self._events is not None:
            self._events.lost(
                table[: held.cached] for held in self.held.values() for table in held.tables
            )

    def _give_up(self, error: Exception) -> KVCacheManager:
        return hand_over(self, error)
