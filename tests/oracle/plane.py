"""A data plane whose copies and loads come late, out of order, or fail: real bytes, in NumPy.

A token's slot holds a digest of all its KV depends on, so that a wrong, stale or foreign page shows
up as a wrong number wherever it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .oracle import Oracle
from .sequence import Seq, head

LOST = 0
"""What a copy leaves that failed, and what is computed over it."""
Copies = list[tuple[int | None, int, int, int]]
Kept = list[tuple[int, npt.NDArray[np.uint64]]]


@dataclass
class Load:
    """Blocks that come from elsewhere; the first ``good`` rows arrive."""

    rows: int
    good: int
    pages: list[tuple[int, npt.NDArray[np.uint64]]]


@dataclass
class Plane:
    """Pages, and what is still to be copied into them."""

    o: Oracle
    pages: npt.NDArray[np.uint64]
    queue: list[tuple[int, Copies, bool]] = field(default_factory=list)
    """Plans not run yet, in the order of the stream, and whether they fail."""
    fates: dict[int, bool] = field(default_factory=dict)
    """Plans not settled yet, and whether they fail."""
    loads: dict[int, Load] = field(default_factory=dict)
    leases: dict[int, Kept] = field(default_factory=dict)
    fenced: list[tuple[int, Kept]] = field(default_factory=list)
    epoch: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    """Resets before each sequence came in."""

    def value(self, s: Seq, group: int, at: int, epoch: int) -> int:
        what = (epoch, group, *head(s.ask, s.tokens, s.extras, at + 1))
        return hash(what) & (2**63 - 1) | 1

    def row(self, s: Seq, group: int, row: int, epoch: int) -> npt.NDArray[np.uint64]:
        places = range(row * self.o.size, (row + 1) * self.o.size)
        return np.array([self.value(s, group, at, epoch) for at in places], np.uint64)

    # --- copies -------------------------------------------------------------------------------

    def take(self, ticket: int, copies: Copies, fails: bool) -> None:
        self.queue.append((ticket, copies, fails))
        self.fates[ticket] = fails

    def run(self, last: int) -> None:
        """Runs the stream up to the plan at that place."""
        for _, copies, fails in self.queue[: last + 1]:
            for src, dst, tokens, _ in copies:
                assert src is not None
                self.pages[dst, :tokens] = LOST if fails else self.pages[src, :tokens]
        del self.queue[: last + 1]

    def before(self, ticket: int) -> None:
        """A plan is settled once it has run."""
        self.run(max((i for i, (t, _, _) in enumerate(self.queue) if t == ticket), default=-1))

    def failing(self) -> bool:
        return any(self.fates.values()) or any(x.good < x.rows for x in self.loads.values())

    # --- computing ----------------------------------------------------------------------------

    def compute(self, seq: int, upto: int) -> None:
        """The model runs over what is not committed yet: reads what is before, writes the rest."""
        s, epoch = self.o.live(seq), self.epochs[seq]
        mine = {b for table in s.tables for b in table}
        waits = [i for i, (_, copies, _) in enumerate(self.queue) if mine & {c[1] for c in copies}]
        self.run(max(waits, default=-1))
        sound = min(self.read(s, g, epoch) for g in range(len(s.tables)))
        for at in range(s.committed, upto):
            for group, table in enumerate(s.tables):
                block = table[at // self.o.size]
                assert block is not None, f"token {at} of group {group} has no slot"
                slot = at % self.o.size
                coming = self.coming(block)
                if coming is not None:
                    sound = sound and bool(coming[slot] != LOST)
                    continue
                value = self.value(s, group, at, epoch) if sound else LOST
                found = self.o.pool.blocks[block].key is not None
                same = int(self.pages[block, slot]) == value
                assert same or not found, f"block {block} is written, and can be found"
                self.pages[block, slot] = value

    def coming(self, block: int) -> npt.NDArray[np.uint64] | None:
        """What a page will hold that somebody else fills."""
        for load in self.loads.values():
            for page, content in load.pages:
                if page == block:
                    return content
        return None

    def read(self, s: Seq, group: int, epoch: int) -> bool:
        """Whether all that the next token attends to is there; anything else than that is wrong."""
        sound = True
        for at in range(self.o.kinds[group].first(s.committed), s.committed):
            block = s.tables[group][at // self.o.size]
            assert block is not None, f"token {at} of group {group} has no page"
            coming = self.coming(block)
            page = self.pages[block] if coming is None else coming
            value = int(page[at % self.o.size])
            if value == LOST and self.failing():
                sound = False
                continue
            assert value == self.value(s, group, at, epoch), f"token {at} reads foreign bytes"
        return sound

    def check_found(self) -> None:
        """Every block that can be found holds the bytes of its prefix."""
        for block in self.o.pool.blocks.values():
            if block.key is None:
                continue
            group, salt, adapter, items, *tokens = block.key
            for slot in range(self.o.size):
                upto = len(tokens) - self.o.size + slot + 1
                inside = tuple((a, min(b, upto), i) for a, b, i in items if a < upto)
                what = (self.epoch, group, salt, adapter, inside, *tokens[:upto])
                value = hash(what) & (2**63 - 1) | 1
                assert int(self.pages[block.id, slot]) == value, f"block {block.id} is not its key"

    # --- promises -----------------------------------------------------------------------------

    def load(self, ticket: int, seq: int, good: int) -> None:
        """Opens what the model has booked just now."""
        s, told = self.o.live(seq), self.o.tickets[ticket]
        pages = []
        for at, (_, page, _, group) in enumerate(told.copies):
            row = at // len(self.o.kinds)
            content = self.row(s, group, told.start + row, self.epochs[seq])
            pages.append((page, content if row < good else np.zeros_like(content)))
        self.loads[ticket] = Load(told.rows, good, pages)

    def land(self, ticket: int) -> int:
        """What was to come is there; how many rows are good."""
        load = self.loads.pop(ticket)
        for page, content in load.pages:
            self.pages[page] = content
        return load.good

    def keep(self, s: Seq, upto: int, windows: bool = True) -> Kept:
        """The bytes of computed tokens, as somebody elsewhere may read them."""
        kept = []
        for kind, table in zip(self.o.kinds, s.tables, strict=True):
            if not (kind.full or windows):
                continue
            for row, block in enumerate(table[: self.o.rows(upto)]):
                if block is not None and self.coming(block) is None:
                    tokens = min(upto - row * self.o.size, self.o.size)
                    kept.append((block, self.pages[block, :tokens].copy()))
        return kept

    def check_kept(self, kept: Kept) -> None:
        for block, content in kept:
            now = self.pages[block, : len(content)]
            assert (now == content).all(), f"block {block} was kept, and written"
