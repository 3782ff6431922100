"""Keys of a 32,768-token prompt in blocks of 16: 2,048 chained hashes."""

from __future__ import annotations

from collections.abc import Callable

from perf import floors
from perf.measure import per_call
from perf.sides.workload import long_prompt
from perf.work import Algorithm, Round, Work, manager

TOKENS = 32_768


def hashing(algorithm: Algorithm) -> Callable[[bool], Round]:
    """Rounds of `KVCacheManager.hash_blocks` from a uint32 buffer."""

    def make(quick: bool) -> Round:
        kv = manager(64, algorithm)
        prompt = long_prompt(TOKENS // 16 if quick else TOKENS)
        return lambda: per_call(lambda: kv.blocks.hash_blocks(prompt), 2 if quick else 30)

    return make


WORKS = (
    Work(
        "hash_32k_sha256",
        hashing("sha256"),
        bar=500.0,
        floor=lambda: floors.sha256_blocks(TOKENS // 16),
        floor_is="hashlib.sha256 over 4,096 compressions' worth of bytes in one digest",
        peer="hash_32k_sha256",
    ),
    Work(
        "hash_32k_fast",
        hashing("xxh3-128"),
        bar=100.0,
        floor=lambda: floors.copy_bytes(4 * TOKENS),
        floor_is="a copy of the 128 KiB of token ids",
        peer="hash_32k_fast",
    ),
    Work(
        "hash_32k_blake3",
        hashing("blake3"),
        bar=500.0,
        floor=lambda: floors.copy_bytes(4 * TOKENS),
        floor_is="a copy of the 128 KiB of token ids",
    ),
)
