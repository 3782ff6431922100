"""Serve the same chats under every policy, with less and with more room, and compare the answers.

Each run must give the answers that each request gets alone, without any cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter

from examples.serving.run import Answers, Outcome, build, policies, reference, serve
from examples.serving.workload import Session, sessions

from kvframe import KVFrameError

CAPACITIES = (28, 72, 120)
"""Blocks: one long sequence and little more; what runs at once; nearly all that is ever said."""

TURNS = 3
"""Requests of a chat."""

ROW = "{:<16}{:>9}{:>7}{:>13}{:>11}{:>8}   {}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if an answer differs, 2 if something cannot be run."""
    summary, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser("python -m examples.serving", None, summary, more)
    parser.add_argument("--policy", action="append", metavar="NAME", help="all, if none is named")
    parser.add_argument("--capacity", action="append", type=int, metavar="BLOCKS")
    parser.add_argument("--requests", type=int, default=36, metavar="N", help=f"{TURNS} a chat")
    parser.add_argument("--no-reuse", action="store_true", help="only without prefix caching")
    given = parser.parse_args(argv)
    if given.requests < 1:
        parser.error(f"--requests {given.requests}: must be at least 1")
    names = [] if given.no_reuse else given.policy or policies()
    work = sessions(max(1, round(given.requests / TURNS)), turns=TURNS)
    started = perf_counter()
    right = reference(work)
    print(f"{TURNS * len(work)} requests in chats of {TURNS}")
    try:
        tables = [table(names, n, work, right) for n in given.capacity or CAPACITIES]
    except KVFrameError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"\n{perf_counter() - started:.1f} s")
    return 0 if all(tables) else 1


def table(names: list[str], capacity: int, work: list[Session], right: Answers) -> bool:
    """Print what happens with so many blocks; whether all answers are right."""
    print(f"\n{capacity} blocks")
    heads = ("prefill", "saved", "preemptions", "evictions", "copies", "same tokens")
    print(ROW.format("policy", *heads))
    # Without reuse nothing is ever cached, so no policy has anything to decide.
    cold = serve(build(capacity=capacity, reuse=False), work)
    print(row("(no reuse)", cold, cold, right))
    same = cold.answers == right
    for name in names:
        warm = serve(build(name, capacity), work)
        print(row(name, warm, cold, right))
        same &= warm.answers == right
    return same


def row(name: str, run: Outcome, cold: Outcome, right: Answers) -> str:
    """One run in a line. Prefill is counted in prompt tokens computed."""
    did = run.counters
    saved = f"{1 - did.prefill / cold.counters.prefill:.0%}" if run is not cold else ""
    return ROW.format(
        name,
        did.prefill,
        saved,
        did.preemptions,
        run.kv.stats.counters()["evictions"],
        did.copies,
        "yes" if run.answers == right else "NO",
    )


if __name__ == "__main__":
    sys.exit(main())
