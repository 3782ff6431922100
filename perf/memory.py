"""Memory a cached block: growth of the resident set of a fresh process that fills a pool.

``python -m perf.memory [BLOCKS]`` prints bytes a block.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from perf.work import Round, Work, manager

CHAIN = 1_024
ROOT = Path(__file__).parent.parent


def resident() -> int:
    """Bytes of this process in memory (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmRSS")


def filled(blocks: int) -> float:
    """Bytes a block of a pool of ``blocks`` blocks, all cached, in prefixes of 1,024."""
    rng = np.random.default_rng(0)
    before = resident()
    kv = manager(blocks)
    for _ in range(blocks // CHAIN):
        keys = rng.integers(2**63, size=(CHAIN, 2), dtype=np.uint64)
        seq = kv.allocate(None, keys=keys, num_tokens=16 * CHAIN).seq
        kv.commit(seq, 16 * CHAIN)
        kv.release(seq)
    if kv.counts().cached != blocks // CHAIN * CHAIN:
        raise AssertionError(f"not all cached: {kv.counts()}")
    return (resident() - before) / blocks


def bytes_per_block(quick: bool) -> Round:
    """Rounds in processes of their own, so that nothing freed before is counted as room."""
    command = [sys.executable, "-m", "perf.memory", str(1 << (14 if quick else 20))]

    def once() -> float:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        return float(run.stdout)

    return once


WORKS = (
    Work(
        "bytes_per_block",
        bytes_per_block,
        bar=64.0,
        floor=lambda: 20.0,
        floor_is="a 16-byte key and a 4-byte id",
        unit="bytes",
        peer="bytes_per_block",
    ),
)

if __name__ == "__main__":
    # A small pool first: the code and modules that it loads are no block's.
    filled(CHAIN)
    print(filled(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20))
