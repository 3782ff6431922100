"""Coming in: what of a prompt is there, and slots for the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvframe import NeverFitsError

from .joins import Found, Joins
from .model import need
from .pool import Block
from .sequence import Ask, Seq, Ticket, Usage, cross_key, head

LEAST, KEPT = 8, 4
"""One token in so many of those that full attention alone would find; periods."""


@dataclass
class Told:
    """What the manager says that the model cannot know."""

    seq: int | None = None
    load: int | None = None
    """Ticket."""
    hits: list[list[int]] | None = None
    """Blocks from the first on, in each group: which of several copies were found."""
    tail: list[int] | None = None
    """In each group, the partial block behind them."""


@dataclass
class Came:
    """A grant, by `kvframe.Grant`'s names."""

    cached_tokens: int
    granted_tokens: int
    prompt_tokens: int
    encoder_cached: bool = False
    external_tokens: int = 0
    joined_tokens: int = 0
    attached: int | None = None


@dataclass
class Start:
    """What an admission starts from."""

    rows: int
    good: int
    tables: list[list[int | None]]
    attended: int = 0
    computing: Found | None = None
    loading: int | None = None
    """The load that brings the rows that are not good."""
    tail: list[Block] = field(default_factory=list)
    tail_tokens: int = 0

    @property
    def blocks(self) -> list[int]:
        return [b for table in self.tables for b in table if b is not None]


