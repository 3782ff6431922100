"""An engine with everything that metrics tell of: tiers, a slow policy, pins, a publisher.

Run as a program, it serves its metrics and prints where, until its standard input ends.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kvframe import KVCacheManager
from kvframe.metrics import Server, serve
from kvframe.pages import LAYER_FIRST, Layout, NumpyPool, PageShape
from kvframe.policies import BatchedEviction
from kvframe.shadow import ShadowSet
from kvframe.tiers import Tiers
from kvframe.wire import Announcer, Publisher

CONFIG = """
[plugins]
places = [{place}]

[cache]
block_size = 4
capacity = 32
weight_version = "tiny@1"
event_log = true

[eviction]
policy = {policy}
budget_ms = 10000

[model]
layers = 1
kv_heads = 1
head_dim = 8
dtype = "float16"

[[tenants]]
name = "a"
floor = 0.0625

[[tiers]]
name = "host"
capacity = 64
"""


class Oldest(BatchedEviction):
    """Evicts the block that was used first."""

    columns = ("last_use",)

    def score(self, candidates: Any, out: Any) -> None:
        out[:] = candidates["last_use"]


@contextmanager
def engine(folder: Path) -> Iterator[tuple[Server, KVCacheManager, Tiers]]:
    """It has served requests under eviction, and holds a sequence and a pin."""
    file = folder / "kvframe.toml"
    place = json.dumps(str(Path(__file__)))
    file.write_text(CONFIG.format(place=place, policy=place[:-1] + ':Oldest"'))
    kv = KVCacheManager.from_toml(file)
    model = kv.inspect.resolved.config.model
    shape = PageShape.of_model(model, kv.block_size)
    pool = NumpyPool(Layout.of(LAYER_FIRST, shape, blocks=32), dtype=np.float16)
    ends = "tcp://127.0.0.1:*", "tcp://127.0.0.1:*"
    with (
        Tiers(kv, pool) as tiers,
        Publisher(*ends) as publisher,
        ShadowSet(["lru"], [32], 4, actual=("lru", 32)) as shadows,
        serve(kv, tiers=tiers, publisher=publisher, shadows=shadows, port=0) as server,
    ):
        announcer = Announcer(kv, publisher)
        for at in range(40):
            serve_one(kv, tiers, [*range(at // 2 * 100, at // 2 * 100 + 10)])
            announcer.flush()
        kv.evict_until(4)
        kv.blocks.free(kv.blocks.take(8))
        running = kv.allocate(range(50_000, 50_010)).seq
        kv.commit(running, 8)
        kv.pins.lease(running, 4)
        kv.pins.pin(range(1900, 1910), owner="team a")
        yield server, kv, tiers


def serve_one(kv: KVCacheManager, tiers: Tiers, prompt: list[int]) -> None:
    """A request, from allocation to its end; its blocks go to host memory, too."""
    seq = tiers.allocate(prompt).seq
    tiers.drain()
    kv.extend(seq, len(prompt))
    kv.commit(seq, len(prompt))
    tiers.offload(seq)
    kv.release(seq)
    tiers.drain()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, engine(Path(folder)) as found:
        print(found[0].url, flush=True)
        sys.stdin.read()
