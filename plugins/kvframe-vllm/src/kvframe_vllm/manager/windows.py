"""Layer groups with sliding windows: what kvframe is told of them, and when blocks leave them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.v1.core.single_type_kv_cache_manager import FullAttentionManager, SlidingWindowManager

SERVED = (FullAttentionManager, SlidingWindowManager)
"""Of vLLM's managers of one group, those that kvframe stands in for."""

NEVER = 1 << 62


class Windows:
    """The windows of a model, for the tables of its requests.

    Args:
        groups: vLLM's managers of one group each.
        size: Tokens of a block.
    """

    def __init__(self, groups: Sequence[Any], size: int) -> None:
        self._groups, self._size = groups, size
        self._spans = [
            (at, group.sliding_window)
            for at, group in enumerate(groups)
            if isinstance(group, SlidingWindowManager)
        ]

    def __bool__(self) -> bool:
        return bool(self._spans)

    def described(self, *, like_stock: bool) -> list[dict[str, Any]]:
        """The groups as kvframe's configuration has them.

        Args:
            like_stock: Every block of a window counts alike; otherwise kvframe first evicts those
                that serve no whole prompt.
        """
        window = dict(self._spans)
        rows = []
        for at in range(len(self._groups)):
            row: dict[str, Any] = {"name": f"group{at}"}
            if at in window:
                row |= {"kind": "sliding_window", "window": window[at]}
                row |= {"interval": self._size} if like_stock else {}
            rows.append(row)
        return rows

    def leave(self, tables: Sequence[list[int]], computed: int) -> int:
        """Enter the null block where blocks left a window, as kvframe gives them up.

        Returns:
            The computed length at which the next one leaves.
        """
        due = NEVER
        for at, window in self._spans:
            table, gone = tables[at], max(computed - window + 1, 0) // self._size
            place = min(gone, len(table))
            while place and table[place - 1]:
                place -= 1
                table[place] = 0
            due = min(due, (gone + 1) * self._size + window - 1)
        return due

    def blocks(self, tokens: int, has: int, *, at_once: bool = False) -> int:
        """Blocks that tables of ``has`` entries lack for so many tokens.

        Args:
            tokens: They.
            has: Entries that each table has.
            at_once: Only those that a prompt holds at the same time, as vLLM bounds them.
        """
        rows = -(-tokens // self._size)
        if not at_once or not self._spans:
            return len(self._groups) * max(rows - has, 0)
        caps = [group.max_admission_blocks_per_request for group in self._groups]
        return sum(max(min(rows, rows if cap is None else cap) - has, 0) for cap in caps)
