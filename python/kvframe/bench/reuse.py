"""What exact reuse is worth: whole blocks, blocks and a copy behind them, or single tokens.

A hit of whole blocks ends at a block's edge; with partial hits (``cache.partial_hits``) the block
where prompts part is copied as far as they agree. The third way, blocks of one token, is what reuse
could find at best, and costs a block table of as many entries as tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from kvframe.bench.prompts import Prompt
from kvframe.bench.report import Table
from kvframe.config import CacheConfig, Config, EvictionConfig
from kvframe.errors import ConfigError
from kvframe.manager import KVCacheManager
from kvframe.request import Request


class Reuse(msgspec.Struct, frozen=True, kw_only=True):
    """One replay.

    Attributes:
        workload: Its name.
        capacity_tokens: Tokens that the pool holds.
        block_size: Tokens a block.
        reuse: "blocks", "copies" or "tokens".
        requests: Prompts.
        input_tokens: Their tokens.
        hit_tokens: Tokens not computed, those behind a copy among them.
        copies: Blocks copied in part.
        copied_tokens: Tokens of them.
        evicted_tokens: Tokens of evicted blocks.
        micros_per_request: Microseconds that the manager took per request.
    """

    workload: str
    capacity_tokens: int
    block_size: int
    reuse: str
    requests: int
    input_tokens: int
    hit_tokens: int
    copies: int
    copied_tokens: int
    evicted_tokens: int
    micros_per_request: float

    @property
    def token_hit_rate(self) -> float:
        """The share of prompt tokens that need not be computed."""
        return self.hit_tokens / max(self.input_tokens, 1)


def replay(
    workload: str,
    prompts: Sequence[Prompt],
    capacity: int,
    block_size: int,
    reuse: str,
    policy: str,
) -> Reuse:
    """One prompt after the other: admitted, computed, ended.

    Raises:
        ConfigError: A block is larger than the pool, or the policy is not known.
    """
    if block_size > capacity:
        raise ConfigError(f"--block-size {block_size}: a capacity of {capacity} tokens holds none")
    cache = CacheConfig(
        capacity=capacity // block_size,
        block_size=block_size,
        index="radix",
        partial_hits=reuse == "copies",
    )
    kv = KVCacheManager(Config(cache=cache, eviction=EvictionConfig(policy=policy)))
    requests = [Request(prompt, partial=True) for prompt in prompts]
    start = time.perf_counter()
    hits = 0
    for request in requests:
        grant = kv.allocate(request)
        plan = kv.take_plan()
        if plan:
            kv.done(plan.ticket)
        kv.commit(grant.seq, grant.granted_tokens)
        kv.release(grant.seq)
        hits += grant.cached_tokens
    seconds = time.perf_counter() - start
    stats = kv.stats.counters()
    return Reuse(
        workload=workload,
        capacity_tokens=capacity,
        block_size=block_size,
        reuse=reuse,
        requests=len(prompts),
        input_tokens=sum(map(len, prompts)),
        hit_tokens=hits,
        copies=stats["copies"],
        copied_tokens=stats["copied_tokens"],
        evicted_tokens=stats["evictions"] * block_size,
        micros_per_request=seconds / max(len(prompts), 1) * 1e6,
    )


def compare(
    workload: str,
    prompts: Sequence[Prompt],
    capacities: Iterable[int],
    block_sizes: Iterable[int],
    policy: str,
) -> list[Reuse]:
    """Every way at every capacity: whole blocks and copies of each size, then single tokens."""
    ways = [(size, way) for size in block_sizes if size > 1 for way in ("blocks", "copies")]
    return [
        replay(workload, prompts, capacity, size, way, policy)
        for capacity in capacities
        for size, way in [*ways, (1, "tokens")]
    ]


def table(rows: Sequence[Reuse], token_bytes: int) -> Table:
    """The rows for people; ``token_bytes`` is the KV of a token in all layers."""
    whole = {(r.workload, r.capacity_tokens, r.block_size): r for r in rows if r.reuse == "blocks"}
    header = ["workload", "capacity", "block", "reuse", "token hit", "saved more", "copied"]
    header += ["MB copied", "a token saved", "µs/request"]
    made = Table("Token hit rate, and what copies cost", header)
    for row in rows:
        base = whole.get((row.workload, row.capacity_tokens, row.block_size))
        more = row.hit_tokens - base.hit_tokens if base is not None else 0
        copied = row.copied_tokens * token_bytes
        each = f"{copied / more / 1e3:.0f} kB" if copied and more > 0 else ""
        cells = [row.workload, f"{row.capacity_tokens:,}", str(row.block_size), row.reuse]
        cells += [f"{row.token_hit_rate:.4f}", f"{more:,}", f"{row.copied_tokens:,}"]
        cells += [f"{copied / 1e6:,.1f}", each, f"{row.micros_per_request:.0f}"]
        made.rows.append(cells)
    return made
