"""``python -m kvframe_sglang.cost``: what a call costs, kvframe's tree beside SGLang's two.

All in one process and through SGLang's ``UnifiedRadixCache``: 40,000 leaves of 16 tokens, of which
one is evicted, then 256 at once; a prompt of 8,192 tokens that is cached as one node is matched;
one of 512 that shares 256 is stored, locked and unlocked. The rounds alternate, and the best of a
median is printed. Slots are freed to an allocator that does nothing. With ``--json FILE`` the
figures are also written there.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import random
import statistics
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvframe_sglang.command import needs_sglang

PAGE, LEAVES, CALLS = 16, 40_000, 100
CORES = {"kvframe lru": "kvframe:lru", "kvframe arc": "kvframe:arc", "rust": "lru", "python": "lru"}


class Nowhere:
    """An allocator that takes slots back and forgets them.

    Args:
        device: Where the slots would be.
    """

    page_size = PAGE

    def __init__(self, device: Any) -> None:
        self.device = device

    def free_segment(self, indices: Any, start_pos: int = 0) -> None:
        """Slots come back."""


def made(core: str) -> Any:
    """A cache on that core."""
    import torch
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    params = CacheInitParams(
        disable=False,
        req_to_token_pool=None,
        token_to_kv_pool_allocator=Nowhere(torch.device("cpu")),
        page_size=PAGE,
        eviction_policy=CORES[core],
    )
    params.tree_components = (ComponentType.FULL,)
    params.tree_core_backend = None if core.startswith("kvframe") else core
    return UnifiedRadixCache(params)


class Bench:
    """One cache with its leaves.

    Args:
        core: Of `CORES`.
    """

    def __init__(self, core: str) -> None:
        self._random = random.Random(7)
        self.cache = made(core)
        self._slot = 0
        for _ in range(LEAVES):
            self.store(self._tokens(PAGE))
        self.long = self._tokens(8192)
        self.store(self.long)
        self._head = self._tokens(256)

    def _tokens(self, count: int) -> array[int]:
        return array("q", [self._random.randrange(1 << 17) for _ in range(count)])

    def store(self, tokens: array[int]) -> Any:
        """Store a prompt."""
        import torch
        from sglang.srt.mem_cache.base_prefix_cache import InsertParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        slots = torch.arange(self._slot, self._slot + len(tokens))
        self._slot += len(tokens)
        return self.cache.insert(InsertParams(key=RadixKey(tokens), value=slots))

    def evict_one(self) -> Callable[[], Any]:
        """One leaf, for which another comes."""
        self.store(self._tokens(PAGE))
        return self._evict(PAGE)

    def evict_many(self) -> Callable[[], Any]:
        """256 leaves, for which others come."""
        for _ in range(256):
            self.store(self._tokens(PAGE))
        return self._evict(256 * PAGE)

    def _evict(self, tokens: int) -> Callable[[], Any]:
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        return lambda: self.cache.evict(EvictParams(num_tokens=tokens))

    def match(self) -> Callable[[], Any]:
        """A long prompt."""
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        return lambda: self.cache.match_prefix(MatchPrefixParams(key=RadixKey(self.long)))

    def request(self) -> Callable[[], Any]:
        """A prompt comes, is locked and unlocked."""
        tokens = self._head + self._tokens(256)

        def serve() -> None:
            node = self.store(tokens).last_device_node
            self.cache.unlock(self.cache.lock(node))

        return serve


WORKS = ("evict_one", "evict_many", "match", "request")


def timed(make: Callable[[], Callable[[], Any]], calls: int) -> float:
    """The median of a call in µs."""
    took = []
    for _ in range(calls):
        call = make()
        start = time.perf_counter()
        call()
        took.append((time.perf_counter() - start) * 1e6)
    return statistics.median(took)


def measure(rounds: int, calls: int = CALLS) -> dict[str, dict[str, float]]:
    """µs a call by core and work."""
    from kvframe_sglang.plugin import register

    register()
    benches = {core: Bench(core) for core in CORES}
    best: dict[str, dict[str, float]] = {core: {} for core in CORES}
    for _ in range(rounds):
        for work in WORKS:
            for core, bench in benches.items():
                took = timed(
                    getattr(bench, work), max(3, calls // 10) if core == "python" else calls
                )
                best[core][work] = round(min(took, best[core].get(work, took)), 2)
    return best


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_sglang.cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    needs_sglang(parser)
    best = measure(asked.rounds)
    print("µs a call".ljust(14), *(work.rjust(12) for work in WORKS))
    for core, row in best.items():
        print(core.ljust(14), *(f"{row[work]:12.2f}" for work in WORKS))
    if asked.json:
        versions = {
            name: importlib.metadata.version(name) for name in ("sglang", "torch", "kvframe")
        }
        told = {
            "date": datetime.date.today().isoformat(),
            "command": "python -m kvframe_sglang.cost",
            "cores": os.cpu_count(),
            "versions": versions,
            "leaves": LEAVES,
            "us": best,
        }
        asked.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
