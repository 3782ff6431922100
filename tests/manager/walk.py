"""A random walk over `KVCacheManager`'s public calls, beside a model of what must come out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kvframe import Extra, Grant, KVCacheManager, KVFrameError, Plan

from .helpers import state

Space = tuple[str, str, tuple[Extra, ...]]
SPACES: list[Space] = [
    *[("", "", ())] * 6,
    ("s", "", ()),
    ("", "s", ()),
    ("", "", (Extra(2, 6, b"i"),)),
]


Atom = tuple[object, ...]


@dataclass
class Live:
    """A sequence as its engine knows it: its words, each with the item that covers it, if any."""

    space: Space
    words: list[Atom] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    """Ids at the end that the manager has not been told."""
    epoch: int = 0
    """Resets before it came in."""

    @classmethod
    def of(cls, tokens: list[int], space: Space, epoch: int) -> Live:
        live = cls(space, epoch=epoch)
        live.grow(tokens)
        return live

    def grow(self, tokens: list[int]) -> None:
        for at, token in enumerate(tokens, len(self.words)):
            inside = [(e.id, at - e.start) for e in self.space[2] if e.start <= at < e.end]
            self.words.append((token, *inside))

    def cut(self, length: int) -> None:
        """What is cut is gone, and so is what an item said of it."""
        if length >= len(self.words):
            return
        gone = len(self.words) - length
        del self.unknown[max(len(self.unknown) - gone, 0) :]
        del self.words[length:]
        items = tuple(e._replace(end=min(e.end, length)) for e in self.space[2] if e.start < length)
        self.space = (*self.space[:2], items)

    @property
    def filled(self) -> int:
        """Tokens whose ids the manager has."""
        return len(self.words) - len(self.unknown)

    def head(self, length: int) -> tuple[object, ...]:
        """What the KV of the first tokens depends on."""
        return (self.epoch, *self.space[:2], *self.words[:length])


@dataclass
class Walk:
    """The walk; `one` takes a step and checks everything after it.

    A refused call must leave the whole visible state as it was. A hit must be a block to which the
    same prefix was computed, in the same space, and never the whole prompt.
    """

    kv: KVCacheManager
    dice: random.Random
    size: int
    live: dict[int, Live] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    loans: list[int] = field(default_factory=list)
    content: dict[tuple[int, int], tuple[object, ...]] = field(default_factory=dict)
    refusals: int = 0
    hits: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        self.groups = len(self.kv.options()["groups"])

    def verbs(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            (20, self.admit),
            (12, self.append),
            (7, self.extend),
            (18, self.commit),
            (6, self.truncate),
            (5, self.fork),
            (11, self.release),
            (5, self.settle),
            (4, self.loan),
            (5, self.misuse),
            (1, self.clear),
            (6, self.step),
        ]

    def one(self) -> None:
        verbs = self.verbs()
        (verb,) = self.dice.choices([v for _, v in verbs], [w for w, _ in verbs])
        # Room is left for cached blocks, else nothing is ever found or evicted.
        if len(self.live) > 3 and self.dice.random() < 0.5:
            verb = self.release
        verb()
        if self.dice.random() < 0.5:
            self.keep(self.kv.take_plan())
        self.check()

    def check(self) -> None:
        self.kv.check_integrity()
        free, cached, referenced, total = self.kv.counts()
        assert free + cached + referenced == total
        assert self.kv.stats()["live_sequences"] == len(self.live)
        assert self.kv.stats()["policy_failures"] == 0

    def attempt(self, call: Callable[[], object]) -> bool:
        """Whether the call was carried out; if it was refused, nothing may have changed."""
        before = state(self.kv, self.live)
        try:
            call()
        except KVFrameError:
            assert state(self.kv, self.live) == before, "a refused call changed something"
            self.refusals += 1
            return False
        return True

    def pick(self) -> int | None:
        return self.dice.choice(list(self.live)) if self.live else None

    def text(self) -> list[int]:
        # A tiny alphabet, so that prompts share prefixes and part anywhere.
        blocks = self.dice.choice([0, 1, 1, 2, 2, 3, 4, 6])
        tokens = [0 if self.dice.random() < 0.9 else 1 for _ in range(blocks * self.size)]
        return tokens + [self.dice.randrange(2) for _ in range(self.dice.randrange(self.size + 1))]

    def admit(self) -> None:
        text, space, dice = self.text(), self.dice.choice(SPACES), self.dice
        salt, adapter, extras = space
        where: dict[str, Any] = {"salt": salt, "adapter": adapter, "extras": extras}
        before = state(self.kv, self.live)
        found = self.kv.lookup(text, **where)
        assert state(self.kv, self.live) == before, "a lookup changed something"
        assert found.tokens < max(len(text), 1)
        read, insert = dice.random() > 0.1, dice.random() > 0.1
        prompt: Any = text if dice.random() < 0.5 else np.array(text, np.uint32)
        more: dict[str, Any] = {}
        if dice.random() < 0.3:
            more["keys"] = self.kv.hash_blocks(text, **where)
        if dice.random() < 0.3:
            more["chunk"] = dice.randrange(2 * self.size)
        if dice.random() < 0.1:
            more["until"] = dice.randrange(len(text) + 2)
        partial = dice.random() < 0.2
        more["external"] = self.external(len(text), found.tokens if read else 0)
        more |= {
            "read": read,
            "insert": insert,
            "partial": partial,
            "resumed": dice.random() < 0.1,
            "session": dice.randrange(4),
            "turn": dice.randrange(4),
            "priority": dice.randrange(-2, 3),
        }
        grants: list[Grant] = []
        if not self.attempt(lambda: grants.append(self.kv.admit(prompt, **where, **more))):
            return
        (grant,) = grants
        assert grant.cached_tokens == (found.tokens if read else 0)
        assert grant.prompt_tokens == len(text)
        if not partial and not more.keys() & {"chunk", "until"}:
            assert grant.granted_tokens == len(text)
        self.came_in(grant, Live.of(text, space, self.epoch), more["external"])

    def external(self, length: int, found: int) -> int:
        """How many tokens after those found are to come from elsewhere."""
        return 0

    def came_in(self, grant: Grant, live: Live, external: int) -> None:
        for group in range(self.groups):
            table = self.kv.block_table(grant.seq, group)
            for i in range(grant.cached_tokens // self.size):
                if table[i] >= 0:
                    self.hits += 1
                    held = self.content[group, int(table[i])]
                    assert held == live.head((i + 1) * self.size), "somebody else's KV"
        self.live[grant.seq] = live

    def append(self) -> None:
        seq = self.pick()
        if seq is not None:
            tokens = [self.dice.randrange(2) for _ in range(self.dice.randrange(6))]
            if self.attempt(lambda: self.kv.append(seq, tokens)):
                assert not tokens or not self.live[seq].unknown
                self.live[seq].grow(tokens)

    def extend(self) -> None:
        seq = self.pick()
        if seq is not None:
            known, slots, _, _ = self.kv.lengths(seq)
            until = self.dice.randint(max(slots - 1, 0), known + 1)
            done = self.attempt(lambda: self.kv.extend(seq, until))
            assert not done or slots <= until <= known

    def commit(self) -> None:
        seq = self.pick()
        if seq is not None:
            _, slots, committed, _ = self.kv.lengths(seq)
            upto = self.dice.choice([slots, slots, self.dice.randint(committed, slots)])
            if upto > self.live[seq].filled:
                assert not self.attempt(lambda: self.kv.commit(seq, upto))
            else:
                self.computed(seq, upto)

    def computed(self, seq: int, upto: int) -> None:
        """The model's pages first: copies are done, so what is written may be found at once."""
        tables = [self.kv.block_table(seq, group) for group in range(self.groups)]
        self.kv.commit(seq, upto)
        self.remember(seq, tables, upto)

    def remember(self, seq: int, tables: list[Any], upto: int) -> None:
        for group, table in enumerate(tables):
            for i in range(upto // self.size):
                if table[i] >= 0:
                    self.content[group, int(table[i])] = self.live[seq].head((i + 1) * self.size)

    def truncate(self) -> None:
        seq = self.pick()
        if seq is not None:
            length = self.dice.randint(0, self.kv.lengths(seq).slots + 1)
            if self.attempt(lambda: self.kv.truncate(seq, length)):
                self.live[seq].cut(length)

    def fork(self) -> None:
        seq = self.pick()
        if seq is not None:
            child = self.kv.fork(seq)
            parent = self.live[seq]
            self.live[child] = replace(
                parent, words=list(parent.words), unknown=list(parent.unknown)
            )

    def release(self) -> None:
        seq = self.pick()
        if seq is not None:
            self.kv.release(seq)
            del self.live[seq]
            self.gone.append(seq)

    def keep(self, plan: Plan | None) -> None:
        if plan is not None:
            assert plan.copies.dtype == np.int32
            assert plan.copies.shape[1] == 4
            self.plans.append(plan)

    def settle(self) -> None:
        if not self.plans:
            return
        while len(self.plans) > 3:
            self.kv.done(self.plans.pop().ticket)
        plan = self.plans.pop(self.dice.randrange(len(self.plans)))
        if self.dice.random() < 0.7:
            self.kv.done(plan.ticket)
            return
        for seq in self.kv.failed(plan.ticket):
            lengths = self.kv.lengths(seq)
            assert lengths.known == len(self.live[seq].words)
            assert lengths.slots % self.size == 0

    def loan(self) -> None:
        if self.loans and self.dice.random() < 0.6:
            self.kv.give_back(np.array(self.loans, np.int32))
            self.loans = []
            return
        out = np.full(self.dice.randrange(4), -9, np.int32)
        if self.attempt(lambda: self.kv.lend(out)):
            self.loans += out.tolist()
            assert len(set(self.loans)) == len(self.loans)
        else:
            assert (out == -9).all()

    def clear(self) -> None:
        cached = self.kv.counts().cached
        assert self.kv.clear_cache() == cached
        assert self.kv.counts().cached == 0
        self.epoch += 1

    def step(self) -> None:
        seqs = self.dice.sample(list(self.live), self.dice.randint(0, len(self.live)))
        waiting = [s for s in seqs if self.kv.lengths(s).slots < self.kv.lengths(s).known]
        grown = [s for s in seqs if s not in waiting and not self.live[s].unknown]
        counts = [self.dice.randrange(3) for _ in grown]
        tokens = [self.dice.randrange(2) for _ in range(sum(counts))]
        lengths = [min(self.kv.lengths(s).slots, self.live[s].filled) for s in seqs]
        tables = [[self.kv.block_table(s, g) for g in range(self.groups)] for s in seqs]
        out = self.kv.step(
            commit=(seqs, lengths), append=grown, counts=counts, tokens=tokens, **self.fences()
        )
        for seq, table, upto in zip(seqs, tables, lengths, strict=True):
            self.remember(seq, table, upto)
        refused = {place for _, place, _ in out.refused}
        for place, (seq, count) in enumerate(zip(grown, counts, strict=True)):
            fresh, tokens = tokens[:count], tokens[count:]
            if place not in refused:
                self.live[seq].grow(fresh)
            assert self.kv.lengths(seq).known == len(self.live[seq].words)
        self.refusals += len(refused)
        self.keep(out.plan)

    def fences(self) -> dict[str, Any]:
        """More arguments of a step."""
        return {}

    def misuse(self) -> None:
        stale = self.dice.choice(self.gone) if self.gone else 3
        wrong: list[Callable[[], object]] = [
            lambda: self.kv.release(stale),
            lambda: self.kv.commit(stale, 0),
            lambda: self.kv.fork(stale),
            lambda: self.kv.step(release=[*self.live, stale]),
            lambda: self.kv.step(append=[stale], tokens=[1]),
            lambda: self.kv.done(10**9),
            lambda: self.kv.failed(0),
            lambda: self.kv.give_back(np.array([*self.loans, 10**6], np.int32)),
            lambda: self.kv.admit([0, -1]),
        ]
        seq = self.pick()
        if seq is not None:
            _, slots, committed, _ = self.kv.lengths(seq)
            wrong += [
                lambda: self.kv.commit(seq, slots + 1),
                lambda: self.kv.truncate(seq, slots + 1),
                lambda: self.kv.step(release=[seq, seq]),
                lambda: self.kv.step(commit=([seq], [slots + 1]), append=[seq], tokens=[1]),
            ]
            if committed:
                wrong.append(lambda: self.kv.commit(seq, committed - 1))
        assert not self.attempt(self.dice.choice(wrong))

    def settle_promises(self) -> None:
        """Nothing waits or is lent out any more."""

    def finish(self) -> None:
        """Everything ends: nothing may be left behind."""
        self.keep(self.kv.take_plan())
        while self.plans:
            self.settle()
            self.check()
        while self.live:
            self.release()
            self.check()
        self.settle_promises()
        self.kv.give_back(np.array(self.loans, np.int32))
        self.kv.clear_cache()
        self.check()
        counts = self.kv.counts()
        assert (counts.cached, counts.referenced) == (0, int(self.kv.options()["null_block"]))
