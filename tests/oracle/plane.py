"""A data plane whose copies and loads come late, out of order, or fail: real bytes, in NumPy.

A token's slot holds a digest of all its KV depends on, so that a wrong, stale or foreign page shows
up as a wrong number wherever it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .hands import OWN
from .oracle import Oracle
from .sequence import Seq, cross_key, head

STALE = 5
"""What no state of recurrent layers is any more."""
LOST = 0
"""What a copy leaves that failed, and what is computed over it."""
Epoch = tuple[int, int]
Copies = list[tuple[int | None, int, int, int]]
Kept = list[tuple[int, npt.NDArray[np.uint64]]]


def digest(of: tuple[object, ...]) -> int:
    return hash(of) & (2**63 - 1) | 1


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
    moved: Kept = field(default_factory=list)
    epoch: int = 0
    spaces: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a salt and adapter were forgotten by themselves."""
    epochs: dict[int, Epoch] = field(default_factory=dict)
    """Resets before each sequence came in."""

    def now(self, salt: str, adapter: str) -> Epoch:
        """Resets that concern a salt and adapter."""
        return self.epoch, self.spaces[salt, adapter]

    def disown(self, salt: str | None, adapter: str | None) -> None:
        """An adapter was loaded anew: what is computed from now on is other KV."""
        names = {(salt, adapter) for salt in ("", "s") for adapter in ("", "s")}
        for name in names:
            if salt in (None, name[0]) and adapter in (None, name[1]):
                self.spaces[name] += 1

    def value(self, s: Seq, group: int, at: int, epoch: Epoch) -> int:
        what = (epoch, group, *head(s.ask, s.tokens, s.mm_items, at + 1))
        apart: tuple[int, ...] = (s.apart[1],) if s.apart and at >= s.apart[0] else ()
        apart += (s.origin,) if s.ask.nameless else ()
        return digest(what + apart)

    def inputs(self, s: Seq, epoch: Epoch) -> Iterator[tuple[int, int, int]]:
        """Block, slot and value of each token of another input, in every group for it."""
        for group, kind in enumerate(self.o.kinds):
            for at in range(s.ask.encoder_tokens if kind.cross else 0):
                row, slot = divmod(at, kind.span)
                block = s.tables[group][row]
                assert block is not None
                whose = (s.origin,) if s.ask.nameless else ()
                yield block, slot, digest((epoch, *cross_key(s.ask, group, row), slot, *whose))

    def check_inputs(self, s: Seq, epoch: Epoch) -> None:
        for page, slot, value in self.inputs(s, epoch):
            assert int(self.pages[page, slot]) == value, f"block {page} is another input's"

    def row(self, s: Seq, group: int, row: int, epoch: Epoch) -> npt.NDArray[np.uint64]:
        kind = self.o.kinds[group]
        places = range(row * kind.span, (row + 1) * kind.span)
        content = np.array([self.value(s, group, at, epoch) for at in places], np.uint64)
        if kind.kind == "state":
            content[:-1] = STALE
        return content

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

    def forget(self, ticket: int) -> None:
        """It has lapsed: what was to be carried out is not, and its pages are not looked at."""
        self.queue = [entry for entry in self.queue if entry[0] != ticket]
        self.fates.pop(ticket, None)
        self.loads.pop(ticket, None)
        self.leases.pop(ticket, None)

    # --- computing ----------------------------------------------------------------------------

    def compute(self, seq: int, upto: int) -> None:
        """The model runs over what is not committed yet: reads what is before, writes the rest."""
        s, epoch = self.o.live(seq), self.epochs[seq]
        mine = {b for table in s.tables for b in table}
        waits = [i for i, (_, copies, _) in enumerate(self.queue) if mine & {c[1] for c in copies}]
        self.run(max(waits, default=-1))
        if s.joined is not None and s.joined in self.o.joins:
            # The same batch computes what it joined, before it.
            filler = s.joined.filler
            (of_filler,) = [seq for seq, other in self.o.seqs.items() if other is filler]
            self.compute(of_filler, max(s.joined.end * self.o.size, filler.committed))
        self.moved += self.states(s)
        if s.apart is None and self.o.is_cut(s):
            s.apart = (max(s.committed, self.loaded(s)), seq)
        sound = min(self.read(s, g, epoch) for g in range(len(s.tables)))
        if upto > s.committed and not s.encoded:
            s.encoded = True
            for page, slot, value in self.inputs(s, epoch):
                if self.o.pool.blocks[page].key is None:
                    self.pages[page, slot] = value
        if s.encoded:
            self.check_inputs(s, epoch)
        places = [
            (group, at)
            for next_ in range(self.o.begins(s), upto)
            for group, kind in enumerate(self.o.kinds)
            if not kind.cross
            for at in range(kind.computed(next_, s.cached), kind.computed(next_ + 1, s.cached))
        ]
        for group, at in places:
            kind = self.o.kinds[group]
            row, slot = divmod(at, kind.span)
            block = s.tables[group][row]
            assert block is not None, f"token {at} of group {group} has no slot"
            coming = self.coming(block)
            if coming is not None:
                sound = sound and bool(coming[slot] != LOST)
                continue
            value = self.value(s, group, at, epoch) if sound else LOST
            found = self.o.pool.blocks[block].key is not None
            same = int(self.pages[block, slot]) == value
            assert same or not found, f"block {block} is written, and can be found"
            if kind.kind == "state" and not same:
                self.pages[block] = STALE
            self.pages[block, slot] = value

    def states(self, s: Seq) -> Kept:
        """What recurrent layers move on in place."""
        tables = zip(self.o.kinds, s.tables, strict=True)
        blocks = [b for kind, table in tables if kind.kind == "state" for b in table]
        return [(b, self.pages[b].copy()) for b in blocks if b is not None]

    def take_back(self, refused: bool) -> None:
        """A commit that was refused computed nothing."""
        for block, content in self.moved[::-1] if refused else []:
            self.pages[block] = content
        self.moved = []

    def loaded(self, s: Seq) -> int:
        """The end of what comes for it from elsewhere: computed by somebody who had it all."""
        mine = {b for table in s.tables for b in table}
        ends = [
            (told.start + told.rows) * self.o.size
            for ticket, load in self.loads.items()
            if mine & {page for page, _ in load.pages} and (told := self.o.tickets[ticket])
        ]
        return max(ends, default=0)

    def source(self, block: int) -> int:
        """Where the bytes are that a page will have, if a copy of it has not run yet."""
        waiting = [*self.o.gathering.copies, *(c for _, copies, _ in self.queue for c in copies)]
        for src, dst, _, _ in waiting[::-1]:
            if dst == block and src is not None:
                return self.source(src)
        return block

    def coming(self, block: int) -> npt.NDArray[np.uint64] | None:
        """What a page will hold that somebody else fills."""
        for load in self.loads.values():
            for page, content in load.pages:
                if page == block:
                    return content
        return None

    def read(self, s: Seq, group: int, epoch: Epoch) -> bool:
        """Whether all that the next token attends to is there; anything else than that is wrong."""
        sound = True
        kind = self.o.kinds[group]
        if kind.cross and s.encoder_found:
            self.check_inputs(s, epoch)
        for at in kind.sees(kind.computed(self.o.begins(s), s.cached)):
            block = s.tables[group][at // kind.span]
            assert block is not None, f"token {at} of group {group} has no page"
            coming = self.coming(block)
            page = self.pages[self.source(block)] if coming is None else coming
            value = int(page[at % kind.span])
            if coming is not None and value == STALE:
                continue
            if value == LOST and self.failing():
                sound = False
                continue
            assert value == self.value(s, group, at, epoch), f"token {at} reads foreign bytes"
        return sound

    def check_found(self) -> None:
        """Every block that can be found holds the bytes of its prefix."""
        for block in self.o.pool.blocks.values():
            if block.key is None or block.key[0] == OWN:
                continue
            group, salt, adapter, encoder, items, *tokens = block.key
            kind = self.o.kinds[group]
            if kind.cross:
                epoch = self.now(salt, adapter)
                values = [digest((epoch, *block.key, slot)) for slot in range(kind.span)]
                inside = min(tokens[0] - tokens[1] * kind.span, kind.span)
                there = self.pages[block.id, :inside].tolist()
                assert there == values[:inside], f"block {block.id} is not its input"
                continue
            begin = (len(tokens) - 1) // kind.span * kind.span
            inside_block = len(tokens) - begin
            for slot in range(kind.span - 1 if kind.kind == "state" else 0, inside_block):
                upto = begin + slot + 1
                inside = tuple((a, min(b, upto), i) for a, b, i in items if a < upto)
                epoch = self.now(salt, adapter)
                what = (epoch, group, salt, adapter, encoder, inside, *tokens[:upto])
                value = digest(what)
                assert int(self.pages[block.id, slot]) == value, f"block {block.id} is not its key"

    # --- promises -----------------------------------------------------------------------------

    def load(self, ticket: int, seq: int, good: int) -> None:
        """Opens what the model has booked just now."""
        s, told = self.o.live(seq), self.o.tickets[ticket]
        pages = []
        start, end = told.start * self.o.size, (told.start + told.rows) * self.o.size
        there = start + self.o.whole(good * self.o.size)
        for (group, row), (_, page, _, _) in zip(
            self.o.places(start, end), told.copies, strict=True
        ):
            content = self.row(s, group, row, self.epochs[seq])
            arrives = row * self.o.kinds[group].span < there
            pages.append((page, content if arrives else np.zeros_like(content)))
        self.loads[ticket] = Load(told.rows, good, pages)

    def land(self, ticket: int) -> int:
        """What was to come is there; how many rows are good."""
        load = self.loads.pop(ticket)
        for page, content in load.pages:
            self.pages[page, : len(content)] = content
        return load.good

    def keep(self, s: Seq, upto: int, windows: bool = True) -> Kept:
        """The bytes of computed tokens, as somebody elsewhere may read them."""
        kept = []
        for kind, table in zip(self.o.kinds, s.tables, strict=True):
            if kind.cross or not (kind.full or windows):
                continue
            there = min(upto, kind.computed(s.committed, s.cached))
            for row, block in enumerate(table[: kind.rows(there)]):
                if block is not None and self.coming(block) is None:
                    tokens = min(there - row * kind.span, kind.span)
                    kept.append((block, self.pages[block, :tokens].copy()))
        return kept

    def check_kept(self, kept: Kept) -> None:
        for block, content in kept:
            now = self.pages[block, : len(content)]
            assert (now == content).all(), f"block {block} was kept, and written"
