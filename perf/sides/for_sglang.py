"""SGLang's radix caches, on a CPU: its own Python tree and its Rust core. Run by `perf.peers.Peer`.

Needs a Python that can import SGLang and torch 2.11 to 2.14; no GPU. Written against 0.5.23. Pages
of 16 tokens, as kvframe's blocks; a request takes part as in SGLang's scheduler: match all but the
last token, lock, evict what is missing, insert, lock what was inserted, unlock at its end.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import sglang
import torch
import workload
from _serve import serve
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.rust_tree_core.adapter import RustUnifiedTreeCore
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

PAGE, LONG, MICRO = 16, 32_768, 1e6


class Allocator:
    """What a cache frees slots to."""

    device = torch.device("cpu")

    def free_segment(self, value: Any, start_pos: int = 0) -> None:
        """Slots come back."""

    free = free_segment


class Tree:
    """One of the two caches, and what a scheduler does with it."""

    def __init__(self, kind: str) -> None:
        params = CacheInitParams(
            disable=False,
            req_to_token_pool=None,
            token_to_kv_pool_allocator=Allocator(),
            page_size=PAGE,
        )
        self.rust = kind == "rust"
        if self.rust:
            params.tree_components = (ComponentType.FULL,)
            params.tree_core_backend = "rust"
            self.cache: Any = UnifiedRadixCache(params)
            if not isinstance(self.cache.tree_core, RustUnifiedTreeCore):
                # Outside torch 2.11 to 2.14 it takes a Python tree without a word.
                raise RuntimeError(
                    f"SGLang does not use its Rust core with torch {torch.__version__}"
                )
        else:
            self.cache = RadixCache(params)
        self.slots = 0

    def match(self, tokens: array[int], limit: int) -> Any:
        """The longest cached prefix."""
        return self.cache.match_prefix(MatchPrefixParams(key=RadixKey(tokens, limit=limit)))

    def lock(self, node: Any) -> Any:
        """A path that may not be evicted; what unlocks it."""
        receipt = self.cache.inc_lock_ref(node)
        return (node, receipt.to_dec_params()) if self.rust else (node,)

    def unlock(self, lock: Any) -> None:
        """The end of a lock."""
        self.cache.dec_lock_ref(*lock)

    def insert(self, tokens: array[int], found: Any) -> Any:
        """The rest of a prompt gets slots and is inserted; its last node."""
        have, size = found.device_prefix_len, len(tokens) // PAGE * PAGE
        fresh = torch.arange(self.slots, self.slots + size - have)
        self.slots += size - have
        held = self.cache.path_device_indices(found.last_device_node) if have else fresh[:0]
        value = torch.cat([torch.as_tensor(held, dtype=torch.int64), fresh])
        inserted = self.cache.insert(InsertParams(key=RadixKey(tokens, limit=size), value=value))
        return inserted.last_device_node

    def used(self) -> int:
        """Tokens that have slots."""
        return int(self.cache.evictable_size() + self.cache.protected_size())

    def evict(self, tokens: int) -> None:
        """Frees at least that many slots."""
        self.cache.evict(EvictParams(num_tokens=tokens))

    def serve(self, tokens: array[int], live: deque[Any], most: int) -> int:
        """A request comes in, and the oldest goes out; tokens found."""
        if len(live) == workload.LIVE:
            self.unlock(live.popleft())
        found = self.match(tokens, len(tokens) - 1)
        lock = self.lock(found.last_device_node)
        over = self.used() + len(tokens) - found.device_prefix_len - most
        if over > 0:
            self.evict(over)
        live.append(self.lock(self.insert(tokens, found)))
        self.unlock(lock)
        return int(found.device_prefix_len)


def key_of(tokens: Any) -> array[int]:
    """Token ids as SGLang holds them."""
    return array("q", tokens.astype("int64").tobytes())


def timed(work: Callable[[], object], calls: int) -> float:
    """Microseconds a call, the garbage collector off."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return (time.perf_counter() - start) / calls * MICRO
    finally:
        gc.enable()


def stream(kind: str, quick: bool, most: int) -> tuple[float, list[int]]:
    """The stream of requests: µs a request, and tokens found of each."""
    asked = [key_of(prompt) for prompt in workload.prompts(60 if quick else 2_000)]
    tree = Tree(kind)
    live: deque[Any] = deque()
    queue = iter(asked)
    hits: list[int] = []
    took = timed(lambda: hits.append(tree.serve(next(queue), live, most)), len(asked))
    return took, hits


def matching(kind: str, quick: bool, nodes: int) -> float:
    """Matches of a cached prompt held in that many nodes."""
    prompt = workload.long_prompt(LONG // PAGE if quick else LONG)
    tree = Tree(kind)
    cache(tree, key_of(prompt))
    apart = len(prompt) // min(nodes, len(prompt) // PAGE)
    for at in range(apart, len(prompt), apart):
        cache(tree, key_of(prompt)[:at] + array("q", [workload.VOCABULARY] * PAGE))
    asked = key_of(prompt)
    if tree.match(asked, len(asked)).device_prefix_len != len(prompt):
        raise AssertionError("not all of the prompt is cached")
    return timed(lambda: tree.match(asked, len(asked)), 20 if quick else 200)


def evicting(kind: str, quick: bool, leaves: int) -> float:
    """Evictions of one page among that many leaves."""
    count = leaves // 16 if quick else leaves
    tree = Tree(kind)
    for leaf in range(count):
        cache(tree, array("q", [0] * PAGE + [leaf + 1] * PAGE))
    return timed(lambda: tree.evict(PAGE), min(count // 2, 20 if quick else 64))


def cache(tree: Tree, tokens: array[int]) -> None:
    """Leaves a prompt cached and unlocked."""
    tree.insert(tokens, tree.match(tokens, len(tokens)))


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """One round of a work."""
    work, quick, kind = asked["work"], asked["quick"], asked.get("tree", "rust")
    if work == "radix_stream":
        return {"value": stream(kind, quick, workload.POOL * PAGE)[0]}
    if work == "hits":
        pool = asked["pool"]
        return {"hits": stream(kind, quick, pool * PAGE)[1]}
    name, _, size = work.rpartition("_")
    if name == "match_32k":
        return {"value": matching(kind, quick, int(size))}
    return {"value": evicting(kind, quick, int(size.removesuffix("k")) * 1_000)}


if __name__ == "__main__":
    serve(f"SGLang {sglang.__version__}", answer)
