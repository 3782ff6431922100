"""What is held without a sequence: pinned prefixes, blocks in hand, handles on exact prefixes."""

from __future__ import annotations

from kvframe import HandleError

from .model import need
from .pool import Block
from .sequence import Ask, head
from .tickets import Tickets

OWN = "own"
"""The first part of a key that a caller made up."""


class Hands(Tickets):
    """The verbs of those who keep books of their own."""

    # --- pins ---------------------------------------------------------------------------------

    def pin(self, ask: Ask, told: list[list[int]], receipt: int | None) -> int:
        """Tokens that are kept of a prompt; 0: nothing is, and there is no receipt."""
        found = self.found(ask, whole=True)
        tables = self.check_hits(ask, found, told)
        if not any(self.of(table) for table in tables):
            # Where a chunk ends, nothing that is cached is needed.
            assert receipt is None
            return 0
        assert receipt is not None
        self.pool.now += 1
        self.pins[receipt] = [[b for b in table if b is not None] for table in tables]
        for blocks in self.pins[receipt]:
            self.pool.own(self.of(blocks), "pin")
        return found

    def unpin(self, receipt: int, block: int) -> None:
        need(receipt in self.pins, HandleError)
        need(block == [b for blocks in self.pins[receipt] for b in blocks][-1], HandleError)
        self.pool.now += 1
        for blocks in self.pins.pop(receipt):
            self.pool.drop(self.of(blocks[::-1]), "pin")

    # --- handles on exact prefixes ------------------------------------------------------------

    def attach(self, seq: int, handle: int, upto: int) -> int | None:
        """The handle that it replaces."""
        need(self.by_key)
        s = self.live(seq)
        need(upto <= s.committed)
        group = next((g for g, kind in enumerate(self.kinds) if not kind.cross), 0)
        end = upto // self.kinds[group].span * self.kinds[group].span
        need(upto > 0 and end <= s.hashed and not s.keyed and not s.private)
        key = s.key(group, end) if end else None
        need(key is None or bool(self.pool.named(key)))
        name = head(s.ask, s.tokens, s.mm_items, upto)
        before = self.pool.attached.get(name)
        self.pool.attached[name] = (key, handle)
        self.pool.lose_below(self.pool.usable)
        return before[1] if before else None

    # --- blocks one by one --------------------------------------------------------------------

    def held(self, block: int | None) -> int:
        b = self.pool.blocks.get(-1 if block is None else block)
        return b.owners.count("hand") if b else 0

    def kids(self, block: int) -> int:
        """Blocks in hand that follow it."""
        return sum(parent == block for parent in self.parents.values())

    def publish_block(self, block: int, name: int, parent: int | None) -> int | None:
        """A block that was found under the key before."""
        b = self.pool.blocks.get(block)
        need(b is not None and b.owners == ["loan"])
        assert b is not None
        if parent is not None:
            need(self.held(parent) > 0 and self.pool.blocks[parent].key is not None)
        need(self.by_key)
        self.pool.now += 1
        key = (OWN, name)
        twins = self.pool.named(key)[:1]
        self.pool.count("duplicates", len(twins))
        b.owners, b.key, b.parent = ["hand"], key, parent
        b.depth = 0 if parent is None else self.pool.blocks[parent].depth + 1
        self.parents[block] = parent
        self.pool.count("stored")
        self.pool.insert(b, 0, None)
        return twins[0].id if twins else None

    def touch(self, blocks: list[int]) -> None:
        """Each is held once more, a prefix from its front on."""
        before = dict(self.parents)
        for block in blocks:
            b = self.pool.blocks.get(block)
            fits = b is not None and (b.key is not None or block in self.parents)
            if b and fits and block not in self.parents:
                fits = b.parent is None or b.parent in self.parents
                self.parents[block] = b.parent
            if not fits:
                self.parents = before
            need(fits)
        self.pool.now += 1
        for b in self.of(blocks):
            self.pool.own([b], "hand")
            if b.key is not None:
                self.pool.hit(b, 0, None)
            self.pool.used(b, None)

    def free(self, blocks: list[int]) -> None:
        """Each is held once less; a published one that something in hand follows stays."""
        before, counts = dict(self.parents), {block: self.held(block) for block in blocks}
        lent: list[int] = []
        for block in blocks[::-1]:
            b = self.pool.blocks.get(block)
            if b is not None and b.owners == ["loan"]:
                fits = block not in lent
                lent.append(block)
            else:
                fits = counts[block] > 1 or (counts[block] == 1 and not self.kids(block))
                counts[block] -= 1
                if fits and counts[block] == 0:
                    del self.parents[block]
            if not fits:
                self.parents = before
            need(fits)
        self.pool.now += 1
        for block in lent:
            self.pool.vacate(block)
        self.pool.drop(self.of(b for b in blocks[::-1] if b not in lent), "hand")

    # --- who has it ---------------------------------------------------------------------------

    def owners(self, block: int) -> tuple[list[int], list[int], int, int]:
        """Sequences, tickets, owners that wait for a fence, and how often it is in hand."""
        b: Block | None = self.pool.blocks.get(block)
        names = b.owners if b else []
        tables = [(seq, table) for seq, s in self.every() for table in s.tables]
        tables = [(seq, table) for seq, table in tables if seq in self.seqs]
        sequences = [seq for seq, table in tables for other in table if other == block]
        tickets = [number for number, t in self.tickets.items() if block in t.blocks()]
        return (
            sequences,
            sorted(tickets),
            names.count("fence"),
            names.count("hand") + names.count("loan"),
        )

    def outstanding(self) -> list[tuple[int, str, int, int | None]]:
        """Tickets: number, kind, blocks, deadline."""
        return [
            (number, t.kind, len(set(t.blocks())), self.deadlines.get(number))
            for number, t in sorted(self.tickets.items())
        ]
