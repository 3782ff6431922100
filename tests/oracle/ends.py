"""Sequences are cut, forked, and end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .model import need
from .pool import Block
from .publish import Publishing
from .sequence import Ask, Seq


class Ends(Publishing):
    """The verbs that give room back."""

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
                need(not self.loading(s, [table[row]], () if kind.kind == "state" else settled))

    def cut(self, s: Seq, length: int) -> None:
        if length < len(s.tokens):
            self.pool.now += 1
            self.rewind(s, length)
            s.cut(length)
            s.hashed = min(s.hashed, length // self.size * self.size)

    def rewind(self, s: Seq, length: int, ends: bool = False) -> None:
        """Slots go; what is known stays known."""
        self.leave_joiners(s, min(length, s.slots) // self.size)
        rows = self.rows(length, 0 if ends else s.ask.encoder_tokens)
        cuts = list(enumerate(zip(s.tables, rows, strict=True)))
        for group, (table, keep) in cuts if self.fence is None else cuts[::-1]:
            self.leave(s, group, keep)
            del table[keep:]
        s.slots = min(s.slots, length)
        s.committed, s.cached = min(s.committed, length), min(s.cached, length)

    def leave(self, s: Seq, group: int, keep: int) -> None:
        table = s.tables[group]
        for block in self.of(table[keep:]):
            block.inner, block.left_once = False, block.left_once or block.key is not None
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
        self.share(s, child)

    def share(self, s: Seq, child: int | None) -> Seq:
        assert child is not None, "it was refused, and should have been forked"
        assert child not in self.seqs, "a handle that is in use"
        assert child not in self.ended, "a handle that was used"
        self.pool.now += 1
        self.seqs[child] = twin = s.twin()
        assert child & 0xFFFFFFFF == self.take_slot()
        for table in s.tables:
            self.pool.own(self.of(table), "seq")
        return twin

    def fork_prefix(self, seq: int, upto: int, copy: bool, child: int | None) -> None:
        s = self.live(seq)
        need(upto <= s.committed)
        self.check_cut(s, upto)
        tails = [
            (group, upto // kind.span)
            for group, kind in enumerate(self.kinds)
            if copy and not kind.cross and upto % kind.span
            if s.tables[group][upto // kind.span] is not None
        ]
        if tails:
            self.check_room(len(tails), self.pool.room())
        self.check_fork(s.committed, s.slots)
        twin = self.share(s, child)
        self.cut(twin, upto)
        assert child is not None
        tables = self.tables(child)
        for group, row in tails:
            self.copy(twin, group, row, tables[group][row])

    def check_fork(self, committed: int, slots: int) -> None:
        steps = any(kind.kind in ("state", "sink_window") for kind in self.kinds)
        need(committed == slots or not steps)

    def release(self, seq: int, fence: int | None = None, *, aborts: bool = False) -> None:
        s = self.live(seq)
        s.private = s.private or aborts
        if fence is not None:
            self.put_up(fence)
        self.pool.now += 1
        self.publish(s)
        self.publish_tail(s)
        self.leave_orphan(s)
        self.rewind(s, 0, ends=True)
        self.leave_computation(s)
        self.remapped = [entry for entry in self.remapped if entry[0] is not s]
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
        self.publish_tail(orphan)
        self.rewind(orphan, 0, ends=True)
        self.leave_computation(orphan)
        self.remapped = [entry for entry in self.remapped if entry[0] is not orphan]
        del self.orphans[ticket]
        self.vacant.append(slot)

    def preempt(self, seq: int, fence: int | None = None) -> Ask:
        ask = self.live(seq).back()
        self.release(seq, fence)
        return replace(ask, chunk=self.chunk_to_return(ask))

    def chunk_to_return(self, ask: Ask) -> int | None:
        """What had come token by token is part of the prompt now, and may need shorter steps."""
        usable, known = self.pool.usable, len(ask.tokens)
        if self.alone(ask) <= usable:
            return ask.chunk
        most = known if ask.chunk is None else min(ask.chunk, known)
        whole = range(most // self.unit * self.unit, 0, -self.unit)
        fits = [n for n in whole if self.alone(replace(ask, chunk=n)) <= usable]
        # Until is no word of a request that comes back: its steps start anywhere then.
        less = [replace(ask, chunk=n, until=known - 1) for n in range(min(most, self.unit), 0, -1)]
        fits += [n.chunk for n in less if n.chunk and self.alone(n) <= usable]
        return fits[0] if fits else ask.chunk

    def put_up(self, fence: int | None) -> None:
        self.fence = fence if fence is not None and fence > self.passed else None

    def let_pass(self, step: int) -> None:
        self.passed = max(self.passed, step)
        ready = [f for f in self.fences if f[0] <= step]
        self.fences = [f for f in self.fences if f[0] > step]
        for _, ids in ready:
            self.pool.now += 1
            self.pool.drop(self.of(ids), "fence")
