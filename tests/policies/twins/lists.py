"""Policies with lists: each block knows its list and since when it is there."""

from __future__ import annotations

from .base import Block, Keys, Places, Twin, Use, first


class Listed(Twin):
    """Keeps all blocks; a list's are those whose ``at`` is its name."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.blocks: set[Block] = set()
        self.places = Places()

    def put(self, block: Block, at: str, behind: bool = False) -> None:
        """To the end of a list; ``behind`` what this operation has put there, too."""
        self.blocks.add(block)
        block["at"] = at
        block["since"] = self.places.next() if behind else self.places.at(self.now)

    def of(self, at: str, among: list[Block] | None = None) -> list[Block]:
        return [b for b in (self.blocks if among is None else among) if b["at"] == at]

    def evicted(self, block: Block) -> None:
        self.blocks.discard(block)

    def forgotten(self, block: Block) -> None:
        self.blocks.discard(block)

    def lowest(self, leaves: list[Block], *order: str) -> Block:
        """The oldest leaf of the first list that has one."""
        return first(next(found for at in order if (found := self.of(at, leaves))))


class Clock(Listed):
    """A queue; what was used since it got its place goes another round."""

    def insert(self, block: Block, use: Use) -> None:
        self.put(block, "ring")
        block["used"] = False

    def hit(self, block: Block, use: Use) -> None:
        block["used"] = True

    def victim(self, leaves: list[Block]) -> Block:
        while first(leaves)["used"]:
            block = first(leaves)
            block["used"] = False
            self.put(block, "ring", behind=True)
        return first(leaves)


class Sieve(Listed):
    """A queue; the hand goes from old to new and spares what was used, without moving it. Each
    retention priority has a hand of its own, which meets no other blocks.
    """

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.hands: dict[int, tuple[int, int, int] | None] = {}
        self.newest: tuple[int, int, int] | None = None

    def insert(self, block: Block, use: Use) -> None:
        self.put(block, "queue")
        block["used"] = False
        self.newest = max(self.newest or (0, 0, 0), self.place(block))

    def place(self, block: Block) -> tuple[int, int, int]:
        return block["since"], -block.depth, block.id

    def hit(self, block: Block, use: Use) -> None:
        block["used"] = True

    def victim(self, leaves: list[Block]) -> Block:
        band = leaves[0].band
        while True:
            hand = self.hands.get(band)
            ahead = [b for b in leaves if hand is None or self.place(b) > hand]
            if not ahead:
                self.hands[band] = None
                continue
            block = first(ahead)
            self.hands[band] = self.place(block)
            if not block["used"]:
                return block
            block["used"] = False

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        if self.place(block) == self.newest:
            self.hands[block.band] = None


class TwoQ(Listed):
    """Used once in a FIFO, back after that in an LRU."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.out = Keys()

    def missed(self, key: tuple[int, int]) -> None:
        self.out.call(key)

    def insert(self, block: Block, use: Use) -> None:
        self.put(block, "main" if self.out.pop(block.key) else "in")

    def hit(self, block: Block, use: Use) -> None:
        self.release(block)

    def release(self, block: Block) -> None:
        if block["at"] == "main":
            self.put(block, "main")

    def victim(self, leaves: list[Block]) -> Block:
        most = self.capacity * self.options["in_percent"] // 100
        order = ("in", "main") if len(self.of("in")) > most else ("main", "in")
        return self.lowest(leaves, *order)

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        if block["at"] == "in":
            most = self.capacity * self.options["out_percent"] // 100
            self.out.add(block.key, True, most, self.capacity)


