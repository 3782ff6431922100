"""All verbs, those of the pool last."""

from __future__ import annotations

import copy

from kvframe import CapacityError

from .hands import Hands
from .model import need
from .sequence import Seq


class Oracle(Hands):
    """What a manager must do, verb by verb, as briefly as it can be said."""

    def lend(self, out: list[int]) -> None:
        if out:
            self.check_ever(len(out))
            self.check_room(len(out), self.pool.room())
            self.pool.now += 1
            for block in out:
                self.pool.obtain(block, 0, "loan")

    def give_back(self, blocks: list[int]) -> None:
        lent = [i for i, b in self.pool.blocks.items() if "loan" in b.owners]
        need(len(set(blocks)) == len(blocks) and set(blocks) <= set(lent))
        self.pool.now += bool(blocks)
        for block in blocks:
            self.pool.vacate(block)

    def clear(self) -> int:
        self.pool.now += 1
        for _, s in self.every():
            s.private = True
        gone = self.pool.forget(list(self.pool.blocks.values()))
        self.pool.lose_below(0)
        return gone

    def collect(self, free: int) -> int:
        short = min(max(free - self.pool.free, 0), len(self.pool.cached()))
        self.pool.now += bool(short)
        for _ in range(short):
            self.pool.evict()
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