class Admissions(Joins):
    """The verbs that take requests in."""

    # --- what is there ------------------------------------------------------------------------

    def attended(self, ask: Ask) -> int:
        """Tokens that groups of full attention could serve; those found where there is none."""
        full = [group for group, kind in enumerate(self.kinds) if kind.full]
        return self.found(ask, groups=full or None)

    def found(self, ask: Ask, whole: bool = False, groups: list[int] | None = None) -> int:
        """Tokens that every group can serve, not all of the prompt unless the ``whole`` may be."""
        keys = {block.key for block in self.pool.blocks.values()}

        def serves(group: int, tokens: int) -> bool:
            ends = [(row + 1) * self.kinds[group].span for row in self.kinds[group].needs(tokens)]
            return all((group, *head(ask, ask.tokens, ask.mm_items, end)) in keys for end in ends)

        longest = self.whole(max(len(ask.tokens) - (not whole), 0))
        longest = longest if self.caching and ask.reads else 0
        lengths, asked = range(longest, -1, -self.unit), groups or range(len(self.kinds))
        return next(n for n in lengths if all(serves(g, n) for g in asked))

    def found_input(self, ask: Ask) -> list[list[int | None]]:
        """The blocks of another input, if all are there: each depends on all of it."""
        tables: list[list[int | None]] = []
        for group, kind in enumerate(self.kinds):
            rows = range(kind.rows(ask.encoder_tokens) if kind.cross else 0)
            named = [self.pool.named(cross_key(ask, group, row))[:1] for row in rows]
            tables.append([block.id for blocks in named for block in blocks])
        every = sum(len(table) for table in tables) == sum(self.rows(0, ask.encoder_tokens))
        return tables if every and self.caching and ask.reads else [[] for _ in tables]

    def start(self, ask: Ask, told: Told) -> Start:
        cached = self.found(ask)
        tables = self.check_hits(ask, cached, told.hits)
        start = Start(cached // self.size, cached // self.size, tables, self.attended(ask))
        if not ask.reads or ask.num_external_tokens:
            return start
        if ask.join and (loading := self.loading_for(ask, start.rows)):
            ticket, rows, s = loading
            tables = [list(table[:rows]) for table in s.tables]
            return Start(rows, start.good, tables, start.attended, loading=ticket)
        if ask.external_until:
            return start
        if ask.join and (computing := self.computing(ask, start.rows)):
            tables = [list(table[: computing.rows]) for table in computing.filler.tables]
            return Start(computing.rows, computing.good, tables, start.attended, computing)
        if self.partial and self.caching and not ask.keys_only:
            tail, tokens = self.found_tail(ask, start, told)
            if tail and self.fits_beside(ask, start, tail):
                start.tail, start.tail_tokens = tail, tokens
        return start

    def lookup(self, ask: Ask, told: Told) -> int:
        """Tokens of a prompt that are there, part of a block included."""
        start = Start(self.found(ask) // self.size, 0, [])
        start.tables = self.check_hits(ask, start.rows * self.size, told.hits)
        tail = self.partial and self.caching and ask.reads and not ask.keys_only
        tail = tail and not (ask.num_external_tokens or ask.external_until)
        return start.rows * self.size + (self.found_tail(ask, start, told)[1] if tail else 0)

    def found_tail(self, ask: Ask, start: Start, told: Told) -> tuple[list[Block], int]:
        """The partial blocks behind a hit, and how much of them is wanted."""
        every = []
        for group, table in enumerate(start.tables):
            parent = table[-1] if table and self.kinds[group].full else None
            here = [b for b in self.pool.blocks.values() if b.group == group and b.findable]
            here = [b for b in here if b.parent == parent and b.depth == start.rows]
            every.append({b.id: self.part(ask, b) for b in sorted(here, key=lambda b: b.id)})
        if self.by_key:
            # By exact tokens: the longest end of which every group has a block.
            ends = [n for n in range(self.size - 1, 0, -1) if all(n in e.values() for e in every)]
            longest = [(ends or [0])[0]] * len(every)
        else:
            longest = [max(parts.values(), default=0) for parts in every]
        blocks = []
        for group, (parts, most) in enumerate(zip(every, longest, strict=True)):
            if most == 0:
                return [], 0
            fit = [b for b, tokens in parts.items() if tokens == most]
            told_one = told.tail[group] if told.tail else None
            blocks.append(self.pool.blocks[told_one if told_one in fit else fit[0]])
        return blocks, min(longest)

    def part(self, ask: Ask, block: Block) -> int:
        """Tokens of a block that go on where its prefix ends as a prompt does."""
        assert block.key is not None
        begin, last = block.depth * self.size, len(ask.tokens) - 1
        if block.key[1:4] != ask.space_name or block.key[4] == "input":
            return 0
        items, ids = block.key[4], block.key[5:]
        if self.by_key:
            end = len(ids)
            inside = begin < end <= last and end < begin + self.size
            same = block.key == (block.group, *head(ask, ask.tokens, ask.mm_items, end))
            return end - begin if inside and same else 0
        if any(i[0] < begin + self.size and i[1] > begin for i in (*items, *ask.mm_items)):
            return 0
        alike = [a == b for a, b in zip(ask.tokens[begin:last], ids[begin:], strict=False)]
        return min((*alike, False).index(False), self.size - 1)

    def fits_beside(self, ask: Ask, start: Start, tail: list[Block]) -> bool:
        """Who fits without the copy is not refused for it."""
        known = len(ask.tokens)
        longest = max(known, ask.max_seq_len) if ask.full_sequence_must_fit else known
        needed = sum(self.rows(longest)) - sum(len(table) for table in start.tables)
        held = [b for table in start.tables for b in self.of(table)] + tail
        room = max(self.pool.room() - self.kept(start.tables), 0)
        return needed + sum(not b.owners for b in held) <= room

    def check_hits(
        self, ask: Ask, cached: int, told: list[list[int]] | None
    ) -> list[list[int | None]]:
        """A hit's blocks, told because a prefix may have copies: each must hold its own."""
        tables: list[list[int | None]] = []
        for group, kind in enumerate(self.kinds):
            if kind.cross:
                tables.append([])
                continue
            rows = kind.rows(cached)
            needed = sorted(kind.needs(cached))
            ends = [(row + 1) * kind.span for row in needed]
            keys = [(group, *head(ask, ask.tokens, ask.mm_items, end)) for end in ends]
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

    # --- coming in ----------------------------------------------------------------------------

    def admit(self, ask: Ask, told: Told) -> Came:
        """The sequence comes in as ``told.seq``."""
        known = len(ask.tokens)
        encoder = ask.encoder_tokens
        need(not ask.max_seq_len or known <= ask.max_seq_len)
        need(not encoder or any(kind.cross for kind in self.kinds))
        need(self.plain or not ask.join)
        start = self.start(ask, told)
        base = start.rows * self.size
        external = self.external(ask, base + start.tail_tokens)
        first = base + start.tail_tokens + external
        until = min(known, *(first + n for n in (ask.chunk, ask.budget) if n is not None), known)
        until = min(until, max(ask.until, first)) if ask.until is not None else until
        inputs = self.found_input(ask)
        missing = sum(self.rows(0, encoder)) - sum(len(table) for table in inputs)
        pairs = zip(self.kinds, inputs, start.tables, strict=True)
        start.tables = [of_input if kind.cross else table for kind, of_input, table in pairs]
        until = self.check_needs(ask, start, until, missing)
        assert told.seq is not None, "it was refused, and should have come in"
        assert told.seq not in self.seqs, "a handle that is in use"
        assert told.seq not in self.ended, "a handle that was used"
        attached = self.attached_to(ask)
        self.pool.now += 1
        new = self.enter(ask, start, told.seq, bool(encoder and not missing))
        self.take_inputs(new, self.tables(told.seq))
        self.take_rows(new, until, self.tables(told.seq))
        new.admitted = self.pool.now
        new.slots = until
        new.committed = new.cached = cached = self.copy_tail(new, start)
        kind = "resumed" if ask.resumed else "requests"
        self.pool.count(kind)
        self.pool.count("resumed_hit_tokens" if ask.resumed else "hit_tokens", cached)
        brought = self.whole(min(external, max(until - max(cached, base), 0)))
        assert (told.load is not None) == (brought > 0)
        if told.load is not None:
            self.open_load(told.load, new, max(cached, base), brought)
        joined = self.join(new, start.computing) if start.computing else 0
        if start.loading is not None:
            new.brought = max(new.brought, base)
            joined = base - cached
            self.pool.count("joined_tokens", joined)
        new.usage = Usage(cached, 0, joined, 0, ask.resumed)
        return Came(cached, until, known, new.encoder_found, brought, joined, attached)

    def external(self, ask: Ask, cached: int) -> int:
        """Tokens that somebody else brings after those."""
        most = self.whole(max(len(ask.tokens) - 1, 0))
        need(
            ask.num_external_tokens % self.unit == 0
            and ask.num_external_tokens <= max(most - cached, 0)
        )
        until = self.whole(min(ask.external_until, most))
        need(not (until and ask.num_external_tokens))
        return max(ask.num_external_tokens, until - cached)

    def check_needs(self, ask: Ask, start: Start, until: int, missing: int) -> int:
        """How far slots go."""
        known, encoder, base = len(ask.tokens), ask.encoder_tokens, start.rows * self.size
        blocks = sum(self.rows(until)) - sum(self.rows(base)) + missing
        claimed = [b for table in start.tables for b in self.of(table)] + start.tail
        room = self.pool.room() - sum(not block.owners for block in claimed)
        kept = self.kept(start.tables)
        if ask.partial:
            # The other input comes in whole; a full length that is told has to fit.
            self.check_ever(self.alone(ask) if ask.max_seq_len else sum(self.rows(0, encoder)))
            if missing > max(room - kept, 0):
                self.check_room(missing + kept, room)
            self.check_room(min(blocks, max(room - kept, 0)), room)
            return self.fitting(base, until, max(room - kept, 0) - missing)
        longest = max(known, ask.max_seq_len)
        self.check_ever(self.alone(ask))
        coming = self.coming(ask, start.good * self.size, until, start.tables)
        lacks = self.lacks(longest, coming) if ask.full_sequence_must_fit else 0
        if blocks <= room:
            self.check_room(max(blocks, lacks) + kept, room, asleep=False)
        self.check_room(blocks, room)
        return until

    def check_ever(self, blocks: int) -> None:
        if blocks > self.pool.usable:
            self.pool.count("refused")
        need(blocks <= self.pool.usable, NeverFitsError)

    def fitting(self, base: int, until: int, room: int) -> int:
        """As far as so many blocks go, in whole units of hashing."""
        ends = [min(end, until) for end in range(base, until + self.size, self.size)]
        least = sum(self.rows(base))
        return max(end for end in ends if sum(self.rows(end)) - least <= room)

    def note_found(self, ask: Ask, start: Start) -> None:
        """Blocks within prompts are kept for a while after next to nothing was found."""
        if not ask.reads or all(kind.full or kind.cross for kind in self.kinds):
            return
        attended, found, computed = self.inner_counts
        good = start.good * self.size
        attended, found = attended + max(start.attended, good), found + good
        self.inner_counts = attended, found, computed + len(ask.tokens) - good
        if self.inner_counts[2] >= self.pool.usable * self.size:
            kept = max(self.inner_kept - 1, 0)
            self.inner_kept = KEPT if attended > LEAST * found else kept
            self.inner_counts = 0, 0, 0

    def enter(self, ask: Ask, start: Start, seq: int, encoder_found: bool) -> Seq:
        """It owns all that it starts from."""
        private = not (ask.inserts and self.caching)
        good = start.good * self.size
        new = Seq(
            ask,
            list(ask.tokens),
            ask.mm_items,
            start.tables,
            start.rows * self.size,
            good,
            good,
            private,
            0,
            ask.full_sequence_must_fit,
            ask.keys_only,
        )
        new.private = new.private or self.is_cut(new)
        new.hashed = len(ask.tokens) // self.size * self.size
        new.branch = start.attended
        self.note_found(ask, start)
        new.origin, new.encoder_found, new.encoded = seq, encoder_found, encoder_found
        self.seqs[seq] = new
        assert seq & 0xFFFFFFFF == self.take_slot()
        for table in new.tables:
            self.pool.own(self.of(table), "seq")
            found = table[: start.good] if start.rows > start.good else table
            for block in self.of(found):
                self.pool.hit(block, len(ask.tokens), ask)
                self.pool.used(block, ask)
        for block in start.tail:
            self.pool.own([block], "tail")
            self.pool.hit(block, len(ask.tokens), ask)
            self.pool.used(block, ask)
        return new

    def take_inputs(self, seq: Seq, tables: list[list[int]]) -> None:
        for group, table in enumerate(seq.tables):
            for block in tables[group][len(table) :] if self.kinds[group].cross else []:
                self.pool.obtain(block, group, "seq")
                table.append(block)

    def take_rows(self, s: Seq, until: int, tables: list[list[int]]) -> None:
        """Slots unit by unit: policies with ghosts hear what each block is for."""
        first = s.slots // self.size
        for row in range(first, -(-until // self.size)):
            for group, kind in enumerate(self.kinds if s.ask.inserts else []):
                end = row * self.size + kind.span
                if not kind.cross and row * self.size % kind.span == 0 and end <= len(s.tokens):
                    self.pool.missed(s.key(group, end))
            self.more_rows(s, min((row + 1) * self.size, until), tables)

    def more_rows(self, seq: Seq, until: int, tables: list[list[int]]) -> None:
        for end in range(self.size, until + self.size, self.size):
            for group, table in enumerate(seq.tables):
                rows = 0 if self.kinds[group].cross else self.kinds[group].rows(min(end, until))
                if len(table) < rows:
                    block = tables[group][len(table)]
                    self.pool.obtain(block, group, "seq")
                    table.append(block)

    def copy_tail(self, s: Seq, start: Start) -> int:
        """Tokens that are there, with the part of a block that is copied."""
        base = start.good * self.size
        if not start.tail:
            return base
        if any(len(table) <= start.rows for table in s.tables):
            self.pool.drop(start.tail[::-1], "tail")
            return base
        self.pool.rename(start.tail, "tail", "copy")
        for group, (table, src) in enumerate(zip(s.tables, start.tail, strict=True)):
            dst = table[start.rows]
            assert dst is not None
            self.pool.own(self.of([dst]), "copy")
            self.gathering.copies.append((src.id, dst, start.tail_tokens, group))
            if src.parent is not None:
                path = [b for b in table[: start.rows][::-1] if b is not None]
                self.pool.own(self.of(path), "held")
                self.gathering.held += path
            self.pool.count("copies")
        return base + start.tail_tokens

    # --- what somebody else brings ------------------------------------------------------------

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

    # --- questions ----------------------------------------------------------------------------

    def fits(self, ask: Ask) -> None:
        """Whether it can be asked at all."""
        need(not ask.max_seq_len or len(ask.tokens) <= ask.max_seq_len)
        need(not ask.encoder_tokens or any(kind.cross for kind in self.kinds))
        need(self.plain or not ask.join)
        start = self.start(ask, Told())
        self.external(ask, start.rows * self.size + start.tail_tokens)

    def keys(self, ask: Ask) -> list[tuple[Any, ...]]:
        """Of the full blocks of a prompt in the first group."""
        ends = range(self.size, len(ask.tokens) + 1, self.size)
        return [(0, *head(ask, ask.tokens, ask.mm_items, end)) for end in ends]

    # --- what is attached to a prompt ---------------------------------------------------------

    def attached_to(self, ask: Ask) -> int | None:
        """The handle of exactly this prompt."""
        if not ask.reads or ask.keys_only:
            return None
        told = self.pool.attached.get(head(ask, ask.tokens, ask.mm_items, len(ask.tokens)))
        return told[1] if told else None
