"""Raw blocks: get 64 and give them back, from an empty pool and from one that must evict."""

from __future__ import annotations

import numpy as np

from kvframe import KVCacheManager
from perf import floors
from perf.measure import per_call
from perf.work import Round, Work, manager

TAKEN = 64


def get_free(quick: bool) -> Round:
    """A pair: one call gets 64 blocks into a reused buffer, one gives them back."""
    kv = manager(20_000)
    buffer = np.empty(TAKEN, np.int32)

    def pair() -> None:
        kv.blocks.take(out=buffer)
        kv.blocks.free(buffer)

    return lambda: per_call(pair, 200 if quick else 10_000)


def fill(kv: KVCacheManager, blocks: int) -> None:
    """Caches ``blocks`` prefixes of one block each."""
    words = np.random.default_rng(blocks).integers(2**63, size=(blocks, 1, 2), dtype=np.uint64)
    for keys in words:
        seq = kv.allocate(None, keys=keys, num_tokens=16).seq
        kv.commit(seq, 16)
        kv.release(seq)


def get_evicting(quick: bool) -> Round:
    """One call that gets 64 blocks where each has to be evicted."""
    blocks = 1 << (10 if quick else 16)

    def once() -> float:
        kv = manager(blocks)
        fill(kv, blocks)
        buffers = iter(np.empty((blocks // TAKEN, TAKEN), np.int32))
        took = per_call(lambda: kv.blocks.take(out=next(buffers)), blocks // TAKEN)
        if kv.stats.counters()["evictions"] != blocks:
            raise AssertionError("not every block was evicted")
        return took

    return once


WORKS = (
    Work(
        "get_free_64",
        get_free,
        bar=1.5,
        floor=floors.two_copies_of_64,
        floor_is="two NumPy calls that copy 64 int32",
        peer="get_free_64",
    ),
    Work(
        "get_free_64_evicting",
        get_evicting,
        bar=5.0,
        floor=floors.scattered_writes_64,
        floor_is="NumPy: copy 64 ids, write them to scattered places of two 64k columns",
        peer="get_free_64_evicting",
    ),
)
