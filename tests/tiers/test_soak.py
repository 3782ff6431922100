"""Random operations over three tiers with random failures: no wrong byte, whole index at the end.

KVFRAME_TIER_STEPS says how many; `make soak` takes a million.
"""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import pytest

from kvframe import BusyError, CapacityError
from kvframe.tiers import Loading, Swapped

from ..amounts import amount, first_seed
from .helpers import BLOCK, SHAPE, Bytes, Engine, Shelf, below, host, kv_of, text

STEPS = amount(2_000, 4_000, "KVFRAME_TIER_STEPS")
PROMPTS = [text(seed, 3 + 4 * seed) for seed in range(1, 8)]


@cache
def page_of(prompt: int, block: int) -> Bytes:
    """A full block of a prompt as it was computed, block-first."""
    tokens = PROMPTS[prompt]
    rows = [kv_of(tokens[: at + 1]) for at in range(block * BLOCK, (block + 1) * BLOCK)]
    # [tokens][layers][parts][heads][bytes] to a page of [layers][parts][tokens][heads][bytes].
    page: Bytes = np.stack(rows).transpose(1, 2, 0, 3, 4).reshape(SHAPE.page_bytes)
    return page


class Soak:
    """One long run."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.stores = [Shelf(), Shelf()]
        self.engine = Engine(
            [
                host(12, eviction="arc", high=0.9, low=0.7, timeout_ms=60),
                below(12, eviction="s3-fifo", high=0.8, low=0.5, timeout_ms=40, compression="zlib"),
                below(12, name="last", admission="write-back", backed_first=True),
            ],
            stores=self.stores,
            blocks=18,
            dice=Random(seed + 1),
            poison=True,
        )
        self.live: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.swapped: list[tuple[Swapped, int]] = []
        self.ahead: list[Loading] = []

    def step(self) -> None:
        """One operation."""
        tiers, dice = self.engine.tiers, self.dice
        # Now and then so long that what is under way is late, and a failed store is asked again.
        self.engine.now += dice.randrange(4) if dice.random() < 0.98 else dice.randrange(4000)
        turn = dice.random()
        if turn < 0.22:
            self.start()
        elif turn < 0.50:
            self.poll()
        elif turn < 0.62 and self.ready():
            self.compute(dice.choice(self.ready()))
        elif turn < 0.70 and self.ready():
            tiers.offload(dice.choice(self.ready()))
        elif turn < 0.78 and self.live:
            self.end(dice.choice(list(self.live)))
        elif turn < 0.82 and self.ready():
            self.swap_out(dice.choice(self.ready()))
        elif turn < 0.88 and self.swapped:
            self.swap_in()
        elif turn < 0.91:
            self.ahead = [*self.ahead[-3:], tiers.prefetch(dice.choice(PROMPTS))]
        elif turn < 0.93 and self.ahead:
            tiers.cancel(dice.choice(self.ahead))
        elif turn < 0.95:
            self.engine.kv.reset_prefix_cache()
        else:
            self.harm()

    def ready(self) -> list[int]:
        return [seq for seq in self.live if seq not in self.waiting]

    def start(self) -> None:
        prompt = self.dice.randrange(len(PROMPTS))
        try:
            grant = self.engine.start(PROMPTS[prompt])
        except CapacityError:
            if self.live:
                self.end(self.dice.choice(list(self.live)))
            return
        self.live[grant.seq] = prompt
        if grant.load is not None:
            self.waiting.add(grant.seq)

    def poll(self) -> None:
        polled = self.engine.tiers.poll()
        self.waiting -= {*polled.rewound, *polled.landed}
        for seq in {*polled.rewound, *polled.landed} & self.live.keys():
            self.check(seq)

    def check(self, seq: int) -> None:
        """Every full block that counts as computed is as it was computed."""
        kv, pool = self.engine.kv, self.engine.pools[0]
        blocks = kv.inspect.num_readable_tokens(seq) // BLOCK
        pages = pool.get(kv.block_table(seq)[:blocks])
        for at in range(blocks):
            assert np.array_equal(pages[at], page_of(self.live[seq], at)), (seq, at)

    def compute(self, seq: int) -> None:
        self.check(seq)
        kv, pool, tokens = self.engine.kv, self.engine.pools[0], PROMPTS[self.live[seq]]
        try:
            kv.extend(seq, len(tokens))
        except CapacityError:
            return
        there, table = kv.lengths(seq).committed, kv.block_table(seq)
        blocks = list(range(there // BLOCK, len(tokens) // BLOCK))
        pages = [page_of(self.live[seq], at) for at in blocks]
        if blocks:
            pool.put(table[blocks], np.stack(pages))
        kv.commit(seq, len(tokens))

    def end(self, seq: int) -> None:
        if seq in self.waiting and self.dice.random() < 0.5:
            self.engine.tiers.cancel(seq)
        self.engine.kv.release(seq)
        del self.live[seq]
        self.waiting.discard(seq)

    def swap_out(self, seq: int) -> None:
        try:
            swapped = self.engine.tiers.swap_out(seq)
        except CapacityError:
            return
        self.swapped.append((swapped, self.live.pop(seq)))

    def swap_in(self) -> None:
        swapped, prompt = self.swapped.pop(self.dice.randrange(len(self.swapped)))
        if self.dice.random() < 0.2:
            self.engine.tiers.drop_swapped(swapped)
            return
        try:
            grant = self.engine.tiers.swap_in(swapped)
        except (BusyError, CapacityError):
            self.swapped.append((swapped, prompt))
            return
        self.live[grant.seq] = prompt
        if grant.load is not None:
            self.waiting.add(grant.seq)

    def harm(self) -> None:
        """Something goes wrong in a store, or in host memory."""
        shelf = self.dice.choice(self.stores)
        kind = self.dice.randrange(5)
        if kind == 0:
            shelf.fails = self.dice.randrange(3)
        elif kind == 1 and shelf.objects:
            shelf.flip(self.dice.choice(sorted(shelf.objects)), self.dice.randrange(200))
        elif kind == 2 and shelf.objects:
            del shelf.objects[self.dice.choice(sorted(shelf.objects))]
        elif kind == 3:
            shelf.room = self.dice.choice([5, 1 << 30, 1 << 30])
        else:
            tiers = self.engine.tiers
            stored = tiers.host.index.stored()
            if stored:
                _, page = self.dice.choice(stored)
                data = tiers.host.pools[0].get([page])
                data[0, self.dice.randrange(data.shape[1])] ^= 1
                tiers.host.pools[0].put([page], data)

    def finish(self) -> None:
        """Everything ends; what is left is right."""
        for shelf in self.stores:
            shelf.fails, shelf.room = 0, 1 << 30
        for seq in list(self.live):
            self.end(seq)
        tiers = self.engine.tiers
        tiers.drain()
        for swapped, _ in self.swapped:
            tiers.drop_swapped(swapped)
        tiers.check_integrity()
        tiers.verify()
        assert tiers.verify() == []
        known = {
            tuple(key): page_of(prompt, at)
            for prompt, tokens in enumerate(PROMPTS)
            for at, key in enumerate(self.engine.kv.blocks.hash_blocks(tokens).tolist())
        }
        for key, page in tiers.host.index.stored():
            assert np.array_equal(tiers.host.pools[0].get([page])[0], known[key])
        assert self.engine.kv.counts().referenced == 0
        assert self.engine.kv.inspect.tickets() == []
        assert [level.index.counts()[2] for level in tiers.levels] == [0, 0, 0]


@pytest.mark.scenario("T5", "T7", "T8", "T15", "I12")
def test_a_long_run_with_failures_ends_with_whole_indexes_and_right_pages() -> None:
    seeds, each = max(1, STEPS // 50_000), min(STEPS, 50_000)
    for seed in range(first_seed(), first_seed() + seeds):
        soak = Soak(seed)
        for step in range(each):
            soak.step()
            if step % 50 == 0:
                soak.engine.tiers.check_integrity()
        soak.finish()
        told = soak.engine.tiers.stats()
        moved = told["moved"]
        for way in ("offloaded", "demoted", "promoted", "onboarded", "swapped_out", "swapped_in"):
            assert moved[way] > 0, (seed, way)
        for tier in ("host", "below", "last"):
            for what in ("stored", "loaded", "evicted", "failed_stores", "failed_loads", "corrupt"):
                assert told[tier][what] > 0, (seed, tier, what)
