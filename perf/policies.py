"""``python -m perf.policies``: what a policy in Python costs a decision, and what a window loses.

A manager full of cached prefixes admits requests of 64 new blocks: each admission needs 64 victims,
which is one decision. Its time under a batched policy less its time under the built-in lru is the
decision's cost: gathering candidates and columns, the policy's own NumPy calls, choosing 64.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvframe import CacheConfig, Config, EvictionPolicy, KVCacheManager, PolicyConfig, _core
from kvframe.bench.traces import load
from kvframe.policies import BatchedEviction, Candidates
from kvframe.policies.driver import driver
from kvframe.registry import Loaded
from perf.measure import MICRO, Sample, per_call, quiet
from perf.results import save, warn_debug
from perf.table import short, table

STEP = 200.0
"""µs of the scheduler step that a decision is held against."""
SHARE = 0.05
VICTIMS, SIZE = 64, 16
WINDOWS = ((64, 4_096), (256, 4_096), (1_024, 4_096), (0, 10_000))
"""(window, blocks of the pool); window 0 offers every one of them."""


class Recent(BatchedEviction):
    """Recency weighed with frequency: a use counts as 16 ticks. Two columns, two NumPy calls."""

    columns = ("last_use", "uses")

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        np.multiply(candidates["uses"], 16.0, out=out)
        np.add(out, candidates["last_use"], out=out)


class Frequent(BatchedEviction):
    """Least frequently used, then least recently: as far from lru as the built-in lfu, which it
    equals where it sees every candidate.
    """

    columns = ("last_use", "uses")

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        np.multiply(candidates["uses"], 2.0**32, out=out)
        np.add(out, candidates["last_use"], out=out)


def found(policy: type[BatchedEviction]) -> Loaded[EvictionPolicy]:
    """What the registry would answer if the class were a package's."""
    name = policy.__name__.lower()
    descriptor = EvictionPolicy(
        name=name,
        way="batched",
        summary="measured",
        options=None,
        make=lambda _: policy(),
        source="perf/policies.py",
    )
    return Loaded(descriptor, "perf", "0", name)


def manager(policy: type[BatchedEviction] | None, window: int, blocks: int) -> KVCacheManager:
    """A manager under a batched policy, or under lru."""
    resolved = Config(
        cache=CacheConfig(capacity=blocks, block_size=SIZE),
        policy=PolicyConfig(eviction="lru", window=window, on_error="raise"),
    ).resolve()
    if policy is not None:
        resolved = replace(resolved, policy=found(policy))
    return KVCacheManager(resolved)


def admissions(policy: type[BatchedEviction] | None, window: int, blocks: int, n: int) -> float:
    """Mean µs of an admission that evicts 64 blocks."""
    kv = manager(policy, window, blocks)
    fill = blocks // VICTIMS + 1
    keys = np.random.default_rng(0).integers(2**63, size=(n + fill, VICTIMS, 2), dtype=np.uint64)
    took = 0.0
    with quiet():
        for i, key in enumerate(keys):
            start = time.perf_counter()
            seq = kv.admit(None, keys=key, num_tokens=VICTIMS * SIZE).seq
            took += time.perf_counter() - start if i >= fill else 0.0
            kv.commit(seq, VICTIMS * SIZE)
            kv.release(seq)
    if kv.stats()["evictions"] < n * VICTIMS:
        raise AssertionError("an admission evicted too little")
    return took / n * MICRO


def own_calls(candidates: int) -> float:
    """µs of the policy's own NumPy calls over as many candidates: the floor."""
    columns: dict[str, npt.NDArray[Any]] = {
        "last_use": np.arange(candidates, dtype=np.uint64),
        "uses": np.arange(candidates, dtype=np.uint32),
    }
    out = np.empty(candidates)
    offered = Candidates(now=0, block_size=SIZE, columns=columns)
    policy = Recent()
    return per_call(lambda: policy.score(offered, out), 500)


