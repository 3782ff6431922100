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

from .kinds import Kind, step, unit
from .pool import Block, Pool
from .sequence import Ask, Seq, Ticket, cross_key, head

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
    orphans: dict[int, tuple[int, Seq]] = field(default_factory=dict)
    """By ticket: what keeps the place of a load that outlives its sequence, with its slot."""
    vacant: list[int] = field(default_factory=list)
    """Slots of handles that were left, the last one is taken first."""
    used: int = 0

    def __post_init__(self) -> None:
        self.unit = unit(self.kinds)
        self.step = step(self.kinds)

    # --- small words --------------------------------------------------------------------------

    def live(self, seq: int) -> Seq:
        need(seq not in self.ended, StaleHandleError)
        need(seq in self.seqs, HandleError)
        return self.seqs[seq]

    def of(self, ids: Iterable[int | None]) -> list[Block]:
        return [self.pool.blocks[i] for i in ids if i is not None]

    def every(self) -> list[tuple[int, Seq]]:
        """Sequences, those that keep a load's place too, by the low half of their handles."""
        every = [*self.seqs.items(), *self.orphans.values()]
        return sorted(every, key=lambda item: item[0] & 0xFFFFFFFF)

    def take_slot(self) -> int:
        if self.vacant:
            return self.vacant.pop()
        self.used += 1
        return self.used - 1

    def all_most(self, tokens: int, encoder: int) -> list[int]:
        """Blocks that a sequence of so many tokens holds, group by group."""
        return [k.rows(encoder) if k.cross else k.most(tokens) for k in self.kinds]

    def most(self, tokens: int, encoder: int) -> int:
        return sum(self.all_most(tokens, encoder))

    def rows(self, tokens: int, encoder: int = 0) -> list[int]:
        """Blocks of each group's table."""
        return [kind.rows(encoder if kind.cross else tokens) for kind in self.kinds]

    def whole(self, tokens: int) -> int:
        return tokens // self.unit * self.unit

    def lacks(self, tokens: int, encoder: int, tables: list[list[int | None]]) -> int:
        """Blocks that a sequence with these tables may yet take on its way to that length."""
        held = [len(table) - table.count(None) for table in tables]
        most = self.all_most(tokens, encoder)
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
        """Tokens that every group can serve, not all of the prompt."""
        keys = {block.key for block in self.pool.blocks.values()}

        def serves(group: int, tokens: int) -> bool:
            ends = [(row + 1) * self.kinds[group].span for row in self.kinds[group].needs(tokens)]
            return all((group, *head(ask, ask.tokens, ask.extras, end)) in keys for end in ends)

        longest = self.whole(max(len(ask.tokens) - 1, 0)) if self.caching and ask.reads else 0
        lengths, groups = range(longest, -1, -self.unit), range(len(self.kinds))
        return next(n for n in lengths if all(serves(g, n) for g in groups))

    def found_input(self, ask: Ask) -> list[list[int | None]]:
        """The blocks of another input, if all are there: each depends on all of it."""
        tables: list[list[int | None]] = []
        for group, kind in enumerate(self.kinds):
            rows = range(kind.rows(ask.encoder_tokens) if kind.cross else 0)
            named = [self.pool.named(cross_key(ask, group, row))[:1] for row in rows]
            tables.append([block.id for blocks in named for block in blocks])
        every = sum(len(table) for table in tables) == sum(self.rows(0, ask.encoder_tokens))
        return tables if every and self.caching and ask.reads else [[] for _ in tables]

    def admit(
        self, ask: Ask, hits: list[list[int]] | None, seq: int | None, load: int | None
    ) -> tuple[int, int, int]:
        """Cached, granted and known tokens of the sequence that came in as ``seq``."""
        known = len(ask.tokens)
        encoder = ask.encoder_tokens
        need(not encoder or any(kind.cross for kind in self.kinds))
        private = not (ask.inserts and self.caching)
        whole = ask.whole_sequence
        new = Seq(ask, list(ask.tokens), ask.extras, [], 0, 0, 0, private, 0, whole, ask.keys_only)
        cached = self.found(ask)
        most = self.whole(max(known - 1, 0))
        need(ask.external % self.unit == 0 and ask.external <= max(most - cached, 0))
        start = cached + ask.external
        until = min(known, start + ask.chunk) if ask.chunk is not None else known
        until = min(until, max(ask.until, start)) if ask.until is not None else until
        inputs = self.found_input(ask)
        missing = sum(self.rows(0, encoder)) - sum(len(table) for table in inputs)
        blocks = sum(self.rows(until)) - sum(self.rows(cached)) + missing
        new.tables = [
            of_input if kind.cross else table
            for kind, of_input, table in zip(
                self.kinds, inputs, self.check_hits(new, cached, hits), strict=True
            )
        ]
        new.private = private = private or self.is_cut(new)
        claimed = [b for table in new.tables for b in self.of(table)]
        room = self.pool.room() - sum(not block.owners for block in claimed)
        kept = self.kept()
        if ask.partial:
            # The other input comes in whole.
            if missing > max(room - kept, 0):
                self.check_room(missing + kept, room)
            self.check_room(min(blocks, max(room - kept, 0)), room)
            until = self.fitting(cached, until, max(room - kept, 0) - missing)
        else:
            longest = max(known, ask.max_tokens)
            total = max(self.most(longest, encoder), blocks + len(claimed))
            if total > self.pool.usable:
                self.pool.count("refused")
            need(total <= self.pool.usable, NeverFitsError)
            lacks = self.lacks(longest, encoder, new.tables) if whole else 0
            if blocks <= room:
                self.check_room(max(blocks, lacks) + kept, room, asleep=False)
            self.check_room(blocks, room)
        assert seq is not None, "it was refused, and should have come in"
        assert seq not in self.seqs, "a handle that is in use"
        assert seq not in self.ended, "a handle that was used"
        self.pool.now += 1
        self.seqs[seq] = new
        assert seq & 0xFFFFFFFF == self.take_slot()
        for table in new.tables:
            self.pool.own(self.of(table), "seq")
            for block in self.of(table):
                self.pool.hit(block, known)
        new.slots, new.committed, new.cached = until, cached, cached
        new.origin, new.encoder_found = seq, encoder > 0 and not missing
        new.encoded = new.encoder_found
        self.take_inputs(new, self.tables(seq))
        self.more_rows(new, until, self.tables(seq))
        new.admitted = self.pool.now
        kind = "resumed" if ask.resumed else "admissions"
        self.pool.count(kind)
        self.pool.count("resumed_hit_tokens" if ask.resumed else "hit_tokens", cached)
        brought = self.whole(min(ask.external, until - cached))
        assert (load is not None) == (brought > 0)
        if load is not None:
            self.open_load(load, new, cached, brought)
        return cached, until, known

    def fitting(self, cached: int, until: int, room: int) -> int:
        """As far as so many blocks go, in whole units of hashing."""
        ends = [min(end, until) for end in range(cached, until + self.size, self.size)]
        least = sum(self.rows(cached))
        return max(end for end in ends if sum(self.rows(end)) - least <= room)

    def is_cut(self, s: Seq) -> bool:
        """What is computed without tokens behind a sink is not what the prefix alone says."""
        sinks = [g for g, kind in enumerate(self.kinds) if kind.kind == "sink_window"]
        return any(None in s.tables[group] for group in sinks)

    def kept(self) -> int:
        """Blocks that running sequences may still ask for."""
        if not self.seqs and not self.orphans:
            return 0
        whole = [s for s in self.seqs.values() if s.whole]
        longest = [(s, max(s.ask.max_tokens, len(s.tokens))) for s in whole]
        return self.reserve + sum(
            self.lacks(tokens, s.ask.encoder_tokens, s.tables) for s, tokens in longest
        )

    def check_hits(
        self, new: Seq, cached: int, told: list[list[int]] | None
    ) -> list[list[int | None]]:
        """A hit's blocks, told because a prefix may have copies: each must hold its own."""
        tables: list[list[int | None]] = []
        for group, kind in enumerate(self.kinds):
            if kind.cross:
                tables.append([])
                continue
            rows = kind.rows(cached)
            needed = sorted(kind.needs(cached))
            keys = [new.key(group, (i + 1) * kind.span) for i in needed]
            if told is None:
                ids: list[int | None] = [None] * rows
                for row, key in zip(needed, keys, strict=True):
                    ids[row] = self.pool.named(key)[0].id
                tables.append(ids)
                continue
            ids = [None if block < 0 else block for block in told[group][:rows]]
            assert len(ids) == rows, f"{rows} blocks can be found, not {len(ids)}"
            assert [i for i, b in enumerate(ids) if b is not None] == needed, "not what it needs"
            blocks = self.of(ids)
            assert [b.key for b in blocks] == keys, "somebody else's KV"
            chain = [None, *ids[:-1]] if kind.full else [None] * len(blocks)
            assert [b.parent for b in blocks] == chain[: len(blocks)], "not one chain"
            tables.append(ids)
        return tables

    def take_inputs(self, seq: Seq, tables: list[list[int]]) -> None:
        for group, table in enumerate(seq.tables):
            for block in tables[group][len(table) :] if self.kinds[group].cross else []:
                self.pool.obtain(block, group, "seq")
                table.append(block)

    def more_rows(self, seq: Seq, until: int, tables: list[list[int]]) -> None:
        for end in range(self.size, until + self.size, self.size):
            for group, table in enumerate(seq.tables):
                rows = 0 if self.kinds[group].cross else self.kinds[group].rows(min(end, until))
                if len(table) < rows:
                    block = tables[group][len(table)]
                    self.pool.obtain(block, group, "seq")
                    table.append(block)

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
        need(self.most(until, s.ask.encoder_tokens) <= self.pool.usable, NeverFitsError)
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
        shared = [pair for group in range(len(s.tables)) for pair in self.shared(s, group)]
        blocks = sum(self.rows(until)) - sum(self.rows(s.slots)) + len(shared)
        if blocks:
            self.check_room(blocks, self.pool.room())
        self.pool.now += 1
        tables = self.tables(seq)
        for group, row in shared:
            self.copy(s, group, row, tables[group][row])
        self.more_rows(s, until, tables)
        s.slots = until

    def shared(self, s: Seq, group: int) -> list[tuple[int, int]]:
        """The blocks of a group that are written next, and are not its own."""
        kind, table = self.kinds[group], s.tables[group]
        tail, used = divmod(0 if kind.cross else s.slots, kind.span)
        rows = []
        mixed = len({other.span for other in self.kinds if not other.cross}) > 1
        if not kind.cross and (kind.lag or mixed):
            # What lags is still to be computed in blocks before the last. Where blocks differ in
            # size, a copy that fails in one group would spoil what is still to be computed.
            first = kind.computed(s.committed if mixed else s.slots, s.cached) // kind.span
            blocks = [(i, b) for i, b in enumerate(table[:tail]) if i >= first]
            open_ = [(i, b) for i, b in blocks if not self.loading([b])]
            rows = [i for i, b in open_ if self.has_other(b) and not self.is_found(b)]
        if used and (self.has_other(table[tail]) or self.is_found(table[tail])):
            rows.append(tail)
        return [(group, row) for row in rows]

    def is_found(self, block: int | None) -> bool:
        return block is not None and self.pool.blocks[block].key is not None

    def has_other(self, block: int | None) -> bool:
        """Somebody else reads it: it is copied before it is written."""
        owners = [] if block is None else self.pool.blocks[block].owners
        return len([o for o in owners if o != "copy"]) > 1

    def copy(self, s: Seq, group: int, tail: int, dst: int) -> None:
        span = self.kinds[group].span
        used = min(s.slots - tail * span, span)
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

    def open_load(self, ticket: int, s: Seq, start: int, tokens: int) -> None:
        pages = [
            (None, page, self.kinds[group].span, group)
            for group, row in self.places(start, start + tokens)
            if (page := s.tables[group][row]) is not None
        ]
        self.pool.own(self.of(page for _, page, _, _ in pages), "copy")
        s.brought = start + tokens
        first, rows = start // self.size, tokens // self.size
        self.tickets[ticket] = Ticket([*pages], start=first, rows=rows, owner=s)

    def places(self, start: int, end: int) -> list[tuple[int, int]]:
        """Groups and rows of whole hits between two lengths, in the order in which they load."""
        return [
            (group, row)
            for at in range(start, end, self.unit)
            for group, kind in enumerate(self.kinds)
            if not kind.cross
            for row in range(at // kind.span, (at + self.unit) // kind.span)
        ]
