"""``python -m kvframe_vllm.replay.switching``: how long a switch takes in a pool full of blocks."""

from __future__ import annotations

import argparse
import gc
import logging
import statistics
import time
from pathlib import Path
from typing import Any

from vllm.v1.core.block_pool import BlockPool

from kvframe_vllm.choice import listed, resolved
from kvframe_vllm.command import one_line
from kvframe_vllm.install import put_in
from kvframe_vllm.replay import records
from kvframe_vllm.switch import switch

PREFIX = 50
"""Blocks of a request."""

BAR_MS = 50
"""Milliseconds that a switch may take."""


@one_line
def main() -> None:
    """Switch from lru to each policy and back, in turn; print and record the medians."""
    parser = argparse.ArgumentParser(prog="python -m kvframe_vllm.replay.switching")
    parser.add_argument("--policies", default="lfu,arc,s3-fifo,w-tinylfu", help="names by comma")
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--uses", type=int, default=3, help="how often each block was used")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, default=records.place("switch"), help="the record")
    asked = parser.parse_args()
    logging.getLogger("vllm").setLevel(logging.ERROR)
    policies = listed(asked.policies)
    pool = full(asked.blocks, asked.uses)
    gc.collect()
    gc.freeze()
    spent: dict[str, list[float]] = {}
    for _ in range(asked.turns):
        for name in policies:
            spent.setdefault(name, []).append(timed(pool, name))
            spent.setdefault(f"lru after {name}", []).append(timed(pool, "lru"))
    cells: list[dict[str, Any]] = [
        {"to": name, "ms": times, "median_ms": statistics.median(times)}
        for name, times in spent.items()
    ]
    for cell in cells:
        print(f"{cell['to']:<22} {cell['median_ms']:6.1f} ms")
    records.write(asked.json, "replay.switching", blocks=asked.blocks, uses=asked.uses, cells=cells)
    slow = [cell for cell in cells if cell["median_ms"] >= BAR_MS]
    records.fail_if([f"{cell['to']}: {cell['median_ms']} ms, under {BAR_MS}" for cell in slow])


def full(blocks: int, uses: int) -> Any:
    """A pool under lru of which every block is cached and was used so often."""
    pool = BlockPool(blocks + 1, True, 16)
    put_in(pool, resolved("lru"))
    for first in range(0, blocks, PREFIX):
        got = pool.get_new_blocks(min(PREFIX, blocks - first))
        for place, block in enumerate(got):
            pool._insert_block_hash(
                (first + place).to_bytes(36, "little"), block, num_tokens=16 * (place + 1)
            )
        pool.free_block_queue.entered(got, range(len(got)))
        pool.free_blocks(got[::-1])
    for _ in range(1, uses):
        for first in range(1, blocks + 1, PREFIX):
            found = pool.blocks[first : first + PREFIX]
            pool.touch(found)
            pool.free_blocks(found[::-1])
    return pool


def timed(pool: Any, policy: str) -> float:
    """Milliseconds of processor time that a switch takes."""
    start = time.thread_time()
    assert switch(pool, policy)
    return round((time.thread_time() - start) * 1e3, 1)


if __name__ == "__main__":
    main()
