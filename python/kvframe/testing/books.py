"""Whether each eviction was allowed, judged from the core's event log alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt

from kvframe.events import EventKind
from kvframe.testing.report import PromiseError

_READ = frozenset({EventKind.STORE, EventKind.EVICT, EventKind.FORGET})


class Books:
    """Which blocks are findable, and what follows them in their prefix."""

    def __init__(self) -> None:
        self.evicted: list[int] = []
        self._parents: dict[int, int] = {}
        self._children: Counter[int] = Counter()

    def read(self, events: Mapping[str, npt.NDArray[Any]], held: Collection[int]) -> None:
        """Read the events of one call.

        Args:
            events: As `kvframe.stats.events.Log.take_events` gives them.
            held: Blocks that had an owner when the call began, and that the call does not release.

        Raises:
            PromiseError: A block was evicted while it had an owner, or before a block that follows
            it.
        """
        rows = zip(
            events["kind"].tolist(), events["block"].tolist(), events["value"].tolist(), strict=True
        )
        for kind, block, value in rows:
            if kind not in _READ:
                continue
            if kind == EventKind.STORE:
                self._parents[block] = value
                self._children[value] += 1
                continue
            if kind == EventKind.EVICT:
                self._judge(block, held)
                self.evicted.append(block)
            self._children[self._parents.pop(block)] -= 1

    def _judge(self, block: int, held: Collection[int]) -> None:
        if block in held:
            raise PromiseError("eligible", f"block {block} was evicted while somebody held it")
        if self._children[block]:
            raise PromiseError(
                "eligible", f"block {block} was evicted before {self._children[block]} that follow"
            )
