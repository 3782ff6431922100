"""foresight: worth by Gittins' index over measured hazards, without any of its shortcuts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .base import Block, Twin, Use, mixed

USES, GENERATIONS, DEPTHS = 5, 3, 4
FAMILY = GENERATIONS * DEPTHS
CLASSES = USES * FAMILY
TRUST, KEEP = 50.0, 0.997_296
PRIOR, MOST_LIKELY = (0.43, 2.2, 8.1, 16.0, 24.0), 0.9
WAYS, WATCHED, SHARE, FEW, MOST_USES = 8, 16, 4, 1_024, 15
REFRESH, LEAST, START, FIRST = 4, 800, 64, 2
EPOCH, EPOCH_LEAST, LOOKS = 64, 16, 16
BUDGET, GRACE, RAMP = 0.004, 8.0, 1.0

Row = dict[int, float]


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
    """Hazards are counted from waits, ended or not; worth is the best over all stops."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.tick = self.time = self.accesses = 0
        self.share = 1 if capacity < FEW else SHARE
        # The last of each stands for all classes.
        self.ended: list[Row] = [{} for _ in range(CLASSES + 1)]
        self.used: list[Row] = [{} for _ in range(CLASSES + 1)]
        self.idle: list[tuple[int, list[int]]] = [(0, [0] * CLASSES)]
        self.hazards: list[list[float]] = [[] for _ in range(CLASSES)]
        self.gone: list[list[Gone]] = []
        self.unknown: Block | None = None
        self.victims = self.due = self.family = 0
        # What lru would still have was used since then, and is so many of those counted.
        self.since = self.held = 0
        self.deficit = self.accessed = self.doubt = 0.0
        # By retention priority and class; what comes first in each, where it is looked at.
        self.lists: dict[int, dict[int, list[Block]]] = {}
        self.changed: dict[int, set[int]] = defaultdict(set)
        self.firsts: dict[int, tuple[Block, float]] = {}
        self.shown: int | None = None
        self.looked = 0

    def begin(self) -> None:
        """An operation: its accesses have one time."""
        if self.now == self.tick:
            return
        self.tick, self.time, self.unknown = self.now, self.accesses, None
        if self.time - self.idle[-1][0] >= max(self.capacity // EPOCH, EPOCH_LEAST):
            self.idle.append((self.time, [0] * CLASSES))
        if self.time - self.looked > self.capacity // LOOKS:
            self.looked, self.shown = self.time, None
        while self.held > self.capacity // self.share:
            at = max(i for i, (start, _) in enumerate(self.idle) if start <= self.since)
            if at + 1 == len(self.idle):
                break
            self.held = max(self.held - sum(self.idle[at][1]), 0)
            self.since = self.idle[at + 1][0]
        budget = BUDGET * (self.accessed + GRACE * self.capacity)
        learned = min(self.victims / (RAMP * self.capacity), 1.0)
        self.doubt = max(1 - self.deficit / budget, 0.0) * learned

    # Lists

    def join(self, block: Block, first: bool = False) -> None:
        of = self.lists.setdefault(block.band, {}).setdefault(block["kind"], [])
        of.insert(0 if first else len(of), block)
        block["listed"] = block.band
        if of[0] is block:
            self.changed[block.band].add(block["kind"])

    def leave(self, block: Block) -> None:
        if (band := block["listed"]) is not None:
            of = self.lists[band][block["kind"]]
            if of[0] is block:
                self.changed[band].add(block["kind"])
            of.remove(block)
            block["listed"] = None

    # Waits

    def wait_begins(self, block: Block) -> None:
        block["time"] = self.time
        if block["counted"]:
            self.idle[-1][1][block["kind"]] += 1

    def wait_ends(self, kind: int, time: int, used: bool) -> None:
        epoch = [counts for start, counts in self.idle if start <= time][-1]
        epoch[kind] -= 1
        at = bucket(self.time - time)
        for rows, n in ((self.ended, 1), (self.used, int(used))):
            for row in (rows[kind], rows[CLASSES]):
                row[at] = row.get(at, 0.0) + n

    def compare(self, last: int | None, hit: bool, counted: bool) -> None:
        """Count what lru hits, which holds as many blocks, those used last."""
        lru = last is not None and last >= self.since
        self.deficit = max(self.deficit + lru - hit, 0.0)
        self.accessed += 1
        self.held += counted and not lru

    def lose(self, kind: int, time: int) -> None:
        self.wait_ends(kind, time, False)
        if time >= self.since and self.held > 0:
            self.held -= 1

    # Events

    def insert(self, block: Block, use: Use) -> None:
        self.begin()
        parent, tag = block.parent, mixed(block.key) % 2**16
        found = None
        if parent is None or parent is not self.unknown:
            ways = self.watched(block.key)
            found = next((gone for gone in ways if gone.tag == tag), None)
        block["counted"] = tag % self.share == 0
        block["uses"], block["found"], block["listed"] = 1, False, None
        if found:
            ways.remove(found)
            block["uses"] = min(found.uses + 1, MOST_USES)
            if block["counted"]:
                self.wait_ends(found.kind, found.time, True)
        else:
            self.unknown = block
        self.compare(found.time if found else None, False, block["counted"])
        turns = parent["turns"] + parent["found"] if parent else 0
        block["turns"] = min(turns, GENERATIONS - 1)
        self.classify(block)
        self.accesses += 1

    def classify(self, block: Block) -> None:
        tokens = block.depth * self.block_size
        down = sum(tokens >= edge for edge in (1_024, 4_096, 16_384))
        kind = log(block["uses"] - 1, USES) * FAMILY
        block["kind"] = kind + block["turns"] * DEPTHS + down
        self.wait_begins(block)

    def hit(self, block: Block, use: Use) -> None:
        self.begin()
        listed = block["listed"] is not None
        self.leave(block)
        if block["counted"]:
            self.wait_ends(block["kind"], block["time"], True)
        self.compare(block["time"], True, block["counted"])
        block["uses"] = min(block["uses"] + 1, MOST_USES)
        block["found"] = True
        self.classify(block)
        # A computed copy was found: nobody owns it.
        if listed and not block.owners:
            self.join(block)
        self.accesses += 1

    def released(self, blocks: list[Block]) -> None:
        for block in reversed(blocks):
            self.join(block)

    def claimed(self, block: Block) -> None:
        self.leave(block)

    def retained(self, block: Block) -> None:
        if block["listed"] not in (None, block.band):
            self.leave(block)
            self.join(block)

    def watched(self, key: tuple[int, int]) -> list[Gone]:
        return self.gone[(mixed(key) >> 32) % len(self.gone)] if self.gone else []

    def left(self, block: Block) -> None:
        """It is gone: what it follows may be next."""
        self.leave(block)
        parent = block.parent
        if parent and not parent.children and not parent.owners and parent["listed"] is None:
            self.join(parent, first=True)

    def forgotten(self, block: Block) -> None:
        self.left(block)
        if block["counted"]:
            self.lose(block["kind"], block["time"])

    def evicted(self, block: Block) -> None:
        self.left(block)
        if not self.gone:
            sets = 1 << (max(self.capacity * WATCHED // WAYS, 1) - 1).bit_length()
            self.gone = [[] for _ in range(sets)]
        ways = self.watched(block.key)
        tag = mixed(block.key) % 2**16
        ways.insert(0, Gone(tag, block["kind"], block["uses"], block["time"]))
        if len(ways) > WAYS and (oldest := ways.pop()).tag % self.share == 0:
            self.lose(oldest.kind, oldest.time)

    # Worth

    def refresh(self, family: int) -> None:
        limit = bucket(self.time) + 4
        kinds = range(family * FAMILY, (family + 1) * FAMILY)
        came = {
            kind: [self.ended[kind].get(at, 0.0) for at in range(limit)]
            for kind in (*kinds, CLASSES)
        }
        ends = [start - 1 for start, _ in self.idle[1:]] + [self.time]
        for (start, counts), last in zip(self.idle, ends, strict=True):
            age = self.time - min((min(start, last) + last) // 2, self.time)
            if bucket(age) > 0:
                for kind, row in came.items():
                    row[bucket(age) - 1] += sum(counts) if kind == CLASSES else counts[kind]
        for row in came.values():
            for at in range(limit - 2, -1, -1):
                row[at] += row[at + 1]
        used = {kind: [self.used[kind].get(at, 0.0) for at in range(limit)] for kind in came}
        mean = sum(used[CLASSES]) / (sum(came[CLASSES]) + 1)
        root = chances(used, came, [CLASSES], [mean] * limit)
        guess = [min(chance * PRIOR[family], MOST_LIKELY) for chance in root]
        prior = chances(used, came, kinds, guess)
        for kind in kinds:
            self.hazards[kind] = chances(used, came, [kind], prior)
        for kind in (*kinds, CLASSES) if family == 0 else kinds:
            for seen in (self.ended[kind], self.used[kind]):
                for at in seen:
                    seen[at] *= KEEP

    def learn(self) -> None:
        self.victims += 1
        if self.victims == 1:
            self.due = self.capacity // START
        if self.due > 0:
            self.due -= 1
            return
        apart = max(self.capacity // REFRESH // USES, LEAST)
        begins = self.victims // FIRST < apart * USES
        self.due = self.victims // FIRST if begins else apart
        for _ in range(USES if begins else 1):
            self.refresh(self.family)
            self.family = (self.family + 1) % USES
        if self.family == 0:
            self.deficit *= KEEP
            self.accessed *= KEEP
        self.shown = None

    def victim(self, leaves: list[Block]) -> Block:
        self.begin()
        self.learn()
        found = next((f for band in sorted(self.lists) if (f := self.choose(band))), None)
        assert found, [(b.id, b.owners, b.children, b["listed"], b.band) for b in leaves]
        return found

    def choose(self, band: int) -> Block | None:
        of = self.lists[band]
        looks = {kind for kind in of if of[kind]} if self.shown != band else self.changed[band]
        self.shown = band
        for kind in looks:
            # What follows the first may still be there: it comes back when that is gone.
            while of.get(kind) and of[kind][0].children:
                of[kind].pop(0)["listed"] = None
            if of.get(kind):
                first = of[kind][0]
                age = bucket(self.time - first["time"])
                self.firsts[kind] = first, worth(self.hazards[kind], age)
        self.changed[band] = set()
        heads = [(self.firsts[kind][1], of[kind][0]["time"], kind) for kind in of if of[kind]]
        if not heads:
            return None
        least = min(heads)
        oldest = min(heads, key=lambda head: (head[1], head[2]))
        return of[(oldest if least[0] >= self.doubt * oldest[0] else least)[2]][0]


def chances(
    used: dict[int, list[float]],
    came: dict[int, list[float]],
    kinds: Iterable[int],
    prior: list[float],
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
