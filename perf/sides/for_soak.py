"""A KVCacheManager with a host tier and Redis below it, whose blocks are published.

Run by `perf.soak`, with one JSON object: the ports of the events and of their replay, and Redis'.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from _serve import serve
from soak_traffic import BLOCK, prompt

from kvframe import CacheConfig, Config, KVCacheManager, ModelConfig, TierConfig
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.tiers import Tiers
from kvframe.wire import Announcer, Publisher

BLOCKS = 300
MODEL = ModelConfig(layers=1, kv_heads=1, head_dim=8, dtype="float16")


class Engine:
    """It serves prompts one after the other, and says how far its caches reach."""

    def __init__(self, events: int, replay: int, redis: int) -> None:
        url = f"redis://127.0.0.1:{redis}/0"
        tiers = [
            TierConfig(name="host", capacity=600),
            TierConfig(name="redis", store="redis", capacity=2_000, options={"url": url}),
        ]
        cache = CacheConfig(block_size=BLOCK, capacity=BLOCKS, event_log=True)
        self.kv = KVCacheManager(Config(cache=cache, model=MODEL, tiers=tiers))
        shape = PageShape.of_model(MODEL, BLOCK)
        pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=BLOCKS), dtype=np.float16)
        self.tiers = Tiers(self.kv, pool, model="soak")
        ends = [f"tcp://127.0.0.1:{port}" for port in (events, replay)]
        self.announcer = Announcer(self.kv, Publisher(*ends), tiers=self.tiers)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "serve" in asked:
            for number in range(*asked["serve"]):
                self._serve(prompt(number))
            self.tiers.drain()
            self.announcer.flush()
            return {"evictions": self.kv.stats.counters()["evictions"]}
        return {"reach": [self._reach(prompt(number)) for number in asked["reach"]]}

    def _serve(self, tokens: list[int]) -> None:
        seq = self.tiers.allocate(tokens).seq
        self.tiers.drain()
        self.kv.extend(seq, len(tokens))
        self.kv.commit(seq, len(tokens))
        self.tiers.offload(seq)
        self.kv.release(seq)
        self.tiers.poll()
        self.announcer.flush()

    def _reach(self, tokens: list[int]) -> list[int]:
        hit = self.tiers.lookup([*tokens, 0])
        pool, host, redis = (each // BLOCK for each in (hit.pool, *hit.tiers.values()))
        return [pool, max(pool, host), max(pool, host), max(pool, host, redis)]


if __name__ == "__main__":
    serve("kvframe", Engine(**json.loads(sys.argv[1])).answer)
