"""Blocks as vLLM's scheduler gets them: it reads their ids, and passes hits back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from vllm.v1.core.kv_cache_manager import KVCacheBlocks


class BlockIds(KVCacheBlocks):  # type: ignore[misc]
    """Blocks by their ids; vLLM's objects are made for those who look at them.

    Attributes:
        tables: A list of ids a group, in the order of its block table.
    """

    __slots__ = ("_pool", "tables")

    def __init__(self, tables: Sequence[list[int]], pool: Any) -> None:
        self.tables, self._pool = tables, pool

    @property
    def blocks(self) -> tuple[Sequence[Any], ...]:
        of = self._pool.blocks.__getitem__
        return tuple([*map(of, ids)] for ids in self.tables)

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
        tables = self.tables
        if allow_none and not any(tables):
            return None
        if group_ids is not None:
            tables = [tables[at] for at in group_ids]
        return tuple([ids.copy() for ids in tables])
