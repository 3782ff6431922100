"""Blocks as vLLM's scheduler gets them: it reads their ids, and passes hits back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from vllm.v1.core.kv_cache_manager import KVCacheBlocks


class BlockIds(KVCacheBlocks):  # type: ignore[misc]
    """Blocks of the one group by their ids; vLLM's objects are made for those who look at them.

    Attributes:
        ids: In the order of the block table.
    """

    __slots__ = ("_pool", "ids")

    def __init__(self, ids: list[int], pool: Any) -> None:
        self.ids, self._pool = ids, pool

    @property
    def blocks(self) -> tuple[Sequence[Any], ...]:
        return ([*map(self._pool.blocks.__getitem__, self.ids)],)

    @overload
    def get_block_ids(
        self, allow_none: Literal[False] = False, *, group_ids: Sequence[int] | None = None
    ) -> tuple[list[int], ...]: ...

    @overload
    def get_block_ids(
        self, allow_none: Literal[True], *, group_ids: Sequence[int] | None = None
    ) -> tuple[list[int], ...] | None: ...

    def get_block_ids(
        self, allow_none: bool = False, *, group_ids: Sequence[int] | None = None
    ) -> tuple[list[int], ...] | None:
        if allow_none and not self.ids:
            return None
        return (
            (self.ids.copy(),) if group_ids is None else tuple(self.ids.copy() for _ in group_ids)
        )
