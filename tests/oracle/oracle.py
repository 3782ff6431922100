"""The other half of the model: what is computed, ends, is settled or reset."""

from __future__ import annotations

from collections.abc import Iterable

from kvframe import CapacityError, HandleError

from .model import Model, need
from .pool import Block
from .sequence import Ask, Seq, Ticket, cross_key


class Oracle(Model):
    """All verbs."""

    # --- computed and cut ---------------------------------------------------------------------

    def commit(self, seq: int, upto: int) -> None:
        s = self.live(seq)
        need(s.committed <= upto <= s.slots and upto <= s.filled)
        self.accept(s, upto)
        for group, kind in enumerate(self.kinds):
            table = s.tables[group]
            rows = [r for r in kind.gone(kind.computed(upto, s.cached)) if table[r] is not None]
            # What may yet fail is kept, to be found and cut.
            busy = [i for i, b in enumerate(self.maybe(table)) if b and "copy" in b.owners]
            rows = [r for r in rows if not any(b <= r for b in busy if b in rows)]
            self.pool.drop(self.of(table[row] for row in rows[::-1]), "seq")
            for row in rows:
                table[row] = None
        s.private = s.private or self.is_cut(s)

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
        whole = s.committed // self.size * self.size
        for kind, table in zip(self.kinds, s.tables, strict=True):
            # All groups' KV is computed over all others'.
            busy = [b and b.key is None and "copy" in b.owners for b in self.maybe(table)]
            whole = min([whole, *[i * kind.span for i, is_busy in enumerate(busy) if is_busy]])
        prompt = len(s.ask.tokens)
        ends = self.whole(prompt), self.whole(max(prompt - 1, 0))
        for group, kind in enumerate(self.kinds):
            fresh: list[Block] = []
            if kind.cross:
                continue
            rows = min(whole, kind.computed(s.committed, s.cached)) // kind.span
            for i, block in enumerate(self.maybe(s.tables[group])[:rows]):
                if block is None or block.key is not None:
                    continue
                if not kind.reachable(i, self.step, ends):
                    continue
                key = s.key(group, (i + 1) * kind.span)
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
        if s.has_encoder and not s.encoder_found and s.ask.encoder_tokens:
            self.publish_input(s)

    def publish_input(self, s: Seq) -> None:
        """Another input's blocks are found once a token has been computed over them."""
        s.encoder_found = True
        for group, kind in enumerate(self.kinds):
            blocks = self.of(s.tables[group]) if kind.cross else []
            fresh = [(row, block) for row, block in enumerate(blocks) if block.key is None]
            for row, block in fresh:
                key = cross_key(s.ask, group, row)
                self.pool.count("duplicates", len(self.pool.named(key)[:1]))
                block.key, block.depth = key, row
            for _, block in fresh:
                self.pool.insert(block, len(s.tokens))
            self.pool.count("stored", len(fresh))

    def least(self, s: Seq) -> int:
        """The shortest length from which on every group has what the next token attends to."""

        def serves(length: int) -> bool:
            return not any(
                table[row] is None
                for kind, table in zip(self.kinds, s.tables, strict=True)
                for row in kind.needs(kind.computed(length, s.cached))
            )

        return next((n + 1 for n in range(s.slots, -1, -1) if not serves(n)), 0)

    def has_state(self, s: Seq, length: int) -> bool:
        """Recurrent layers go on from the state of all that is computed, or of a kept block."""
        states = [
            (kind, table)
            for kind, table in zip(self.kinds, s.tables, strict=True)
            if kind.kind == "state"
        ]
        return (
            length == 0
            or length >= s.committed
            or not any(
                length % kind.span or table[length // kind.span - 1] is None
                for kind, table in states
            )
        )

    def last_good(self, s: Seq, length: int) -> int:
        """The longest length up to that one to which a sequence can go back."""
        for good in (length, self.whole(length)):
            if good >= self.least(s) and self.has_state(s, good):
                return good
        return 0

    def truncate(self, seq: int, length: int, settled: Iterable[int] = ()) -> None:
        s = self.live(seq)
        self.check_cut(s, length, settled)
        self.cut(s, length)

    def check_cut(self, s: Seq, length: int, settled: Iterable[int] = ()) -> None:
        need(length <= s.slots and (length == 0 or length >= self.least(s)))
        need(length == s.slots or self.has_state(s, length))
        for kind, table in zip(self.kinds, s.tables, strict=True):
            row, inside = divmod(length, kind.span)
            if length < s.slots and inside and not kind.cross:
                # What comes is the state at a block's end, also if it has just come.
                need(not self.loading([table[row]], () if kind.kind == "state" else settled))

    def cut(self, s: Seq, length: int) -> None:
        if length < len(s.tokens):
            self.pool.now += 1
            self.rewind(s, length)
            s.cut(length)

    def rewind(self, s: Seq, length: int, ends: bool = False) -> None:
        """Slots go; what is known stays known."""
        rows = self.rows(length, 0 if ends else s.ask.encoder_tokens)
        for group, (table, keep) in enumerate(zip(s.tables, rows, strict=True)):
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

    def fork(self, seq: int, child: int | None) -> None:
        s = self.live(seq)
        self.check_fork(s.committed, s.slots)
        assert child is not None, "it was refused, and should have been forked"
        assert child not in self.seqs, "a handle that is in use"
        assert child not in self.ended, "a handle that was used"
        self.pool.now += 1
        self.seqs[child] = s.twin()
        assert child & 0xFFFFFFFF == self.take_slot()
        for table in s.tables:
            self.pool.own(self.of(table), "seq")

    def check_fork(self, committed: int, slots: int) -> None:
        steps = any(kind.kind in ("state", "sink_window") for kind in self.kinds)
        need(committed == slots or not steps)

    def release(self, seq: int, fence: int | None = None) -> None:
        s = self.live(seq)
        if fence is not None:
            self.put_up(fence)
        self.pool.now += 1
        self.publish(s)
        self.leave_orphan(s)
        self.rewind(s, 0, ends=True)
        if fence is not None:
            self.fence = None
        del self.seqs[seq]
        self.vacant.append(seq & 0xFFFFFFFF)
        self.ended.append(seq)

    def stays(self, s: Seq) -> tuple[int, int] | None:
        """The load that outlives a sequence, and the tokens at its front that stay for it."""
        for ticket, told in self.tickets.items():
            if told.owner is s and not s.private:
                end = self.whole(min((told.start + told.rows) * self.size, s.slots))
                if end > told.start * self.size and self.last_good(s, end) == end:
                    return ticket, end
        return None

    def leave_orphan(self, s: Seq) -> None:
        """A load outlives its sequence: what it brings is found, if it is good."""
        stays = self.stays(s)
        if stays is None:
            return
        ticket, end = stays
        self.pool.now += 1
        orphan = s.twin()
        for table in s.tables:
            self.pool.own(self.of(table), "seq")
        self.orphans[ticket] = (self.take_slot(), orphan)
        self.rewind(orphan, end)

    def end_orphan(self, ticket: int) -> None:
        if ticket not in self.orphans:
            return
        slot, orphan = self.orphans[ticket]
        self.pool.now += 1
        self.publish(orphan)
        self.rewind(orphan, 0, ends=True)
        del self.orphans[ticket]
        self.vacant.append(slot)

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
        cut = self.lose(ticket)
        self.end_orphan(ticket)
        return cut

    def lose(self, ticket: int) -> list[int]:
        settled = self.settle(ticket)
        self.pool.count("failed_copies", len(settled.copies))
        spoiled = [(dst, group) for _, dst, _, group in settled.copies]
        cut = set()
        for page, group in spoiled:
            spoiled += [(d, g) for src, d, _, g in self.copies() if src == page]
            for seq, s in self.every():
                if page in s.tables[group]:
                    good = s.tables[group].index(page) * self.kinds[group].span
                    self.rewind(s, self.last_good(s, good))
                    if seq in self.seqs and self.seqs[seq] is s:
                        cut.add(seq)
        self.end(settled)
        return sorted(cut)

    def loaded(self, ticket: int, good: int) -> list[int]:
        load = self.tickets.get(ticket)
        need(load is not None and load.rows > 0, HandleError)
        assert load is not None
        need(good <= load.rows)
        # Half of what all groups can serve together is none of it.
        units = self.unit // self.size
        good, rows = good // units, load.rows // units
        places = len(self.places(0, self.unit))
        pages = load.copies[: good * places]
        rest = load.copies[len(pages) :]
        cut: list[int] = []
        load.copies = rest
        if good < rows:
            cut = self.lose(ticket)
        else:
            self.end(self.settle(ticket))
        self.pool.drop(self.of(page for _, page, _, _ in pages[::-1]), "copy")
        ids = [page for _, page, _, _ in pages]
        by_unit = [ids[i * places : (i + 1) * places] for i in range(good)]
        self.count_loaded(load.start * self.size, by_unit)
        self.end_orphan(ticket)
        return cut

    def count_loaded(self, start: int, units: list[list[int]]) -> None:
        """Whoever has the pages, from the first on, has them computed."""
        most = 0
        for _, s in self.every():
            held = start
            for pages in units:
                places = self.places(held, held + self.unit)
                if [s.tables[g][r] if r < len(s.tables[g]) else None for g, r in places] != pages:
                    break
                held += self.unit
            if held > start:
                most = max(most, held - start)
                self.accept(s, max(held, s.committed))
        self.pool.count("loaded_tokens", most)

    def lease(self, seq: int, upto: int, ticket: int | None) -> None:
        s = self.live(seq)
        need(upto <= s.committed)
        states = [kind for kind in self.kinds if kind.kind == "state"]
        ends = not any(upto % kind.span for kind in states) and self.has_state(s, upto)
        need(not states or upto in (0, s.committed if s.committed == s.slots else 0) or ends)
        tables = zip(self.rows(upto, s.ask.encoder_tokens if upto else 0), s.tables, strict=True)
        held = [b for rows, table in tables for b in table[:rows][::-1] if b is not None]
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
        self.pool.now += bool(blocks)
        for block in blocks:
            del self.pool.blocks[block]

    def clear(self) -> int:
        self.pool.now += 1
        for _, s in self.every():
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
        stays = self.stays(s)
        kept = stays[1] if stays else 0
        rows = self.rows(kept, s.ask.encoder_tokens if kept else 0)
        goes = [table[row:] for row, table in zip(rows, s.tables, strict=True)]
        return sum(len(b.owners) == 1 for table in goes for b in self.of(table))

    def preemption_order(self, rule: str) -> list[tuple[int, int, int]]:
        def rank(item: tuple[int, Seq]) -> tuple[int, ...]:
            s = item[1]
            by = {"fewest-computed": s.committed, "lowest-priority": s.ask.priority}
            return by.get(rule, 0), -s.admitted

        rows = sorted(self.seqs.items(), key=rank)
        return [(seq, self.frees(s), s.committed) for seq, s in rows if self.frees(s)]
