"""Rules on what is kept without a sequence, and on what can be asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvframe import AllocStatus, Pin

from . import views
from .hands import OWN
from .rules_pool import TALL, PoolRules


class HandRules(PoolRules):
    """Pins, handles on prefixes, blocks one by one, deadlines, forks of a prefix."""

    # --- pins ---------------------------------------------------------------------------------

    def pin(self) -> None:
        ask = replace(self.prompt(), encoder=b"", encoder_tokens=0)
        if len(self.pins) > 2:
            return self.unpin()
        space = {name: ask.space[name] for name in ("cache_salt", "lora_name", "mm_items")}
        # A token more than what is found: the last block may be, and nothing behind it, which may
        # follow other copies.
        found = self.o.found(ask, whole=True)
        hit = self.kv.lookup([*ask.tokens[:found], 0], **space)
        told = [blocks.tolist() for blocks in hit.blocks]

        def model(pin: Pin | None) -> None:
            found = self.o.pin(ask, told, None if pin is None else pin.receipt)
            self.same("pinned", 0 if pin is None else pin.tokens, found)

        pin = self.both(f"pin {ask}", lambda: self.kv.pins.pin(list(ask.tokens), **space), model)
        self.pins += [] if pin is None else [pin]
        self.count("pinned", pin is not None)
        return None

    def unpin(self) -> None:
        if not self.pins:
            return
        pin = self.dice.pick(self.pins)
        match self.dice.below(8):
            case 5:
                pin = pin._replace(block=pin.block + 1)
            case 6:
                pin = pin._replace(receipt=pin.receipt + 2**32)
            case 7:
                pin = pin._replace(receipt=99)
            case _:
                self.pins.remove(pin)
        self.both(
            f"unpin {pin}",
            lambda: self.kv.pins.unpin(pin),
            lambda _: self.o.unpin(pin.receipt, pin.block),
        )

    # --- handles on exact prefixes ------------------------------------------------------------

    def attach(self) -> None:
        seq = self.seq()
        if seq is not None:
            s = self.o.live(seq)
            upto = s.committed + 1 - self.dice.pick([1, 1, 0, *range(s.committed + 2)])
            handle = self.dice.below(2**20)
            self.both(
                f"attach {seq:#x} {handle} {upto}",
                lambda: self.kv.blocks.attach(
                    seq, handle, upto=None if upto == s.committed else upto
                ),
                lambda old: self.same("replaced", old, self.o.attach(seq, handle, upto)),
            )

    def take_dropped(self) -> None:
        self.same("dropped", self.kv.blocks.take_detached(), self.o.pool.dropped)
        self.count("dropped", bool(self.o.pool.dropped))
        self.o.pool.dropped = []

    # --- deadlines ----------------------------------------------------------------------------

    def set_deadline(self) -> None:
        ticket = self.dice.pick([*self.o.tickets, 10**9])
        at = self.clock + self.dice.below(6)
        self.both(
            f"{ticket} lapses at {at}",
            lambda: self.kv.pins.set_deadline(ticket, at),
            lambda _: self.o.set_deadline(ticket, at),
        )

    def expire(self) -> None:
        """What has lapsed is never carried out."""
        self.clock += self.dice.below(4)
        lapsed = [ticket for ticket, at in self.o.deadlines.items() if at <= self.clock]
        for ticket in lapsed:
            self.plane.forget(ticket)
        self.both(
            f"expire {self.clock}",
            lambda: self.kv.expire_until(self.clock),
            lambda told: self.same("lapsed", tuple(told[:2]), self.o.expire(self.clock)),
        )
        self.count("lapsed", bool(lapsed))

    # --- forks of a prefix, slots ahead ---------------------------------------------------------

    def fork_prefix(self) -> None:
        seq = self.seq()
        if seq is None or len(self.o.seqs) > 7:
            return
        s, copy = self.o.live(seq), self.dice.one_in(2)
        upto = s.committed + 1 - self.dice.pick([0, *range(1, s.committed + 2)])
        child = self.both(
            f"fork {seq:#x} up to {upto}{' with a copy' * copy}",
            lambda: self.kv.fork(seq, upto=upto, copy=copy),
            lambda child: self.o.fork_prefix(seq, upto, copy, child),
        )
        if child is not None:
            self.coming[child] = []
            self.plane.epochs[child] = self.plane.epochs[seq]

    def reserve(self) -> None:
        seq = self.seq()
        if seq is not None:
            s = self.o.live(seq)
            until = max(s.slots - 1 + self.dice.below(len(s.tokens) - s.slots + 5), 0)
            had = len(s.tokens)
            self.both(
                f"reserve {seq:#x} {until}",
                lambda: self.kv.extend(seq, 0, lookahead=until),
                lambda _: self.o.reserve(seq, until),
            )
            self.coming[seq] += self.dice.bits(len(s.tokens) - had)

    def advance(self) -> None:
        """Slots ahead, keys of blocks whose ids never come, and a commit of what was computed."""
        keyed = [seq for seq, s in self.o.seqs.items() if s.keyed]
        seq = self.dice.pick(keyed) if keyed else self.seq()
        if seq is None or not self.setup.takes_keys:
            return
        s = self.o.live(seq)
        had, unit, start = len(s.tokens), self.o.size, s.filled // self.o.size * self.o.size
        until = max(s.slots - 1 + self.dice.below(unit + 4), 0)
        coming = self.coming[seq] + self.dice.bits(max(until - had, 0))
        known = [token for token in s.tokens[: s.filled] if token is not None]
        ids = [*known, *coming, 0, 1][start : start + unit * self.dice.pick([0, 0, 1, 1, 2])]
        ids = ids[: len(ids) // unit * unit]
        space = {**s.ask.space, "mm_items": s.mm_items}
        keys = self.kv.blocks.hash_blocks([*known[:start], *ids], **space)[start // unit :]
        upto = self.dice.pick([None, s.committed, min(s.slots, s.filled)])
        ahead = until % 2 == 1 and self.keeps_all()
        self.compute(seq, upto or 0)
        refused = self.refusals
        names = keys if ids else None
        self.both(
            f"advance {seq:#x} to {until} by {ids}, commit {upto}{' ahead' * ahead}",
            lambda: self.kv.advance(
                seq, until, upto=upto, keys=names, computed=0 if ahead else None
            ),
            lambda blocks: self.advanced(seq, until, ids, (upto, ahead), blocks),
        )
        self.plane.take_back(self.refusals > refused)
        self.count("keys that came late", bool(ids) and self.refusals == refused)
        if self.refusals == refused:
            self.coming[seq] = coming[: len(s.tokens) - had + len(self.coming[seq])]
            unknown = len(s.tokens) - s.filled
            del self.coming[seq][: len(self.coming[seq]) - unknown]
        if ahead:
            self.both(
                f"computed {seq:#x} to {s.slots}",
                lambda: self.kv.advance(seq, 0, computed=s.slots),
                lambda new: self.same("new", new, [[] for _ in s.tables]),
            )

    def keeps_all(self) -> bool:
        """Whether no group gives blocks up: the model says of none how important it is if it goes
        late.
        """
        return all(kind.full or kind.cross for kind in self.o.kinds)

    def advanced(
        self,
        seq: int,
        until: int,
        ids: list[int],
        commit: tuple[int | None, bool],
        blocks: list[list[int]] | None,
    ) -> None:
        s = self.o.live(seq)
        rows = [len(table) for table in s.tables]
        upto, ahead = commit
        upto = s.committed if upto is None else upto
        self.o.enter_keys(seq, until, ids, upto)
        if s.committed < upto:
            self.o.commit(seq, upto, ahead=ahead)
        new = [table[had:] for table, had in zip(s.tables, rows, strict=True)]
        gap = 0 if self.setup.null else -1
        self.same("new blocks", blocks, [[gap if b is None else b for b in row] for row in new])

    # --- blocks one by one --------------------------------------------------------------------

    def publish(self) -> None:
        if not self.lent or self.setup.groups[1:] or self.setup.hash == "xxh3-128":
            return
        block = self.lent[0] if self.dice.one_in(4) else self.lent.pop()
        hands = list(self.o.parents)
        parent = self.dice.pick([None, None, TALL, *hands, *hands])
        name = self.dice.below(8)
        key = np.array([name, 7 * name + 1], np.uint64)
        refused = self.refusals
        self.both(
            f"publish {block} as {name} after {parent}",
            lambda: self.kv.blocks.publish(block, key, parent),
            lambda old: self.same("before", old, self.o.publish_block(block, name, parent)),
        )
        if self.refusals > refused and block not in self.lent:
            self.lent.append(block)
        elif self.refusals == refused and block in self.lent:
            self.lent.remove(block)

    def find_blocks(self) -> None:
        """By the keys of a prompt, or by those of one's own; then they may be held."""
        if self.setup.groups[1:] or not self.setup.takes_keys or self.setup.groups[0].lag:
            return
        ask, pool = self.ask(), self.kv.blocks
        if self.dice.one_in(2):
            names = [self.dice.below(8) for _ in range(self.dice.below(3))]
            wanted = [(OWN, name) for name in names]
            keys = np.array([[name, 7 * name + 1] for name in names], np.uint64).reshape(-1, 2)
        else:
            keys = self.kv.blocks.hash_blocks(list(ask.tokens), **ask.space)
            wanted = self.o.keys(ask)
        found = pool.find(keys).tolist()
        there = [bool(self.o.pool.named(key)) for key in wanted]
        self.same("found", len(found), (*there, False).index(False))
        self.same("keys", [self.o.pool.blocks[b].key for b in found], wanted[: len(found)])
        self.touch([*found, *[self.dice.below(self.o.pool.total)] * self.dice.one_in(4)])

    def touch(self, blocks: list[int]) -> None:
        pool = self.kv.blocks
        generations = pool.generations(blocks) if self.dice.one_in(2) else None
        self.both(
            f"touch {blocks}",
            lambda: pool.touch(blocks, generations),
            lambda _: self.o.touch(blocks),
        )

    def free(self) -> None:
        hands = [block for block, parent in self.o.parents.items() for _ in range(2)]
        blocks = [self.dice.pick([*hands, *self.lent, 0]) for _ in range(self.dice.below(3))]
        blocks.sort(key=lambda b: b in self.o.pool.blocks and self.o.pool.blocks[b].depth)
        self.free_blocks(blocks)

    def free_blocks(self, blocks: list[int]) -> None:
        refused = self.refusals
        self.both(
            f"free {blocks}",
            lambda: self.kv.blocks.free(blocks),
            lambda _: self.o.free(blocks),
        )
        if self.refusals == refused:
            self.lent = [block for block in self.lent if block not in blocks]

    # --- what can be asked --------------------------------------------------------------------

    def ask_about(self) -> None:
        """All that can be asked of a sequence, and of a block."""
        block = self.dice.below(self.o.pool.total)
        told = self.kv.blocks.owners(block)
        self.same(
            f"owners of {block}", (*told[:1], sorted(told[1]), *told[2:4]), self.o.owners(block)
        )
        self.same(
            "tickets", [tuple(row) for row in self.kv.inspect.tickets()], self.o.outstanding()
        )
        self.same("live", sorted(self.kv.inspect.running().tolist()), sorted(self.o.seqs))
        seq = self.seq()
        if seq is None:
            return
        s, kv = self.o.live(seq), self.kv
        self.same("readable", kv.inspect.num_readable_tokens(seq), views.readable(self.o, s))
        unkeyed = [blocks.tolist() for blocks in kv.blocks.unhashed_blocks(seq)]
        self.same("unkeyed", unkeyed, views.unkeyed(self.o, s))
        self.same("usage", kv.stats.request_usage(seq)._asdict(), vars(s.usage))
        for group in range(self.groups):
            seen = kv.inspect.visible_range(seq, group)
            told_sight = [tuple(v) for v in seen.visible], [tuple(m) for m in seen.masked]
            self.same("sight", (*told_sight, seen.blocks), views.sight(self.o, s, group))
        stop = self.dice.below(s.slots + 2)
        start, group = self.dice.below(stop + 1), self.dice.below(self.groups + 1)

        def model(told: tuple[list[int], int, int] | None) -> None:
            self.same("pages", told, views.pages(self.o, seq, start, stop, group))

        def pages() -> tuple[list[int], int, int]:
            blocks, offset, last = kv.inspect.pages(seq, start, stop, group)
            return blocks.tolist(), offset, last

        self.both(f"pages {seq:#x} {start} to {stop} of {group}", pages, model)

    def fits(self) -> None:
        ask = self.ask()
        request = self.request(ask)
        fit = self.both(
            f"fits {ask}", lambda: self.kv.can_allocate(request), lambda _: self.o.fits(ask)
        )
        if fit is not None:
            before = self.refusals
            came = self.come(request, ask)
            assert (fit == AllocStatus.OK) == came, (
                f"{fit}, but it {'came' if came else 'did not come'}"
            )
            assert came or self.refusals > before

    def tabulate(self) -> None:
        """Tables, slots and lengths of some sequences, as kernels take them."""
        seqs = [seq for seq in self.o.seqs if self.dice.one_in(2)]
        group = self.dice.below(self.groups)
        kind, kv = self.o.kinds[group], self.kv
        pad, start = -3 - self.dice.below(2), self.dice.below(2)
        tables = [[-1 if b is None else b for b in self.o.live(s).tables[group]] for s in seqs]
        gap = 0 if self.setup.null else -1
        tables = [[gap if b == -1 else b for b in table] for table in tables]
        out = np.full((len(seqs) + 1, 64), -9, np.int32)
        kv.block_tables(seqs, out, group=group, pad=pad, start=[start] * len(seqs))
        for row, table in zip(out.tolist(), tables, strict=False):
            wanted = [*table, *[pad] * (64 - len(table))]
            self.same("table", row[start:], wanted[start:])
            assert row[:start] == [-9] * start, "what was kept is written"
        indptr, blocks = np.zeros(len(seqs) + 1, np.int32), np.full(400, -9, np.int32)
        wrote = kv.block_tables(seqs, blocks, indptr=indptr, group=group)
        self.same("ragged", wrote.tolist(), [b for table in tables for b in table])
        self.same("offsets", indptr.tolist(), np.cumsum([0, *map(len, tables)]).tolist())
        lengths = np.zeros(len(seqs), np.int64)
        kv.block_tables(seqs, seq_lens=lengths)
        self.same("lengths", lengths.tolist(), [self.o.live(s).slots for s in seqs])
        if kind.cross:
            return
        starts = [max(self.o.live(s).slots - 3, 0) for s in seqs]
        counts = [self.o.live(s).slots - at for s, at in zip(seqs, starts, strict=True)]
        slots = np.full(sum(counts), -9, np.int64)
        if any(
            self.o.live(s).tables[group][t // kind.span] is None
            for s, at, n in zip(seqs, starts, counts, strict=True)
            for t in range(at, at + n)
        ):
            return
        mapped = kv.slot_mapping(seqs, starts, counts, slots, group=group)
        self.same("slots", len(mapped), sum(counts))
        wanted_slots = [
            table[t // kind.span] * kind.span + t % kind.span
            for table, at, n in zip(tables, starts, counts, strict=True)
            for t in range(at, at + n)
        ]
        self.same("slots", slots.tolist(), wanted_slots)
