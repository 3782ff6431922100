"""Tickets: copies, loads and leases, however they end."""

from __future__ import annotations

from kvframe import HandleError

from .ends import Ends
from .model import need
from .pool import Block
from .sequence import Ticket


class Tickets(Ends):
    """The verbs that settle them."""

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
        self.deadlines.pop(ticket, None)
        return self.tickets.pop(ticket)

    def owned(self, ticket: Ticket) -> list[Block]:
        pages, held = self.of(b for c in ticket.copies for b in c[:2]), self.of(ticket.held)
        self.pool.rename(pages, "copy", "settled")
        self.pool.rename(held, "lease" if ticket.lease else "held", "settled")
        return pages + held

    def end(self, ticket: Ticket) -> None:
        self.pool.drop(self.owned(ticket), "settled")

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
        if self.fence is None:
            self.end(settled)
        elif lost := self.owned(settled):
            self.pool.rename(lost, "settled", "fence")
            self.fences.append((self.fence, [b.id for b in lost]))
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
                if not s.usage.joined or start >= s.usage.read + s.usage.joined:
                    s.usage.loaded = held - start
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
        need(not self.loading(s, held))
        assert ticket is not None
        self.pool.now += 1
        self.pool.own(self.of(held), "lease")
        self.tickets[ticket] = Ticket(held=held, lease=True)

    def set_deadline(self, ticket: int, at: int) -> None:
        need(ticket in self.tickets, HandleError)
        self.deadlines[ticket] = at

    def expire(self, now: int) -> tuple[list[int], list[int]]:
        """What has lapsed: leases have ended, the rest has failed. Tickets, and who was cut."""
        lapsed = sorted(ticket for ticket, at in self.deadlines.items() if at <= now)
        cut: list[int] = []
        for ticket in lapsed:
            if self.tickets[ticket].lease:
                self.done(ticket)
            else:
                cut += self.failed(ticket)
        return lapsed, cut
