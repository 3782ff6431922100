"""foresight: worth by Gittins' index over measured hazards, without any of its shortcuts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .base import Block, Twin, Use, mixed

USES, GENERATIONS, DEPTHS = 5, 3, 4
FAMILY = GENERATIONS * DEPTHS
CLASSES = USES * FAMILY
TRUST, KEEP = 50.0, 0.997_296
WAYS, WATCHED = 4, 16
REFRESH_LEAST, EPOCH_LEAST = 500, 16
BUDGET, GRACE = 0.004, 2.0


def log(n: int, most: int) -> int:
    """0, 1, 2, 3-4, 5-8, ... as 0, 1, 2, ..."""
    return min(n.bit_length(), most - 1)


def bucket(age: int) -> int:
    """Quarters of a power of two."""
    age = max(age, 1)
    octave = age.bit_length() - 1
    return octave * 4 + (age * 4 >> octave) - 4


def end(at: int) -> float:
    octave, step = divmod(at, 4)
    return 2.0**octave * ((step + 5) / 4)


@dataclass
class Gone:
    """A departed block that is watched."""

    tag: int
    kind: int
    uses: int
    time: int


class Foresight(Twin):
    """Hazards are counted from all waits, ended or not; worth is the best over all stops."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.time = 0
        self.ended: list[dict[int, float]] = [{} for _ in range(CLASSES)]
        self.used: list[dict[int, float]] = [{} for _ in range(CLASSES)]
        self.idle: list[tuple[int, list[int]]] = [(0, [0] * CLASSES)]
        self.hazards: list[list[float]] = [[] for _ in range(CLASSES)]
        self.worth: dict[tuple[int, int], float] = {}
        self.gone: list[list[Gone | None]] = []
        self.epoch = self.due = 0
        # What lru would still have was used since then, and is so many blocks.
        self.since = self.held = 0
        self.deficit = self.accesses = self.doubt = 0.0

    # Waits

    def begin(self, block: Block) -> None:
        tokens = block.depth * self.block_size
        down = sum(tokens >= edge for edge in (1_024, 4_096, 16_384))
        kind = log(block["uses"] - 1, USES) * FAMILY
        block["kind"] = kind + log(block["generation"], GENERATIONS) * DEPTHS + down
        block["time"] = self.time
        self.idle[-1][1][block["kind"]] += 1
        if self.epoch == 0:
            self.epoch = max(self.capacity // 64, EPOCH_LEAST)
            self.idle.append((self.time + 1, [0] * CLASSES))
        self.epoch -= 1

    def end(self, kind: int, time: int, used: bool) -> None:
        epoch = [counts for start, counts in self.idle if start <= time][-1]
        epoch[kind] -= 1
        at = bucket(self.time - time)
        self.ended[kind][at] = self.ended[kind].get(at, 0.0) + 1
        if used:
            self.used[kind][at] = self.used[kind].get(at, 0.0) + 1

    def compare(self, last: int | None, hit: bool) -> None:
        """Count what lru hits, which holds as many blocks, those used last."""
        lru = last is not None and last >= self.since
        self.deficit = max(self.deficit + lru - hit, 0.0)
        self.accesses += 1
        if not lru:
            self.held += 1
            while self.held > self.capacity:
                at = max(i for i, (start, _) in enumerate(self.idle) if start <= self.since)
                if at + 1 == len(self.idle):
                    break
                self.held = max(self.held - sum(self.idle[at][1]), 0)
                self.since = self.idle[at + 1][0]
        budget = BUDGET * (self.accesses + GRACE * self.capacity)
        self.doubt = max(1 - self.deficit / budget, 0.0)

    # Events

    def insert(self, block: Block, use: Use) -> None:
        self.time += 1
        parent = block.parent
        block["inserted"] = block["last"] = self.now
        block["generation"] = (
            parent["generation"] + (parent["inserted"] != self.now) if parent else 0
        )
        block["uses"] = 1
        before = None
        ways, tag = self.watched(block.key)
        for way, gone in enumerate(ways):
            if gone and gone.tag == tag:
                ways[way] = None
                self.end(gone.kind, gone.time, True)
                block["uses"] = gone.uses + 1
                before = gone.time
                break
        self.compare(before, False)
        self.begin(block)

    def hit(self, block: Block, use: Use) -> None:
        self.time += 1
        self.end(block["kind"], block["time"], True)
        self.compare(block["time"], True)
        block["uses"] += 1
        block["last"] = self.now
        self.begin(block)

    def release(self, block: Block) -> None:
        block["last"] = self.now

    def watched(self, key: tuple[int, int]) -> tuple[list[Gone | None], int]:
        if not self.gone:
            return [], 0
        place = mixed(key)
        return self.gone[(place >> 32) % len(self.gone)], place % 2**32

    def forgotten(self, block: Block) -> None:
        if block["time"] >= self.since and self.held > 0:
            self.held -= 1
        self.end(block["kind"], block["time"], False)

    def evicted(self, block: Block) -> None:
        if not self.gone:
            sets = 1 << (max(self.capacity * WATCHED // WAYS, 1) - 1).bit_length()
            self.gone = [[None] * WAYS for _ in range(sets)]
        ways, tag = self.watched(block.key)
        same = [way for way, gone in enumerate(ways) if gone and gone.tag == tag]
        free = [way for way, gone in enumerate(ways) if gone is None]
        oldest = min(range(WAYS), key=lambda way: gone.time if (gone := ways[way]) else -1)
        way = (same or free or [oldest])[0]
        if before := ways[way]:
            self.end(before.kind, before.time, False)
            if before.time >= self.since and self.held > 0:
                self.held -= 1
        ways[way] = Gone(tag, block["kind"], block["uses"], block["time"])

    # Worth

    def refresh(self) -> None:
        limit = bucket(self.time) + 4
        came = [[self.ended[kind].get(at, 0.0) for at in range(limit)] for kind in range(CLASSES)]
        ends = [start - 1 for start, _ in self.idle[1:]] + [self.time]
        for (start, counts), last in zip(self.idle, ends, strict=True):
            age = self.time - min((min(start, last) + last) // 2, self.time)
            if bucket(age) > 0:
                for kind, n in enumerate(counts):
                    came[kind][bucket(age) - 1] += n
        for row in came:
            for at in range(limit - 2, -1, -1):
                row[at] += row[at + 1]
        used = [[counts.get(at, 0.0) for at in range(limit)] for counts in self.used]
        every = range(CLASSES)
        mean = sum(map(sum, used)) / (sum(map(sum, came)) + 1)
        root = chances(used, came, every, [mean] * limit)
        families = [range(first, first + FAMILY) for first in every[::FAMILY]]
        for family in families:
            prior = chances(used, came, family, root)
            for kind in family:
                self.hazards[kind] = chances(used, came, [kind], prior)
        self.worth = {}
        for seen in (*self.ended, *self.used):
            for at in seen:
                seen[at] *= KEEP
        self.deficit *= KEEP
        self.accesses *= KEEP

    def victim(self, leaves: list[Block]) -> Block:
        if self.due == 0:
            self.refresh()
            self.due = max(self.capacity // 4, REFRESH_LEAST)
        else:
            self.due -= 1
        kinds: dict[int, Block] = {}
        for block in sorted(leaves, key=lambda b: (b["last"], -b.depth, b.id)):
            kinds.setdefault(block["kind"], block)

        def value(block: Block) -> float:
            kind, age = block["kind"], bucket(self.time - block["time"])
            if (kind, age) not in self.worth:
                self.worth[kind, age] = worth(self.hazards[kind], age)
            return self.worth[kind, age]

        heads = sorted(kinds.values(), key=lambda b: (b["last"], -b.depth, b["kind"]))
        least, oldest = min(heads, key=value), heads[0]
        return oldest if value(least) >= self.doubt * value(oldest) else least


def chances(
    used: list[list[float]], came: list[list[float]], kinds: Iterable[int], prior: list[float]
) -> list[float]:
    """The chance of a use at each age of these classes, given what is known without them."""
    found = []
    for at, known in enumerate(prior):
        uses, waits = sum(used[k][at] for k in kinds), sum(came[k][at] for k in kinds)
        found.append((uses + TRUST * known) / (waits + TRUST))
    return found


def worth(hazards: list[float], age: int) -> float:
    """The most uses an access that waiting from an age on brings, over all times to give up."""
    left, uses, time, best = 1.0, 0.0, 0.0, 0.0
    for at in range(age, len(hazards)):
        width = end(at) - (end(at - 1) if at else 0.0)
        uses += left * hazards[at]
        time += left * (1 - hazards[at] / 2) * width
        left *= 1 - hazards[at]
        best = max(best, uses / time)
    return best
