"""W-TinyLFU: a window, two lists, and a sketch that says who stays."""

from __future__ import annotations

from .base import Block, Use, first, mixed
from .lists import Listed

SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)


class Sketch:
    """Count-min with four rows of counters up to 15, halved after ten additions a block."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.bits = max((4 * capacity - 1).bit_length(), 4)
        self.rows = [[0] * 2**self.bits for _ in SPREAD]
        self.sample = 10 * capacity
        self.additions = 0

    def counters(self, key: tuple[int, int]) -> list[tuple[list[int], int]]:
        places = [(mixed(key) * odd % 2**64) >> (64 - self.bits) for odd in SPREAD]
        return list(zip(self.rows, places, strict=True))

    def add(self, key: tuple[int, int]) -> None:
        for row, at in self.counters(key):
            row[at] = min(row[at] + 1, 15)
        self.additions += 1
        if self.additions == self.sample:
            self.rows = [[count // 2 for count in row] for row in self.rows]
            self.additions //= 2

    def count(self, key: tuple[int, int]) -> int:
        return min(row[at] for row, at in self.counters(key))


class WTinyLfu(Listed):
    """What came in last, what stays on probation, what was used there."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.sketch = Sketch(capacity)
        self.winner: Block | None = None

    @property
    def window(self) -> int:
        return max(1, self.capacity * self.options["window_percent"] // 100)

    @property
    def main(self) -> int:
        return self.capacity - self.window

    def count(self, block: Block) -> None:
        if self.capacity > self.sketch.capacity:
            self.sketch = Sketch(self.capacity)
        self.sketch.add(block.key)

    def in_main(self) -> int:
        return len(self.of("probation")) + len(self.of("protected"))

    def insert(self, block: Block, use: Use) -> None:
        self.count(block)
        self.put(block, "window")
        self.settle()

    def hit(self, block: Block, use: Use) -> None:
        self.count(block)
        self.put(block, "window" if block["at"] == "window" else "protected")
        self.settle()

    def settle(self) -> None:
        while self.in_main() < self.main and len(self.of("window")) > self.window:
            self.put(first(self.of("window")), "probation", behind=True)
        while len(self.of("protected")) > self.main * 4 // 5:
            self.put(first(self.of("protected")), "probation", behind=True)

    def release(self, block: Block) -> None:
        self.put(block, block["at"])

    def victim(self, leaves: list[Block]) -> Block:
        self.winner = None
        newcomers = self.of("window", leaves)
        main = [b for b in leaves if b["at"] != "window"]
        if not newcomers or not main:
            return self.lowest(leaves, "probation", "protected", "window")
        old, new = self.lowest(main, "probation", "protected"), first(newcomers)
        if self.in_main() > self.main:
            return old
        if self.sketch.count(new.key) <= self.sketch.count(old.key):
            return new
        self.winner = new
        return old

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        if self.winner:
            self.put(self.winner, "probation", behind=True)
            self.winner = None
        self.settle()

    def forgotten(self, block: Block) -> None:
        super().forgotten(block)
        self.settle()
