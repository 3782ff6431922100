"""ARC in Python, from what a batched policy is shown: keys, what is missed, what is found."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any, ClassVar

from kvframe.policies import BatchedEviction, Candidates

from ..policies.twins.base import Keys

Key = tuple[int, int]


class Arc(BatchedEviction):
    """Megiddo and Modha, FAST 2003, decided victim by victim as the built-in policy does.

    Victims are named before their operation. So what it does to the books is done here first: its
    hits, then for each missed key what its ghost tells, then the victim that makes room for it.
    """

    columns: ClassVar[tuple[str, ...]] = ("block", "parent", "depth", "last_use")
    window = 0

    def __init__(self) -> None:
        self.capacity = 0
        """Said with each decision; before the first one there are no ghosts."""
        self.often: dict[int, bool] = {}
        """Of each block that is found, whether it is in the frequency list."""
        self.names: dict[int, Key] = {}
        self.ghosts = (Keys(), Keys())
        self.target = 0.0
        self.coming: int | None = None
        self.pending: deque[Key] = deque()
        """Missed, and not looked for among the ghosts yet."""

    def sizes(self) -> tuple[int, int]:
        often = sum(self.often.values())
        return len(self.often) - often, often

    def adapt(self, ghosts: int, before: tuple[int, int]) -> None:
        step = max(1.0, before[1 - ghosts] / before[ghosts])
        self.target = min(max(self.target + (step, -step)[ghosts], 0.0), float(self.capacity))

    def remembered(self) -> tuple[int, int]:
        return len(self.ghosts[0]), len(self.ghosts[1])

    def call(self, key: Key) -> None:
        before = self.remembered()
        self.coming = next((i for i in (0, 1) if self.ghosts[i].call(key)), None)
        if self.coming is not None:
            self.adapt(self.coming, before)

    # --- events -----------------------------------------------------------------------------------

    def on_miss(self, keys: Any, now: int) -> None:
        self.pending.extend(map(tuple, keys.tolist()))

    def insert_keyed(self, blocks: Any, keys: Any, now: int) -> None:
        while self.pending:
            self.call(self.pending.popleft())
        for block, key in zip(blocks.tolist(), map(tuple, keys.tolist()), strict=True):
            before, often = self.remembered(), False
            for i in (0, 1):
                called = key in self.ghosts[i].called
                if self.ghosts[i].pop(key):
                    often = True
                    if not called:
                        self.adapt(i, before)
            self.often[block], self.names[block] = often, key

    def hit(self, blocks: Any, now: int) -> None:
        self.often.update(dict.fromkeys(blocks.tolist(), True))

    def remove(self, blocks: Any, why: str, now: int) -> None:
        for block in blocks.tolist():
            if why == "evicted" and block in self.often:
                self.evict(block)
            self.often.pop(block, None)

    def evict(self, block: int) -> None:
        """The books of an eviction, which was named or fell to the built-in order."""
        self.ghosts[self.often.pop(block)].add(self.names[block], True, 2 * self.capacity)
        new = int(self.coming is None)
        self.coming = None
        once, often = self.sizes()
        self.ghosts[0].trim(self.capacity - once - new, self.capacity)
        others = once + often + len(self.ghosts[0]) + new
        self.ghosts[1].trim(2 * self.capacity - others, self.capacity)

    # --- decisions --------------------------------------------------------------------------------

    def victims(self, n: int, eligible: Candidates, out: Any) -> None:
        self.capacity = eligible.capacity
        self.hit(eligible.found, eligible.now)
        # Those for which room is free come first.
        while len(self.pending) > n:
            self.call(self.pending.popleft())
        blocks, parents = eligible["block"].tolist(), eligible["parent"].tolist()
        ranks = list(zip(eligible["last_use"].tolist(), (-eligible["depth"].astype(int)).tolist(),
                         blocks, range(len(blocks)), strict=True))  # fmt: skip
        children = [0] * len(blocks)
        for parent in parents:
            if parent >= 0:
                children[parent] += 1
        heaps: tuple[list[Any], list[Any]] = ([], [])
        for place, rank in enumerate(ranks):
            if not children[place]:
                heapq.heappush(heaps[self.often[blocks[place]]], rank)
        for i in range(n):
            if self.pending:
                self.call(self.pending.popleft())
            once, _ = self.sizes()
            over = once > self.target or (self.coming == 1 and once >= self.target)
            first = 0 if over else 1
            *_, block, place = heapq.heappop(heaps[first] or heaps[1 - first])
            out[i] = block
            self.evict(block)
            if (parent := parents[place]) >= 0:
                children[parent] -= 1
                if not children[parent]:
                    heapq.heappush(heaps[self.often[blocks[parent]]], ranks[parent])
