"""``python -m perf.growth``: what every public verb costs as more lives beside what it names.

A world of n is built: n sequences of one block, each with a session, a lease, a pin and a deadline,
n more whose first block is being loaded, and as many blocks again that are cached. Each verb then
names a few things of its own. Its time may not grow with n beyond what memory and a logarithm
explain; a verb that returns everything may take n log n.

Exit status: 1 if a verb grows beyond that.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from perf import growth_manager, growth_others
from perf.growth_world import All, Verb, World
from perf.results import save, warn_debug
from perf.table import short, table

SIZES = (1_000, 10_000, 100_000)
MEMORY = 8.0
"""What a logarithm and memory explain from the first size to the last: a thousand sequences lie in
a cache next to the core, a hundred thousand in none. A loop in a loop would grow a hundredfold."""

Times = dict[str, list[float]]


class Part(NamedTuple):
    """The verbs of one class, and what makes a world of a size for them."""

    name: str
    make: Callable[[int], Any]
    verbs: Mapping[str, Verb]


PARTS = (
    Part("KVCacheManager", World, growth_manager.VERBS),
    Part("KVCacheManager, logged radix", growth_manager.Logged, growth_manager.LOGGED),
    Part("KVCacheManager, idle", growth_manager.Idle, growth_manager.IDLE),
    Part("RouterIndex", growth_others.Routed, growth_others.ROUTER),
    Part("SlotCache", growth_others.Slotted, growth_others.SLOTS),
    Part("Tiers", growth_others.Tiered, growth_others.TIERS),
)


def best(world: Any, verb: Verb, rounds: int) -> float:
    """The least µs of processor time of a call, its preparation left out."""
    least = float("inf")
    for _ in range(rounds):
        call = verb(world)
        start = time.thread_time()
        call()
        least = min(least, time.thread_time() - start)
        if least > 0.5:
            break
    return least * 1e6


def measure(parts: Sequence[Part], sizes: Sequence[int], only: str | None, rounds: int) -> Times:
    """The µs of each verb at each size."""
    times: Times = {}
    for part in parts:
        for size in sizes:
            world = part.make(size)
            gc.collect()
            gc.disable()
            for name, verb in part.verbs.items():
                label = f"{part.name}.{name}"
                if only is None or only in label:
                    times.setdefault(label, []).append(best(world, verb, rounds))
            gc.enable()
            print(f"{part.name}: {size:,} measured", file=sys.stderr)
    return times


def too_much(label: str, times: Sequence[float], sizes: Sequence[int]) -> bool:
    """Whether a verb grows by more than it may between the outermost sizes."""
    growth = times[-1] / times[0]
    if label in whole():
        return growth > MEMORY * sizes[-1] / sizes[0]
    # Below some µs it is the clock and the call that are measured.
    return growth > MEMORY and times[-1] > 20


def whole() -> set[str]:
    """Verbs that name or return everything."""
    return {
        f"{part.name}.{name}"
        for part in PARTS
        for name, verb in part.verbs.items()
        if isinstance(verb, All)
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and save if asked to."""
    parser = argparse.ArgumentParser("python -m perf.growth", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write results/DATE-growth.json")
    parser.add_argument("--only", help="verbs whose name holds this")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(argv)
    warn_debug()
    times = measure(PARTS, given.sizes, given.only, given.rounds)
    bad = [label for label, row in times.items() if too_much(label, row, given.sizes)]
    head = ["verb", *(f"µs at {size:,}" for size in given.sizes), "growth", "names"]
    cells = [
        [
            label,
            *map(short, row),
            f"{row[-1] / row[0]:.1f}",
            ("all" if label in whole() else "a few") + (" TOO MUCH" if label in bad else ""),
        ]
        for label, row in times.items()
    ]
    print(table(head, cells))
    if given.save:
        rows = [
            {"verb": label, "us": row, "growth": row[-1] / row[0], "names_all": label in whole()}
            for label, row in times.items()
        ]
        print(save("growth", [], rows, sizes=given.sizes))
    if bad:
        print(f"these grow with what they do not name: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