def decisions(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Cost of a decision at each window, rounds in turn with lru's."""
    rows = []
    for window, blocks in WINDOWS:
        n = 20 if quick else 2_000
        costs, plain, own = [], [], []
        for _ in range(rounds):
            plain.append(admissions(None, window, blocks, n))
            costs.append(admissions(Recent, window, blocks, n))
            own.append(own_calls(window or blocks))
        best = Sample.of(costs).best - Sample.of(plain).best
        rows.append(
            {
                "window": window,
                "candidates": window or blocks,
                "us_a_decision": best,
                "us_a_decision_median": Sample.of(costs).median - Sample.of(plain).median,
                "us_admission_lru": Sample.of(plain).best,
                "share_of_step": best / STEP,
                "floor": min(own),
            }
        )
    return rows


def hit_rates(trace_name: str, capacities: list[int], mode: str) -> list[dict[str, Any]]:
    """Token hit rates of `Frequent` by window, with lru and lfu beside.

    Raises:
        AssertionError: With every candidate in sight it is not the built-in lfu.
    """
    trace = load(trace_name).trace
    rows = []
    for capacity in capacities:
        row: dict[str, Any] = {"trace": trace.name, "mode": mode, "capacity_blocks": capacity}
        for name in ("lru", "lfu"):
            row[name] = rate(_core.replay(trace, name, capacity, mode))
        for window, _ in WINDOWS:
            made = driver(found(Frequent), None, window, trace.block_size)
            row[f"window_{window}"] = rate(_core.replay(trace, made, capacity, mode))
        if row["window_0"] != row["lfu"]:
            raise AssertionError(f"{row['window_0']} with a full scan, lfu {row['lfu']}")
        rows.append(row)
    return rows


def rate(replayed: dict[str, Any]) -> float:
    """Token hit rate."""
    return float(replayed["hit_tokens"] / replayed["input_tokens"])


def show(costs: list[dict[str, Any]], rates: list[dict[str, Any]]) -> str:
    """Both tables, and whether the bar at 256 candidates holds."""
    head = ["candidates", "µs a decision", "median", "own NumPy calls", "of a 200 µs step"]
    cells = [
        [
            f"{row['candidates']:,}" + ("" if row["window"] else " (all)"),
            *(short(row[key]) for key in ("us_a_decision", "us_a_decision_median", "floor")),
            f"{row['share_of_step']:.1%}",
        ]
        for row in costs
    ]
    windows = [key for key in rates[0] if key.startswith("window_")]
    head_rates = ["trace", "mode", "blocks", "lru", "lfu"]
    head_rates += [w.replace("window_0", "full scan").replace("window_", "of ") for w in windows]
    cells_rates = [
        [row["trace"], row["mode"], f"{row['capacity_blocks']:,}"]
        + [f"{row[key]:.4f}" for key in ("lru", "lfu", *windows)]
        for row in rates
    ]
    bar = next(row for row in costs if row["window"] == 256)["share_of_step"]
    verdict = f"{bar:.1%} of a step at 256 candidates; the bar is {SHARE:.0%}"
    return f"{table(head, cells)}\n\n{verdict}\n\n{table(head_rates, cells_rates)}"


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m perf.policies", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print an object: costs, rates")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all")
    parser.add_argument("--save", action="store_true", help="write perf/results/DATE-policies.json")
    parser.add_argument("--trace", default="conversation", help="shipped name or file")
    parser.add_argument("--capacity", action="append", type=int, help="blocks; repeatable")
    asked = parser.parse_args()
    warn_debug()
    costs = decisions(asked.rounds, asked.quick)
    capacities = asked.capacity or ([1_000] if asked.quick else [2_000, 8_000, 32_000])
    rates = hit_rates(asked.trace, capacities, "engine")
    if asked.save:
        print(save("policies", [], costs, rates=rates, rounds=asked.rounds), file=sys.stderr)
    if asked.json:
        print(json.dumps({"costs": costs, "rates": rates}, indent=2))
    else:
        print(show(costs, rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
