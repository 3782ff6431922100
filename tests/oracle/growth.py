"""Slots for sequences, with a copy first where somebody else reads the block."""

from __future__ import annotations

from dataclasses import replace

from .admission import Admissions
from .model import need
from .sequence import Seq


class Growth(Admissions):
    """The verbs that make sequences longer."""

    def append(self, seq: int, tokens: list[int] | int) -> None:
        """Ids, or how many are to come."""
        s = self.live(seq)
        count = tokens if isinstance(tokens, int) else len(tokens)
        if not isinstance(tokens, int):
            need(not count or s.filled == len(s.tokens))
        need(len(s.tokens) == s.slots and not (count and s.keyed))
        until = s.slots + count
        need(not s.ask.max_seq_len or until <= s.ask.max_seq_len)
        if not count:
            return
        self.grow(seq, until)
        # Of one that was cut to nothing, all ids are known again.
        s.ask = replace(s.ask, keys_only=False)
        s.tokens += [None] * count if isinstance(tokens, int) else tokens

    def fill(self, seq: int, tokens: list[int]) -> None:
        s = self.live(seq)
        need(len(tokens) <= len(s.tokens) - s.filled and not (tokens and s.keyed))
        s.tokens[s.filled : s.filled + len(tokens)] = tokens

    def extend(self, seq: int, until: int) -> None:
        s = self.live(seq)
        need(s.slots <= until <= len(s.tokens))
        if until > s.slots:
            self.grow(seq, until)

    def reserve(self, seq: int, until: int) -> None:
        s = self.live(seq)
        if until <= len(s.tokens):
            return self.extend(seq, until)
        need(not s.ask.max_seq_len or until <= s.ask.max_seq_len)
        self.grow(seq, until)
        s.ask = replace(s.ask, keys_only=s.keyed)
        s.tokens += [None] * (until - len(s.tokens))
        return None

    def enter_keys(self, seq: int, until: int, ids: list[int], upto: int) -> None:
        """What `advance` does before it commits; ``ids`` stand for keys of further full blocks."""
        s = self.live(seq)
        length, keyed = max(s.slots, until), s.filled // self.size
        keyed += len(ids) // self.size
        need(not ids or (s.keyed and keyed * self.size <= length))
        filled = max(s.filled, keyed * self.size if ids else 0)
        need(s.committed <= upto <= min(length, filled))
        if until > s.slots:
            self.reserve(seq, until)
        if ids:
            s.hashed = keyed * self.size
            s.tokens[s.hashed - len(ids) : s.hashed] = ids

    def grow(self, seq: int, until: int) -> None:
        s = self.live(seq)
        shared = [pair for group in range(len(s.tables)) for pair in self.shared(s, group)]
        blocks = sum(self.rows(until)) - sum(self.rows(s.slots)) + len(shared)
        if blocks:
            need(not self.asleep)
            copies = sum(self.is_found(s.tables[group][row]) for group, row in shared)
            if blocks > self.pool.room():
                self.check_ever(self.held_alone(s, until) + copies)
            self.check_room(blocks, self.pool.room())
        self.pool.now += 1
        tables = self.tables(seq)
        for group, row in shared:
            self.copy(s, group, row, tables[group][row])
        self.more_rows(s, until, tables)
        s.slots = until

    def longest_alone(self, seq: int, until: int) -> int:
        """How far a sequence could go if it were alone, if that is any further."""
        s = self.live(seq)
        shared = [pair for group in range(len(s.tables)) for pair in self.shared(s, group)]
        copies = sum(self.is_found(s.tables[group][row]) for group, row in shared)
        gives_up = any(not (kind.full or kind.cross) for kind in self.kinds)
        ends = range(until, s.slots, -1) if gives_up else ()
        fits = (n for n in ends if self.held_alone(s, n) + copies <= self.pool.usable)
        return next(fits, until)

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
            open_ = [(i, b) for i, b in blocks if not self.loading(s, [b])]
            rows = [i for i, b in open_ if self.has_other(b) or self.is_found(b)]
        if used and (self.has_other(table[tail]) or self.is_found(table[tail])):
            rows.append(tail)
        return [(group, row) for row in rows]

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
