"""``python -m perf.policies``: what a policy costs a decision, by the way it is written.

A manager full of cached prefixes admits requests of 64 new blocks: each admission needs 64 victims,
which is one decision. Its time less that under the built-in lru is the decision's cost: for a
batched policy gathering candidates and columns, its own NumPy calls, choosing 64. The clock is the
thread's own. Then hit rates: what a window loses; and how many requests a second a replay serves
under a policy in Python, one call of its `score` a decision, and under one that hears events.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kvframe import CacheConfig, Config, EvictionConfig, EvictionPolicy, KVCacheManager, _core
from kvframe.bench.traces import load
from kvframe.config import Chosen
from kvframe.drivers.asker import Terms
from kvframe.drivers.eviction import EvictionDriver, driver
from kvframe.policies import BatchedEviction, Candidates
from kvframe.registry import Loaded
from perf.measure import MICRO, Sample, per_call, quiet
from perf.native import compiled, compiler, manager
from perf.results import command_line, save, warn_debug
from perf.table import short, table

STEP = 200.0
"""µs of the scheduler step that a decision is held against."""
SHARE = 0.05
TWICE = 2.0
"""A native policy's admission may cost so many times the built-in one's."""
BAR = "batched, window 256", "batched floats, window 256"
"""The forms that have to keep below that share: of integers, as columns are, and of floats."""
REQUESTS = 25_000
"""A replay under such a policy serves so many requests a second."""
VICTIMS, SIZE = 64, 16
POOLS = (1_000, 10_000, 100_000)
WINDOWS = (64, 256, 1_024, 0)
"""Candidates offered; 0 offers every one of them."""


class Recent(BatchedEviction):
    """Recency weighed with frequency: a use counts as 16 ticks. Two columns, two NumPy calls."""

    columns = ("last_use", "uses")

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        np.multiply(candidates["uses"], 16.0, out=out)
        np.add(out, candidates["last_use"], out=out)


class Floats(Recent):
    """The same of columns that NumPy need not cast."""

    floats = True


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


def admissions(kv: KVCacheManager, n: int) -> float:
    """Mean µs of an admission that evicts 64 blocks, in CPU time of the thread."""
    fill = kv.counts().free // VICTIMS + 1
    keys = np.random.default_rng(0).integers(2**63, size=(n + fill, VICTIMS, 2), dtype=np.uint64)
    took = 0.0
    with quiet():
        for i, key in enumerate(keys):
            start = time.thread_time()
            seq = kv.allocate(None, keys=key, num_tokens=VICTIMS * SIZE).seq
            took += time.thread_time() - start if i >= fill else 0.0
            kv.commit(seq, VICTIMS * SIZE)
            kv.release(seq)
    if kv.stats.counters()["evictions"] < n * VICTIMS:
        raise AssertionError("an admission evicted too little")
    return took / n * MICRO


def forms(folder: Path) -> dict[str, Callable[[int], KVCacheManager]]:
    """Ways to write a policy, each a manager of so many blocks; native ones need a C compiler."""

    def batched(
        window: int, policy: type[BatchedEviction] = Recent
    ) -> Callable[[int], KVCacheManager]:
        def made(blocks: int) -> KVCacheManager:
            resolved = Config(
                cache=CacheConfig(capacity=blocks, block_size=SIZE),
                eviction=EvictionConfig(policy="lru", window=window, on_error="raise"),
            ).resolve()
            return KVCacheManager(replace(resolved, eviction=Chosen(found(policy))))

        return made

    known: dict[str, Callable[[int], KVCacheManager]] = {
        f"builtin {name}": partial(manager, name, None, window=None)
        for name in ("lru", "lfu", "foresight")
    }
    if compiler() is not None:
        policy = compiled(folder)
        for what, symbol, window in (
            ("own order", "order", None),
            ("window 256", "column", 256),
            ("all", "column", 0),
        ):
            make = partial(policy, symbol)
            known[f"native, {what}"] = partial(manager, "lru", make, window=window)
    for window in WINDOWS:
        known[f"batched, {f'window {window:,}' if window else 'all'}"] = batched(window)
    known["batched floats, window 256"] = batched(256, Floats)
    return known


def floor(candidates: int) -> dict[str, float]:
    """µs that no decision in Python can do without, over as many candidates.

    Answers:
        A call that does nothing; one NumPy call on a column; the policy's own `score`.
    """
    columns: dict[str, npt.NDArray[Any]] = {
        "last_use": np.arange(candidates, dtype=np.uint64),
        "uses": np.arange(candidates, dtype=np.uint32),
    }
    out = np.empty(candidates)
    offered = Candidates(now=0, block_size=SIZE, columns=columns)
    policy = Recent()
    return {
        "empty_call": per_call(lambda: None, 5_000),
        "numpy_call": per_call(lambda: np.multiply(columns["uses"], 16.0, out=out), 5_000),
        "own_score": per_call(lambda: policy.score(offered, out), 5_000),
    }


def decisions(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Cost of a decision by pool and form, rounds in turn with lru's."""
    rows = []
    with TemporaryDirectory() as folder:
        known = forms(Path(folder))
        for blocks in POOLS[:1] if quick else POOLS:
            costs: dict[str, list[float]] = {form: [] for form in known}
            for _ in range(rounds):
                for form, make in known.items():
                    n = 2_000 if not form.endswith("all") else 4_000_000 // blocks
                    costs[form].append(admissions(make(blocks), 20 if quick else min(n, 2_000)))
            base = Sample.of(costs["builtin lru"])
            for form, values in costs.items():
                one = Sample.of(values)
                rows.append(
                    {
                        "blocks": blocks,
                        "policy": form,
                        "us_an_admission": one.best,
                        "us_an_admission_median": one.median,
                        "us_a_decision": one.best - base.best,
                        "ns_a_victim": (one.best - base.best) * 1_000 / VICTIMS,
                        "times_builtin_lru": one.best / base.best,
                        "share_of_step": (one.best - base.best) / STEP,
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
        for window in WINDOWS:
            made = driver(found(Frequent), Terms(trace.block_size, window=window))
            row[f"window_{window}"] = rate(_core.replay(trace, made, capacity, mode))
        if row["window_0"] != row["lfu"]:
            raise AssertionError(f"{row['window_0']} with a full scan, lfu {row['lfu']}")
        rows.append(row)
    return rows


class Counted(Recent):
    """How often a replay asks."""

    def __init__(self) -> None:
        self.calls = 0

    def score(self, candidates: Candidates, out: npt.NDArray[np.float64]) -> None:
        self.calls += 1
        super().score(candidates, out)


class Books(Recent):
    """The same by counts of its own: it hears of each use, and of what is gone."""

    def __init__(self) -> None:
        self.hits: dict[int, int] = {}

    def hit(self, blocks: npt.NDArray[np.uint32], now: int) -> None:
        for block in blocks.tolist():
            self.hits[block] = self.hits.get(block, 0) + 1

    def remove(self, blocks: npt.NDArray[np.uint32], why: str, now: int) -> None:
        for block in blocks.tolist():
            self.hits.pop(block, None)


def seconds(trace: _core.Trace, policy: type[BatchedEviction] | None, capacity: int) -> float:
    """CPU time of a replay; under lru if there is no policy."""
    made: Any = "lru"
    if policy is not None:
        made = driver(found(policy), Terms(trace.block_size))
    start = time.thread_time()
    _core.replay(trace, made, capacity, "engine")
    return time.thread_time() - start


def replays(traces: dict[str, tuple[int, ...]], rounds: int) -> list[dict[str, Any]]:
    """Requests a second of CPU time under lru, `Recent` and `Books`, and how often it was asked."""
    rows = []
    for name, capacities in traces.items():
        trace = load(name).trace
        trace.prepare("engine")

        for capacity in capacities:
            asked = driver(found(Counted), Terms(trace.block_size))
            assert isinstance(asked, EvictionDriver)
            _core.replay(trace, asked, capacity, "engine")
            row = {"trace": name, "capacity_blocks": capacity}
            for what, policy in (("lru", None), ("batched", Recent), ("events", Books)):
                best = min(seconds(trace, policy, capacity) for _ in range(rounds))
                row[f"{what}_requests_a_second"] = trace.requests / best
            calls = cast(Counted, asked.policy).calls
            rows.append({**row, "calls_a_request": calls / trace.requests})
    return rows


def rate(replayed: dict[str, Any]) -> float:
    """Token hit rate."""
    return float(replayed["hit_tokens"] / replayed["input_tokens"])


def show(
    costs: list[dict[str, Any]],
    rates: list[dict[str, Any]],
    least: dict[str, float],
    speeds: list[dict[str, Any]],
) -> str:
    """The tables, and whether the bars hold."""
    head = ["blocks", "policy", "µs an admission", "µs a decision", "of a 200 µs step", "times lru"]
    cells = [
        [
            f"{row['blocks']:,}",
            row["policy"],
            short(row["us_an_admission"]),
            f"{row['us_a_decision']:.2f}",
            f"{row['share_of_step']:.1%}",
            f"{row['times_builtin_lru']:.2f}",
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
    verdict = ""
    for form in BAR:
        share = max(row["share_of_step"] for row in costs if row["policy"] == form)
        verdict += f"{form}: {share:.1%} of a step at most, the bar is {SHARE:.0%}\n"
    verdict += (
        f"of that, on integers, its own score takes {least['own_score']:.1f} µs, "
        f"one NumPy call {least['numpy_call']:.1f}, "
        f"an empty call {least['empty_call']:.2f}"
    )
    native = [row["times_builtin_lru"] for row in costs if row["policy"] == "native, own order"]
    if native:
        verdict += f"\nnative, own order: {max(native):.2f} times built in; the bar is {TWICE:.0f}"
    head_speeds = [
        "trace",
        "blocks",
        "lru, requests/s",
        "batched, requests/s",
        "with events",
        "calls a request",
    ]
    cells_speeds = [
        [
            row["trace"],
            f"{row['capacity_blocks']:,}",
            f"{row['lru_requests_a_second']:,.0f}",
            f"{row['batched_requests_a_second']:,.0f}",
            f"{row['events_requests_a_second']:,.0f}",
            f"{row['calls_a_request']:.2f}",
        ]
        for row in speeds
    ]
    slowest = min(
        row[f"{how}_requests_a_second"] for row in speeds for how in ("batched", "events")
    )
    verdict_speeds = f"{slowest:,.0f} requests a second at least; the bar is {REQUESTS:,}"
    parts = table(head, cells), verdict, table(head_rates, cells_rates)
    return "\n\n".join([*parts, table(head_speeds, cells_speeds), verdict_speeds])


def main() -> int:
    """Measure, print, save."""
    parser = command_line("policies", __doc__, prints="an object: costs, rates, replays, floor")
    parser.add_argument("--trace", default="conversation", help="shipped name or file")
    parser.add_argument("--capacity", action="append", type=int, help="blocks; repeatable")
    asked = parser.parse_args()
    warn_debug()
    costs = decisions(asked.rounds, asked.quick)
    least = floor(256)
    capacities = asked.capacity or ([1_000] if asked.quick else [2_000, 8_000, 32_000])
    rates = hit_rates(asked.trace, capacities, "engine")
    of: dict[str, tuple[int, ...]] = {"synthetic": (2_000,)}
    if not asked.quick:
        of = {"conversation": (2_000, 8_000), "synthetic": (2_000, 8_000), "agent": (4_000, 16_000)}
    speeds = replays(of, 1 if asked.quick else 3)
    if asked.save:
        more = {"rates": rates, "replays": speeds, "rounds": asked.rounds, "floor": least}
        print(save("policies", [], costs, **more), file=sys.stderr)
    if asked.json:
        print(
            json.dumps(
                {"costs": costs, "rates": rates, "replays": speeds, "floor": least}, indent=2
            )
        )
    else:
        print(show(costs, rates, least, speeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
