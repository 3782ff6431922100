"""The radix index against the oracle, on random traces: hits, owners, sizes and victims."""

from __future__ import annotations

import os
from functools import cache
from random import Random

import pytest

from kvframe import CacheConfig, Config, HandleError, KVCacheManager, Pin
from kvframe.config import Resolved

from .oracle import Oracle

TRACES = int(os.environ.get("KVFRAME_TRACES", "2000"))
"""All together: `make soak` runs 100,000."""
OPERATIONS = 20
PARTS = 4


@cache
def resolved(blocks: int, size: int) -> Resolved:
    """A configuration, resolved once for all traces: that takes longer than a trace."""
    return Config(cache=CacheConfig(capacity=blocks, block_size=size, index="radix")).resolve()


class Walk:
    """A manager and the oracle, driven alike."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        blocks, size = dice.randint(6, 24), dice.choice((1, 2, 4))
        self.kv = KVCacheManager(resolved(blocks, size))
        self.model = Oracle(blocks, size)
        self.pins: list[Pin] = []
        self.spent: list[Pin] = []

    def tokens(self) -> list[int]:
        """A prompt out of a tiny alphabet, so that prompts share prefixes and part anywhere."""
        rare = self.dice.randint(1, 6)
        count = self.dice.randint(1, 7 * self.model.size)
        return [int(self.dice.randrange(rare + 1) == 0) for _ in range(count)]

    def table(self, seq: int) -> list[int]:
        table: list[int] = self.kv.block_table(seq).tolist()
        return table

    def admit(self) -> None:
        tokens = self.tokens()
        hit = self.model.hit(tokens)
        assert self.kv.lookup(tokens).tokens == hit
        fits = self.model.fits(tokens)
        stepped = self.kv.step(allocate=[tokens])
        (grant,) = stepped.allocations
        assert (grant is not None) == fits
        if grant is not None:
            assert grant.cached_tokens == hit
            self.model.admit(grant.seq, tokens, self.table(grant.seq))
            if self.dice.random() < 0.7:
                self.kv.commit(grant.seq, len(tokens))
                self.model.commit(grant.seq, len(tokens))

    def any_sequence(self) -> int | None:
        live = sorted(self.model.sequences)
        return self.dice.choice(live) if live else None

    def commit(self) -> None:
        seq = self.any_sequence()
        if seq is not None:
            sequence = self.model.sequences[seq]
            upto = self.dice.randint(sequence.committed, len(sequence.tokens))
            self.kv.commit(seq, upto)
            self.model.commit(seq, upto)

    def append(self) -> None:
        seq = self.any_sequence()
        if seq is None:
            return
        sequence = self.model.sequences[seq]
        if sequence.committed < len(sequence.tokens):
            self.kv.commit(seq, len(sequence.tokens))
            self.model.commit(seq, len(sequence.tokens))
        more = [self.dice.randrange(2) for _ in range(self.dice.randint(1, 5))]
        if self.model.room_for(seq, len(more)):
            self.kv.append(seq, more)
            self.model.append(seq, more, self.table(seq))

    def release(self) -> None:
        seq = self.any_sequence()
        if seq is not None:
            self.kv.release(seq)
            self.model.release(seq)

    def pin(self) -> None:
        tokens = self.tokens()
        there = self.model.longest(tokens, len(tokens))
        pin = self.kv.pins.pin(tokens)
        assert (pin.tokens if pin else 0) == len(there) * self.model.size
        if pin is not None:
            self.pins.append(pin)
            self.model.pin(pin.receipt, tokens, pin.block)

    def unpin(self) -> None:
        if self.pins:
            pin = self.pins.pop(self.dice.randrange(len(self.pins)))
            self.kv.pins.unpin(pin)
            self.model.unpin(pin.receipt)
            self.spent.append(pin)
        for pin in self.spent[-1:]:
            with pytest.raises(HandleError):
                self.kv.pins.unpin(pin)

    def collect(self) -> None:
        free = self.dice.randint(0, self.model.capacity)
        assert self.kv.evict_until(free) == self.model.collect(free)

    def one(self) -> None:
        verbs = [self.admit, self.commit, self.append, self.release]
        verbs += [self.admit, self.admit, self.release, self.pin, self.unpin, self.collect]
        self.dice.choice(verbs)()
        assert self.kv.counts() == self.model.counts()
        assert self.kv.inspect.eviction_order().tolist() == self.model.order()


@pytest.mark.scenario("ST42", "ST41", "S1", "S2")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_traces_agree(part: int) -> None:
    hits = evictions = 0
    for trace in range(TRACES // PARTS):
        walk = Walk(Random(part * TRACES + trace))
        for _ in range(OPERATIONS):
            walk.one()
        walk.kv.check_integrity()
        stats = walk.kv.stats.counters()
        hits += stats["hit_tokens"]
        evictions += stats["evictions"]
    assert min(hits, evictions) > 300, "the traces do what is compared"
