"""Rules on tickets, fences and the pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvframe import MMItem

from .rules import Rules
from .sequence import Ask

TALL = 10**9


class PoolRules(Rules):
    """What is settled late, and what concerns everybody."""

    # --- tickets ------------------------------------------------------------------------------

    def plan(self) -> None:
        self.take_plan()

    def settle(self) -> None:
        """Any plan, in any order; one that failed may have been read before that is known."""
        self.take_plan()
        if not self.plane.fates:
            return
        ticket = self.dice.pick(list(self.plane.fates))
        self.plane.before(ticket)
        if self.plane.fates.pop(ticket):
            self.fail(ticket)
        else:
            self.both(f"done {ticket}", lambda: self.kv.done(ticket), lambda _: self.o.done(ticket))

    def fail(self, ticket: int) -> None:
        self.both(
            f"failed {ticket}",
            lambda: self.kv.failed(ticket),
            lambda cut: self.same("cut", cut, self.o.failed(ticket)),
        )

    def settle_load(self) -> None:
        if not self.plane.loads:
            return
        ticket = self.dice.pick(list(self.plane.loads))
        rows = self.plane.loads[ticket].rows
        if self.dice.one_in(8):
            self.both(
                f"loaded {ticket} too much",
                lambda: self.kv.loaded(ticket, rows + 1),
                lambda _: self.o.loaded(ticket, rows + 1),
            )
        good = self.plane.land(ticket)
        if good == 0 and self.dice.one_in(2):
            return self.fail(ticket)
        if good == rows and self.dice.one_in(2):
            self.both(f"done {ticket}", lambda: self.kv.done(ticket), lambda _: self.o.done(ticket))
            return None
        # Groups may come to different lengths: all go as far as the shortest.
        lengths = [good, *[rows] * (self.groups - 1)] if self.dice.one_in(3) else good
        self.both(
            f"loaded {ticket} {lengths} of {rows}",
            lambda: self.kv.loaded(ticket, lengths),
            lambda cut: self.same("cut", cut, self.o.loaded(ticket, good)),
        )
        return None

    def lease(self) -> None:
        seq = self.seq()
        if seq is None:
            return
        self.take_plan()
        self.plane.run(len(self.plane.queue) - 1)
        s = self.o.live(seq)
        upto = max(s.committed + 1 - self.dice.below(s.committed + 2), 0)
        ticket = self.both(
            f"lease {seq:#x} {upto}",
            lambda: self.kv.pins.lease(seq, upto),
            lambda ticket: self.o.lease(seq, upto, ticket),
        )
        if ticket is not None:
            self.plane.leases[ticket] = self.plane.keep(s, upto)

    def end_lease(self) -> None:
        if self.plane.leases:
            ticket = self.dice.pick(list(self.plane.leases))
            del self.plane.leases[ticket]
            self.both(
                f"lease {ticket} ends", lambda: self.kv.done(ticket), lambda _: self.o.done(ticket)
            )

    def let_pass(self) -> None:
        step = max(self.in_flight - self.dice.below(4), 0)
        self.plane.fenced = [(f, kept) for f, kept in self.plane.fenced if f > step]
        stepped = self.both(
            f"pass {step}", lambda: self.kv.step(passed=step), lambda _: self.o.let_pass(step)
        )
        assert stepped is not None
        self.same_changes(stepped.rewound, stepped.remapped)
        self.keep(stepped.plan)

    def take_changes(self) -> None:
        changes = self.kv.log.take_changes()
        self.same_changes(changes.rewound, changes.remapped)

    # --- the pool -----------------------------------------------------------------------------

    def lend(self) -> None:
        out = np.full(self.dice.below(4), -9, np.int32)
        refused = self.refusals
        self.both(
            f"lend {len(out)}",
            lambda: self.kv.blocks.take(out=out),
            lambda _: self.o.lend(out.tolist()),
        )
        if self.refusals > refused:
            assert (out == -9).all(), "refused, and written"
        else:
            self.lent += out.tolist()
            self.plane.pages[out] = 7

    def give_back(self) -> None:
        count = self.dice.below(len(self.lent) + 1)
        back = self.lent[:count]
        match self.dice.below(12):
            case 10:
                back = [*back, *back[:1], TALL]
            case 11 if back:
                back = [*back, back[0]]
            case _:
                pass
        refused = self.refusals
        self.both(
            f"give back {back}",
            lambda: self.kv.blocks.free(np.array(back, np.int32)),
            lambda _: self.o.free(back),
        )
        if self.refusals == refused:
            del self.lent[:count]

    def clear(self) -> None:
        self.both(
            "clear",
            self.kv.reset_prefix_cache,
            lambda gone: self.same("gone", gone, self.o.clear()),
        )
        self.plane.epoch += 1

    def clear_scope(self) -> None:
        # Mostly little of it, or the walk would never run out of blocks.
        adapter, salt, session = self.dice.pick(
            [("s", None, None), (None, "s", None), (None, None, 1), (None, None, 2)] * 4
            + [("", "s", None), ("", "", 1), ("s", "", 2), ("", None, None)]
        )
        self.both(
            f"clear adapter {adapter!r} salt {salt!r} session {session}",
            lambda: self.kv.reset_prefix_cache(lora_name=adapter, cache_salt=salt, session=session),
            lambda gone: self.same("gone", gone, self.o.clear_scope(adapter, salt, session)),
        )
        if session is None:
            self.plane.disown(salt, adapter)

    def new_weights(self) -> None:
        name = self.dice.pick(["", "a", "b"])
        self.both(
            f"fingerprint {name}",
            lambda: self.kv.set_weight_version(name),
            lambda gone: self.same("gone", gone, self.o.clear()),
        )
        if self.o.pool.twin:
            self.o.pool.twin.weights = name
        self.plane.epoch += 1
        self.preempted = [(request, ask) for request, ask in self.preempted if not ask.keys_only]

    def resize(self) -> None:
        total = self.o.pool.total
        blocks = min(max(total - 3 + self.dice.below(7), 0), 40)
        self.both(
            f"resize {blocks}",
            lambda: self.kv.resize(blocks),
            lambda _: self.o.resize(blocks),
        )

    def collect(self) -> None:
        free = self.dice.below(self.o.pool.total + 2)
        self.both(
            f"collect {free}",
            lambda: self.kv.evict_until(free),
            lambda gone: self.same("gone", gone, self.o.collect(free)),
        )

    def sleep(self) -> None:
        self.both("sleep", self.kv.sleep, lambda _: self.o.sleep())
        if self.o.asleep:
            self.plane.epoch += 1
            self.check()
            self.admit()
            self.lend()
            self.kv.wake()
            self.o.asleep = False

    def order(self) -> None:
        rule = self.dice.pick(["fewest-computed", "last-admitted", "lowest-priority"])
        share = self.dice.below(5) / 4 if self.dice.one_in(2) else None
        told = self.kv.pressure.preemption_order(list(self.o.seqs), rule, usage=share)  # type: ignore[arg-type]
        wanted = self.o.preemption_order(rule)
        if share is not None:
            wanted = self.o.preemption_to(rule, share)
        self.same(f"{rule} to {share}", [tuple(v) for v in told], wanted)
        pool = self.o.pool
        usage = (pool.usable - pool.room_to_come()) / pool.usable
        self.same("usage", self.kv.pressure.usage(), usage)
        self.same("level", int(self.kv.pressure.level()), self.level)

    def lookup(self) -> None:
        ask = self.ask()
        if self.o.pool.attached and self.dice.one_in(2):
            # Exactly what somebody attached a handle to.
            salt, adapter, encoder, items, *tokens = self.dice.pick(list(self.o.pool.attached))
            extras = tuple(MMItem(*item) for item in items)
            ask = Ask(tuple(tokens), salt, adapter, extras, encoder)
            self.count("attached", self.dice.one_in(2) and self.come(self.request(ask), ask))
        if self.dice.one_in(2):
            hit = self.kv.lookup(self.request(replace(ask, join=False, encoder_tokens=0)))
        else:
            ask = replace(ask, keys_only=False, num_external_tokens=0, external_until=0)
            hit = self.kv.lookup(list(ask.tokens), **ask.space)
        if ask.reads:
            self.same("found", hit.tokens, self.o.lookup(ask, self.told(ask)))
            self.same("attached", hit.attached, self.o.attached_to(ask))
        assert hit.tokens < max(len(ask.tokens), 1)
