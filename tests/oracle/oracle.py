"""The other half of the model: what is computed, ends, is settled or reset."""

from __future__ import annotations

from collections.abc import Iterable

from kvframe import CapacityError, HandleError

from .model import Model, need
from .pool import Block
from .sequence import Ask, Seq, Ticket


class Oracle(Model):
    """All verbs."""

    # --- computed and cut ---------------------------------------------------------------------

    def commit(self, seq: int, upto: int) -> None:
        s = self.live(seq)
        need(s.committed <= upto <= s.slots and upto <= s.filled)
        self.accept(s, upto)
        for group, kind in enumerate(self.kinds):
            table = s.tables[group]
            gone = min(kind.first(upto) // self.size, len(table))
            busy = [i for i, b in enumerate(self.maybe(table)) if b and "copy" in b.owners]
            gone = min([gone, *busy])
            self.pool.drop(self.of(table[:gone][::-1]), "seq")
            table[:gone] = [None] * gone

    def maybe(self, table: list[int | None]) -> list[Block | None]:
        return [None if block is None else self.pool.blocks[block] for block in table]

    def accept(self, s: Seq, upto: int) -> None:
        s.committed = upto
        self.pool.now += 1
        self.publish(s)

    def publish(self, s: Seq) -> None:
        """What is full and computed is found from now on, as far as no copy is under way."""
        if s.private:
            return
        rows = s.committed // self.size
        for table in s.tables:
            # All groups' KV is computed over all others'.
            busy = [b and b.key is None and "copy" in b.owners for b in self.maybe(table)]
            rows = min([rows, *[i for i, is_busy in enumerate(busy) if is_busy]])
        for group, kind in enumerate(self.kinds):
            fresh: list[Block] = []
            for i, block in enumerate(self.maybe(s.tables[group])[:rows]):
                if block is None or block.key is not None:
                    continue
                # No hit needs what no token behind it attends to.
                if kind.first((i + 1) * self.size) >= (i + 1) * self.size:
                    continue
                key = s.key(group, (i + 1) * self.size)
                twins = self.pool.named(key)
                for twin in twins[:1]:
                    self.pool.count("duplicates")
                    self.pool.hit(twin, len(s.tokens))
                block.key, block.depth = key, i
                block.parent = s.tables[group][i - 1] if kind.full and i else None
                fresh.append(block)
            for block in fresh:
                self.pool.insert(block, len(s.tokens))
            self.pool.count("stored", len(fresh))

    def least(self, s: Seq) -> int:
        """The shortest length from which on every group has what the next token attends to."""
        gone = [table.count(None) * self.size for table in s.tables]

        def serves(length: int) -> bool:
            return all(k.first(length) >= n for k, n in zip(self.kinds, gone, strict=True))

        return next((length for length in range(s.slots) if serves(length)), s.slots)

    def truncate(self, seq: int, length: int, settled: Iterable[int] = ()) -> None:
        s = self.live(seq)
        self.check_cut(s, length, settled)
        self.cut(s, length)

    def check_cut(self, s: Seq, length: int, settled: Iterable[int] = ()) -> None:
        need(length <= s.slots and (length == 0 or length >= self.least(s)))
        row, inside = divmod(length, self.size)
        tails = [table[row] for table in s.tables if length < s.slots and inside]
        need(not self.loading(tails, settled))

    def cut(self, s: Seq, length: int) -> None:
        if length < len(s.tokens):
            self.pool.now += 1
            self.rewind(s, length)
            s.cut(length)

    def rewind(self, s: Seq, length: int) -> None:
        """Slots go; what is known stays known."""
        for group, table in enumerate(s.tables):
            keep = self.rows(length)
            self.leave(s, group, keep)
            del table[keep:]
        s.slots = min(s.slots, length)
        s.committed, s.cached = min(s.committed, length), min(s.cached, length)

    def leave(self, s: Seq, group: int, keep: int) -> None:
        table = s.tables[group]
        if self.fence is None:
            self.pool.drop(self.of(table[keep:][::-1]), "seq")
            return
        gone = self.of(table[keep:])
        self.pool.rename(gone, "seq", "fence")
        front: list[Block] = []
        if any(block.key is not None or len(block.owners) > 1 for block in gone):
            front = self.of(table[:keep])
            self.pool.own(front, "fence")
        if len(table) > keep:
            self.fences.append((self.fence, [b.id for b in (front + gone)[::-1]]))

    # --- ends ---------------------------------------------------------------------------------

    def fork(self, seq: int, child: int) -> None:
        s = self.live(seq)
        assert child not in self.seqs, "a handle that is in use"
        assert child not in self.ended, "a handle that was used"
        self.pool.now += 1
        self.seqs[child] = s.twin()
        for table in s.tables:
            self.pool.own(self.of(table), "seq")

    def release(self, seq: int, fence: int | None = None) -> None:
        s = self.live(seq)
        if fence is not None:
            self.put_up(fence)
        self.pool.now += 1
        self.publish(s)
        self.rewind(s, 0)
        if fence is not None:
            self.fence = None
        del self.seqs[seq]
        self.ended.append(seq)

    def preempt(self, seq: int, fence: int | None = None) -> Ask:
        ask = self.live(seq).back()
        self.release(seq, fence)
        return ask

    def put_up(self, fence: int | None) -> None:
        self.fence = fence if fence is not None and fence > self.passed else None

    def let_pass(self, step: int) -> None:
        self.passed = max(self.passed, step)
        ready = [f for f in self.fences if f[0] <= step]
        self.fences = [f for f in self.fences if f[0] > step]
        for _, ids in ready:
            self.pool.now += 1
            self.pool.drop(self.of(ids), "fence")

    # --- tickets ------------------------------------------------------------------------------

    def take_plan(self, ticket: int | None) -> list[tuple[int | None, int, int, int]]:
        copies = list(self.gathering.copies)
        if copies:
            assert ticket is not None, "copies are waiting"
            assert ticket not in self.tickets
            self.tickets[ticket], self.gathering = self.gathering, Ticket()
        return copies

    def settle(self, ticket: int) -> Ticket:
        need(ticket in self.tickets, HandleError)
        self.pool.now += 1
        return self.tickets.pop(ticket)

    def end(self, ticket: Ticket) -> None:
        pages, held = self.of(b for c in ticket.copies for b in c[:2]), self.of(ticket.held)
        self.pool.rename(pages, "copy", "settled")
        self.pool.rename(held, "lease" if ticket.lease else "held", "settled")
        self.pool.drop(pages + held, "settled")

    def done(self, ticket: int) -> None:
        load = self.tickets.get(ticket)
        if load is not None and load.rows:
            self.loaded(ticket, load.rows)
            return
        settled = self.settle(ticket)
        for copy in list(settled.copies):
            # A page is no better than its source: it waits for that one's ticket.
            for other in self.tickets.values():
                if copy[0] in [dst for _, dst, _, _ in other.copies]:
                    settled.copies.remove(copy)
                    other.copies.append(copy)
                    break
        self.end(settled)

    def failed(self, ticket: int) -> list[int]:
        settled = self.settle(ticket)
        self.pool.count("failed_copies", len(settled.copies))
        spoiled = [(dst, group) for _, dst, _, group in settled.copies]
        cut = set()
        for page, group in spoiled:
            spoiled += [(d, g) for src, d, _, g in self.copies() if src == page]
            for seq, s in self.every():
                if page in s.tables[group]:
                    good = s.tables[group].index(page) * self.size
                    self.rewind(s, good if good >= self.least(s) else 0)
                    cut.add(seq)
        self.end(settled)
        return sorted(cut)

    def loaded(self, ticket: int, good: int) -> list[int]:
        load = self.tickets.get(ticket)
        need(load is not None and load.rows > 0, HandleError)
        assert load is not None
        need(good <= load.rows)
        pages = load.copies[: good * len(self.kinds)]
        rest = load.copies[len(pages) :]
        cut: list[int] = []
        load.copies = rest
        if good < load.rows:
            cut = self.failed(ticket)
        else:
            self.end(self.settle(ticket))
        self.pool.drop(self.of(page for _, page, _, _ in pages[::-1]), "copy")
        self.count_loaded(load.start, good, [page for _, page, _, _ in pages])
        return cut

    def count_loaded(self, start: int, rows: int, pages: list[int]) -> None:
        """Whoever has the pages, from the first on, has them computed."""
        most, count = 0, len(self.kinds)
        for _, s in self.every():
            has = list(zip(*s.tables, strict=True))[start:]
            held = 0
            while held < rows and has[held : held + 1] == [
                tuple(pages[held * count : (held + 1) * count])
            ]:
                held += 1
            if held:
                most = max(most, held)
                self.accept(s, max((start + held) * self.size, s.committed))
        self.pool.count("loaded_tokens", most * self.size)

    def lease(self, seq: int, upto: int, ticket: int | None) -> None:
        s = self.live(seq)
        need(upto <= s.committed)
        rows = self.rows(upto)
        held = [b for table in s.tables for b in table[:rows][::-1] if b is not None]
        need(not self.loading(held))
        assert ticket is not None
        self.pool.now += 1
        self.pool.own(self.of(held), "lease")
        self.tickets[ticket] = Ticket(held=held, lease=True)

    # --- the pool -----------------------------------------------------------------------------

    def lend(self, out: list[int]) -> None:
        if out:
            self.check_room(len(out), self.pool.room())
            self.pool.now += 1
            for block in out:
                self.pool.obtain(block, 0, "loan")

    def give_back(self, blocks: list[int]) -> None:
        lent = [i for i, b in self.pool.blocks.items() if "loan" in b.owners]
        need(len(set(blocks)) == len(blocks) and set(blocks) <= set(lent))
        self.pool.now += 1
        for block in blocks:
            del self.pool.blocks[block]

    def clear(self) -> int:
        self.pool.now += 1
        for s in self.seqs.values():
            s.private = True
        return self.pool.forget(list(self.pool.blocks.values()))

    def collect(self, free: int) -> int:
        short = min(max(free - self.pool.free, 0), len(self.pool.cached()))
        self.pool.now += bool(short)
        for _ in range(short):
            self.pool.evict()
        return short

    def resize(self, blocks: int) -> None:
        need(blocks > self.pool.first and self.reserve < blocks - self.pool.first)
        lost = [b for b in self.pool.blocks.values() if b.id >= blocks]
        need(not any(b.owners for b in lost), CapacityError)
        for block in lost:
            lost += [b for b in self.pool.cached() if b.parent == block.id and b not in lost]
        self.pool.now += 1
        self.pool.forget(lost)
        self.pool.total = blocks

    def sleep(self) -> None:
        need(not self.seqs and not any(b.owners for b in self.pool.blocks.values()))
        self.clear()
        self.asleep = True

    def frees(self, s: Seq) -> int:
        return sum(len(b.owners) == 1 for table in s.tables for b in self.of(table))

    def preemption_order(self, rule: str) -> list[tuple[int, int, int]]:
        def rank(item: tuple[int, Seq]) -> tuple[int, ...]:
            s = item[1]
            by = {"fewest-computed": s.committed, "lowest-priority": s.ask.priority}
            return by.get(rule, 0), -s.admitted

        rows = sorted(self.seqs.items(), key=rank)
        return [(seq, self.frees(s), s.committed) for seq, s in rows if self.frees(s)]
