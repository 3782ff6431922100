"""The batched step, and calls that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import CapacityError, Request, StepResult

from .admission import Told
from .rules_hands import HandRules
from .step import Call, Out, Pairs, run


@dataclass
class Buffers:
    """What a step writes into."""

    rows: list[int]
    """Of the tables, the one for each that is appended to."""
    tables: list[npt.NDArray[np.int32]]
    slots: list[npt.NDArray[np.int64]]


class StepRules(HandRules):
    """A step of many parts."""

    def step(self) -> None:
        """All parts of a step at once, each in its turn wrong."""
        self.take_plan()
        call = self.call()
        if self.dice.one_in(8):
            self.spoil(call)
        self.compute_all(call)
        for ticket in [*call.done, *call.failed]:
            self.plane.before(ticket)
        self.plane.run(len(self.plane.queue) - 1)
        fenced = self.fenced(call)
        requests = [self.request(ask) for ask in call.admit]
        buffers = self.buffers(call)
        out: list[Out] = []

        def model(stepped: StepResult | None) -> None:
            forks = [] if stepped is None else stepped.forks
            out.append(run(self.o, call, forks, self.came_in(call, stepped)))

        stepped = self.both(f"step {call}", lambda: self.make(call, requests, buffers), model)
        self.plane.take_back(stepped is None)
        if stepped is None:
            return
        for ticket in [*call.done, *call.failed, *(ticket for ticket, _ in call.loaded)]:
            self.plane.fates.pop(ticket, None)
            if ticket in self.plane.loads:
                self.plane.land(ticket)
        self.plane.fenced = [
            (f, kept)
            for f, kept in [*self.plane.fenced, *fenced]
            if f > max(call.passed or 0, self.o.passed)
        ]
        self.compare(stepped, out[0])
        self.check_buffers(call, stepped, buffers)
        self.follow(call, stepped, out[0])
        for grant in stepped.allocations:
            if grant is not None:
                self.came(grant)
        self.keep(stepped.plan)

    def compute_all(self, call: Call) -> None:
        """The model runs once, also where a wrong step names a sequence twice; and it knows the ids
        that the step brings.
        """
        before = {seq: list(s.tokens) for seq, s in self.o.seqs.items()}
        for seq, ids in call.fill:
            s = self.o.seqs.get(seq)
            if s is not None and len(ids) <= len(s.tokens) - s.filled:
                s.tokens[s.filled : s.filled + len(ids)] = ids
        for seq, upto in dict(call.commit).items():
            if seq in self.o.seqs:
                self.compute(seq, upto)
        for seq, tokens in before.items():
            self.o.seqs[seq].tokens[:] = tokens

    def follow(self, call: Call, stepped: StepResult, out: Out) -> None:
        """What the manager is still to be told, and what comes back later."""
        for seq, tokens in call.fill:
            del self.coming[seq][: len(tokens)]
        for seq, child in zip(call.fork, stepped.forks, strict=True):
            self.coming[child] = list(self.coming[seq])
            self.plane.epochs[child] = self.plane.epochs[seq]
        for seq in self.o.seqs:
            if seq in self.coming:
                missing = len(self.o.live(seq).tokens) - self.o.live(seq).filled
                self.coming[seq] += self.dice.bits(max(missing - len(self.coming[seq]), 0))
                self.was_cut(seq)
        for request, ask in zip(stepped.preempted, out.preempted, strict=True):
            self.same("length", len(request), len(ask.tokens))
            if not ask.keys_only:
                self.preempted = [*self.preempted[-3:], (request, ask)]

    def call(self) -> Call:
        dice, call = self.dice, Call()
        self.settling(call)
        if dice.one_in(2):
            self.in_flight += 1
            call.fence = self.in_flight if dice.one_in(2) else None
            call.passed = max(self.in_flight - dice.below(4), 0)
        call.unknown = dice.one_in(4)
        for seq in [s for s in self.o.seqs if dice.one_in(2)]:
            self.part(call, seq)
        if len(self.o.seqs) < 6:
            call.admit = [self.ask() for _ in range(dice.below(3))]
        if dice.one_in(3):
            call.token_budget = dice.below(4 * self.size)
        if dice.one_in(4):
            call.batch_tokens = dice.below(5 * self.size)
        call.skip_refused = dice.one_in(3)
        return call

    def settling(self, call: Call) -> None:
        """Some of the tickets that are due."""
        fates = list(self.plane.fates.items())
        settled = fates[: self.dice.below(len(fates) + 1)]
        call.done = [t for t, failed in settled if not failed]
        call.failed = [t for t, failed in settled if failed]
        for ticket, load in self.plane.loads.items():
            match self.dice.below(6):
                case 3 if load.good == load.rows:
                    call.done.append(ticket)
                case 3 if load.good == 0:
                    call.failed.append(ticket)
                case 4 | 5:
                    call.loaded.append((ticket, load.good))
                case _:
                    pass

    def part(self, call: Call, seq: int) -> None:
        """What a step does with one sequence."""
        dice, s = self.dice, self.o.live(seq)
        length = s.slots
        if dice.one_in(4):
            length = max(s.slots - dice.below(5), 0)
            call.truncate.append((seq, length))
        missing = min(len(s.tokens), length) - min(s.filled, length)
        came = min(dice.below(4), missing)
        if came:
            call.fill.append((seq, self.coming[seq][:came]))
        if dice.one_in(2):
            upto = min(length, s.filled + came)
            call.commit.append((seq, max(upto, min(s.committed, length))))
        if dice.one_in(8) and len(self.o.seqs) < 8:
            call.fork.append(seq)
        match dice.below(6):
            case 0 | 1:
                call.append.append((seq, dice.bits(dice.below(4))))
            case 2:
                until = s.slots + dice.below(len(s.tokens) - s.slots + 1)
                call.extend.append((seq, until))
            case 3:
                call.release.append(seq)
            case 4 if dice.one_in(2):
                call.preempt.append(seq)
            case _:
                pass

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
            lambda: call.append.extend([(live, [1]), (live, [1])]),
            lambda: call.extend.extend([(live, slots), (live, slots)]),
            lambda: call.extend.append((stale, 1)),
            lambda: call.preempt.append(live),
            lambda: call.fork.append(stale),
            lambda: call.fill.append((live, [0] * (len(self.coming.get(live, [])) + 1))),
            lambda: call.loaded.append((10**9, 0)),
        ]
        self.dice.pick(wrong)()

    def make(self, call: Call, requests: list[Request], buffers: Buffers) -> StepResult:
        def pairs(of: Pairs) -> tuple[list[int], list[int]]:
            return [seq for seq, _ in of], [length for _, length in of]

        fills = [seq for seq, _ in call.fill], [len(ids) for _, ids in call.fill]
        return self.kv.step(
            done=call.done,
            failed=call.failed,
            loaded=pairs(call.loaded),
            truncate=pairs(call.truncate),
            fill=(*fills, [token for _, ids in call.fill for token in ids]),
            commit=pairs(call.commit),
            fork=call.fork,
            release=call.release,
            preempt=call.preempt,
            fence=call.fence,
            passed=call.passed,
            append=[seq for seq, _ in call.append],
            counts=[len(tokens) for _, tokens in call.append],
            tokens=None if call.unknown else [t for _, tokens in call.append for t in tokens],
            extend=pairs(call.extend),
            allocate=requests,
            token_budget=call.token_budget,
            batch_tokens=call.batch_tokens,
            skip_refused=call.skip_refused,
            tables=buffers.tables,
            slots=buffers.slots,
            rows=buffers.rows,
        )

    def came_in(self, call: Call, stepped: StepResult | None) -> Callable[[int], Told]:
        def came(i: int) -> Told:
            grant = None if stepped is None else stepped.allocations[i]
            if stepped is None or grant is None:
                # Looked up after the step, unless that has changed what is found.
                later = any(stepped.allocations[i:]) if stepped else True
                return Told() if later else self.told(call.admit[i])
            tables = self.tables(grant.seq)
            told = Told(grant.seq, grant.load, tables)
            tail = grant.cached_tokens % self.size
            if self.setup.partial and tail and stepped.plan:
                # Copied from the blocks that were found.
                mine = [table[grant.cached_tokens // self.size] for table in tables]
                copies = {dst: src for src, dst, *_ in stepped.plan.copies.tolist()}
                told.tail = [copies[block] for block in mine]
            return told

        return came

    def compare(self, stepped: StepResult, out: Out) -> None:
        for grant, wanted in zip(stepped.allocations, out.grants, strict=True):
            assert (grant is None) == (wanted is None), f"{grant}, but must be {wanted}"
            if grant is not None and wanted is not None:
                self.same_grant(grant, wanted)
        self.same_remaps(stepped.remapped, out.remapped)
        self.same("rewound", stepped.rewound, out.rewound)
        places = [(verb, place) for verb, place, _ in stepped.refused]
        self.same("refused", places, [(verb, place) for verb, place, _ in out.refused])
        self.short += sum(kind is CapacityError for _, _, kind in out.refused)
        for (_, _, error), (_, _, kind) in zip(stepped.refused, out.refused, strict=True):
            assert isinstance(error, kind), f"not {kind}, but {error!r}"
        self.refusals += len(places)
        self.same("extended", stepped.extended.tolist(), out.extended)
        for reason, reasons in zip(stepped.reasons.tolist(), out.reasons, strict=True):
            assert reason in reasons, f"for reason {reason}, not {reasons}"

    def fenced(self, call: Call) -> list[Any]:
        """What the sequences that end here had computed. Not what a commit of the same step lets
        leave a window: no step in flight looks back that far.
        """
        passed = max(call.passed or 0, self.o.passed)
        if call.fence is None or call.fence <= passed:
            return []
        cuts = [s for s, _ in call.truncate]
        ends = [s for s in [*call.release, *call.preempt] if s in self.o.seqs and s not in cuts]
        ended = [self.o.seqs[s] for s in ends]
        return [(call.fence, self.plane.keep(s, s.committed, windows=False)) for s in ended]

    def buffers(self, call: Call) -> Buffers:
        """Block tables as they were before, in rows of the engine's own, and room for slots."""
        seqs = [seq for seq, _ in call.append]
        spare = self.dice.below(3)
        rows = list(range(len(seqs) + spare))
        rows = [rows.pop(self.dice.below(len(rows))) for _ in seqs]
        tables = [np.full((len(seqs) + spare, 64), -5, np.int32) for _ in range(self.groups)]
        for row, seq in zip(rows, seqs, strict=True):
            for group, table in enumerate(self.o.seqs[seq].tables if seq in self.o.seqs else []):
                tables[group][row, : len(table)] = [-1 if b is None else b for b in table]
        count = sum(len(tokens) for _, tokens in call.append)
        return Buffers(rows, tables, [np.full(count, -7, np.int64) for _ in range(self.groups)])

    def check_buffers(self, call: Call, stepped: StepResult, buffers: Buffers) -> None:
        """Tables are what they are now, where they are not behind a window; slots say where."""
        refused = {place for verb, place, _ in stepped.refused if verb == "append"}
        at = 0
        for i, (seq, tokens) in enumerate(call.append):
            if i in refused or seq in stepped.rewound:
                at += len(tokens)
                continue
            s = self.o.live(seq)
            for group, table in enumerate(s.tables):
                told = buffers.tables[group][buffers.rows[i], : len(table)].tolist()
                now = [-1 if b is None else b for b in table]
                same = [a == b for a, b in zip(told, now, strict=True) if b >= 0]
                assert all(same), f"table {told}, but it is {now}"
                span = self.o.kinds[group].span
                if self.o.kinds[group].cross:
                    assert (buffers.slots[group][at : at + len(tokens)] == -1).all()
                    continue
                for k in range(len(tokens)):
                    row, offset = divmod(s.slots - len(tokens) + k, span)
                    self.same("slot", buffers.slots[group][at + k], now[row] * span + offset)
            at += len(tokens)
        for rows in buffers.tables:
            spare = [row for i, row in enumerate(rows.tolist()) if i not in buffers.rows]
            assert all(set(row) == {-5} for row in spare), "a row that was not named is written"
