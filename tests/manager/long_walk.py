"""The walk with all that is promised over time: loads, leases, fences, preemption, resizing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kvframe import Grant, Request

from .helpers import state
from .walk import Live, Walk

Kept = list[tuple[int, int]]
"""Blocks with their generations when they were promised to stay."""


@dataclass
class Load:
    """Blocks that somebody else fills: a row a block, in it a page of every group."""

    ticket: int
    start: int
    rows: list[list[int]]
    good: int
    kept: Kept
    heads: list[Any]
    """What each row is asked to hold, whatever becomes of the sequence."""

    def held(self, tables: list[list[int]]) -> int:
        """How many of the good blocks, from the first on, a sequence has."""
        count = 0
        for at, row in enumerate(self.rows[: self.good], self.start):
            if not all(
                table[at : at + 1] == [page] for table, page in zip(tables, row, strict=True)
            ):
                break
            count += 1
        return count


@dataclass
class LongWalk(Walk):
    """What was promised is looked at after every step: nobody else got it."""

    loads: list[Load] = field(default_factory=list)
    leases: list[tuple[int, Kept]] = field(default_factory=list)
    fenced: list[tuple[int, Kept]] = field(default_factory=list)
    preempted: list[tuple[Request, Live]] = field(default_factory=list)
    steps: int = 0
    passed: int = 0

    def verbs(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            *super().verbs(),
            (6, self.append_unknown),
            (5, self.fill),
            (5, self.settle_load),
            (4, self.preempt),
            (6, self.resume),
            (3, self.lease),
            (3, self.end_lease),
            (3, self.let_pass),
            (2, self.resize),
            (1, self.collect),
            (1, self.new_weights),
            (2, self.order),
        ]

    def kept(self, blocks: Iterable[int]) -> Kept:
        core = self.kv._core
        return [(block, core.block_state(block)[1]) for block in blocks if block >= 0]

    def tables(self, seq: int) -> list[list[int]]:
        return [self.kv.block_table(seq, group).tolist() for group in range(self.groups)]

    def check(self) -> None:
        super().check()
        core = self.kv._core
        loads = [(0, load.kept) for load in self.loads]
        for _, kept in [*self.leases, *self.fenced, *loads]:
            for block, generation in kept:
                name, now, owners = core.block_state(block)
                assert (now, owners > 0) == (generation, True), f"{block} is {name}"
        assert all(core.block_state(b)[0] == "pending" for _, kept in loads for b, _ in kept)

    # --- tokens without ids -----------------------------------------------------------------------

    def append_unknown(self) -> None:
        seq = self.pick()
        if seq is not None:
            ids = [self.dice.randrange(2) for _ in range(self.dice.randrange(5))]
            if self.attempt(lambda: self.kv.append_unknown(seq, len(ids))):
                self.live[seq].grow(ids)
                self.live[seq].unknown += ids

    def fill(self) -> None:
        seq = self.pick()
        if seq is not None:
            unknown = self.live[seq].unknown
            count = self.dice.randint(0, len(unknown))
            assert not self.attempt(lambda: self.kv.fill(seq, [0] * (len(unknown) + 1)))
            self.kv.fill(seq, unknown[:count])
            del unknown[:count]

    # --- from elsewhere, and to there -------------------------------------------------------------

    def external(self, length: int, found: int) -> int:
        if self.dice.random() < 0.03:
            return self.dice.randint(1, 9)
        most = max(length - 1 - found, 0) // self.size
        return self.dice.randint(0, most) * self.size if self.dice.random() < 0.3 else 0

    def came_in(self, grant: Grant, live: Live, external: int) -> None:
        super().came_in(grant, live, external)
        start, left = grant.cached_tokens // self.size, grant.granted_tokens - grant.cached_tokens
        count = min(external, left) // self.size
        assert (grant.load is not None) == (count > 0)
        if grant.load is None:
            return
        tables = self.tables(grant.seq)
        rows = [[table[i] for table in tables] for i in range(start, start + count)]
        good = self.dice.choice([count, count, self.dice.randint(0, count)])
        kept = self.kept(page for row in rows for page in row)
        heads = [live.head((i + 1) * self.size) for i in range(start, start + count)]
        self.loads.append(Load(grant.load, start, rows, good, kept, heads))

    def settle_load(self) -> None:
        if not self.loads:
            return
        load = self.loads.pop(self.dice.randrange(len(self.loads)))
        assert not self.attempt(lambda: self.kv.loaded(load.ticket, len(load.rows) + 1))
        lost = {page for row in load.rows[load.good :] for page in row}
        tables = {seq: self.tables(seq) for seq in self.live}
        cut = sorted(s for s, t in tables.items() if lost & {b for table in t for b in table})
        for at, row in enumerate(load.rows[: load.good], load.start):
            for group, page in enumerate(row):
                # What has landed is what was asked for, whatever became of the sequence.
                self.content[group, page] = load.heads[at - load.start]
        assert self.kv.loaded(load.ticket, load.good) == cut
        for seq, had in tables.items():
            lengths, held = self.kv.lengths(seq), load.held(had)
            if held and lengths.slots:
                assert lengths.committed >= (load.start + held) * self.size

    def lease(self) -> None:
        seq = self.pick()
        if seq is None:
            return
        committed = self.kv.lengths(seq).committed
        assert not self.attempt(lambda: self.kv.lease(seq, committed + 1))
        upto = self.dice.randint(0, committed)
        blocks = {b for table in self.tables(seq) for b in table[: -(-upto // self.size)]}
        loading = {page for load in self.loads for row in load.rows for page in row}
        tickets: list[int] = []
        done = self.attempt(lambda: tickets.append(self.kv.lease(seq, upto)))
        assert done == (not blocks & loading)
        if done:
            self.leases.append((tickets[0], self.kept(blocks)))

    def end_lease(self) -> None:
        if self.leases:
            ticket, _ = self.leases.pop(self.dice.randrange(len(self.leases)))
            self.kv.done(ticket)

    # --- steps in flight --------------------------------------------------------------------------

    def release(self) -> None:
        seq = self.pick()
        if seq is None:
            return
        victims = self.kv.preemption_order([seq])
        fence, had = self.fence(seq), self.kv.counts()
        self.kv.release(seq, fence=fence)
        now = self.kv.counts()
        gained = now.free + now.cached - had.free - had.cached
        waits = fence is not None and fence > self.passed
        assert gained == (0 if waits or not victims else victims[0].frees)
        self.ended(seq)

    def ended(self, seq: int) -> Live:
        self.gone.append(seq)
        return self.live.pop(seq)

    def fence(self, seq: int) -> int | None:
        if self.dice.random() < 0.7:
            return None
        self.steps += 1
        fence = self.steps - self.dice.randrange(3)
        if fence < 1:
            return None
        if fence > self.passed:
            blocks = {b for table in self.tables(seq) for b in table}
            self.fenced.append((fence, self.kept(blocks)))
        return fence

    def fences(self) -> dict[str, Any]:
        if self.dice.random() < 0.5:
            return {}
        passed = max(self.steps - self.dice.randrange(3), 0)
        self.has_passed(passed)
        return {"fence": self.steps + 1, "passed": passed}

    def has_passed(self, step: int) -> None:
        self.passed = max(self.passed, step)
        self.fenced = [(fence, kept) for fence, kept in self.fenced if fence > step]

    def let_pass(self) -> None:
        step = max(self.steps - self.dice.randrange(4), 0)
        self.keep(self.kv.step(passed=step).plan)
        self.has_passed(step)

    def preempt(self) -> None:
        seq = self.pick()
        if seq is not None:
            request = self.kv.preempt(seq, fence=self.fence(seq))
            live = self.ended(seq)
            live.cut(live.filled)
            assert len(request) == len(live.words)
            self.preempted.append((request, live))
            del self.preempted[:-4]

    def resume(self) -> None:
        if not self.preempted:
            return
        at = self.dice.randrange(len(self.preempted))
        request, live = self.preempted[at]
        grants: list[Grant] = []
        before = self.kv.stats()
        if self.attempt(lambda: grants.append(self.kv.admit(request))):
            del self.preempted[at]
            live.epoch = self.epoch
            self.came_in(grants[0], live, 0)
            stats = self.kv.stats()
            assert stats["resumed"] == before["resumed"] + 1
            assert stats["hit_tokens"] == before["hit_tokens"]

    def order(self) -> None:
        order = self.kv.preemption_order(list(self.live))
        assert [v.computed for v in order] == sorted(v.computed for v in order)
        assert all(v.frees > 0 for v in order)

    # --- the pool ---------------------------------------------------------------------------------

    def resize(self) -> None:
        total = self.kv.counts().total
        blocks = self.dice.randint(max(total - 3, 16), min(total + 3, 32))
        core = self.kv._core
        names = [core.block_state(b)[0] for b in range(blocks, total)]
        done = self.attempt(lambda: self.kv.resize(blocks))
        assert done == all(name in ("free", "cached") for name in names)
        assert self.kv.counts().total == (blocks if done else total)

    def collect(self) -> None:
        free, cached, _, total = self.kv.counts()
        wanted = self.dice.randint(0, total)
        gone = self.kv.collect(wanted)
        assert gone == min(max(wanted - free, 0), cached)
        assert self.kv.counts().free == free + gone

    def new_weights(self) -> None:
        cached = self.kv.counts().cached
        assert self.kv.set_fingerprint(self.dice.choice(["", "a", "b"])) == cached
        self.epoch += 1
        before = state(self.kv, self.live)
        assert self.kv.lookup(self.text()).tokens == 0
        assert state(self.kv, self.live) == before

    def settle_promises(self) -> None:
        while self.loads:
            self.settle_load()
            self.check()
        while self.leases:
            self.end_lease()
            self.check()
        self.steps += 4
        self.kv.step(passed=self.steps)
        self.has_passed(self.steps)
        self.check()
