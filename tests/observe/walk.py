"""Random calls on a manager, refused ones among them, whatever its layer groups are."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import numpy as np

from kvframe import (
    Grant,
    Keep,
    KVCacheManager,
    KVFrameError,
    Pin,
    Plan,
    Request,
    Retention,
    TokenRange,
)
from kvframe.blocks import BlockPool

WEIGHTS = {
    "admit": 20, "append": 10, "extend": 6, "commit": 18, "truncate": 5, "fork": 5, "release": 7,
    "step": 8, "append_unknown": 5, "fill": 5, "preempt": 3, "resume": 6, "plan": 3, "settle": 9,
    "settle_load": 6, "lease": 4, "let_pass": 3, "lend": 3, "give_back": 3, "clear": 1,
    "new_weights": 1, "resize": 2, "collect": 1, "pin": 4,
    "unpin": 4, "reserve": 4, "fork_prefix": 5, "lapse": 2, "publish": 4, "claim": 4, "free": 5,
    "attach": 2,
}  # fmt: skip


class Walk:
    """One call after another; what is refused is refused with an error of the package.

    Args:
        kv: Where to.
        dice: What chooses.
        size: Tokens of a block.
        encoder: Whether prompts come with another input.
        joins: Whether layers go by the same rows of blocks, so that computations can be joined.
    """

    def __init__(
        self,
        kv: KVCacheManager,
        dice: random.Random,
        size: int,
        *,
        encoder: bool = False,
        joins: bool = False,
    ) -> None:
        self.kv, self.dice, self.size, self.encoder = kv, dice, size, encoder
        self.joins, self.pool = joins, BlockPool(kv)
        self.hands: list[int] = []
        self.clock = 0
        self.live: list[int] = []
        self.plans: list[int] = []
        self.loads: dict[int, int] = {}
        self.lent: list[int] = []
        self.pins: list[Pin] = []
        self.preempted: list[Request] = []
        self.in_flight = self.passed = 0

    def one(self) -> None:
        """One call."""
        (name,) = self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()))
        with suppress(KVFrameError):
            getattr(self, name)()

    def below(self, bound: int) -> int:
        return self.dice.randrange(bound)

    def bits(self, count: int) -> list[int]:
        return [self.below(2) for _ in range(count)]

    def seq(self) -> int:
        return self.dice.choice(self.live) if self.live else 1

    # --- a request's life ---------------------------------------------------------------------

    def request(self) -> Request:
        odd, blocks = self.below(8), self.dice.choice([1, 2, 3, 4, 6])
        tokens = [int(odd == i) for i in range(blocks) for _ in range(self.size)]
        more: dict[str, Any] = {"priority": self.below(3)}
        if self.encoder and self.below(4):
            more |= {"encoder_tokens": 5, "encoder": self.dice.choice([b"", b"x", b"y"])}
        if self.below(3) == 0:
            more["chunk"] = self.below(3 * self.size)
        if self.below(4) == 0:
            more["num_external_tokens"] = self.below(3) * 2 * self.size
        elif self.below(8) == 0:
            more["external_until"] = self.below(5) * self.size
        elif self.below(2) and self.joins:
            more["join"] = True
        if self.below(3) == 0:
            more["retention"] = self.retention()
        match self.below(12):
            case 0:
                more["cache_salt"] = "s"
            case 1:
                more["partial"] = True
            case 2:
                more["write_cache"] = False
            case 3:
                more |= {
                    "max_seq_len": len(tokens) + self.below(12),
                    "full_sequence_must_fit": True,
                }
            case 4:
                more["read_cache"] = False
            case _:
                pass
        return Request(tokens + self.bits(self.below(self.size + 1)), **more)

    def retention(self) -> Retention:
        def keep() -> Keep:
            duration = self.dice.choice([None, self.below(9)])
            decay: Any = self.dice.choice(["step", "linear"])
            return Keep(self.below(101), duration, self.dice.choice([0, 35]), decay)

        ranges = [TokenRange(0, self.size, keep()), TokenRange(self.size, None, keep())]
        return Retention(ranges, self.dice.choice([None, keep()]))

    def came(self, grant: Grant) -> None:
        self.live.append(grant.seq)
        if grant.load is not None:
            self.loads[grant.load] = grant.external_tokens // self.size

    def admit(self) -> None:
        if len(self.live) > 5:
            return self.release()
        return self.came(self.kv.admit(self.request()))

    def append(self) -> None:
        self.kv.append(self.seq(), self.bits(self.below(6)))

    def append_unknown(self) -> None:
        self.kv.append_unknown(self.seq(), self.below(4))

    def fill(self) -> None:
        self.kv.fill(self.seq(), self.bits(self.below(4)))

    def extend(self) -> None:
        seq = self.seq()
        known, slots, _, _ = self.kv.lengths(seq)
        self.kv.extend(seq, self.dice.randint(slots, known))

    def commit(self) -> None:
        self.plan()
        seq = self.seq()
        _, slots, committed, _ = self.kv.lengths(seq)
        self.kv.commit(seq, self.dice.choice([slots, self.dice.randint(committed, slots)]))

    def truncate(self) -> None:
        seq = self.seq()
        self.kv.truncate(seq, max(self.kv.lengths(seq).slots - self.below(8), 0))

    def fork(self) -> None:
        if len(self.live) < 8:
            self.live.append(self.kv.fork(self.seq()))

    def fork_prefix(self) -> None:
        if len(self.live) < 8:
            seq = self.seq()
            upto = self.below(self.kv.lengths(seq).committed + 1)
            self.live.append(self.kv.fork(seq, upto=upto, copy=self.below(2) == 0))

    def attach(self) -> None:
        self.kv.attach(self.seq(), self.below(100))

    def reserve(self) -> None:
        seq = self.seq()
        self.kv.reserve(seq, self.kv.lengths(seq).known + self.below(4))

    def fence(self) -> int | None:
        if self.below(3):
            return None
        self.in_flight += 1
        return self.in_flight

    def release(self) -> None:
        seq = self.seq()
        self.kv.release(seq, fence=self.fence())
        self.live.remove(seq)

    def preempt(self) -> None:
        seq = self.seq()
        self.preempted = [*self.preempted[-3:], self.kv.preempt(seq, fence=self.fence())]
        self.live.remove(seq)

    def resume(self) -> None:
        if self.preempted:
            request = self.dice.choice(self.preempted)
            self.came(self.kv.admit(request))
            self.preempted.remove(request)

    def step(self) -> None:
        """Several verbs at once, behind a fence or not."""
        self.plan()
        grown = [seq for seq in self.live if self.below(2)]
        ended = [seq for seq in self.live if seq not in grown and not self.below(6)]
        lengths = {seq: self.kv.lengths(seq) for seq in grown}
        commit = [seq for seq in grown if lengths[seq].committed < lengths[seq].slots]
        grown = [seq for seq in grown if lengths[seq].known == lengths[seq].slots]
        stepped = self.kv.step(
            commit=(commit, [lengths[seq].slots for seq in commit]),
            release=ended,
            fence=self.fence(),
            append=grown,
            tokens=self.bits(len(grown)),
            admit=[self.request() for _ in range(self.below(3))] if len(self.live) < 6 else [],
            token_budget=self.dice.choice([None, 3 * self.size]),
            skip_refused=True,
        )
        self.live = [seq for seq in self.live if seq not in ended]
        for grant in stepped.grants:
            if grant is not None:
                self.came(grant)
        self.keep(stepped.plan)

    # --- tickets, fences, the pool ------------------------------------------------------------

    def keep(self, plan: Plan | None) -> None:
        if plan is not None:
            self.plans.append(plan.ticket)

    def plan(self) -> None:
        self.keep(self.kv.take_plan())

    def settle(self) -> None:
        """A plan or a lease."""
        self.plan()
        if self.plans:
            ticket = self.plans.pop(self.below(len(self.plans)))
            (self.kv.done if self.below(4) else self.kv.failed)(ticket)

    def settle_load(self) -> None:
        if not self.loads:
            return
        ticket, blocks = self.dice.choice(list(self.loads.items()))
        match self.below(4):
            case 0:
                self.kv.failed(ticket)
            case 1:
                self.kv.loaded(ticket, self.below(blocks + 1))
            case _:
                self.kv.done(ticket)
        del self.loads[ticket]

    def lapse(self) -> None:
        """A ticket may lapse from now on; some have."""
        tickets = self.plans + list(self.loads)
        self.clock += self.below(3)
        if tickets:
            self.kv.set_deadline(self.dice.choice(tickets), self.clock + self.below(6))
        expired = self.kv.expire(self.clock)
        gone = expired.tickets
        self.pins = [pin for pin in self.pins if pin.receipt not in expired.pins]
        self.plans = [ticket for ticket in self.plans if ticket not in gone]
        self.loads = {ticket: n for ticket, n in self.loads.items() if ticket not in gone}

    def lease(self) -> None:
        seq = self.seq()
        upto = self.dice.choice([self.kv.lengths(seq).committed, self.size])
        self.plans.append(self.kv.lease(seq, upto))

    def pin(self) -> None:
        lease = self.dice.choice([None, self.below(4)])
        pin = self.kv.pin([0] * self.size * (1 + self.below(2)), lease=lease)
        if pin is not None:
            self.pins.append(pin)

    def unpin(self) -> None:
        if self.pins:
            self.kv.unpin(self.pins.pop(self.below(len(self.pins))))

    def let_pass(self) -> None:
        self.passed = max(self.passed, self.in_flight - self.below(3))
        self.keep(self.kv.step(passed=self.passed).plan)

    def lend(self) -> None:
        out = np.full(1 + self.below(3), -1, np.int32)
        self.kv.lend(out)
        self.lent += out.tolist()

    def give_back(self) -> None:
        back = self.lent[: self.below(len(self.lent) + 1)]
        self.kv.give_back(np.array(back, np.int32))
        del self.lent[: len(back)]

    # --- blocks one by one ----------------------------------------------------------------------

    def key(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        return np.array([1 + self.below(4), 7], np.uint64)

    def publish(self) -> None:
        if self.lent:
            block = self.dice.choice(self.lent)
            parent = self.dice.choice([None, *self.hands])
            self.pool.publish(block, self.key(), parent)
            self.lent.remove(block)
            self.hands.append(block)

    def claim(self) -> None:
        found = self.pool.find(np.array([self.key() for _ in range(1 + self.below(2))]))
        self.pool.touch(found)
        self.hands += found.tolist()

    def free(self) -> None:
        held = self.dice.sample(self.hands + self.lent, min(len(self.hands + self.lent), 2))
        self.pool.free(held)
        for block in held:
            (self.hands if block in self.hands else self.lent).remove(block)

    def clear(self) -> None:
        self.kv.clear_cache()

    def new_weights(self) -> None:
        self.kv.set_fingerprint(self.dice.choice(["", "a", "b"]))

    def resize(self) -> None:
        self.kv.resize(max(self.kv.counts().total + self.below(7) - 3, 20))

    def collect(self) -> None:
        self.kv.collect(self.below(self.kv.counts().total))
