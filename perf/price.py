"""``python -m perf.price``: what foresight costs, with lru beside it.

Replays of the shipped traces; admissions that evict 64 blocks in pools of 1,000 to 1,000,000
blocks, and the first eviction of each, in CPU time. Rounds take turns, and the best one counts.
Exit code 1 if what 64 victims cost beyond lru's differs by more than ``FLAT`` µs from pool to pool,
or the first eviction costs more than ``FIRST`` µs beyond lru's.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from kvframe import CacheConfig, Config, EvictionConfig, KVCacheManager, _core
from kvframe.bench.traces import load
from perf.cells import CAPACITIES
from perf.measure import MICRO, quiet
from perf.results import command_line, save, warn_debug
from perf.table import table

VICTIMS, SIZE = 64, 16
POOLS = (1_000, 10_000, 100_000, 1_000_000)
FLAT, FIRST = 10.0, 200.0
"""µs beyond lru's, which itself grows with what leaves the processor's caches."""
POLICIES = ("lru", "foresight")


def replays(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Seconds of each shipped trace at all its capacities, by policy."""
    rows = []
    for name, capacities in CAPACITIES.items():
        trace = load(name).trace
        for capacity in capacities[:1] if quick else capacities:
            best = dict.fromkeys(POLICIES, float("inf"))
            for _ in range(rounds):
                for policy in POLICIES:
                    took = _core.replay(trace, policy, capacity, "engine")["seconds"]
                    best[policy] = min(best[policy], took)
            rows.append({"trace": name, "capacity": capacity, **best})
    return rows


def filled(policy: str, blocks: int) -> KVCacheManager:
    """A manager whose blocks are all cached, in prefixes of 64."""
    resolved = Config(
        cache=CacheConfig(capacity=blocks, block_size=SIZE), eviction=EvictionConfig(policy=policy)
    ).resolve()
    kv = KVCacheManager(resolved)
    for key in keys(0, kv.counts().free // VICTIMS):
        admit(kv, key)
    return kv


def keys(seed: int, n: int) -> Any:
    """``n`` prefixes of 64 blocks."""
    return np.random.default_rng(seed).integers(2**63, size=(n, VICTIMS, 2), dtype=np.uint64)


def admit(kv: KVCacheManager, key: Any) -> float:
    """Seconds that a request of new blocks takes to be allocated."""
    tokens = len(key) * SIZE
    start = time.thread_time()
    seq = kv.allocate(None, keys=key, num_tokens=tokens).seq
    took = time.thread_time() - start
    kv.commit(seq, tokens)
    kv.release(seq)
    return took


def victims(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """µs of the first eviction, and of 64 victims after it, by pool and policy."""
    rows = []
    for blocks in POOLS[:2] if quick else POOLS:
        row: dict[str, Any] = {"blocks": blocks}
        for policy in POLICIES:
            first, later = [], []
            for _ in range(rounds):
                kv = filled(policy, blocks)
                rest, one, *more = keys(1, 52 if quick else 1_502)
                with quiet():
                    if free := kv.counts().free:
                        admit(kv, rest[:free])
                    first.append(admit(kv, one[:1]))
                    later.append(sum(admit(kv, key) for key in more) / len(more))
            row[f"{policy}_first"] = min(first) * MICRO
            row[f"{policy}_64"] = min(later) * MICRO
        rows.append(row)
    return rows


def judge(rows: list[dict[str, Any]]) -> list[str]:
    """What is over its bar."""
    over = []
    more = [row["foresight_64"] - row["lru_64"] for row in rows]
    if max(more) - min(more) > FLAT:
        over.append(f"64 victims take {min(more):.1f} to {max(more):.1f} µs more, by the pool")
    if (worst := max(row["foresight_first"] - row["lru_first"] for row in rows)) > FIRST:
        over.append(f"the first eviction takes {worst:.0f} µs more")
    return over


def show(costs: list[dict[str, Any]], took: list[dict[str, Any]]) -> str:
    """Both tables."""
    head = ["blocks", "64 victims, lru", "foresight", "first eviction, lru", "foresight"]
    names = ("lru_64", "foresight_64", "lru_first", "foresight_first")
    cells = [[f"{row['blocks']:,}", *(f"{row[name]:.1f} µs" for name in names)] for row in costs]
    replayed = [
        [
            row["trace"],
            f"{row['capacity']:,}",
            *(f"{row[policy] * 1_000:.1f} ms" for policy in POLICIES),
            f"{row['foresight'] / row['lru']:.2f}",
        ]
        for row in took
    ]
    for trace in dict.fromkeys(row["trace"] for row in took):
        of = [row for row in took if row["trace"] == trace]
        sums = [sum(row[policy] for row in of) for policy in POLICIES]
        both = [f"{total * 1_000:.1f} ms" for total in sums]
        replayed.append([trace, "all", *both, f"{sums[1] / sums[0]:.2f}"])
    return f"{table(head, cells)}\n\n{table(['trace', 'blocks', *POLICIES, 'times'], replayed)}"


def main() -> int:
    """Measure, print, save, judge."""
    asked = command_line("price", __doc__, prints="an object: victims, replays").parse_args()
    warn_debug()
    costs = victims(asked.rounds, asked.quick)
    took = replays(asked.rounds, asked.quick)
    if asked.save:
        print(save("price", [], costs, replays=took, rounds=asked.rounds), file=sys.stderr)
    if asked.json:
        print(json.dumps({"victims": costs, "replays": took}, indent=2))
    else:
        print(show(costs, took))
    over = [] if asked.quick else judge(costs)
    for line in over:
        print(f"perf.price: {line}", file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
