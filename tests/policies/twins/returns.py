"""Policies that ask how likely a block is to come back."""

from __future__ import annotations

import math

from .base import Block, Keys, Twin, Use


def log(turn: int) -> int:
    """0, 1, 2-3, 4-7, 8-15 and more, as 0 to 5."""
    return min(turn.bit_length(), 5)


class Returning(Twin):
    """A share of each class comes back, after a time that is exponentially distributed."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.begun: dict[int, float] = {}
        self.came: dict[int, float] = {}
        self.waited: dict[int, float] = {}
        self.life = 0.0

    def begin(self, kind: int) -> None:
        self.begun[kind] = self.begun.get(kind, 0.0) + 1

    def returned(self, kind: int, idle: int) -> None:
        self.came[kind] = self.came.get(kind, 0.0) + 1
        self.waited[kind] = self.waited.get(kind, 0.0) + idle

    def chance(self, block: Block) -> float:
        """Of a return within the time a block is expected to live after its last use."""
        kind, life = block["kind"], max(self.life, 1.0)
        came = self.came.get(kind, 0.0)
        share = (came + 1) / (max(self.begun.get(kind, 0.0), came) + 2)
        gap = (self.waited.get(kind, 0.0) + life) / (came + 1)
        due = share * math.exp(-(self.now - block["last"]) / gap)
        return due * (1 - math.exp(-life / gap)) / (due + (1 - share))

    def release(self, block: Block) -> None:
        block["last"] = self.now

    def victim(self, leaves: list[Block]) -> Block:
        # Of one kind, whoever waits longest has the least chance: others need not be asked.
        kinds: dict[int, Block] = {}
        for block in sorted(leaves, key=lambda b: (b["last"], -b.depth, b.id)):
            kinds.setdefault(block["kind"], block)
        return min(kinds.values(), key=lambda b: (self.chance(b), b["last"], -b.depth, b["kind"]))

    def evicted(self, block: Block) -> None:
        idle = self.now - block["last"]
        self.life += (idle - self.life) / 64 if self.life > 0 else idle


class Workload(Returning):
    """Kinds are types of requests and the turns that computed a block, counted along the prefix."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.gone = Keys()

    def insert(self, block: Block, use: Use) -> None:
        if (ghost := self.gone.pop(block.key)) is not None:
            self.returned(ghost[0], self.now - ghost[1])
        block["inserted"] = block["last"] = self.now
        block["turn"] = 0
        if block.parent:
            block["turn"] = block.parent["turn"] + (block.parent["inserted"] != self.now)
        block["kind"] = min(use.kind, 3) * 6 + log(block["turn"])
        self.begin(block["kind"])

    def hit(self, block: Block, use: Use) -> None:
        self.returned(block["kind"], self.now - block["last"])
        self.begin(block["kind"])
        block["last"] = self.now

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        self.gone.add(block.key, (block["kind"], block["last"]), self.capacity)


class Session(Returning):
    """Kinds are the turns of the session that used a block last; 0 is nobody's."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.seen: dict[int, tuple[int, int, int]] = {}

    def kind(self, use: Use) -> int:
        if not use.session:
            return 0
        kind = 1 + log(use.turn)
        before = self.seen.pop(use.session, None)
        if before is None or before[0] != use.turn:
            if before:
                self.returned(before[1], self.now - before[2])
            self.begin(kind)
        self.seen[use.session] = (use.turn, kind, self.now)
        while len(self.seen) > self.capacity:
            del self.seen[next(iter(self.seen))]
        return kind

    def insert(self, block: Block, use: Use) -> None:
        block["kind"] = self.kind(use)
        if block["kind"] == 0:
            self.begin(0)
        block["last"] = self.now

    def hit(self, block: Block, use: Use) -> None:
        if block["kind"] == 0:
            self.returned(0, self.now - block["last"])
        self.insert(block, use)
