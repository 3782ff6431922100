"""Policies that draw at random, and those of agents and gaps: the papers of 2026."""

from __future__ import annotations

import math

from .base import Block, Twin, Use


class Dice:
    """splitmix64."""

    def __init__(self, seed: int) -> None:
        self.state = seed << 32

    def throw(self) -> int:
        """64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        x = self.state
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    def share(self) -> float:
        """Below 1."""
        return (self.throw() >> 11) / 2**53

    def below(self, n: int) -> int:
        return self.throw() * n >> 64


class Work(Twin):
    """Counts accesses, and costs that grow with depth."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.time = 0

    def insert(self, block: Block, use: Use) -> None:
        self.time += 1
        block["uses"], block["at"] = 1, self.time

    def hit(self, block: Block, use: Use) -> None:
        self.time += 1
        block["uses"], block["at"] = block["uses"] + 1, self.time

    def cost(self, block: Block) -> float:
        return float(1 + block.depth / self.options["attention_blocks"])


class RandomCompute(Work):
    """Of a sample the least cost by age; the list of leaves is as chance has it."""

    chunk = 1

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.dice = Dice(options["seed"])
        self.lists: dict[int, list[Block]] = {}
        self.node: tuple[Block | None, tuple[int, int], int] = (None, (0, 0), 0)

    def weight(self, block: Block) -> float:
        return self.cost(block) / float(max(self.time - block["at"], 1))

    def put(self, block: Block) -> None:
        block["listed"] = block.band
        self.lists.setdefault(block.band, []).append(block)

    def take(self, block: Block) -> bool:
        if "listed" not in block.notes:
            return False
        own = self.lists[block.notes.pop("listed")]
        at = own.index(block)
        own[at] = own[-1]
        own.pop()
        return True

    def hit(self, block: Block, use: Use) -> None:
        super().hit(block, use)
        if block.owners:  # Behind a window it may be found, and stay where it is.
            self.take(block)

    def released(self, blocks: list[Block]) -> None:
        for block in blocks:
            if not block.children and not block.owners:
                self.put(block)

    def claimed(self, block: Block) -> None:
        self.take(block)

    def retained(self, block: Block) -> None:
        if block.notes.get("listed", block.band) != block.band:
            self.take(block)
            self.put(block)

    def forgotten(self, block: Block) -> None:
        self.evicted(block)

    def evicted(self, block: Block) -> None:
        self.take(block)
        parent = block.parent
        if parent and not parent.children and not parent.owners:
            self.put(parent)

    def past(self, block: Block) -> tuple[int, int]:
        """Uses, and the access of the last that had it together with those before and after it."""
        return block["uses"], block["at"] - block.depth

    def victim(self, leaves: list[Block]) -> Block:
        block, past, left = self.node
        if block is None or left == 0 or block not in leaves or self.past(block) != past:
            block, left = self.drawn(leaves), self.chunk
        self.node = block.parent, self.past(block), left - 1
        return block

    def drawn(self, leaves: list[Block]) -> Block:
        own = self.lists[leaves[0].band]
        assert sorted(b.id for b in own) == sorted(b.id for b in leaves)
        samples = self.options["samples"]
        if len(own) > samples:
            own = [own[self.dice.below(len(own))] for _ in range(samples)]
        return min(own, key=self.weight)


class RandomQuickDemotion(RandomCompute):
    """Uses by age and cost, a tenth for what was used once."""

    def weight(self, block: Block) -> float:
        proven = 1.0 if block["uses"] > 1 else 0.1
        return float(block["uses"] / (self.time - block["at"] + 1) * self.cost(block) * proven)


class PartialNodeRandomCompute(RandomCompute):
    """A draw costs a node so many blocks of its tail."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.chunk = options["chunk_blocks"]


class AsymCache(Twin):
    """Cost times the chance of another use, from its formula."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.gaps: list[int] = []
        self.length = 0.0

    def insert(self, block: Block, use: Use) -> None:
        block["last"] = self.now

    def hit(self, block: Block, use: Use) -> None:
        if not self.length:
            self.gaps.append(self.now - block["last"])
        block["last"] = self.now

    def release(self, block: Block) -> None:
        block["last"] = self.now

    def worth(self, block: Block) -> float:
        """Its logarithm, in the order of sums in which the core has it."""
        alpha = -self.length / math.log(0.5)
        beta, start = alpha / 40, self.length * (1 - 1 / 40)
        cost = math.log(1 + block.depth / self.options["attention_blocks"])
        last = float(block["last"])
        near = cost + last / alpha - self.now / alpha
        return min(near, cost + (last + start) / beta - self.now / beta)

    def victim(self, leaves: list[Block]) -> Block:
        if not self.length:
            rank = math.ceil(0.99 * len(self.gaps))
            self.length = float(max(sorted(self.gaps)[rank - 1], 1)) if self.gaps else 4096.0
        return min(leaves, key=lambda b: (self.worth(b), -b.depth, b.id))


class RrEvict(Twin):
    """Agents lose a chunk in turn, each its deepest blocks first."""

    def __init__(self, capacity: int, **options: int) -> None:
        super().__init__(capacity, **options)
        self.turns = 0
        self.agents: dict[tuple[str, int], dict[str, int]] = {}

    def joined(self, block: Block, use: Use) -> None:
        agent = ("session", use.session) if use.session else ("request", self.now)
        if agent not in self.agents:
            self.turns += 1
            self.agents[agent] = {"turn": self.turns, "lost": 0, "blocks": 0}
        self.agents[agent]["blocks"] += 1
        block["agent"] = agent

    def left(self, block: Block) -> None:
        agent = self.agents[block["agent"]]
        agent["blocks"] -= 1
        if not agent["blocks"]:
            del self.agents[block["agent"]]

    def insert(self, block: Block, use: Use) -> None:
        self.joined(block, use)

    def hit(self, block: Block, use: Use) -> None:
        if block["agent"] != ("session", use.session):
            self.left(block)
            self.joined(block, use)

    def victim(self, leaves: list[Block]) -> Block:
        return min(leaves, key=lambda b: (self.agents[b["agent"]]["turn"], -b.depth, b.id))

    def evicted(self, block: Block) -> None:
        agent = self.agents[block["agent"]]
        agent["lost"] += 1
        if agent["lost"] == self.options["chunk_blocks"]:
            self.turns += 1
            agent["turn"], agent["lost"] = self.turns, 0
        self.left(block)

    def forgotten(self, block: Block) -> None:
        self.left(block)
