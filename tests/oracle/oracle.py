"""All verbs, those of the pool last."""

from __future__ import annotations

import copy
from dataclasses import replace

from kvframe import CapacityError

from .admission import Told
from .hands import Hands
from .model import need
from .pool import Block
from .sequence import Seq


class Oracle(Hands):
    """What a manager must do, verb by verb, as briefly as it can be said."""

    def lend(self, out: list[int]) -> None:
        if out:
            self.check_room(len(out), self.pool.room())
            self.pool.now += 1
            for block in out:
                self.pool.obtain(block, 0, "loan")

    def clear(self) -> int:
        self.pool.now += 1
        for _, s in self.every():
            s.private = True
        gone = self.pool.forget(list(self.pool.blocks.values()))
        self.pool.lose_below(0)
        return gone

    def clear_scope(
        self, adapter: str | None, salt: str | None, session: int | None, public: bool = True
    ) -> int:
        """Forget what all that is not None applies to."""

        def covers(name: tuple[str, str]) -> bool:
            return salt in (None, name[0]) and adapter in (None, name[1])

        def inside(block: Block) -> bool:
            if block.key is None or session not in (None, block.session):
                return False
            named = covers((block.key[1], block.key[2])) if block.findable else False
            return named or (adapter is None and salt is None)

        self.pool.now += 1
        for _, s in self.every():
            if covers((s.ask.cache_salt, s.ask.lora_name)) and session in (None, s.ask.session):
                s.private = True
        doomed = [b for b in self.pool.blocks.values() if inside(b)]
        gone = self.pool.forget(self.with_followers(doomed))
        # What is attached below a block does not say whose it is.
        self.pool.lose_below(0)
        return gone

    def with_followers(self, doomed: list[Block]) -> list[Block]:
        """A block under a key of a caller's own goes with the block that it follows."""
        doomed, names = list(doomed), {block.id for block in doomed}
        for block in sorted(self.pool.blocks.values(), key=lambda b: b.depth):
            by_hand = block.key is not None and not block.findable
            if by_hand and block.parent in names and block.id not in names:
                doomed.append(block)
                names.add(block.id)
        return doomed

    def rematch(self, seq: int, told: Told, fence: int | None) -> int:
        """Look up again a sequence that has computed nothing; its cached tokens."""
        s = self.live(seq)
        firsts = [t.copies[0] for t in self.tickets.values() if t.rows]
        waits = any(page in s.tables[group] for _, page, _, group in firsts)
        mine = s.joined if s.joined in self.joins else None
        waits = waits or any(join.filler is s for join in self.joins)
        waits = waits or (mine is not None and self.has_row(s, mine.start, mine.rows[0]))
        need(s.committed <= s.cached or waits or s.cached < s.brought)
        if waits or s.committed != s.cached or not s.ask.reads or s.private:
            return s.cached
        known = tuple(token for token in s.tokens[: s.filled] if token is not None)
        ask = replace(s.ask, tokens=known, mm_items=s.mm_items)
        cached = self.found(ask)
        tables = self.check_hits(ask, cached, told.hits)
        if cached > s.cached and self.may_trade(s, tables, fence):
            self.trade(s, tables, cached, fence)
        return s.cached

    def traded(
        self, s: Seq, tables: list[list[int | None]]
    ) -> list[tuple[int, int, int | None, int | None]]:
        """Group and row of each entry that becomes another, with both."""
        entries = [
            (group, row, s.tables[group][row] if row < len(s.tables[group]) else None, block)
            for group, table in enumerate(tables)
            for row, block in enumerate(table)
        ]
        return [entry for entry in entries if entry[2] != entry[3]]

    def may_trade(self, s: Seq, tables: list[list[int | None]], fence: int | None) -> bool:
        changes = self.traded(s, tables)
        gone = [b for _, _, before, _ in changes for b in self.of([before])]
        fresh = [b for _, _, _, block in changes for b in self.of([block])]
        for group, (table, found) in enumerate(zip(s.tables, tables, strict=True)):
            kept = [] if self.kinds[group].cross else self.of(table[len(found) :])
            follow = any(at == group and row < len(table) for at, row, _, _ in changes)
            # What it keeps follows what it owns, and what another owner makes findable as well.
            if any(b.key is None and len(b.owners) > 1 for b in kept):
                return False
            if follow and any(b.parent is not None for b in kept):
                return False
        up = fence is not None and fence > self.passed
        freed = 0 if up else sum(len(b.owners) == 1 for b in gone)
        more = max(sum(not b.owners for b in fresh) - freed, 0)
        return not more or self.kept(tables) <= self.pool.room() - more

    def trade(self, s: Seq, tables: list[list[int | None]], cached: int, fence: int | None) -> None:
        self.pool.now += 1
        for group, kind in enumerate(self.kinds):
            if kind.cross:
                continue
            changes = [change for change in self.traded(s, tables) if change[0] == group]
            fresh = self.of(block for _, _, _, block in changes)
            gone = self.of(before for _, _, before, _ in changes)
            self.pool.own(fresh, "seq")
            for block in fresh:
                self.pool.hit(block, len(s.tokens), s.ask)
                self.pool.used(block, s.ask)
            own = s.tables[group]
            s.tables[group] = [*tables[group], *own[len(tables[group]) :]]
            if fence is None or fence <= self.passed:
                self.pool.drop(gone[::-1], "seq")
            elif gone:
                self.wait(gone, own, fence)
        counted = "resumed_hit_tokens" if s.usage.resumed else "hit_tokens"
        self.pool.count(counted, cached - s.cached)
        s.cached = s.committed = s.usage.read = cached
        s.slots = max(s.slots, cached)
        s.hashed = max(s.hashed, cached)
        s.private = s.private or self.is_cut(s)

    def wait(self, gone: list[Block], table: list[int | None], fence: int) -> None:
        """Entries of a table wait for a step, and findable ones keep those before them."""
        self.pool.rename(gone, "seq", "fence")
        waits = {b.id for b in gone}
        if any(b.key is not None or len(b.owners) > 1 for b in gone):
            before = table[: table.index(gone[-1].id)]
            front = [b for b in self.of(before) if b.id not in waits]
            self.pool.own(front, "fence")
            waits |= {b.id for b in front}
        self.fences.append((fence, [b for b in table[::-1] if b in waits]))

    def collect(self, free: int) -> int:
        short = min(max(free - self.pool.free, 0), len(self.pool.cached()))
        self.pool.now += bool(short)
        for _ in range(short):
            self.pool.evict("ahead")
        return short

    def resize(self, blocks: int) -> None:
        need(blocks > self.pool.first and self.spare < blocks - self.pool.first)
        lost = [b for b in self.pool.blocks.values() if b.id >= blocks]
        need(not any(b.owners for b in lost), CapacityError)
        for block in lost:
            lost += [b for b in self.pool.cached() if b.parent == block.id and b not in lost]
        self.pool.now += 1
        self.pool.forget(lost)
        self.pool.total = blocks
        if self.pool.twin:
            self.pool.twin.twin.capacity = self.pool.usable

    def sleep(self) -> None:
        need(not self.seqs and not any(b.owners for b in self.pool.blocks.values()))
        self.clear()
        self.asleep = True

    def frees(self, seq: int) -> int:
        """Blocks that the end of a sequence makes available, those of who joined it too."""
        if self.joins:
            trial = self.trial()
            trial.release(seq)
            return trial.pool.room_to_come() - self.pool.room_to_come()
        s = self.seqs[seq]
        kept = (self.stays(s) or (0, 0))[1]
        rows = self.rows(kept, s.ask.encoder_tokens if kept else 0)
        goes = [table[row:] for row, table in zip(rows, s.tables, strict=True)]
        return sum(
            b.owners.count("fence") + 1 == len(b.owners) for table in goes for b in self.of(table)
        )

    def trial(self) -> Oracle:
        """Another, to see what would happen."""
        return copy.deepcopy(self, {id(self.tables): self.tables, id(self.pool.twin): None})

    def preemption_order(self, rule: str) -> list[tuple[int, int, int]]:
        rows = [(seq, self.frees(seq), s.committed) for seq, s in self.ranked(rule)]
        return [row for row in rows if row[1]]

    def preemption_to(self, rule: str, usage: float) -> list[tuple[int, int, int]]:
        """The first of them until so little is in use, each after those before it."""
        trial, rows = self.trial(), []
        for seq, s in self.ranked(rule):
            room = trial.pool.room_to_come()
            if self.pool.usable - room <= int(usage * self.pool.usable):
                break
            ended = trial.trial()
            ended.release(seq)
            if freed := ended.pool.room_to_come() - room:
                trial = ended
                rows.append((seq, freed, s.committed))
        return rows

    def ranked(self, rule: str) -> list[tuple[int, Seq]]:
        def rank(item: tuple[int, Seq]) -> tuple[int, ...]:
            s = item[1]
            by = {"fewest-computed": s.committed, "lowest-priority": s.ask.priority}
            return by.get(rule, 0), -s.admitted

        return sorted(self.seqs.items(), key=rank)
