"""Joining a computation in flight: what is shared is good once its filler has committed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .model import Model
from .sequence import Ask, Seq, Ticket, head


@dataclass(eq=False)
class Join:
    """Blocks that one sequence computes and others wait for."""

    filler: Seq
    start: int
    """Place of the first of them."""
    rows: list[list[int]]
    """Of each, its block in every group."""

    @property
    def end(self) -> int:
        return self.start + len(self.rows)


class Found(NamedTuple):
    """A computation to join."""

    filler: Seq
    rows: int
    good: int
    """Of the rows, those that can be found already."""


class Vouched(NamedTuple):
    """What a filler has committed."""

    join: Join
    start: int
    rows: list[list[int]]
    whole: bool


class Joins(Model):
    """The verbs of those who wait, and of those they wait for."""

    def computing(self, ask: Ask, found: int) -> Found | None:
        """The computation with the longest prefix of the prompt, if that is more than was found."""
        best: Found | None = None
        for _, s in self.every():
            same = self.shared_rows(ask, s)
            if same and same.rows > (best.rows if best else found) and same.good >= found:
                best = same
        return best

    def shared_rows(self, ask: Ask, s: Seq) -> Found | None:
        limit = max(len(ask.tokens) - 1, 0) if self.caching else 0
        known = s.hashed if self.by_key else len(s.tokens)
        rows = min(limit, s.slots, known) // self.size
        if s.private or ask.space_name != s.ask.space_name:
            return None
        if not self.by_key and s.mm_items != ask.mm_items:
            return None
        ends = [(row + 1) * self.size for row in range(rows)]
        alike = [
            head(ask, ask.tokens, ask.mm_items, end) == head(s.ask, s.tokens, s.mm_items, end)
            for end in ends
        ]
        same = (*alike, False).index(False)
        computed = s.committed // self.size
        good = 0
        while good < min(same, computed) and self.row_is(s, good, found=True):
            good += 1
        end = good
        while computed <= end < same and self.row_is(s, end, found=False):
            end += 1
        # If the filler is cut, whoever joined goes on from what is good.
        serves = all(
            table[row] is not None
            for kind, table in zip(self.kinds, s.tables, strict=True)
            for row in kind.needs(good * self.size)
        )
        return Found(s, end, good) if serves and end > good else None

    def loading_for(self, ask: Ask, found: int) -> tuple[int, int, Seq] | None:
        """The load that brings most of the prompt behind what was found: its ticket, the rows that
        are there with it, and whose it is; the first of equals.
        """
        best: tuple[int, int, Seq] | None = None
        for ticket, load in sorted(self.tickets.items()):
            stand_in = self.orphans.get(ticket)
            live = any(s is load.owner for s in self.seqs.values())
            s = load.owner if live else stand_in[1] if stand_in else None
            if not load.rows or s is None or load.start != found:
                continue
            rows = self.loading_rows(ask, s, load)
            if rows > (best[1] if best else found):
                best = (ticket, rows, s)
        return best

    def loading_rows(self, ask: Ask, s: Seq, load: Ticket) -> int:
        limit = max(len(ask.tokens) - 1, 0) if self.caching else 0
        known = s.hashed if self.by_key else s.filled
        rows = min(limit, known, len(ask.tokens)) // self.size
        rows = min(rows, load.start + load.rows)
        if s.private or ask.space_name != s.ask.space_name:
            return 0
        if not self.by_key and s.mm_items != ask.mm_items:
            return 0
        ends = [(row + 1) * self.size for row in range(rows)]
        alike = [
            head(ask, ask.tokens, ask.mm_items, end) == head(s.ask, s.tokens, s.mm_items, end)
            for end in ends
        ]
        same = (*alike, False).index(False)
        pages = [page for _, page, _, _ in load.copies]
        groups = len(self.kinds)
        for row in range(load.start, same):
            at = (row - load.start) * groups
            if not self.has_row(s, row, pages[at : at + groups]):
                return 0
        good = all(
            block is None or self.is_found(block)
            for table in s.tables
            for block in table[: load.start]
        )
        serves = all(
            table[row] is not None
            for kind, table in zip(self.kinds, s.tables, strict=True)
            for row in kind.needs(load.start * self.size)
        )
        return same if good and serves else 0

    def row_is(self, s: Seq, row: int, found: bool) -> bool:
        entries = [table[row] for table in s.tables]
        if found:
            return all(b is None or self.is_found(b) for b in entries)
        return all(b is not None and self.is_computed_by(b, s) for b in entries)

    def is_computed_by(self, block: int, s: Seq) -> bool:
        """Nobody else fills or copies it; that others wait for it too is fine."""
        others = [o for j in self.joins if j.filler is not s for o in j.rows]
        busy = [c for c in self.copies() if block in c[:2]]
        return not self.is_found(block) and not busy and not any(block in o for o in others)

    def join(self, s: Seq, found: Found) -> int:
        tables = zip(*(table[found.good : found.rows] for table in s.tables), strict=True)
        rows = [[b for b in row if b is not None] for row in tables]
        s.joined = Join(found.filler, found.good, rows)
        self.joins.append(s.joined)
        for row in rows:
            self.pool.own(self.of(row), "copy")
        tokens = len(rows) * self.size
        self.pool.count("joined_tokens", tokens)
        return tokens

    def joiners(self, join: Join) -> list[tuple[int, Seq]]:
        return [(seq, s) for seq, s in self.every() if s.joined is join]

    def vouch(self, s: Seq) -> list[Vouched]:
        committed = s.committed // self.size
        vouched = []
        for join in [j for j in self.joins if j.filler is s and j.start < committed]:
            start, count = join.start, min(committed, join.end) - join.start
            good = join.rows[:count]
            join.start += count
            self.lose_rows(join, join.rows[count:], good)
            vouched.append(Vouched(join, start, good, not join.rows))
        return vouched

    def begins(self, s: Seq) -> int:
        """Where a sequence computes next: behind what it waits for."""
        if s.joined is None or s.joined not in self.joins:
            return s.committed
        end = s.joined.start
        while end < s.joined.end and self.has_row(s, end, s.joined.rows[end - s.joined.start]):
            end += 1
        return max(s.committed, end * self.size if end > s.joined.start else 0)

    def lose_rows(self, join: Join, kept: list[list[int]], gone: list[list[int]]) -> None:
        join.rows = kept
        if not kept:
            self.joins.remove(join)
        for row in gone[::-1]:
            self.pool.drop(self.of(row[::-1]), "copy")

    def tell_joiners(self, vouched: list[Vouched]) -> None:
        for join, start, rows, whole in vouched:
            for _, s in self.joiners(join):
                if whole:
                    s.joined = None
                good = start
                for row in rows:
                    if not self.has_row(s, good, row):
                        break
                    good += 1
                if good > start:
                    # Cut to before what it joined, it may have other slots there.
                    self.accept(s, max(s.committed, min(good * self.size, s.slots)))

    def has_row(self, s: Seq, at: int, row: list[int]) -> bool:
        return [table[at] if at < len(table) else None for table in s.tables] == row

    def leave_joiners(self, s: Seq, rows: int) -> None:
        """A filler keeps so many rows: who waits for more has to compute it."""
        for join in [j for j in self.joins if j.filler is s and j.end > rows]:
            kept = max(rows - join.start, 0)
            lost = join.rows[kept:]
            for seq, joiner in self.joiners(join):
                if kept == 0:
                    joiner.joined = None
                at = join.start + kept
                if self.has_row(joiner, at, lost[0]):
                    self.rewind(joiner, self.last_good(joiner, at * self.size))
                    self.rewound.append(seq)
            self.lose_rows(join, join.rows[:kept], lost)

    def leave_computation(self, s: Seq) -> None:
        """A joiner ends: if nobody else waits with it, nothing is kept for it."""
        join, s.joined = s.joined, None
        if join is not None and join in self.joins and not self.joiners(join):
            self.lose_rows(join, [], join.rows)

    # --- of others ----------------------------------------------------------------------------

    def accept(self, s: Seq, upto: int) -> tuple[int, int]:
        raise NotImplementedError

    def rewind(self, s: Seq, length: int, ends: bool = False) -> None:
        raise NotImplementedError

    def last_good(self, s: Seq, length: int) -> int:
        raise NotImplementedError
