"""Operations with bytes, through host memory, a folder and Redis; every page is compared."""

from __future__ import annotations

from collections import Counter
from hashlib import shake_128
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import (
    BusyError,
    CacheConfig,
    CapacityError,
    Config,
    EvictionConfig,
    KVCacheManager,
    ModelConfig,
    TenantConfig,
    TierConfig,
)
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Loading, Swapped, Tiers

BLOCK = 16
MODEL = ModelConfig(layers=2, kv_heads=1, head_dim=16, dtype="float16")
SHAPE = PageShape.of_model(MODEL, BLOCK)
TENANTS = ("", "one", "two")
FAMILIES, MEMBERS = 400, 10
RUNNING = 24

Text = tuple[str, tuple[int, ...]]


def text(number: int) -> Text:
    """A tenant and a prompt; those of a family begin alike."""
    family = number // MEMBERS
    dice = Random(number)
    own = [1_000_000 + number] * (BLOCK * dice.randrange(1, 9) + dice.randrange(BLOCK))
    return TENANTS[family % 3], (*[family] * (4 * BLOCK), *own)


def pages_of(text: Text, start: int, end: int) -> npt.NDArray[np.uint8]:
    """The pages of blocks: each follows from the tenant and all tokens up to its end."""
    tenant, tokens = text
    size = SHAPE.page_bytes
    made = [
        shake_128(f"{tenant} {tokens[: BLOCK * (at + 1)]}".encode()).digest(size)
        for at in range(start, end)
    ]
    return np.frombuffer(b"".join(made), np.uint8).reshape(end - start, size)


