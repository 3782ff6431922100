"""What a manager must do, verb by verb, as briefly as it can be said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kvframe import (
    CapacityError,
    HandleError,
    KVFrameError,
    NeverFitsError,
    StaleHandleError,
    UsageError,
)

from .pool import Block, Pool
from .sequence import Ask, Kind, Seq, Ticket, head

Tables = Callable[[int], list[list[int]]]


class RefusalError(Exception):
    """The error that a call must raise, having changed nothing."""

    def __init__(self, error: type[KVFrameError]) -> None:
        self.error = error


def need(holds: bool, error: type[KVFrameError] = UsageError) -> None:
    if not holds:
        raise RefusalError(error)


@dataclass
class Model:
    """The verbs that give room to sequences. Handles, tickets and free blocks are told to it."""

    pool: Pool
    size: int
    kinds: list[Kind]
    tables: Tables
    """The manager's tables of a sequence: which free blocks a call took."""
    caching: bool = True
    reserve: int = 0
    seqs: dict[int, Seq] = field(default_factory=dict)
    ended: list[int] = field(default_factory=list)
    tickets: dict[int, Ticket] = field(default_factory=dict)
    gathering: Ticket = field(default_factory=Ticket)
    fences: list[tuple[int, list[int]]] = field(default_factory=list)
    passed: int = -1
    fence: int | None = None
    asleep: bool = False

    # --- small words --------------------------------------------------------------------------

    def live(self, seq: int) -> Seq:
        need(seq not in self.ended, StaleHandleError)
        need(seq in self.seqs, HandleError)
        return self.seqs[seq]

    def rows(self, tokens: int) -> int:
        return -(-tokens // self.size)

    def of(self, ids: Iterable[int | None]) -> list[Block]:
        return [self.pool.blocks[i] for i in ids if i is not None]

    def every(self) -> list[tuple[int, Seq]]:
        """Live sequences by the low half of their handles."""
        return sorted(self.seqs.items(), key=lambda item: item[0] & 0xFFFFFFFF)

    def most(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens holds in all groups."""
        return sum(kind.most(tokens, self.size) for kind in self.kinds)

    def lacks(self, tokens: int, tables: list[list[int | None]]) -> int:
        """Blocks that a sequence with these tables may yet take on its way to that length."""
        held = [len(table) - table.count(None) for table in tables]
        most = [kind.most(tokens, self.size) for kind in self.kinds]
        return sum(max(m - h, 0) for m, h in zip(most, held, strict=True))

    def copies(self) -> list[tuple[int | None, int, int, int]]:
        return [c for t in (self.gathering, *self.tickets.values()) for c in t.copies]

    def loading(self, blocks: Iterable[int | None], settled: Iterable[int] = ()) -> bool:
        loads = [t for n, t in self.tickets.items() if t.rows and n not in settled]
        return bool({dst for t in loads for _, dst, _, _ in t.copies} & set(blocks))

    def check_room(self, blocks: int, room: int, asleep: bool | None = None) -> None:
        need(not (self.asleep if asleep is None else asleep))
        if blocks > room:
            self.pool.count("refused")
        need(blocks <= room, CapacityError)

    # --- coming in ----------------------------------------------------------------------------

    def found(self, ask: Ask) -> int:
        """Rows that every group can serve, not all of the prompt."""
        keys = {block.key for block in self.pool.blocks.values()}

        def serves(group: int, rows: int) -> bool:
            first = self.kinds[group].first(rows * self.size) // self.size
            ends = [(i + 1) * self.size for i in range(first, rows)]
            return all((group, *head(ask, ask.tokens, ask.extras, end)) in keys for end in ends)

        longest = max(len(ask.tokens) - 1, 0) // self.size if self.caching and ask.read else 0
        groups = range(len(self.kinds))
        return next(n for n in range(longest, -1, -1) if all(serves(g, n) for g in groups))

    def admit(
        self, ask: Ask, hits: list[list[int]] | None, seq: int | None, load: int | None
    ) -> tuple[int, int, int]:
        """Cached, granted and known tokens of the sequence that came in as ``seq``."""
        known, count = len(ask.tokens), len(self.kinds)
        private = not (ask.insert and self.caching)
        whole = ask.whole_sequence
        new = Seq(ask, list(ask.tokens), ask.extras, [], 0, 0, 0, private, 0, whole, ask.keys_only)
        found = self.found(ask)
        cached = found * self.size
        most = max(known - 1, 0) // self.size * self.size
        need(ask.external % self.size == 0 and ask.external <= max(most - cached, 0))
        start = cached + ask.external
        until = min(known, start + ask.chunk) if ask.chunk is not None else known
        until = min(until, max(ask.until, start)) if ask.until is not None else until
        blocks = (self.rows(until) - found) * count
        new.tables = self.check_hits(new, found, hits)
        claimed = [b for table in new.tables for b in self.of(table)]
        room = self.pool.room() - sum(not block.owners for block in claimed)
        kept = self.kept()
        if ask.partial:
            self.check_room(min(blocks, max(room - kept, 0)), room)
            until = min(until, cached + max(room - kept, 0) // count * self.size)
        else:
            longest = max(known, ask.max_tokens)
            total = max(self.most(longest), blocks + len(claimed))
            if total > self.pool.usable:
                self.pool.count("refused")
            need(total <= self.pool.usable, NeverFitsError)
            lacks = self.lacks(longest, new.tables) if whole else 0
            if blocks <= room:
                self.check_room(max(blocks, lacks) + kept, room, asleep=False)
            self.check_room(blocks, room)
        assert seq is not None, "it was refused, and should have come in"
        assert seq not in self.seqs, "a handle that is in use"
        assert seq not in self.ended, "a handle that was used"
        self.pool.now += 1
        self.seqs[seq] = new
        for table in new.tables:
            self.pool.own(self.of(table), "seq")
            for block in self.of(table):
                self.pool.hit(block, known)
        new.slots, new.committed, new.cached = until, cached, cached
        self.more_rows(new, self.rows(until), self.tables(seq))
        new.admitted = self.pool.now
        kind = "resumed" if ask.resumed else "admissions"
        self.pool.count(kind)
        self.pool.count("resumed_hit_tokens" if ask.resumed else "hit_tokens", cached)
        rows = min(ask.external, until - cached) // self.size
        assert (load is not None) == (rows > 0)
        if load is not None:
            self.open_load(load, new, found, rows)
        return cached, until, known

    def kept(self) -> int:
        """Blocks that running sequences may still ask for."""
        if not self.seqs:
            return 0
        whole = [s for s in self.seqs.values() if s.whole]
        longest = [(s, max(s.ask.max_tokens, len(s.tokens))) for s in whole]
        return self.reserve + sum(self.lacks(tokens, s.tables) for s, tokens in longest)

    def check_hits(
        self, new: Seq, rows: int, told: list[list[int]] | None
    ) -> list[list[int | None]]:
        """A hit's blocks, told because a prefix may have copies: each must hold its own."""
        tables: list[list[int | None]] = []
        for group, kind in enumerate(self.kinds):
            first = kind.first(rows * self.size) // self.size
            keys = [new.key(group, (i + 1) * self.size) for i in range(first, rows)]
            if told is None:
                tables.append([None] * first + [self.pool.named(key)[0].id for key in keys])
                continue
            ids = [None if block < 0 else block for block in told[group][:rows]]
            assert len(ids) == rows, f"{rows} blocks can be found, not {len(ids)}"
            assert ids[:first] == [None] * min(first, rows), "more than its window"
            blocks = self.of(ids[first:])
            assert [b.key for b in blocks] == keys, "somebody else's KV"
            chain = [None, *ids[:-1]] if kind.full else [None] * rows
            assert [b.parent for b in blocks] == chain[first:rows], "not one chain"
            tables.append(ids)
        return tables

    def more_rows(self, seq: Seq, rows: int, tables: list[list[int]]) -> None:
        for row in range(len(seq.tables[0]), rows):
            for group, table in enumerate(seq.tables):
                self.pool.obtain(tables[group][row], group, "seq")
                table.append(tables[group][row])

    # --- growing ------------------------------------------------------------------------------

    def append(self, seq: int, tokens: list[int] | int) -> None:
        """Ids, or how many are to come."""
        s = self.live(seq)
        count = tokens if isinstance(tokens, int) else len(tokens)
        if not isinstance(tokens, int):
            need(not count or s.filled == len(s.tokens))
        need(len(s.tokens) == s.slots and not (count and s.keyed))
        if not count:
            return
        until = s.slots + count
        need(self.most(until) <= self.pool.usable, NeverFitsError)
        self.grow(seq, until)
        # Of one that was cut to nothing, all ids are known again.
        s.ask = replace(s.ask, keys_only=False)
        s.tokens += [None] * count if isinstance(tokens, int) else tokens

    def fill(self, seq: int, tokens: list[int]) -> None:
        s = self.live(seq)
        need(len(tokens) <= len(s.tokens) - s.filled)
        s.tokens[s.filled : s.filled + len(tokens)] = tokens

    def extend(self, seq: int, until: int) -> None:
        s = self.live(seq)
        need(s.slots <= until <= len(s.tokens))
        if until > s.slots:
            self.grow(seq, until)

    def grow(self, seq: int, until: int) -> None:
        s = self.live(seq)
        tail, used = divmod(s.slots, self.size)
        shared = [g for g in range(len(s.tables)) if used and self.is_shared(s.tables[g][tail])]
        blocks = (self.rows(until) - len(s.tables[0])) * len(s.tables) + len(shared)
        if blocks:
            self.check_room(blocks, self.pool.room())
        self.pool.now += 1
        tables = self.tables(seq)
        for group in shared:
            self.copy(s, group, tail, tables[group][tail], used)
        self.more_rows(s, self.rows(until), tables)
        s.slots = until

    def is_shared(self, block: int | None) -> bool:
        """Somebody else reads it, or may find it: it is copied before it is written."""
        if block is None:
            return False
        b = self.pool.blocks[block]
        return b.key is not None or len([o for o in b.owners if o != "copy"]) > 1

    def copy(self, s: Seq, group: int, tail: int, dst: int, used: int) -> None:
        src = s.tables[group][tail]
        assert src is not None
        self.pool.obtain(dst, group, "seq").owners.append("copy")
        block = self.pool.blocks[src]
        self.pool.rename([block], "seq", "copy")
        s.tables[group][tail] = dst
        self.gathering.copies.append((src, dst, used, group))
        if block.parent is not None:
            # What is found keeps what it follows.
            path = [b for b in s.tables[group][:tail][::-1] if b is not None]
            self.pool.own(self.of(path), "held")
            self.gathering.held += path
        self.pool.count("copies")

    def open_load(self, ticket: int, s: Seq, start: int, rows: int) -> None:
        pages = [
            (None, page, self.size, group)
            for row in range(start, start + rows)
            for group, table in enumerate(s.tables)
            if (page := table[row]) is not None
        ]
        self.pool.own(self.of(page for _, page, _, _ in pages), "copy")
        self.tickets[ticket] = Ticket([*pages], start=start, rows=rows)
