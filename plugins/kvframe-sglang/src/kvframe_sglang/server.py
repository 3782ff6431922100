"""A cache as a server builds it, on a CPU and without a model.

`start` loads plugins and parses arguments as SGLang's scheduler process does; `cache` calls the
factory that the scheduler calls, with SGLang's own pools and allocators. `Requests` then does to
the cache what a scheduler does for requests: match, lock, make room, checkpoint chunk by chunk,
finish or abort.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def start(*arguments: str) -> Any:
    """The server arguments of a scheduler process, published as its configuration."""
    from sglang.srt.plugins import load_plugins

    load_plugins()
    from sglang.srt.runtime_context import publish
    from sglang.srt.server_args import prepare_server_args

    parsed = prepare_server_args(["--model-path", "dummy", "--log-level", "error", *arguments])
    publish(parsed, role="scheduler")
    return parsed


def cache(parsed: Any, slots: int, *, page_size: int = 1, **given: Any) -> Any:
    """The prefix cache that SGLang's factory builds.

    Args:
        parsed: What `start` returned.
        slots: Tokens that the KV pool holds.
        page_size: Tokens in a page.
        **given: Other fields of ``CacheInitParams``.
    """
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext, create_tree_cache
    from sglang.srt.runtime_context import get_memory

    params = CacheInitParams(
        **{
            "disable": False,
            "req_to_token_pool": ReqToTokenPool(64, 4096, "cpu", enable_memory_saver=False),
            "token_to_kv_pool_allocator": allocator(slots, page_size),
            "page_size": page_size,
            "eviction_policy": get_memory().radix_eviction_policy,
            "eviction_policy_config": get_memory().radix_eviction_policy_config,
            **given,
        }
    )
    return create_tree_cache(
        TreeCacheBuildContext(
            server_args=parsed,
            params=params,
            is_hybrid_swa=False,
            is_hybrid_ssm=False,
            enable_hierarchical_cache=False,
            disable_radix_cache=params.disable,
            tp_worker=None,
            model_config=None,
            tp_size=1,
            tp_rank=0,
            tp_group=None,
        )
    )


def allocator(slots: int, page_size: int) -> Any:
    """SGLang's own, for pages of one token or more."""
    import torch
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator

    if page_size == 1:
        return TokenToKVPoolAllocator(slots, torch.float16, "cpu", None, need_sort=False)
    return PagedTokenToKVPoolAllocator(
        *(slots, page_size, torch.float16, "cpu", None), need_sort=False
    )


@dataclass(eq=False)
class Request:
    """What the cache reads of SGLang's ``Req``."""

    rid: str
    origin_input_ids: array[int]
    full_untruncated_fill_ids: array[int]
    kv: Any
    priority: int | None = None
    session_id: str | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    session: Any = None
    kv_rotation_base: int | None = None
    lock: Any = None
    last_node: Any = None
    prefix_len: int = 0
    done: bool = field(default=False)
    finished_reason: Any = None

    def finished(self) -> bool:
        return self.done


class Requests:
    """Requests of one cache.

    Args:
        cache: What `cache` built.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self._pool, self._allocator = cache.req_to_token_pool, cache.token_to_kv_pool_allocator
        self._count = 0

    def begin(self, prompt: Sequence[int], **of_it: Any) -> Request:
        """A request is admitted: its cached prefix is locked."""
        from sglang.srt.managers.schedule_batch import ReqKvInfo
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        self._count += 1
        ids = array("q", prompt)
        request = Request(str(self._count), ids, ids, ReqKvInfo(), **of_it)
        # All but the last token, which has to be computed.
        key = RadixKey(ids, request.extra_key, limit=len(ids) - 1, cache_salt=request.cache_salt)
        found = self.cache.match_prefix(MatchPrefixParams(key=key))
        request.prefix_len, request.last_node = found.device_prefix_len, found.last_device_node
        request.lock = self.cache.lock(found.last_device_node)
        request.kv.req_pool_idx = self._pool.free_slots.pop()
        request.kv.cache_protected_len = request.kv.kv_allocated_len = request.prefix_len
        if request.prefix_len:
            cached = self.cache.prefix_device_indices(request)
            self._write(request, 0, cached)
        return request

    def compute(self, request: Request, upto: int) -> bool:
        """The next chunk, up to there: slots, and a checkpoint. False if there is no room."""
        size, have = self.cache.page_size, request.kv.kv_allocated_len
        need = -(-upto // size) * size - have
        if need > 0:
            fresh = self._room(need)
            if fresh is None:
                return False
            self._write(request, have, fresh)
            request.kv.kv_allocated_len = have + need
        request.kv.kv_committed_len = upto
        self.cache.checkpoint(request, up_to=upto)
        return True

    def answer(self, request: Request, tokens: Sequence[int]) -> bool:
        """Tokens are generated."""
        request.full_untruncated_fill_ids = request.full_untruncated_fill_ids + array("q", tokens)
        size, have = self.cache.page_size, request.kv.kv_allocated_len
        need = -(-len(request.full_untruncated_fill_ids) // size) * size - have
        if need > 0:
            fresh = self._room(need)
            if fresh is None:
                return False
            self._write(request, have, fresh)
            request.kv.kv_allocated_len = have + need
        return True

    def end(self, request: Request, *, aborted: bool = False) -> None:
        """The request finishes, or is aborted: then nothing more of it is stored."""
        if not aborted:
            request.done = True
            self.cache.checkpoint(request, up_to=len(request.full_untruncated_fill_ids))
        kept, had = request.kv.cache_protected_len, request.kv.kv_allocated_len
        row = self._pool.req_to_token[request.kv.req_pool_idx]
        if kept < had:
            self._allocator.free(row[kept:had].long())
        self.cache.unlock(request.lock)
        self._pool.free_slots.append(request.kv.req_pool_idx)
        self.cache.on_release(request, checkpointed=not aborted)

    def _write(self, request: Request, start: int, slots: torch.Tensor) -> None:
        row = (request.kv.req_pool_idx, slice(start, start + len(slots)))
        self._pool.write(row, slots.int())

    def _room(self, need: int) -> torch.Tensor | None:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        missing = need - self._allocator.available_size()
        if missing > 0:
            self.cache.evict_for_alloc(EvictParams(num_tokens=missing))
        slots: torch.Tensor | None = self._allocator.alloc(need)
        return slots
