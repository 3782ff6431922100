"""Serve 64 prompts by transformers' continuous batching, on its own blocks and on kvframe's.

Usage, from a checkout, with a Python that has kvframe, transformers 5.17 and torch:

    python -m tests.integrations.run_transformers [--policy NAME ...] [--blocks N ...]

Exit status: 0 if all answers are those of plain generate, 1 if one differs, 2 if it cannot run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import kvframe

ENVIRONMENT = """\
python3 -m venv ENV
ENV/bin/pip install 'transformers==5.17.*' torch psutil .
ENV/bin/python -m tests.integrations.run_transformers"""

BLOCKS = (400, 48, 24)
"""All that is ever said; half of it; three requests. Requests come one after the other."""

ROW = "{:>6}  {:<18}{:>9}{:>7}{:>11}   {}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    summary, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "python -m tests.integrations.run_transformers",
        description=summary,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--policy", action="append", metavar="NAME", help="lru, slru and lfu")
    parser.add_argument("--blocks", action="append", type=int, metavar="N")
    given = parser.parse_args(argv)
    if missing := [name for name in ("torch", "transformers") if find_spec(name) is None]:
        print(f"error: no {' and no '.join(missing)} here; try\n{ENVIRONMENT}", file=sys.stderr)
        return 2
    try:
        same = table(given.policy or ["lru", "slru", "lfu"], given.blocks or BLOCKS)
    except (ImportError, kvframe.KVFrameError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if same else 1


def table(names: Sequence[str], capacities: Sequence[int]) -> bool:
    """A row a run; whether every answer is right."""
    from kvframe.integrations.transformers import kvframe_blocks
    from tests.integrations import tiny

    model, work = tiny.llama(), tiny.prompts()
    right, total = tiny.plain(model, work), sum(map(len, work))
    print(f"{len(work)} prompts, {total} tokens, {tiny.shared(work)} of them in shared blocks")
    print(ROW.format("blocks", "manager", "prefill", "saved", "evictions", "same tokens"))
    managers: list[kvframe.KVCacheManager] = []

    @contextmanager
    def managed(name: str | None) -> Iterator[None]:
        managers.clear()
        if name is None:
            yield
            return
        with kvframe_blocks(eviction={"policy": name}) as made:
            yield
        managers.extend(made)

    same = True
    for blocks in capacities:
        for name in (None, *names):
            served = tiny.serve(model, work, managed(name), blocks=blocks)
            evictions = managers[0].stats.counters()["evictions"] if managers else ""
            saved, right_here = f"{1 - served.prefill / total:.0%}", served.answers == right
            same &= right_here
            words = name or "transformers' own", served.prefill, saved, evictions
            print(ROW.format(blocks, *words, "yes" if right_here else "NO"), flush=True)
    return same


if __name__ == "__main__":
    sys.exit(main())