class Arc(Listed):
    """Used once and used often share the cache as hits of their ghosts tell."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.ghosts = {"once": Keys(), "often": Keys()}
        self.target = 0.0
        self.coming = ""

    def adapt(self, name: str, once: int, often: int) -> None:
        """A ghost of that list came back, one of so many."""
        if name == "once":
            self.target = min(self.target + max(1, often / once), self.capacity)
        else:
            self.target = max(self.target - max(1, once / often), 0)

    def missed(self, key: tuple[int, int]) -> None:
        once, often = len(self.ghosts["once"]), len(self.ghosts["often"])
        self.coming = ""
        for name, ghosts in self.ghosts.items():
            if not self.coming and ghosts.call(key):
                self.coming = name
                self.adapt(name, once, often)

    def insert(self, block: Block, use: Use) -> None:
        once, often = len(self.ghosts["once"]), len(self.ghosts["often"])
        at = "once"
        for name, ghosts in self.ghosts.items():
            called = block.key in ghosts.called
            if ghosts.pop(block.key):
                at = "often"
                if not called:
                    # What was generated is there before anyone asks for it.
                    self.adapt(name, once, often)
        self.put(block, at)

    def hit(self, block: Block, use: Use) -> None:
        self.put(block, "often")

    def release(self, block: Block) -> None:
        self.put(block, block["at"])

    def victim(self, leaves: list[Block]) -> Block:
        once = len(self.of("once"))
        over = once > self.target or (self.coming == "often" and once == self.target)
        return self.lowest(leaves, *(("once", "often") if over else ("often", "once")))

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        self.ghosts[block["at"]].add(block.key, True, 2 * self.capacity)
        new = 0 if self.coming else 1
        self.coming = ""
        once, often = len(self.of("once")), len(self.of("often"))
        self.ghosts["once"].trim(self.capacity - once - new, self.capacity)
        others = once + often + len(self.ghosts["once"]) + new
        self.ghosts["often"].trim(2 * self.capacity - others, self.capacity)


class Mq(Listed):
    """Eight queues by the logarithm of uses; a head that expired moves to the next lower one."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.time = 0
        self.ghosts = Keys()

    def missed(self, key: tuple[int, int]) -> None:
        self.ghosts.call(key)

    def insert(self, block: Block, use: Use) -> None:
        block["uses"] = self.ghosts.pop(block.key, 0)
        self.hit(block, use)

    def hit(self, block: Block, use: Use) -> None:
        block["uses"] += 1
        self.enter(block, min(block["uses"].bit_length() - 1, 7))
        self.time += 1
        for queue in range(1, 8):
            blocks = self.of(str(queue))
            if blocks and first(blocks)["expires"] < self.time:
                self.enter(first(blocks), queue - 1, behind=True)

    def enter(self, block: Block, queue: int, behind: bool = False) -> None:
        self.put(block, str(queue), behind)
        block["expires"] = self.time + self.options["lifetime"]

    def victim(self, leaves: list[Block]) -> Block:
        return self.lowest(leaves, *map(str, range(8)))

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        self.ghosts.add(block.key, block["uses"], 4 * self.capacity, self.capacity)


class S3Fifo(Listed):
    """A small FIFO; used twice there, or back again, it goes to one that gives further rounds."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.ghosts = Keys()

    def missed(self, key: tuple[int, int]) -> None:
        self.ghosts.call(key)

    def insert(self, block: Block, use: Use) -> None:
        self.put(block, "main" if self.ghosts.pop(block.key) else "small")
        block["uses"] = 0

    def hit(self, block: Block, use: Use) -> None:
        block["uses"] = min(block["uses"] + 1, 3)

    def victim(self, leaves: list[Block]) -> Block:
        most = self.capacity * self.options["small_percent"] // 100
        while True:
            scanned = "small" if len(self.of("small")) >= most else "main"
            if not self.of(scanned, leaves):
                scanned = "main" if scanned == "small" else "small"
            # One queue gives until it has given a victim, or has nothing left to give.
            while found := self.of(scanned, leaves):
                block = first(found)
                if block["uses"] < (2 if scanned == "small" else 1):
                    return block
                block["uses"] = 0 if scanned == "small" else block["uses"] - 1
                self.put(block, "main", behind=True)

    def evicted(self, block: Block) -> None:
        super().evicted(block)
        if block["at"] == "small":
            most = self.capacity * (100 - self.options["small_percent"]) // 100
            self.ghosts.add(block.key, True, most, self.capacity)


class SlruLists(Listed):
    """Two lists; a hit protects, and what is too much in the protected list goes back."""

    def insert(self, block: Block, use: Use) -> None:
        self.put(block, "probation")

    def hit(self, block: Block, use: Use) -> None:
        self.put(block, "protected")
        while len(self.of("protected")) > self.capacity * self.options["protected_percent"] // 100:
            self.put(first(self.of("protected")), "probation", behind=True)

    def release(self, block: Block) -> None:
        self.put(block, block["at"])

    def victim(self, leaves: list[Block]) -> Block:
        return self.lowest(leaves, "probation", "protected")


class Lirs(Listed):
    """Short and long time between two uses; the stack ends with the oldest short block."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.gone = Keys()

    @property
    def most(self) -> int:
        return self.capacity - max(1, self.capacity * self.options["hir_percent"] // 100)

    def missed(self, key: tuple[int, int]) -> None:
        self.gone.call(key)

    def in_stack(self, last: int) -> bool:
        return all(last > first(self.of("short"), "last")["last"] for _ in self.of("short")[:1])

    def insert(self, block: Block, use: Use) -> None:
        last = self.gone.pop(block.key)
        back = last is not None and self.in_stack(last)
        block["last"] = self.now
        self.put(block, "short" if back or len(self.of("short")) < self.most else "long")
        self.demote()

    def hit(self, block: Block, use: Use) -> None:
        if block["at"] == "short" or self.in_stack(block["last"]):
            block["at"] = "short"
        else:
            self.put(block, "long")
        block["last"] = self.now
        self.demote()

    def demote(self) -> None:
        while len(self.of("short")) > self.most:
            self.put(first(self.of("short"), "last"), "long", behind=True)

    def release(self, block: Block) -> None:
        block["last"] = self.now

    def victim(self, leaves: list[Block]) -> Block:
        queued = self.of("long", leaves)
        return first(queued) if queued else first(leaves, "last")

    def evicted(self, block: Block) -> None:
        was_in_stack = block["at"] == "short" or self.in_stack(block["last"])
        super().evicted(block)
        if was_in_stack:
            self.gone.add(block.key, block["last"], self.capacity, self.capacity)