class Pages:
    """An engine over three tiers, under random requests.

    Args:
        folder: Where the disk tier keeps its pages.
        redis: URL of the server.
        seed: Of the choice of operations.

    Attributes:
        done: Operations so far.
        kinds: The same by kind.
        compared: Pages that were as they were computed.
    """

    def __init__(self, folder: Path, redis: str, seed: int) -> None:
        self.dice, self.done, self.compared = Random(seed), 0, 0
        self.kinds: Counter[str] = Counter()
        blocks = 512
        config = Config(
            cache=CacheConfig(capacity=blocks, block_size=BLOCK),
            model=MODEL,
            tiers=[
                TierConfig(name="host", capacity=400, eviction=EvictionConfig(policy="arc")),
                TierConfig(
                    name="disk", store="disk", capacity=1_200, options={"path": str(folder)}
                ),
                TierConfig(name="redis", store="redis", capacity=4_000, options={"url": redis}),
            ],
            tenants=[
                TenantConfig(name="one", floor=0.2),
                TenantConfig(name="two", floor=0.1, quota=0.5),
            ],
        )
        self.kv = KVCacheManager(config)
        self.pool = NumpyPool(Layout.of(LAYER_FIRST, SHAPE, blocks))
        self.tiers = Tiers(self.kv, self.pool, model="load", poison=True)
        self.running: dict[int, Text] = {}
        self.waiting: set[int] = set()
        self.swapped: list[tuple[Swapped, Text]] = []
        self.ahead: list[Loading] = []

    def run(self, operations: int) -> None:
        """Make so many operations."""
        for _ in range(operations):
            kind = self.dice.choices(*CHOICE)[0]
            KINDS[kind][0](self)
            self.kinds[kind] += 1
        self.done += operations

    def check(self) -> None:
        """The books of the pool and of every tier agree."""
        self.tiers.check_integrity()
        for rows in self.tiers.tenants().values():
            assert all(row.quota is None or row.used <= row.quota for row in rows), rows

    def ready(self) -> int | None:
        """A running sequence that waits for nothing."""
        ready = [seq for seq in self.running if seq not in self.waiting]
        return self.dice.choice(ready) if ready else None

    def drawn(self) -> Text:
        """A prompt; some are asked for much more often."""
        return text(int(FAMILIES * MEMBERS * self.dice.random() ** 3))

    def start(self) -> None:
        if len(self.running) >= RUNNING:
            self.end()
        tenant, tokens = asked = self.drawn()
        try:
            grant = self.tiers.allocate(list(tokens), tenant=tenant)
        except CapacityError:
            self.end()
            return
        self.began(grant, asked)

    def began(self, grant: Any, asked: Text) -> None:
        self.running[grant.seq] = asked
        if grant.load is not None:
            self.waiting.add(grant.seq)

    def poll(self) -> None:
        polled = self.tiers.poll(0.001 if self.waiting else 0)
        self.waiting -= {*polled.rewound, *polled.landed}

    def compute(self) -> None:
        """Compare what is there, compute the rest, back it up."""
        seq = self.ready()
        if seq is None:
            return
        asked, there = self.running[seq], self.kv.lengths(seq).committed // BLOCK
        self.compare(seq, there)
        full = len(asked[1]) // BLOCK
        try:
            self.kv.extend(seq, len(asked[1]))
        except CapacityError:
            return
        if there < full:
            table = self.kv.block_table(seq)
            self.pool.put(table[there:full], pages_of(asked, there, full))
        self.kv.commit(seq, len(asked[1]))
        self.tiers.offload(seq)

    def compare(self, seq: int, blocks: int) -> None:
        if blocks:
            found = self.pool.get(self.kv.block_table(seq)[:blocks])
            wanted = pages_of(self.running[seq], 0, blocks)
            assert np.array_equal(found, wanted), (seq, self.running[seq])
            self.compared += blocks

    def end(self) -> None:
        if not self.running:
            return
        seq = self.dice.choice([*self.running])
        if seq in self.waiting and self.dice.random() < 0.5:
            self.tiers.cancel(seq)
        self.kv.release(seq)
        del self.running[seq]
        self.waiting.discard(seq)

    def swap_out(self) -> None:
        seq = self.ready()
        if seq is None or len(self.swapped) > 8:
            return
        try:
            self.swapped.append((self.tiers.swap_out(seq), self.running[seq]))
        except CapacityError:
            return
        del self.running[seq]

    def swap_in(self) -> None:
        if not self.swapped:
            return
        swapped, asked = self.swapped.pop(0)
        try:
            self.began(self.tiers.swap_in(swapped), asked)
        except (BusyError, CapacityError):
            self.swapped.append((swapped, asked))

    def prefetch(self) -> None:
        tenant, tokens = self.drawn()
        self.ahead = [*self.ahead[-3:], self.tiers.prefetch(list(tokens), tenant=tenant)]

    def cancel(self) -> None:
        if self.ahead:
            self.tiers.cancel(self.dice.choice(self.ahead))

    def reset(self) -> None:
        """The pool forgets, so that the tiers are asked."""
        self.kv.reset_prefix_cache()

    def finish(self) -> dict[str, dict[str, int]]:
        """Everything ends, and nothing is held; what the tiers counted."""
        while self.running:
            self.end()
        self.tiers.drain()
        for swapped, _ in self.swapped:
            self.tiers.drop_swapped(swapped)
        self.tiers.drain()
        self.check()
        assert self.tiers.verify(60) == []
        assert self.kv.counts().referenced == 0
        assert self.kv.inspect.tickets() == []
        assert [level.index.counts().owned for level in self.tiers.levels] == [0, 0, 0]
        told = self.tiers.stats()
        for way in ("offloaded", "demoted", "promoted", "onboarded", "swapped_out", "swapped_in"):
            assert told["moved"][way] > 0, way
        for level in self.tiers.levels:
            assert told[level.name]["stored"] > 0, level.name
            assert not told[level.name]["corrupt"], level.name
        return told


KINDS = {
    "start": (Pages.start, 22),
    "poll": (Pages.poll, 28),
    "compute": (Pages.compute, 24),
    "end": (Pages.end, 10),
    "swap out": (Pages.swap_out, 3),
    "swap in": (Pages.swap_in, 6),
    "prefetch": (Pages.prefetch, 4),
    "cancel": (Pages.cancel, 2),
    "reset": (Pages.reset, 0.2),
}
CHOICE = [*KINDS], [weight for _, weight in KINDS.values()]
