"""``python -m tests.load``: hours of operations, and whether memory grows meanwhile.

It makes 100 million calls of a manager in which 100,000 sequences, sessions, pins and leases live
in a million blocks, and a million operations with bytes through host memory, a folder and Redis, in
turns, in one process; with ``--hours`` it then goes on till they are over. Everything is recounted
after each of the rounds, and every page that is found is compared. A line is fitted through memory
by calls; the run ends with 1 if it is not flat. It needs redis-server, kvframe-redis and 2 GB.
"""

from __future__ import annotations

import argparse
import time

from .run import Load, run
from .slope import ALLOWED, WARM


def main() -> int:
    """Load, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--hours", type=float, default=0, help="at least so long")
    parser.add_argument("--core", type=float, default=1e8, help="calls without bytes, at least")
    parser.add_argument("--bytes", type=float, default=1e6, help="operations with bytes, at least")
    parser.add_argument(
        "--size", type=int, default=100_000, help="sequences, sessions, pins, leases"
    )
    parser.add_argument("--blocks", type=int, default=1 << 20, help="of the pool")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allowed", type=float, default=ALLOWED, help="growth, as a share")
    asked = parser.parse_args()
    start = time.monotonic()
    counts = int(asked.core), int(asked.bytes), asked.rounds
    done = run(Load(asked.size, asked.blocks, *counts, asked.hours, asked.seed), say=True)
    for name, kinds in (("calls without bytes", done.core), ("operations with bytes", done.pages)):
        parts = ", ".join(f"{kind} {count:,}" for kind, count in kinds.items())
        print(f"{sum(kinds.values()):,} {name}: {parts}")
    print(
        f"{done.compared:,} pages compared, {done.hits:,} tokens hit, {done.rounds} times recounted"
    )
    for tier, counted in done.tiers.items():
        print(
            f"{tier}: " + ", ".join(f"{what} {count:,}" for what, count in counted.items() if count)
        )
    found = done.growth
    print(
        f"resident {found.mean / 1e6:.1f} MB on average after the first {WARM:.0%}; slope "
        f"{found.slope:.4f} bytes a call, 95 % between {found.low:.4f} and {found.high:.4f}; "
        f"at most {found.high * found.span / found.mean:.2%} in {found.span:,.0f} calls"
    )
    is_flat = found.is_flat(asked.allowed)
    verdict = "flat" if is_flat else "NOT flat"
    print(f"{verdict} (limit {asked.allowed:.0%}), {time.monotonic() - start:.0f} s")
    return int(not is_flat)


if __name__ == "__main__":
    raise SystemExit(main())
