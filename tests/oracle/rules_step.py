"""The batched step, and calls that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kvframe import Request, Stepped

from .rules_pool import PoolRules
from .sequence import Ask
from .step import Call, Came, Out, Pairs, run

WEIGHTS = {
    "admit": 20,
    "append": 11,
    "extend": 6,
    "commit": 18,
    "truncate": 6,
    "fork": 5,
    "release": 9,
    "step": 10,
    "append_unknown": 5,
    "fill": 5,
    "preempt": 3,
    "resume": 6,
    "plan": 3,
    "settle": 7,
    "settle_load": 6,
    "lease": 3,
    "end_lease": 3,
    "let_pass": 3,
    "lend": 3,
    "give_back": 3,
    "clear": 1,
    "new_weights": 1,
    "resize": 2,
    "collect": 1,
    "sleep": 2,
    "order": 2,
    "lookup": 3,
    "misuse": 5,
}


class AllRules(PoolRules):
    """Every rule."""

    def step(self) -> None:
        """All parts of a step at once, each in its turn wrong."""
        self.take_plan()
        call = self.call()
        if self.dice.one_in(8):
            self.spoil(call)
        # The model runs once, also where a wrong step names a sequence twice.
        for seq, upto in dict(call.commit).items():
            if seq in self.o.seqs:
                self.compute(seq, upto)
        for ticket in [*call.done, *call.failed]:
            self.plane.before(ticket)
        self.plane.run(len(self.plane.queue) - 1)
        fenced = self.fenced(call)
        requests = [self.request(ask) for ask in call.admit]
        rows, slots = self.buffers(call)
        out: list[Out] = []
        stepped = self.both(
            f"step {call}",
            lambda: self.make(call, requests, rows, slots),
            lambda stepped: out.append(run(self.o, call, self.came_in(call, stepped))),
        )
        self.plane.take_back(stepped is None)
        if stepped is None:
            return
        for ticket in [*call.done, *call.failed]:
            del self.plane.fates[ticket]
        self.plane.fenced = [
            (f, kept)
            for f, kept in [*self.plane.fenced, *fenced]
            if f > max(call.passed or 0, self.o.passed)
        ]
        self.compare(stepped, out[0])
        self.check_buffers(call, stepped, rows, slots)
        for seq in self.o.seqs:
            if seq in self.coming:
                self.was_cut(seq)
        for grant in stepped.grants:
            if grant is not None:
                self.came(grant)
        self.keep(stepped.plan)

    def call(self) -> Call:
        dice, call = self.dice, Call()
        seqs = [s for s in self.o.seqs if dice.one_in(2)]
        fates = list(self.plane.fates.items())
        settled = fates[: dice.below(len(fates) + 1)]
        call.done = [t for t, failed in settled if not failed]
        call.failed = [t for t, failed in settled if failed]
        if dice.one_in(2):
            self.in_flight += 1
            call.fence = self.in_flight if dice.one_in(2) else None
            call.passed = max(self.in_flight - dice.below(4), 0)
        for seq in seqs:
            s = self.o.live(seq)
            length = s.slots
            if dice.one_in(4):
                length = max(s.slots - dice.below(5), 0)
                call.truncate.append((seq, length))
            if dice.one_in(2):
                upto = min(length, s.filled)
                call.commit.append((seq, max(upto, min(s.committed, length))))
            match dice.below(5):
                case 0 | 1:
                    call.append.append((seq, dice.bits(dice.below(4))))
                case 2:
                    until = s.slots + dice.below(len(s.tokens) - s.slots + 1)
                    call.extend.append((seq, until))
                case 3:
                    call.release.append(seq)
                case _:
                    pass
        if len(self.o.seqs) < 6:
            call.admit = [self.ask() for _ in range(dice.below(3))]
        if dice.one_in(3):
            call.token_budget = dice.below(4 * self.size)
        call.skip_refused = dice.one_in(3)
        return call

    def spoil(self, call: Call) -> None:
        """One thing wrong: nothing at all may be done."""
        stale = self.dice.pick([*self.o.ended[-3:], 99])
        live = self.dice.pick([*self.o.seqs, stale])
        slots = self.o.seqs[live].slots if live in self.o.seqs else 0
        wrong: list[Callable[[], None]] = [
            lambda: call.release.append(stale),
            lambda: call.done.append(10**9),
            lambda: call.append.append((stale, [1])),
            lambda: call.truncate.append((live, slots + 1)),
            lambda: call.release.extend([live, live]),
            lambda: call.commit.append((live, slots + 1)),
            lambda: call.commit.extend([(live, slots), (live, slots)]),
            lambda: call.extend.append((stale, 1)),
        ]
        self.dice.pick(wrong)()

    def make(self, call: Call, requests: list[Request], rows: Any, slots: Any) -> Stepped:
        def pairs(of: Pairs) -> tuple[list[int], list[int]]:
            return [seq for seq, _ in of], [length for _, length in of]

        return self.kv.step(
            done=call.done,
            failed=call.failed,
            truncate=pairs(call.truncate),
            commit=pairs(call.commit),
            release=call.release,
            fence=call.fence,
            passed=call.passed,
            append=[seq for seq, _ in call.append],
            counts=[len(tokens) for _, tokens in call.append],
            tokens=[token for _, tokens in call.append for token in tokens],
            extend=pairs(call.extend),
            admit=requests,
            token_budget=call.token_budget,
            skip_refused=call.skip_refused,
            tables=rows,
            slots=slots,
        )

    def came_in(self, call: Call, stepped: Stepped | None) -> Callable[[int], Came]:
        def came(i: int) -> Came:
            grant = None if stepped is None else stepped.grants[i]
            if grant is None:
                # Looked up after the step, unless that has changed what is found.
                later = any(stepped.grants[i:]) if stepped else True
                return None if later else self.hits(call.admit[i]), None, None
            rows = self.o.rows(grant.cached_tokens)
            tables = zip(self.tables(grant.seq), rows, strict=True)
            return [table[:count] for table, count in tables], grant.seq, grant.load

        return came

    def compare(self, stepped: Stepped, out: Out) -> None:
        grants = [None if g is None else tuple(g)[1:4] for g in stepped.grants]
        self.same("grants", grants, out.grants)
        self.same("rewound", stepped.rewound, out.rewound)
        places = [(verb, place) for verb, place, _ in stepped.refused]
        self.same("refused", places, [(verb, place) for verb, place, _ in out.refused])
        for (_, _, error), (_, _, kind) in zip(stepped.refused, out.refused, strict=True):
            assert isinstance(error, kind), f"not {kind}, but {error!r}"
        self.refusals += len(places)

    def fenced(self, call: Call) -> list[Any]:
        """What the sequences that end here had computed. Not what a commit of the same step lets
        leave a window: no step in flight looks back that far.
        """
        passed = max(call.passed or 0, self.o.passed)
        if call.fence is None or call.fence <= passed:
            return []
        cuts = [s for s, _ in call.truncate]
        ended = [self.o.seqs[s] for s in call.release if s in self.o.seqs and s not in cuts]
        return [(call.fence, self.plane.keep(s, s.committed, windows=False)) for s in ended]

    def buffers(self, call: Call) -> tuple[Any, Any]:
        """Block tables as they were before, and room for slots."""
        seqs = [seq for seq, _ in call.append]
        rows = [np.full((len(seqs), 64), -5, np.int32) for _ in range(self.groups)]
        for i, seq in enumerate(seqs):
            for group, table in enumerate(self.o.seqs[seq].tables if seq in self.o.seqs else []):
                rows[group][i, : len(table)] = [-1 if b is None else b for b in table]
        count = sum(len(tokens) for _, tokens in call.append)
        return rows, [np.full(count, -7, np.int64) for _ in range(self.groups)]

    def check_buffers(self, call: Call, stepped: Stepped, rows: Any, slots: Any) -> None:
        """Tables are what they are now, where they are not behind a window; slots say where."""
        refused = {place for verb, place, _ in stepped.refused if verb == "append"}
        again = [seq for seq, _ in call.append]
        at = 0
        for i, (seq, tokens) in enumerate(call.append):
            if i in refused or again.count(seq) > 1 or seq in stepped.rewound:
                at += len(tokens)
                continue
            s = self.o.live(seq)
            for group, table in enumerate(s.tables):
                told = rows[group][i, : len(table)].tolist()
                now = [-1 if b is None else b for b in table]
                same = [a == b for a, b in zip(told, now, strict=True) if b >= 0]
                assert all(same), f"table {told}, but it is {now}"
                span = self.o.kinds[group].span
                for k in range(len(tokens)):
                    row, offset = divmod(s.slots - len(tokens) + k, span)
                    self.same("slot", slots[group][at + k], now[row] * span + offset)
            at += len(tokens)

    # --- misuse -------------------------------------------------------------------------------

    def misuse(self) -> None:
        """Typed errors; nothing changes, as `check` then finds."""
        stale = self.dice.pick([*self.o.ended[-3:], 99])
        o, kv = self.o, self.kv
        wrong: list[tuple[str, Callable[[], Any], Callable[[Any], Any]]] = [
            ("release", lambda: kv.release(stale), lambda _: o.release(stale)),
            ("commit", lambda: kv.commit(stale, 0), lambda _: o.commit(stale, 0)),
            ("fork", lambda: kv.fork(stale), lambda _: o.fork(stale, 0)),
            ("append", lambda: kv.append(stale, [1]), lambda _: o.append(stale, [1])),
            ("lease", lambda: kv.lease(stale, 0), lambda _: o.lease(stale, 0, 0)),
            ("fill", lambda: kv.fill(stale, []), lambda _: o.fill(stale, [])),
            ("preempt", lambda: kv.preempt(stale), lambda _: o.preempt(stale)),
            ("done", lambda: kv.done(10**9), lambda _: o.done(10**9)),
            ("failed", lambda: kv.failed(0), lambda _: o.failed(0)),
            ("loaded", lambda: kv.loaded(10**9, 0), lambda _: o.loaded(10**9, 0)),
        ]
        never = Ask(tuple(self.dice.bits(8)), max_tokens=10**6)
        name, call, model = self.dice.pick(wrong)
        self.both(f"{name} {stale:#x}", call, model)
        self.come(self.request(never), never)

    def settle_all(self) -> None:
        """Everything ends: nothing may be left behind."""
        self.take_plan()
        while self.plane.fates:
            self.settle()
        while self.plane.loads:
            self.settle_load()
        while self.plane.leases:
            self.end_lease()
        while self.o.seqs:
            self.release()
        self.in_flight += 4
        while self.o.fences:
            self.let_pass()
        self.both(
            "give back",
            lambda: self.kv.give_back(np.array(self.lent, np.int32)),
            lambda _: self.o.give_back(self.lent),
        )
        self.lent = []
        self.check()
        self.clear()
        self.check()
        assert self.kv.counts().free == self.o.pool.usable, "blocks leaked"
