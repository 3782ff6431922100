"""Operations without bytes, in a pool in which a hundred thousand of everything lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from perf.growth_world import SIZE, World

from kvframe import Request

TENANTS = ("", "one", "two")
TABLES = [{"name": "one", "floor": 0.1}, {"name": "two", "floor": 0.05, "quota": 0.5}]
CHAIN = 64
LOADS = 1_000
LASTS = 1 << 40
"""Calls for which a lease or pin of the world lasts: longer than any run."""


class Core(World):
    """`World` under load: what ends is begun anew, so that as many of everything live at any time.

    Args:
        size: Sequences, sessions, pins and leases.
        blocks: In the pool; all of them hold something from the start.
        seed: Of the choice of operations.

    Attributes:
        done: Calls of the manager so far.
        calls: The same by kind of operation.
        hits: Tokens that were found.
    """

    def __init__(self, size: int, blocks: int, seed: int) -> None:
        super().__init__(size, loads=LOADS, cache={"capacity": blocks}, tenants=TABLES)
        self.dice, self.done, self.hits = Random(seed), 0, 0
        self.calls: Counter[str] = Counter()
        self.ids = [size + at + 1 for at in range(size)]
        self.owners = [""] * size
        while self.kv.counts().free >= CHAIN:
            self.kv.release(self.admitted(self.prompt(CHAIN - 1)))

    def run(self, calls: int) -> None:
        """Make at least so many calls."""
        until, kinds = self.done + calls, [*KINDS]
        while self.done < until:
            for kind in self.dice.choices(kinds, k=256):
                made = KINDS[kind](self, int(self.dice.random() * self.size))
                self.calls[kind] += made
                self.done += made

    def check(self) -> None:
        """The pool's books agree, and as many of everything live as in the beginning."""
        self.kv.check_integrity()
        assert len(self.kv.inspect.running()) == self.size + LOADS
        assert len(self.kv.inspect.tickets()) == self.size + LOADS
        assert len(self.kv.pins.held()) == self.size
        assert self.kv.counts().free < self.kv.counts().total // 10

    def replace(self, at: int) -> int:
        """A sequence, its lease and its pin end; another takes their place."""
        kv, tenant = self.kv, TENANTS[at % 3]
        kv.pins.unpin(self.pins[at])
        kv.done(self.tickets[at])
        kv.release(self.seqs[at])
        self.ids[at] = next(self._fresh)
        prompt = self.numbered(self.ids[at])
        self.seqs[at] = self.admitted(prompt, session=at + 1, tenant=tenant)
        self.tickets[at] = kv.pins.lease(self.seqs[at], SIZE)
        kv.pins.set_deadline(self.tickets[at], LASTS)
        self.pins[at] = kv.pins.pin(prompt, tenant=tenant, lease=LASTS)
        self.owners[at] = tenant
        return 8

    def grow(self, at: int) -> int:
        """Ten tokens are generated, and taken back: a sequence would fill the pool otherwise."""
        seq = self.seqs[at]
        for token in range(10):
            self.kv.append(seq, [token])
        self.kv.commit(seq, SIZE + 11)
        self.kv.truncate(seq, SIZE + 1)
        return 12

    def branch(self, at: int) -> int:
        """A sequence is forked, and the fork computes on its own."""
        fork = self.kv.fork(self.seqs[at])
        self.kv.append(fork, [at])
        plan = self.kv.take_plan()
        self.kv.done(plan.ticket)
        self.kv.release(fork)
        return 5

    def load(self, at: int) -> int:
        """A load arrives or fails, and another one begins."""
        at %= LOADS
        seq, ticket = self.loads[at]
        if at % 4:
            self.kv.loaded(ticket, 1)
        else:
            self.kv.failed(ticket)
        self.kv.release(seq)
        asked = Request(self.prompt(2), num_external_tokens=SIZE, max_seq_len=4 * SIZE)
        grant = self.kv.allocate(asked)
        assert grant.load is not None
        self.loads[at] = grant.seq, grant.load
        return 3

    def again(self, at: int) -> int:
        """The prompt of a running sequence once more: it is found."""
        prompt, kv = self.numbered(self.ids[at]), self.kv
        grant = kv.allocate(Request(prompt, session=at + 1, tenant=self.owners[at]))
        self.hits += grant.cached_tokens
        kv.commit(grant.seq, SIZE + 1)
        kv.release(grant.seq)
        return 3

    def talk(self, at: int) -> int:
        """A conversation of three turns, which is over then."""
        session, kv, prompt = LASTS + self.done, self.kv, self.prompt(6)
        for blocks in (2, 4, 6):
            turn = prompt[: blocks * SIZE]
            grant = kv.allocate(Request(turn, session=session, tenant=TENANTS[at % 3]))
            self.hits += grant.cached_tokens
            kv.commit(grant.seq, len(turn))
            kv.release(grant.seq)
        kv.pins.hint(session, "retain")
        kv.pins.hint(session, "release")
        return 11

    def preempt(self, at: int) -> int:
        """A sequence is preempted and comes back."""
        request = self.kv.preempt(self.seqs[at])
        grant = self.kv.allocate(request)
        self.kv.commit(grant.seq, SIZE + 1)
        self.seqs[at] = grant.seq
        return 3

    def lapse(self, at: int) -> int:
        """A lease that nobody ends, until its deadline has passed."""
        ticket = self.kv.pins.lease(self.seqs[at], SIZE)
        self.kv.pins.set_deadline(ticket, self.done)
        self.kv.expire_until(self.done)
        return 3

    def ask(self, at: int) -> int:
        """What changes nothing."""
        prompt = self.numbered(self.ids[at])
        self.kv.lookup(prompt, tenant=self.owners[at])
        self.kv.can_allocate(Request(prompt))
        self.kv.block_table(self.seqs[at])
        self.kv.lengths(self.seqs[at])
        return 4


KINDS: dict[str, Callable[[Core, int], int]] = {
    "replace": Core.replace,
    "grow": Core.grow,
    "branch": Core.branch,
    "load": Core.load,
    "again": Core.again,
    "talk": Core.talk,
    "preempt": Core.preempt,
    "lapse": Core.lapse,
    "ask": Core.ask,
}
