"""``python -m perf.native``: what a compiled policy costs beside the same policy built in.

A pool full of cached prefixes serves requests of 64 new blocks, each of which evicts 64: admitted,
committed, released. Nanoseconds are for one evicted block: all events of its life, and the work of
the core and of Python around them, which are the same under each policy. The clock is the thread's
own, so other load does not count, but for what it does to caches.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kvframe import CacheConfig, Config, EvictionConfig, EvictionPolicy, KVCacheManager
from kvframe.config import Chosen
from kvframe.native import CAPSULE, NativePolicy, include_dir
from kvframe.registry import Loaded
from perf.measure import Sample, quiet
from perf.results import command_line, save, warn_debug
from perf.table import short, table

NANO = 1e9
VICTIMS, SIZE = 64, 16
POOLS = (1_000, 10_000, 100_000)
BAR = 2.0
"""A native policy may cost so many times what the built-in one does."""
SOURCE = Path(__file__).parent.parent / "tests" / "native" / "lru.c"

Make = Callable[[], NativePolicy] | None


def compiler() -> str | None:
    """A C compiler's path."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compiled(folder: Path) -> Callable[[str], NativePolicy]:
    """Policies of tests/native/lru.c, by the name of their table."""
    program = compiler()
    if program is None:
        raise SystemExit("perf.native: needs a C compiler: cc")
    built = folder / "lru.so"
    command = [program, "-std=c11", "-O2", "-shared", "-fPIC", f"-I{include_dir()}"]
    subprocess.run([*command, str(SOURCE), "-o", str(built)], check=True)
    library = ctypes.CDLL(str(built))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = CAPSULE.encode()

    def policy(symbol: str) -> NativePolicy:
        made = NativePolicy(
            new(ctypes.addressof(ctypes.c_char.in_dll(library, symbol)), name, None)
        )
        made.kept = (library, name)  # type: ignore[attr-defined]
        return made

    return policy


def manager(builtin: str, make: Make, blocks: int, window: int | None) -> KVCacheManager:
    """A cache of so many blocks under a built-in policy, or under what ``make`` gives."""
    resolved = Config(
        cache=CacheConfig(capacity=blocks, block_size=SIZE),
        eviction=EvictionConfig(policy=builtin, on_error="raise", window=window if make else None),
    ).resolve()
    if make is None:
        return KVCacheManager(resolved)
    known = EvictionPolicy(name="native", way="native", summary="", make=lambda _: make())
    return KVCacheManager(replace(resolved, eviction=Chosen(Loaded(known, "perf", "0", "native"))))


def requests(kv: KVCacheManager, keys: Any) -> float:
    """Mean ns a block of the requests behind the first fill of the pool."""
    fill = kv.counts().free // VICTIMS + 1
    took = 0.0
    with quiet():
        for i, key in enumerate(keys):
            start = time.thread_time()
            seq = kv.allocate(None, keys=key, num_tokens=VICTIMS * SIZE).seq
            kv.commit(seq, VICTIMS * SIZE)
            kv.release(seq)
            took += time.thread_time() - start if i >= fill else 0.0
    n = len(keys) - fill
    evicted = kv.stats.counters()["evictions"]
    if evicted < n * VICTIMS:
        raise AssertionError(f"{evicted} evictions, {n * VICTIMS} were to be measured")
    return took / (n * VICTIMS) * NANO


def measured(
    quick: bool, rounds: int, policy: Callable[[str], NativePolicy]
) -> list[dict[str, Any]]:
    """Rows by pool and form; rounds in turn, so that all meet the same machine."""
    forms: dict[str, tuple[str, Make, int | None]] = {
        "builtin lru": ("lru", None, None),
        "builtin lfu": ("lfu", None, None),
        "native lru, own order": ("lru", lambda: policy("order"), None),
        "native lru, score of 64": ("lru", lambda: policy("column"), 64),
        "native lru, score of 256": ("lru", lambda: policy("column"), 256),
        "native lru, score of all": ("lru", lambda: policy("column"), 0),
    }
    rows = []
    for blocks in POOLS[:1] if quick else POOLS:
        n = 20 if quick else 1_000
        costs: dict[str, list[float]] = {form: [] for form in forms}
        dice = np.random.default_rng(0)
        fill = blocks // VICTIMS + 1
        for _ in range(rounds):
            for form, (builtin, make, window) in forms.items():
                many = n if not form.endswith("all") or blocks < 10_000 else max(10, n // 50)
                keys = dice.integers(2**63, size=(many + fill, VICTIMS, 2), dtype=np.uint64)
                costs[form].append(requests(manager(builtin, make, blocks, window), keys))
        base = Sample.of(costs["builtin lru"])
        for form, values in costs.items():
            one = Sample.of(values)
            rows.append(
                {
                    "blocks": blocks,
                    "policy": form,
                    "ns_a_block": one.best,
                    "ns_a_block_median": one.median,
                    "ns_more_than_builtin_lru": one.best - base.best,
                    "times_builtin_lru": one.best / base.best,
                }
            )
    return rows


def show(rows: list[dict[str, Any]]) -> str:
    """The table, and whether the bar holds."""
    head = ["blocks", "policy", "ns a block", "median", "more than built-in lru", "times it"]
    cells = [
        [
            f"{row['blocks']:,}",
            row["policy"],
            *(
                short(row[key])
                for key in ("ns_a_block", "ns_a_block_median", "ns_more_than_builtin_lru")
            ),
            f"{row['times_builtin_lru']:.2f}",
        ]
        for row in rows
    ]
    worst = max(r["times_builtin_lru"] for r in rows if r["policy"] == "native lru, own order")
    return f"{table(head, cells)}\n\nown order: {worst:.2f} times built in; the bar is {BAR:.0f}"


def main() -> int:
    """Measure, print, save."""
    asked = command_line("native", __doc__, prints="an array of rows").parse_args()
    warn_debug()
    with TemporaryDirectory() as folder:
        rows = measured(asked.quick, asked.rounds, compiled(Path(folder)))
    if asked.save:
        print(save("native", [], rows, rounds=asked.rounds), file=sys.stderr)
    print(json.dumps(rows, indent=2) if asked.json else show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
