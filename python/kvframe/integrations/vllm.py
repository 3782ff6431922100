"""Every kvframe eviction policy as a `CachePolicy` of vLLM's CPU offload tier.

In ``kv_connector_extra_config``, beside ``cpu_bytes_to_use``::

    "eviction_policy": "kvframe:s3-fifo",
    "cache_policy_module_path": "kvframe.integrations.vllm"

``kvframe:NAME`` is the policy of that name with its defaults; ``KvframeCachePolicy`` is what
kvframe.toml and the environment say. vLLM gives no parents; it gives places in the prompt, which
are passed on as depths, and ``kv_transfer_params["kvframe"]`` of a request, which may hold the
fields of `kvframe.flat.Access`; what a client puts there wrong is left out, with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from kvframe.config import Resolved
from kvframe.flat import Access, TierPolicy, resolve
from kvframe.integrations.peers import PREFIX, seam, use_of

SUPPORTED = "0.33"
"""Versions of vLLM whose plug point this is."""

if TYPE_CHECKING:
    from vllm.v1.kv_offload.base import OffloadKey, ReqContext
    from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus, order_request_keys
else:
    _seam = seam("vllm.v1.kv_offload.cpu.policies.base", "vllm", SUPPORTED)
    CachePolicy, order_request_keys = _seam.CachePolicy, _seam.order_request_keys


@dataclass
class _Request:
    """What a request has used so far; kept in its own context."""

    owner: object
    keys: dict[OffloadKey, int] = field(default_factory=dict)


class KvframeCachePolicy(CachePolicy):  # type: ignore[misc]
    """vLLM's chunks in the order of a kvframe policy.

    A chunk's place is that of the requests that used it, whenever its transfers end. A chunk in
    transfer keeps its place, and eviction passes over it.
    """

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.tier: TierPolicy[OffloadKey] = TierPolicy(self.resolved(), cache_capacity)
        self._chunks: dict[OffloadKey, ChunkStatus] = {}
        self._in_transfer: set[OffloadKey] = set()
        # `_users`: the request that used each chunk last. `_unordered`: requests whose chunks are
        # not in order yet; the request that used a chunk last comes last.
        self._users: dict[OffloadKey, _Request] = {}
        self._unordered: dict[int, _Request] = {}

    @classmethod
    def resolved(cls) -> Resolved:
        """The configuration whose ``[eviction]`` rules."""
        return Resolved.load()

    def get(self, key: OffloadKey) -> ChunkStatus | None:
        return self._chunks.get(key)

    def insert(self, key: OffloadKey, chunk: ChunkStatus, req_context: ReqContext) -> None:
        place = req_context.get_offload_key_position(key)
        block_size = self.tier.resolved.config.cache.block_size
        depth = 0 if place is None else max(0, place - 1) // block_size
        self.tier.insert(key, depth=depth, use=_use(req_context))
        self.tier.release([key])
        self._chunks[key] = chunk
        if chunk.ref_cnt != 0:
            self._in_transfer.add(key)
        self.on_request_access([key], req_context)

    def remove(self, key: OffloadKey) -> None:
        self.tier.remove([key])
        self._forget(key)

    def touch(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        self._settle()
        keys = list(keys)
        ready = [key for key in keys if (chunk := self._chunks.get(key)) and chunk.is_ready]
        self.tier.hit(ready, _use(req_context))
        self.tier.on_miss(keys)

    def on_store_miss(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        self.tier.on_miss(keys)

    def on_request_access(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None:
        request = req_context.get_state(_Request)
        if request is None or request.owner is not self._users:
            request = _Request(self._users)
            req_context.set_state(request)
        for key in keys:
            place = req_context.get_offload_key_position(key)
            if place is not None and key in self._chunks:
                request.keys[key] = place
                self._users[key] = request
                self._unordered.pop(id(request), None)
                self._unordered[id(request)] = request

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[OffloadKey]],
        insertion_only_keys: set[OffloadKey],
        reused_keys: set[OffloadKey],
        req_context: ReqContext,
    ) -> None:
        self._settle()
        here = [key for key in order_request_keys(key_groups, req_context) if key in self._chunks]
        self.tier.hit([key for key in here if key in reused_keys], _use(req_context))
        self.tier.refresh(here)

    def evict(
        self, n: int, protected: set[OffloadKey]
    ) -> list[tuple[OffloadKey, ChunkStatus]] | None:
        self._settle()
        victims = self.tier.victims(n, protected | self._in_transfer)
        if victims is None:
            return None
        return [(key, self._forget(key)) for key in victims]

    def clear(self) -> None:
        self.tier.clear()
        self._chunks.clear()
        self._in_transfer.clear()
        self._users = {}
        self._unordered.clear()

    def mark_evictable(self, key: OffloadKey) -> None:
        self._in_transfer.discard(key)

    def mark_non_evictable(self, key: OffloadKey) -> None:
        self._in_transfer.add(key)

    def _settle(self) -> None:
        """Put the chunks of each running request in order: its tail is evicted before its head.

        Chunks arrive one by one, in any order.
        """
        for request in self._unordered.values():
            mine = [key for key in request.keys if self._users.get(key) is request]
            self.tier.refresh(sorted(mine, key=request.keys.__getitem__))
        self._unordered.clear()

    def _forget(self, key: OffloadKey) -> ChunkStatus:
        self._users.pop(key, None)
        self._in_transfer.discard(key)
        return self._chunks.pop(key)


@cache
def cache_policy(policy: str) -> type[KvframeCachePolicy]:
    """The class that runs the policy of that name with its default options.

    Raises:
        PluginError: There is none; the message lists those there are.
    """
    found = resolve(policy)

    class Named(KvframeCachePolicy):
        @classmethod
        def resolved(cls) -> Resolved:
            return found

    Named.__name__ = Named.__qualname__ = f"{PREFIX}{policy}"
    return Named


def _use(req_context: ReqContext) -> Access:
    return use_of((req_context.kv_transfer_params or {}).get("kvframe"))


def __getattr__(name: str) -> type[KvframeCachePolicy]:
    # vLLM takes the class by getattr(module, eviction_policy).
    if name.startswith(PREFIX):
        return cache_policy(name.removeprefix(PREFIX))
    raise AttributeError(f"module {__name__} has no attribute {name!r}")
