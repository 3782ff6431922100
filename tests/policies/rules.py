"""Where libcachesim's policies of a name have other rules: both, on streams of single blocks.

Each class counts misses by kvframe's rules or, where ``theirs`` is set, by libcachesim's. What sets
the two apart is in the branches on ``theirs`` and nowhere else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class Counted:
    """A cache of single blocks."""

    def __init__(self, capacity: int, theirs: bool) -> None:
        self.capacity = capacity
        self.theirs = theirs
        self.time = 0

    def misses(self, ids: Iterable[int]) -> int:
        found = 0
        for at, node in enumerate(ids):
            self.time = at
            found += not self.get(node)
        return found

    def get(self, node: int) -> bool:
        """Whether it was there; it is now."""
        raise NotImplementedError


class S3Fifo(Counted):
    """Theirs fills the main queue while nothing was evicted yet and the small one is full."""

    def __init__(self, capacity: int, theirs: bool) -> None:
        super().__init__(capacity, theirs)
        self.most = int(capacity * 0.1)
        self.small: OrderedDict[int, int] = OrderedDict()
        self.main: OrderedDict[int, int] = OrderedDict()
        self.ghosts: OrderedDict[int, None] = OrderedDict()
        self.has_evicted = False

    def get(self, node: int) -> bool:
        for queue in (self.small, self.main):
            if node in queue:
                queue[node] = min(queue[node] + 1, 3)
                return True
        back = node in self.ghosts
        self.ghosts.pop(node, None)
        while len(self.small) + len(self.main) == self.capacity:
            self.evict()
        fills = self.theirs and not self.has_evicted and len(self.small) >= self.most
        (self.main if back or fills else self.small)[node] = 0
        return False

    def evict(self) -> None:
        self.has_evicted = True
        if len(self.small) >= self.most or not self.main:
            while self.small:
                node, uses = self.small.popitem(last=False)
                if uses < 2:
                    self.ghosts[node] = None
                    if len(self.ghosts) > int(self.capacity * 0.9):
                        self.ghosts.popitem(last=False)
                    return
                self.main[node] = 0
        else:
            while uses := (first := self.main.popitem(last=False))[1]:
                self.main[first[0]] = uses - 1


class Slru(Counted):
    """Theirs has four equal lists, takes in at the lowest with room, and bounds the lowest, too."""

    def __init__(self, capacity: int, theirs: bool) -> None:
        super().__init__(capacity, theirs)
        self.most = [capacity // 4] * 4 if theirs else [capacity, capacity * 80 // 100]
        self.lists: list[OrderedDict[int, None]] = [OrderedDict() for _ in self.most]

    def get(self, node: int) -> bool:
        for at, nodes in enumerate(self.lists):
            if node in nodes:
                del nodes[node]
                up = min(at + 1, len(self.lists) - 1)
                self.lists[up][node] = None
                self.cool(up)
                return True
        if sum(map(len, self.lists)) == self.capacity:
            next(nodes for nodes in self.lists if nodes).popitem(last=False)
        into = 0
        if self.theirs:
            room = [at for at, most in enumerate(self.most) if len(self.lists[at]) < most]
            into = room[0] if room else 0
        self.lists[into][node] = None
        return False

    def cool(self, at: int) -> None:
        while len(self.lists[at]) > self.most[at]:
            node, _ = self.lists[at].popitem(last=False)
            if at:
                self.lists[at - 1][node] = None
                self.cool(at - 1)


class Ranked(Counted):
    """The lowest score is evicted, of equals the one used longest ago."""

    def __init__(self, capacity: int, theirs: bool) -> None:
        super().__init__(capacity, theirs)
        self.scores: dict[int, tuple[int, int]] = {}
        self.uses: dict[int, int] = {}
        self.level = 0

    def evict(self) -> None:
        victim = min(self.scores, key=lambda node: self.scores[node])
        self.level = self.scores.pop(victim)[0]


class Gdsf(Ranked):
    """Theirs takes a block in before it looks for a victim, which may be that block."""

    def get(self, node: int) -> bool:
        hit = node in self.scores
        if not (hit or self.theirs) and len(self.scores) == self.capacity:
            self.evict()
        self.uses[node] = self.uses[node] + 1 if hit else 1
        self.scores[node] = (self.level + self.uses[node], self.time)
        if len(self.scores) > self.capacity:
            self.evict()
        return hit


class Lfuda(Ranked):
    """Theirs adds the age at each use, not one to the uses, and ages when a class is empty, too."""

    def get(self, node: int) -> bool:
        hit = node in self.scores
        if not hit and len(self.scores) == self.capacity:
            self.evict()
            self.grow_old()
        self.uses[node] = self.uses[node] + 1 if hit else 1
        score = self.level + self.uses[node]
        if self.theirs and hit:
            score = self.scores[node][0] + self.level
        self.scores[node] = (score, self.time)
        if hit:
            self.grow_old()
        return hit

    def grow_old(self) -> None:
        if self.theirs and self.level:
            higher = [score for score, _ in self.scores.values() if score >= self.level]
            self.level = min(higher, default=self.level)


class Lirs(Counted):
    """Theirs demotes a short block at each hit of a long one outside the stack, too, which takes
    one off the queue, and bounds the stack, ghosts included, to two capacities.
    """

    def __init__(self, capacity: int, theirs: bool) -> None:
        super().__init__(capacity, theirs)
        self.long = max(1, capacity // 100)
        self.short = capacity - self.long
        self.stack: OrderedDict[int, str] = OrderedDict()
        self.queue: OrderedDict[int, None] = OrderedDict()
        self.gone: OrderedDict[int, None] = OrderedDict()
        self.n = 0

    def get(self, node: int) -> bool:
        kind = self.stack.get(node)
        if node in self.queue:
            self.queue.move_to_end(node)
        if kind:
            self.stack.move_to_end(node)
        hit = kind in ("short", "long") or node in self.queue
        if kind == "short":
            self.prune()
        elif kind == "long":
            self.queue.pop(node, None)
            self.promote(node)
        elif hit:
            if self.theirs and self.n + 1 > self.short:
                self.demote()
            self.stack[node] = "long"
        else:
            self.miss(node, kind)
        most = 2 * self.capacity if self.theirs else None
        while most and len(self.stack) > most and self.gone:
            oldest, _ = self.gone.popitem(last=False)
            del self.stack[oldest]
        return hit

    def miss(self, node: int, kind: str | None) -> None:
        full = self.n + len(self.queue) >= self.capacity
        if full and self.queue:
            self.evict()
        if kind == "gone":
            self.gone.pop(node, None)
            self.promote(node)
        elif self.n < self.short:
            self.stack[node] = "short"
            self.n += 1
        else:
            self.stack[node] = "long"
            self.queue[node] = None

    def promote(self, node: int) -> None:
        self.stack[node] = "short"
        self.n += 1
        if self.n > self.short:
            self.demote()

    def demote(self) -> None:
        self.prune()
        oldest, _ = self.stack.popitem(last=False)
        self.n -= 1
        if self.theirs:
            while len(self.queue) >= self.long:
                self.evict()
        self.queue[oldest] = None
        self.prune()

    def evict(self) -> None:
        victim, _ = self.queue.popitem(last=False)
        if victim in self.stack:
            self.stack[victim] = "gone"
            self.gone[victim] = None
            while not self.theirs and len(self.gone) > self.capacity:
                oldest, _ = self.gone.popitem(last=False)
                del self.stack[oldest]

    def prune(self) -> None:
        while self.stack and next(iter(self.stack.values())) != "short":
            node, kind = self.stack.popitem(last=False)
            if kind == "gone":
                self.gone.pop(node, None)
