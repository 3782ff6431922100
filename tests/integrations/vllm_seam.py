"""vLLM's plug point for policies of its CPU tier, written from the recorded signatures.

It holds what `kvframe.integrations.vllm` is built on and no behaviour of vLLM: an abstract class,
a chunk's two counters, a request's context with its places, and the order of keys by those. What is
here has the names and parameters of tests/integrations/signatures.json, which a test compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, TypeVar

OffloadKey = bytes
T = TypeVar("T")


class ReqContext:
    def __init__(self, req_id: str, kv_transfer_params: dict[str, Any] | None = None) -> None:
        self.req_id, self.kv_transfer_params = req_id, kv_transfer_params
        self._state: dict[type, Any] = {}
        self._offload_key_positions: dict[OffloadKey, int] = {}

    def set_state(self, val: Any) -> None:
        self._state[type(val)] = val

    def get_state(self, cls: type[T]) -> T | None:
        return self._state.get(cls)

    def set_offload_key_position(self, key: OffloadKey, end_token: int) -> None:
        self._offload_key_positions[key] = end_token

    def get_offload_key_position(self, key: OffloadKey) -> int | None:
        return self._offload_key_positions.get(key)


class ChunkStatus:
    def __init__(self, chunk_id: int) -> None:
        self.ref_cnt, self.chunk_id = -1, chunk_id

    @property
    def is_ready(self) -> bool:
        return self.ref_cnt >= 0


class CachePolicy(ABC):
    def __init__(self, cache_capacity: int) -> None:
        self.cache_capacity = cache_capacity

    @abstractmethod
    def get(self, key: OffloadKey) -> ChunkStatus | None: ...

    @abstractmethod
    def insert(self, key: OffloadKey, chunk: ChunkStatus, req_context: ReqContext) -> None: ...

    @abstractmethod
    def remove(self, key: OffloadKey) -> None: ...

    @abstractmethod
    def touch(self, keys: Iterable[OffloadKey], req_context: ReqContext) -> None: ...

    def on_store_miss(  # noqa: B027
        self, keys: Iterable[OffloadKey], req_context: ReqContext
    ) -> None: ...

    def on_request_access(  # noqa: B027
        self, keys: Iterable[OffloadKey], req_context: ReqContext
    ) -> None: ...

    def on_request_finished(  # noqa: B027
        self,
        key_groups: Sequence[Sequence[OffloadKey]],
        insertion_only_keys: set[OffloadKey],
        reused_keys: set[OffloadKey],
        req_context: ReqContext,
    ) -> None: ...

    @abstractmethod
    def evict(
        self, n: int, protected: set[OffloadKey]
    ) -> list[tuple[OffloadKey, ChunkStatus]] | None: ...

    @abstractmethod
    def clear(self) -> None: ...

    def mark_evictable(self, key: OffloadKey) -> None: ...  # noqa: B027

    def mark_non_evictable(self, key: OffloadKey) -> None: ...  # noqa: B027


def order_request_keys(
    key_groups: Sequence[Sequence[OffloadKey]], req_context: ReqContext
) -> list[OffloadKey]:
    """Keys of all groups by their places in the prompt, its front first."""
    keys = [key for group in key_groups for key in group]
    return sorted(keys, key=lambda key: req_context.get_offload_key_position(key) or 0)


def modules() -> dict[str, ModuleType]:
    """The modules that `kvframe.integrations.vllm` imports, by name."""
    name = "vllm.v1.kv_offload.cpu.policies.base"
    parts = name.split(".")
    made = {".".join(parts[:n]): ModuleType(".".join(parts[:n])) for n in range(1, len(parts) + 1)}
    for thing in (CachePolicy, ChunkStatus, order_request_keys):
        setattr(made[name], thing.__name__, thing)
    return made
